//! The details of slow and of failed requests, in answers of the API and in keys of Redis.

use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use http::StatusCode;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Failure, Pulse};

use crate::rig::asking;
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

#[tokio::test]
async fn details_of_requests_are_listed_but_no_query_and_no_other_header_is_stored() {
    // The server does not compress, because the test searches for texts in the answers of `DUMP`.
    let server = RedisServer::builder().arg("--rdbcompression", "no");
    let server = server.start().await;
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = Pulse::builder().redis(server.url()).clock(clock);
    let builder = builder.queue_time_header("x-request-start");
    let builder = builder.keep_trace_ids(true).keep_request_paths(true);
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let timing = pulse.clone();
    let user = || async move {
        for _ in 0..3 {
            let timer = timing.timer("db:find");
            manual_clock.advance(Duration::from_millis(4));
            timer.stop();
        }
        manual_clock.advance(Duration::from_millis(8));
    };
    let app = Router::new()
        .route("/users/{id}", get(user))
        .route("/orders", get(fails))
        .layer(pulse.layer())
        .merge(pulse.mount("/pulse", Access::open()));
    assert_eq!(send(&app, "/users/7?token=secret").await.0, 200);
    assert_eq!(send(&app, "/orders?token=secret").await.0, 503);
    let duration = Duration::from_secs(120);
    pulse.record("POST /report", duration, StatusCode::BAD_GATEWAY);
    pulse.flush().await.unwrap();

    // The only request in a list of a context, without the time of its end.
    let only = async |context: &str, list: &str| {
        let uri = format!("/pulse/api/path?context={context}");
        let requests = send(&app, &uri).await.1[list]["hour"].take();
        let [request] = &requests.as_array().unwrap()[..] else {
            panic!("{uri}: {requests}");
        };
        let mut request = request.clone();
        request["ended"].take();
        request
    };
    let user = json!({
        "context": "GET /users/{id}", "kind": "http", "method": "GET", "path": "/users/{id}",
        "duration": 0.02, "ended": null, "status": 200, "outcome": "2xx", "error": false,
        "error_kind": null, "message": null,
        "instance": pulse.health().instance, "trace_id": TRACE, "request_path": "/users/7",
        "queue": 0.093, "computing": 0.02, "longest_poll": 0.02, "untimed": 0.008,
        "timers": [{ "timer": "db:find", "count": 3, "seconds": 0.012 }],
    });
    assert_eq!(only("GET+/users/{id}", "slowest_requests").await, user);
    let report = json!({
        "context": "POST /report", "kind": "http", "method": "POST", "path": "/report",
        "duration": 120.0, "ended": null, "status": 502, "outcome": "5xx", "error": true,
        "error_kind": null, "message": null,
        "instance": pulse.health().instance, "trace_id": null, "request_path": null,
        "queue": null, "computing": null, "longest_poll": null, "untimed": 120.0, "timers": [],
    });
    for list in ["slowest_requests", "failed_requests"] {
        assert_eq!(only("POST+/report", list).await, report);
    }
    let order = only("GET+/orders", "failed_requests").await;
    let failure = [&order["error_kind"], &order["message"]];
    assert_eq!(failure, ["db_timeout", "no answer in 3 s"]);

    let mut connection = server.connection().await;
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
