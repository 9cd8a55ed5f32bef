//! The slowest and the newest failed requests, in either store and over HTTP.

use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{Builder, Clock, Pulse};
use tower_pulse_core::store::SlowRequestQuery;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slow_request::{SlowRequest, SlowRequests};

use crate::fixture::{Fixture, LAST_HOUR, MS, NOW, THIS_HOUR, call};
use crate::rig::asking;
use crate::rig::server::{RedisServer, issue};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn send(app: &Router, uri: &str) -> (u16, Value) {
    let trace = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let headers = [("x-secret", "secret"), ("traceparent", &*trace)];
    let answer = asking::send(app, "GET", uri, &headers, "").await;
    (answer.status.as_u16(), answer.json())
}

async fn are_told_over_http(builder: Builder) {
    let (clock, hand) = Clock::manual(NOW);
    let builder = builder.clock(clock).keep_trace_ids(true);
    let (pulse, _tasks) = builder.keep_request_paths(true).build_with_tasks().unwrap();
    let slow = hand.clone();
    let handler = || async move { slow.advance(Duration::from_millis(20)) };
    let app = Router::new()
        .route("/users/{id}", get(handler))
        .layer(pulse.layer())
        .merge(pulse.mount("/pulse", Access::open()));
    assert_eq!(send(&app, "/users/7?token=secret").await.0, 200);
    // Much slower requests, of another context.
    for seconds in 1..=120 {
        let duration = Duration::from_secs(seconds);
        let status = http::StatusCode::BAD_GATEWAY;
        pulse.record("POST /report", duration, status);
        if seconds % 10 == 0 {
            pulse.flush().await.unwrap();
            hand.advance(Duration::from_secs(1));
            pulse.simulation().drain();
        }
    }

    let get = async |uri: &str| send(&app, &format!("/pulse/api/{uri}")).await.1;
    let all = get("slowest_requests").await;
    assert_eq!(all["window"], json!("hour"));
    assert_eq!(all["from"], json!(THIS_HOUR));
    assert_eq!(all["to"], json!(THIS_HOUR + 3_600));
    let requests = all["requests"].as_array().unwrap();
    let seconds: Vec<_> = requests
        .iter()
        .map(|r| r["duration"].as_f64().unwrap())
        .collect();
    let slowest: Vec<_> = (21..=120).rev().map(f64::from).collect();
    assert_eq!(seconds, slowest);
    let ended = requests[0]["ended"].as_f64().unwrap();
    assert!((11.0..12.0).contains(&(ended - NOW as f64)), "{ended}");
    let mut first = requests[0].clone();
    first["ended"] = Value::Null;
    let expected = json!({
        "context": "POST /report", "kind": "http", "method": "POST", "path": "/report",
        "duration": 120.0, "ended": null, "status": 502, "outcome": "5xx", "error": true,
        "instance": pulse.health().instance, "trace_id": null, "request_path": null,
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
        "instance": pulse.health().instance, "trace_id": TRACE, "request_path": "/users/7",
    });
    assert_eq!(user[0], expected);
    let report = get("path?context=POST+/report").await;
    let hour = report["slowest_requests"]["hour"].as_array().unwrap();
    assert_eq!(hour[..], requests[..5]);
    // All of them failed, and the last ten were the slowest.
    let failed = &report["failed_requests"];
    assert_eq!(failed["hour"].as_array().unwrap()[..], requests[..5]);
    assert_eq!(failed["last_hour"], json!([]));
    let none = json!({ "hour": [], "last_hour": [] });
    assert_eq!(users["failed_requests"], none);

    // An hour later they are those of the last hour, and two hours later there are none.
    hand.advance(Duration::from_secs(3_600));
    let before = get("slowest_requests?window=last_hour").await;
    assert_eq!(&before["requests"], &all["requests"]);
    let report = get("path?context=POST+/report").await;
    assert_eq!(report["slowest_requests"]["last_hour"][0], requests[0]);
    assert_eq!(report["slowest_requests"]["hour"], json!([]));
    hand.advance(Duration::from_secs(3_600));
    let gone = get("slowest_requests?window=last_hour").await;
    assert_eq!(gone["requests"], json!([]));

    for (uri, parameter) in [
        ("slowest_requests?window=5m", "window"),
        ("slowest_requests?limit=x", "limit"),
    ] {
        let (status, answer) = send(&app, &format!("/pulse/api/{uri}")).await;
        assert_eq!((status, &answer["parameter"]), (400, &json!(parameter)));
    }
}

