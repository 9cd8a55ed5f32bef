//! The slowest and the newest failed requests, in each store and over HTTP.

use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use http::StatusCode;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{Builder, Clock, Failure, Pulse};

use crate::rig::asking;
use crate::rig::process::TempDir;
use crate::rig::server::{RedisServer, issue};
use crate::stores::fixture::{NOW, THIS_HOUR};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn send(app: &Router, uri: &str) -> (u16, Value) {
    let trace = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let start = format!("t={}.907", NOW - 1);
    let headers = [
        ("x-secret", "secret"),
        ("traceparent", &*trace),
        ("x-request-start", &*start),
    ];
    let answer = asking::send(app, "GET", uri, &headers, "").await;
    (answer.status.as_u16(), answer.json())
}

async fn fails() -> (StatusCode, Extension<Failure>) {
    let failure = Failure::new("db_timeout").with_message("no answer in 3 s");
    (StatusCode::SERVICE_UNAVAILABLE, Extension(failure))
}

async fn are_listed_over_http(builder: Builder) {
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = builder.clock(clock).keep_trace_ids(true);
    let builder = builder.queue_time_header("x-request-start");
    let (pulse, _tasks) = builder.keep_request_paths(true).build_with_tasks().unwrap();
    let (slow, timing) = (manual_clock.clone(), pulse.clone());
    let handler = || async move {
        for _ in 0..3 {
            let timer = timing.timer("db:find");
            slow.advance(Duration::from_millis(4));
            timer.stop();
        }
        slow.advance(Duration::from_millis(8));
    };
    let app = Router::new()
        .route("/users/{id}", get(handler))
        .route("/orders", get(fails))
        .layer(pulse.layer())
        .merge(pulse.mount("/pulse", Access::open()));
    assert_eq!(send(&app, "/users/7?token=secret").await.0, 200);
    assert_eq!(send(&app, "/orders").await.0, 503);
    // Much slower requests, of another context.
    for seconds in 1..=120 {
        let duration = Duration::from_secs(seconds);
        let status = StatusCode::BAD_GATEWAY;
        pulse.record("POST /report", duration, status);
        if seconds % 10 == 0 {
            pulse.flush().await.unwrap();
            manual_clock.advance(Duration::from_secs(1));
            pulse.simulation().drain();
        }
    }

    let get = async |uri: &str| send(&app, &format!("/pulse/api/{uri}")).await.1;
    let all = get("slowest_requests").await;
    assert_eq!(all["from"], json!(THIS_HOUR));
    assert_eq!(all["to"], json!(THIS_HOUR + 3_600));
    let requests = all["requests"].as_array().unwrap();
    let seconds = requests.iter().map(|r| r["duration"].as_f64().unwrap());
    assert!(seconds.eq((21..=120).rev().map(f64::from)));
    let ended = requests[0]["ended"].as_f64().unwrap();
    assert!((11.0..12.0).contains(&(ended - NOW as f64)), "{ended}");
    let mut first = requests[0].clone();
    first["ended"] = Value::Null;
    let expected = json!({
        "context": "POST /report", "kind": "http", "method": "POST", "path": "/report",
        "duration": 120.0, "ended": null, "status": 502, "outcome": "5xx", "error": true,
        "error_kind": null, "message": null,
        "instance": pulse.health().instance, "trace_id": null, "request_path": null,
        "queue": null, "computing": null, "longest_poll": null, "untimed": 120.0, "timers": [],
    });
    assert_eq!(first, expected);
    let limited = get("slowest_requests?window=hour&limit=3").await;
    assert_eq!(limited["requests"].as_array().unwrap()[..], requests[..3]);
    let none = get("slowest_requests?window=last_hour").await;
    assert_eq!(none["requests"], json!([]));
    assert_eq!(none["from"], json!(THIS_HOUR - 3_600));

    let users = get("path?context=GET+/users/{id}").await;
    let lists = &users["slowest_requests"];
    assert_eq!(lists["last_hour"], json!([]));
    let mut user = lists["hour"].as_array().unwrap().clone();
    assert_eq!(user.len(), 1);
    user[0]["ended"] = Value::Null;
    let expected = json!({
        "context": "GET /users/{id}", "kind": "http", "method": "GET", "path": "/users/{id}",
        "duration": 0.02, "ended": null, "status": 200, "outcome": "2xx", "error": false,
        "error_kind": null, "message": null,
        "instance": pulse.health().instance, "trace_id": TRACE, "request_path": "/users/7",
        "queue": 0.093, "computing": 0.02, "longest_poll": 0.02, "untimed": 0.008,
        "timers": [{ "timer": "db:find", "count": 3, "seconds": 0.012 }],
    });
    assert_eq!(user[0], expected);
    let report = get("path?context=POST+/report").await;
    let hour = report["slowest_requests"]["hour"].as_array().unwrap();
    assert_eq!(hour[..], requests[..5]);
    // All of these requests failed. The last ten ended at the same moment, so the five slowest of these ten count as
    // the newest.
    let failed = &report["failed_requests"];
    assert_eq!(failed["hour"].as_array().unwrap()[..], requests[..5]);
    assert_eq!(failed["last_hour"], json!([]));
    let none = json!({ "hour": [], "last_hour": [] });
    assert_eq!(users["failed_requests"], none);
    assert_eq!(users["codes"], json!([{ "code": "200", "count": 1 }]));
    assert_eq!(users["kinds"], json!([]));
    let orders = get("path?context=GET+/orders").await;
    assert_eq!(orders["codes"], json!([{ "code": "503", "count": 1 }]));
    let kinds = json!([{ "kind": "db_timeout", "count": 1 }]);
    assert_eq!(orders["kinds"], kinds);
    let failed = &orders["failed_requests"]["hour"][0];
    let failure = json!([failed["error_kind"], failed["message"]]);
    assert_eq!(failure, json!(["db_timeout", "no answer in 3 s"]));
    let errors = get("errors?window=1h").await;
    let row = &errors["kinds"][0];
    assert_eq!(
        (&errors["total"], &row["kind"]),
        (&json!(1), &kinds[0]["kind"])
    );
    assert_eq!(row["paths"][0]["context"], "GET /orders");
    assert_eq!(row["paths"][0]["share"], 1.0);

    // An hour later, these requests are in the last hour. Two hours later, they are in neither hour.
    manual_clock.advance(Duration::from_secs(3_600));
    let before = get("slowest_requests?window=last_hour").await;
    assert_eq!(&before["requests"], &all["requests"]);
    let report = get("path?context=POST+/report").await;
    assert_eq!(report["slowest_requests"]["last_hour"][0], requests[0]);
    assert_eq!(report["slowest_requests"]["hour"], json!([]));
    manual_clock.advance(Duration::from_secs(3_600));
    let gone = get("slowest_requests?window=last_hour").await;
    assert_eq!(gone["requests"], json!([]));
}

