//! `Pulse::record` on both stores: the admin API shows what was recorded.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Outcome, Pulse};

use pulse_rig::server::RedisServer;

/// Half past an hour.
const NOW: i64 = 1_700_001_000;

async fn json(admin: &Router, path: &str) -> Value {
    let request = Request::get(format!("/pulse/api/{path}"))
        .body(Body::empty())
        .unwrap();
    let response = admin.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

async fn totals_are_what_was_recorded(redis: Option<&RedisServer>) {
    let (clock, _time) = Clock::manual(NOW);
    let mut builder = Pulse::builder().clock(clock);
    if let Some(redis) = redis {
        builder = builder.redis(redis.url());
    }
    let pulse = builder.build().unwrap();
    let admin: Router = pulse.mount("/pulse", Access::open());
    for n in 0..1_000u64 {
        let status = [200, 301, 404, 500][n as usize % 4];
        let status = StatusCode::from_u16(status).unwrap();
        pulse.record("GET /a", Duration::from_micros(n), status);
        pulse.record("GET /b", Duration::from_millis(2), Outcome::Success);
    }
    pulse.flush().await.unwrap();
    let overview = json(&admin, "overview").await;
    let hour = &overview["hour"];
    assert_eq!(
        (hour["requests"].as_u64(), hour["errors"].as_u64()),
        (Some(2_000), Some(250))
    );
    let paths = json(&admin, "paths?sort=count&kind=http").await;
    let row = |name: &str| {
        let rows = paths["paths"].as_array().unwrap();
        rows.iter()
            .find(|row| row["context"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&row("GET /a")["count"], &row("GET /a")["errors"]),
        (&1_000.into(), &250.into())
    );
    assert_eq!(
        (&row("GET /b")["count"], &row("GET /b")["errors"]),
        (&1_000.into(), &0.into())
    );
    assert_eq!(row("GET /b")["max"], 0.002);
    let path = json(&admin, "path?context=GET%20/a").await;
    let outcomes = &path["outcomes"];
    for outcome in ["2xx", "3xx", "4xx", "5xx"] {
        assert_eq!(outcomes[outcome], 250, "{path:#}");
    }
    for (name, expected) in [
        ("hits", 2_000),
        ("errors:GET%20/a", 250),
        ("micros:GET%20/a", 499_500),
        ("micros:GET%20/b", 2_000_000),
    ] {
        let counter = json(&admin, &format!("counters?name={name}&precision=60")).await;
        assert_eq!(
            counter["samples"],
            serde_json::json!([[NOW - NOW % 60, expected]]),
            "{name}"
        );
    }
    pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn in_memory() {
    totals_are_what_was_recorded(None).await;
}

#[tokio::test]
async fn in_redis() {
    totals_are_what_was_recorded(Some(&RedisServer::start().await)).await;
}