#[tokio::test]
async fn of_a_store_in_memory() {
    are_told_over_http(Pulse::builder()).await;
}

#[tokio::test]
async fn of_redis_where_neither_query_nor_other_headers_are_stored() {
    // Texts are searched for in what `DUMP` gives.
    let redis = RedisServer::builder().arg("--rdbcompression", "no");
    let redis = redis.start().await;
    are_told_over_http(Pulse::builder().redis(redis.url())).await;

    let mut connection = redis.connection().await;
    let keys: Vec<String> = issue(&mut connection, "KEYS", "*").await;
    let lists: Vec<_> = keys
        .iter()
        .filter(|key| key.contains("pulse:slow1:"))
        .collect();
    assert_eq!(lists, [&format!("pulse:pulse:slow1:{THIS_HOUR}")]);
    let ttl: i64 = issue(&mut connection, "TTL", lists[0]).await;
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

async fn failed_ones_are_listed_over_http(builder: Builder) {
    let (clock, hand) = Clock::manual(NOW);
    let builder = builder.clock(clock).keep_trace_ids(true);
    let (pulse, _tasks) = builder.keep_request_paths(true).build_with_tasks().unwrap();
    let slow = hand.clone();
    let handler = |Path(id): Path<u32>| async move {
        slow.advance(Duration::from_millis(u64::from(id)));
        match id {
            0..5 => http::StatusCode::OK,
            _ => http::StatusCode::BAD_GATEWAY,
        }
    };
    let app = Router::new()
        .route("/users/{id}", get(handler))
        .layer(pulse.layer())
        .merge(pulse.mount("/pulse", Access::open()));
    let context = "GET /users/{id}";
    for _ in 0..5 {
        for _ in 0..20 {
            pulse.record(context, Duration::from_secs(1), http::StatusCode::OK);
        }
        pulse.flush().await.unwrap();
    }
    pulse.timer("job").stop();
    // The successes are as fast as the failed ones.
    for id in [3, 11, 12, 4, 13, 14, 15, 16] {
        hand.advance(Duration::from_secs(1));
        pulse.simulation().drain();
        send(&app, &format!("/users/{id}")).await;
        pulse.flush().await.unwrap();
    }

    let get = async |uri: &str| send(&app, &format!("/pulse/api/{uri}")).await.1;
    let users = get("path?context=GET+/users/{id}").await;
    let slowest = users["slowest_requests"]["hour"].as_array().unwrap();
    assert_eq!(slowest.len(), 5);
    assert!(slowest.iter().all(|r| r["duration"] == json!(1.0)));
    let failed = &users["failed_requests"];
    assert_eq!(failed["last_hour"], json!([]));
    let requests = failed["hour"].as_array().unwrap();
    let paths: Vec<_> = requests.iter().map(|r| &r["request_path"]).collect();
    let newest = [16, 15, 14, 13, 12].map(|id| format!("/users/{id}"));
    assert_eq!(paths, newest.each_ref());
    let ended = requests[0]["ended"].as_f64().unwrap();
    assert!((8.0..9.0).contains(&(ended - NOW as f64)), "{ended}");
    let mut first = requests[0].clone();
    first["ended"] = Value::Null;
    let expected = json!({
        "context": context, "kind": "http", "method": "GET", "path": "/users/{id}",
        "duration": 0.016, "ended": null, "status": 502, "outcome": "5xx", "error": true,
        "instance": pulse.health().instance, "trace_id": TRACE, "request_path": "/users/16",
    });
    assert_eq!(first, expected);
    // The list of all contexts has the slowest alone.
    let all = get("slowest_requests").await;
    let all = all["requests"].as_array().unwrap();
    assert!(all.iter().all(|r| r["error"] == json!(false)));
    let job = get("path?context=job&kind=timer").await;
    let none = json!({ "hour": [], "last_hour": [] });
    assert_eq!(job["slowest_requests"], none);
    assert_eq!(job["failed_requests"], none);

    hand.advance(Duration::from_secs(3_600));
    let later = get("path?context=GET+/users/{id}").await;
    let expected = json!({ "hour": [], "last_hour": requests });
    assert_eq!(later["failed_requests"], expected);
}

#[tokio::test]
async fn failed_requests_of_a_store_in_memory() {
    failed_ones_are_listed_over_http(Pulse::builder()).await;
}

#[tokio::test]
async fn failed_requests_of_redis() {
    let redis = RedisServer::start().await;
    failed_ones_are_listed_over_http(Pulse::builder().redis(redis.url())).await;
}

/// A request of an instance.
fn request(instance: &str, nanos: u64, ended: i64, is_error: bool) -> SlowRequest {
    SlowRequest {
        nanos,
        ended,
        context: "GET /".into(),
        instance: instance.into(),
        outcome: Outcome::ServerError,
        is_error,
        status: Some(502),
        trace_id: None,
        path: None,
    }
}

fn root() -> ContextId {
    ContextId::new(Kind::Http, "GET /")
}

/// Sends calls of two instances in turn: slow successes, and failed requests at times that only one of them has.
async fn of_a_fleet_are_the_newest_of_all_its_instances(fixture: Fixture) {
    for seq in 1..=4 {
        for (at, instance) in ["a", "b"].into_iter().enumerate() {
            let mut batch = Batch::new(fixture.precisions.clone());
            for n in 0..3 {
                let number = (2 * (3 * (seq - 1) + n) + at as u64) as i64;
                let slow = request(instance, 100 * MS + number as u64, 1_000 * NOW, false);
                let failed = request(instance, MS, 1_000 * NOW + number, true);
                add_slow(&mut batch, NOW, slow);
                add_slow(&mut batch, NOW, failed);
            }
            // The hour before has a list of its own.
            if seq == 2 {
                let last = request(instance, MS, 1_000 * LAST_HOUR, true);
                add_slow(&mut batch, LAST_HOUR, last);
            }
            fixture
                .writer
                .apply(&call(instance, seq, batch))
                .await
                .unwrap();
        }
    }
    let list = listed(&fixture, THIS_HOUR).await;
    let slowest: Vec<_> = list.slowest().map(|r| r.nanos - 100 * MS).collect();
    assert_eq!(slowest, [23, 22, 21, 20, 19]);
    let failed: Vec<_> = list
        .failed()
        .map(|r| (r.ended - 1_000 * NOW, &*r.instance))
        .collect();
    let newest = [(23, "b"), (22, "a"), (21, "b"), (20, "a"), (19, "b")];
    assert_eq!((failed, list.len()), (newest.to_vec(), 10));
    let last = listed(&fixture, LAST_HOUR).await;
    assert_eq!((last.failed().len(), last.len()), (2, 2));
}

/// Adds a request of [`root`] to a batch.
fn add_slow(batch: &mut Batch, second: i64, request: SlowRequest) {
    let mut slowest = SlowRequests::of(Kind::Http);
    slowest.add(request);
    batch.add_slowest(root(), second, slowest);
}

async fn listed(fixture: &Fixture, hour: i64) -> SlowRequests {
    let contexts = vec![root()];
    let query = SlowRequestQuery { contexts, hour };
    let mut lists = fixture.store.query().slow_requests(&query).await.unwrap();
    lists.pop().unwrap()
}

in_both!(of_a_fleet_are_the_newest_of_all_its_instances);