#[tokio::test]
async fn slow_requests_in_memory_are_listed() {
    are_listed_over_http(Pulse::builder()).await;
}

#[tokio::test]
async fn slow_requests_in_a_file_are_listed() {
    let dir = TempDir::new("slow");
    are_listed_over_http(Pulse::builder().file(dir.path().join("pulse.redb"))).await;
}

#[tokio::test]
async fn slow_requests_in_redis_are_listed_and_queries_and_other_headers_are_not_stored() {
    // Without compression, because the test searches for texts in the answers of `DUMP`.
    let redis = RedisServer::builder().arg("--rdbcompression", "no");
    let redis = redis.start().await;
    are_listed_over_http(Pulse::builder().redis(redis.url())).await;

    let mut connection = redis.connection().await;
    let keys: Vec<String> = issue(&mut connection, "KEYS", "*").await;
    let list = format!("pulse:pulse:slow1:{THIS_HOUR}");
    assert!(keys.contains(&list), "{keys:?}");
    let ttl: i64 = issue(&mut connection, "TTL", list).await;
    assert!((1..=3 * 3_600).contains(&ttl), "{ttl}");
    let contains = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    let (mut has_path, mut has_trace) = (false, false);
    for key in &keys {
        let dump: Option<Vec<u8>> = issue(&mut connection, "DUMP", key).await;
        let dump = dump.unwrap_or_default();
        assert!(!contains(&dump, b"secret"), "{key}");
        has_path |= contains(&dump, b"/users/7");
        has_trace |= contains(&dump, TRACE.as_bytes());
    }
    assert!(has_path && has_trace);
}
