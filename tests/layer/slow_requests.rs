//! The recorded details of slow and of failed requests.

use crate::rig::reads::StoreOf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::get;
use futures_util::FutureExt;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;
use tower_pulse::{ManualClock, Pulse};
use tower_pulse_core::store::SlowRequestQuery;
use tower_pulse_model::context::{ContextId, Kind, RecordId};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::hour_of;
use tower_pulse_model::slow_request::{RequestParts, SlowRequest, SlowRequests};

use super::request_timers::advance;
use super::{NOW, layered, pulse_with, request, send};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn slowest(pulse: &Pulse, context: Option<&str>) -> Vec<SlowRequest> {
    listed(pulse, context).await.slowest().cloned().collect()
}

/// The listed requests of a context; for `None`, of all contexts.
pub(super) async fn listed(pulse: &Pulse, context: Option<&str>) -> SlowRequests {
    pulse.flush().await.unwrap();
    let context = context.map(|name| ContextId::new(Kind::Http, name));
    let query = SlowRequestQuery {
        contexts: vec![context.unwrap_or_else(ContextId::all)],
        hour: hour_of(NOW),
    };
    let mut lists = pulse.backend().query().slow_requests(&query).await.unwrap();
    lists.pop().unwrap()
}

/// Sends a request with these headers, and returns its recorded trace id and path.
async fn recorded(
    pulse: &Pulse,
    app: &Router,
    uri: &str,
    headers: &[(&str, &str)],
) -> [Option<String>; 2] {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let before = slowest(pulse, None).await;
    let request = request.body(Body::empty()).unwrap();
    app.clone().oneshot(request).await.unwrap();
    let mut all = slowest(pulse, None).await;
    all.retain(|request| !before.contains(request));
    assert_eq!(all.len(), 1, "{uri}");
    let request = all.pop().unwrap();
    [request.trace_id, request.path].map(|text| text.map(|text| text.to_string()))
}

/// A router in which each request takes a microsecond longer than the request before, so no two durations are equal.
fn users(pulse: &Pulse, manual_clock: &ManualClock) -> Router {
    let (manual_clock, next) = (manual_clock.clone(), Arc::new(AtomicU64::new(1)));
    let handler = move || {
        manual_clock.advance(Duration::from_micros(next.fetch_add(1, Ordering::Relaxed)));
        async { "user" }
    };
    Router::new()
        .route("/users/{id}", get(handler.clone()))
        .nest("/api", Router::new().route("/users/{id}", get(handler)))
        .layer(pulse.layer())
}

#[tokio::test]
async fn a_listed_request_has_its_time_its_end_and_its_outcome() {
    let (pulse, manual_clock) = pulse_with(|builder| builder.instance("web-1"));
    let slow = manual_clock.clone();
    let handler = |Path(status): Path<u16>| async move {
        slow.advance(Duration::from_millis(u64::from(status)));
        StatusCode::from_u16(status).unwrap()
    };
    let boom = async || -> &'static str { panic!("on purpose") };
    let app = Router::new()
        .route("/{status}", get(handler))
        .route("/boom", get(boom))
        .route("/never", get(std::future::pending::<&'static str>))
        .layer(pulse.layer());
    for path in ["/200", "/404", "/503"] {
        send(&app, "GET", path).await;
    }
    let boom = tokio::spawn(app.clone().oneshot(request("GET", "/boom")));
    assert!(boom.await.is_err());
    let never = app.clone().oneshot(request("GET", "/never")).now_or_never();
    assert!(never.is_none());
    let slowest = slowest(&pulse, None).await;
    let rows = slowest.iter().map(|r| {
        let millis = r.nanos / 1_000_000;
        (&*r.context, millis, r.status, r.outcome, r.is_error)
    });
    let mut rows: Vec<_> = rows.collect();
    rows[3..].sort_unstable_by_key(|row| row.0);
    let status = "GET /{status}";
    let expected = [
        (status, 503, Some(503), Outcome::ServerError, true),
        (status, 404, Some(404), Outcome::ClientError, false),
        (status, 200, Some(200), Outcome::Success, false),
        ("GET /boom", 0, None, Outcome::Panicked, true),
        ("GET /never", 0, None, Outcome::Cancelled, false),
    ];
    assert_eq!(rows, expected);
    // A drain moves the end of each request into the second that it drains.
    let is_within = |request: &SlowRequest| request.ended.div_euclid(1_000) == NOW;
    assert!(slowest[..3].iter().all(is_within), "{slowest:?}");
    assert!(slowest.iter().all(|r| *r.instance == *"web-1"));
}

/// Tests in `src/layer/details.rs` cover more values of ids and paths.
#[tokio::test]
async fn a_trace_id_and_a_path_without_its_query_are_kept_only_if_configured() {
    for (keeps_ids, keeps_paths) in [(false, false), (true, false), (false, true)] {
        let (pulse, manual_clock) = pulse_with(|builder| {
            let builder = builder.keep_trace_ids(keeps_ids);
            builder.keep_request_paths(keeps_paths)
        });
        let app = users(&pulse, &manual_clock);
        let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let both = [("x-request-id", "mine"), ("traceparent", &*traceparent)];
        for (uri, headers, id, path) in [
            ("/users/7?token=secret", &both[..], Some(TRACE), "/users/7"),
            ("/api/users/8?a=b", &both[..1], Some("mine"), "/api/users/8"),
            ("/nothing/here?x", &[], None, "/nothing/here"),
            ("http://me:secret@host/users/9?a", &[], None, "/users/9"),
        ] {
            let kept = [id.filter(|_| keeps_ids), keeps_paths.then_some(path)];
            let kept = kept.map(|text| text.map(str::to_owned));
            assert_eq!(recorded(&pulse, &app, uri, headers).await, kept, "{uri}");
        }
    }
}

#[tokio::test]
async fn a_layer_of_a_nested_router_records_the_whole_path() {
    let (pulse, _) = pulse_with(|builder| builder.keep_request_paths(true));
    let users = Router::new().route("/users/{id}", get(|| async { "user" }));
    let both = Router::new().nest("/api", users.layer(pulse.layer()));
    let apps = [both.clone(), both.layer(pulse.layer())];
    for (app, uri) in apps.iter().zip(["/api/users/6", "/api/users/7"]) {
        let [_, path] = recorded(&pulse, app, uri, &[]).await;
        assert_eq!(path.as_deref(), Some(uri));
    }
}

/// Each request waits for 93 ms in front of the service, computes for 63 ms, and waits for 40 ms. Of the eleven timers
/// within a request, a list keeps eight. The first request is among the slowest, and the second only among the failed.
#[tokio::test]
async fn a_listed_request_keeps_the_parts_of_its_time() {
    for (is_slow, status) in [(true, StatusCode::OK), (false, StatusCode::BAD_GATEWAY)] {
        let (pulse, manual_clock) =
            pulse_with(|builder| builder.queue_time_header("x-request-start"));
        let (timing, clock) = (pulse.clone(), manual_clock.clone());
        let handler = move || async move {
            let render = timing.timer("render");
            for number in 1..=10 {
                for _ in 0..number {
                    let timer = timing.timer(&format!("db:{number}"));
                    advance(&clock, 1);
                    timer.stop();
                }
            }
            render.stop();
            advance(&clock, 5);
            tokio::task::yield_now().await;
            advance(&clock, 3);
            status
        };
        let app = Router::new().route("/", get(handler));
        let app = app.layer(pulse.layer());
        if !is_slow {
            raise_thresholds(&pulse, &["GET /"]).await;
        }
        let start = format!("t={}.907", NOW - 1);
        let request = Request::get("/").header("x-request-start", start);
        let mut call = std::pin::pin!(app.oneshot(request.body(Body::empty()).unwrap()));
        assert!((&mut call).now_or_never().is_none());
        advance(&manual_clock, 40);
        assert_eq!(call.await.unwrap().status(), status);

        let list = listed(&pulse, Some("GET /")).await;
        let request = match is_slow {
            true => list.slowest().next(),
            false => list.failed().next(),
        };
        let request = request.unwrap();
        assert_eq!(request.nanos, 103_000_000);
        let parts = &request.parts;
        let millis = |nanos: u64| nanos / 1_000_000;
        assert_eq!(parts.queue.map(millis), Some(93));
        assert_eq!(parts.computing.map(millis), Some(63));
        assert_eq!((millis(parts.longest_poll), millis(parts.timed)), (60, 55));
        let timers = parts.timers.iter();
        let timers: Vec<_> = timers
            .map(|t| (t.timer, t.count, millis(t.covered)))
            .collect();
        let row = |name: &str, count, covered| (RecordId::new(Kind::Timer, name), count, covered);
        let database = |number| row(&format!("db:{number}"), number, number);
        let mut largest = vec![row("render", 1, 55)];
        largest.extend((4..=10).rev().map(database));
        assert_eq!(timers, largest);
    }
}

#[tokio::test]
async fn a_request_that_was_measured_elsewhere_is_listed_too() {
    let (pulse, _) = pulse_with(|builder| builder.keep_request_paths(true));
    pulse.record("GET /", Duration::from_secs(2), StatusCode::NOT_FOUND);
    pulse.record("GET /", Duration::from_secs(1), Outcome::Cancelled);
    pulse.record_duration("job", Duration::from_secs(9));
    let slowest = slowest(&pulse, None).await;
    let rows = slowest.iter().map(|r| (r.nanos, r.status, r.outcome));
    let expected = [
        (2_000_000_000, Some(404), Outcome::ClientError),
        (1_000_000_000, None, Outcome::Cancelled),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    let none = RequestParts::default();
    assert!(slowest.iter().all(|request| request.parts == none));
}

/// Records so many slow requests that requests of less than a second are not among the slowest.
async fn raise_thresholds(pulse: &Pulse, contexts: &[&str]) {
    for _ in 0..9 {
        for context in contexts.iter().chain(&["POST /report"]) {
            (0..20).for_each(|_| pulse.record(context, Duration::from_secs(1), StatusCode::OK));
        }
        pulse.flush().await.unwrap();
    }
}

#[tokio::test]
async fn a_failed_request_is_listed_however_fast_it_was() {
    let (pulse, manual_clock) = pulse_with(|builder| {
        let builder = builder.keep_request_paths(true).keep_trace_ids(true);
        builder.count_as_error(|head| head.is_error() || head.status == StatusCode::CONFLICT)
    });
    let status = async |Path(status): Path<u16>| StatusCode::from_u16(status).unwrap();
    let boom = get(async || -> &'static str { panic!("on purpose") });
    let routes = Router::new().route("/boom/{n}", boom);
    let routes = routes.route("/{status}", get(status));
    let contexts = ["GET /{status}", "GET /boom/{n}"];
    raise_thresholds(&pulse, &contexts).await;
    for app in layered(&pulse, routes) {
        manual_clock.advance(Duration::from_secs(1));
        for path in ["/200", "/404", "/409", "/502"] {
            let request = Request::get(path).header("x-request-id", &path[1..]);
            let request = request.body(Body::empty()).unwrap();
            let response = app.clone().oneshot(request).await.unwrap();
            let _ = response.into_body().collect().await;
        }
        let boom = tokio::spawn(app.oneshot(request("GET", "/boom/7")));
        assert!(boom.await.is_err());

        let list = listed(&pulse, Some(contexts[0])).await;
        assert!(list.slowest().all(|r| r.nanos == 1_000_000_000));
        // Takes the two newest failed requests, which went through this layer.
        let rows = list.failed().take(2).map(|r| {
            let (path, id) = (r.path.as_deref(), r.trace_id.as_deref());
            (r.status, path, id, r.outcome)
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable_by_key(|row| row.0);
        let expected = [
            (Some(409), Some("/409"), Some("409"), Outcome::ClientError),
            (Some(502), Some("/502"), Some("502"), Outcome::ServerError),
        ];
        assert_eq!(rows, expected);
        let list = listed(&pulse, Some(contexts[1])).await;
        let first = list.failed().next().unwrap();
        assert_eq!((first.status, first.outcome), (None, Outcome::Panicked));
        assert_eq!(first.path.as_deref(), Some("/boom/7"));
    }
    let list = listed(&pulse, Some(contexts[1])).await;
    assert_eq!(list.failed().len(), 2);
}
