//! In steady state, a request has as many allocations as with a layer that does nothing. If the layer times until the
//! body's end, a request has at most one more.
#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "rig/identity.rs"]
mod identity;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::FutureExt;
use http::{Request, StatusCode};
use identity::Identity;
use tower::Service;
use tower_pulse::{Builder, Clock, Failure, ManualClock, Outcome, Pulse};
use tower_pulse_core::store::Store;

const NOW: i64 = 1_700_000_000;
const REQUESTS: usize = 200;

/// An instance without tasks, so only the requests allocate.
fn built(configure: impl FnOnce(Builder) -> Builder) -> (Pulse, ManualClock) {
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = configure(Pulse::builder().clock(clock));
    (builder.build_with_tasks().unwrap().0, manual_clock)
}

fn routes() -> Router {
    let users = Router::new().route("/users/{id}", get(|| async { "user" }));
    Router::new()
        .route("/ping", get(|| async { "pong" }).post(|| async { "pong" }))
        .nest("/api/v1", users)
}

fn with_header(app: Router, name: &'static str, value: &'static str) -> Router {
    app.layer(axum::middleware::map_request(
        move |mut request: axum::extract::Request| async move {
            let value = http::HeaderValue::from_static(value);
            request.headers_mut().insert(name, value);
            request
        },
    ))
}

/// The number of allocations of [`REQUESTS`] requests, after as many requests to warm up.
fn allocations(app: Router, method: &str, path: &str) -> u64 {
    let mut app = app.with_state::<()>(());
    let request = || {
        let request = Request::builder().method(method).uri(path);
        request.body(Body::empty()).unwrap()
    };
    let requests = || -> Vec<_> { (0..REQUESTS).map(|_| request()).collect() };
    let mut send = |requests: Vec<Request<Body>>| {
        for request in requests {
            app.call(request).now_or_never().unwrap().unwrap();
        }
    };
    send(requests());
    let measured = requests();
    allocation_counter::measure(|| send(measured)).count_total
}

/// Lets one test at a time use the process's pool of buffers for the details of requests. Otherwise, a thread may
/// allocate a buffer while another thread locks a part of the pool.
fn only_user_of_the_buffers() -> MutexGuard<'static, ()> {
    static USER: Mutex<()> = Mutex::new(());
    USER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `expected` has the number of requests of each context, divided by [`REQUESTS`].
fn assert_recorded<const N: usize>(pulse: &Pulse, expected: [(&str, usize); N]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let recorded = runtime.unwrap().block_on(async {
        pulse.flush().await.unwrap();
        let store: Arc<dyn Store> = pulse.store().clone().into();
        let index = store.query().record_index(NOW).await.unwrap().contexts;
        let mut recorded = Vec::new();
        for id in index {
            let contexts = store.query().contexts(&id.name, NOW).await.unwrap();
            let counts = contexts.into_iter().map(|context| {
                let count = context.hour.unwrap().times.count;
                (context.context, count as usize)
            });
            recorded.extend(counts);
        }
        recorded.sort();
        recorded
    });
    let expected = expected.map(|(name, times)| (name.to_owned(), times * REQUESTS));
    assert_eq!(recorded, expected);
}

#[test]
fn requests_allocate_no_more_than_without_the_layer() {
    let (pulse, _manual_clock) = built(|builder| builder);
    for (method, path) in [
        ("GET", "/ping"),
        ("POST", "/ping"),
        ("HEAD", "/ping"),
        ("GET", "/api/v1/users/7"),
        ("DELETE", "/ping"),
        ("GET", "/none"),
    ] {
        let identity = allocations(routes().layer(Identity(())), method, path);
        let ours = allocations(routes().layer(pulse.layer()), method, path);
        assert_eq!(ours, identity, "{method} {path}");
        let body = allocations(routes().layer(pulse.layer().until_body_end()), method, path);
        let more = REQUESTS as u64;
        assert!(
            (identity..=identity + more).contains(&body),
            "{method} {path} to the body's end: {body} allocations, {identity} without the layer"
        );
    }
    // Each context has four runs of requests: to warm up and to measure, timed to the head and to the body's end.
    let contexts = [
        "<unmatched>",
        "DELETE /ping",
        "GET /api/v1/users/{id}",
        "GET /ping",
        "HEAD /ping",
        "POST /ping",
    ];
    assert_recorded(&pulse, contexts.map(|name| (name, 4)));
    let health = pulse.health().recording;
    assert_eq!(health.recorded, 6 * 4 * REQUESTS as u64);
    assert_eq!((health.in_flight, health.dropped), (0, 0));
}

#[test]
fn reading_the_header_of_the_queue_allocates_nothing() {
    let _alone = only_user_of_the_buffers();
    let (pulse, _manual_clock) = built(|builder| builder.queue_time_header("x-request-start"));
    for value in ["t=1699999999.975", "1800000000", "1", "soon"] {
        let counted = |app| {
            let app = with_header(app, "x-request-start", value);
            allocations(app, "GET", "/api/v1/users/7")
        };
        let identity = counted(routes().layer(Identity(())));
        assert_eq!(counted(routes().layer(pulse.layer())), identity, "{value}");
    }
    let queue = pulse.health().recording.queue.unwrap();
    let requests = 2 * REQUESTS as u64;
    assert_eq!((queue.timed, queue.negative), (2 * requests, requests));
    assert_eq!((queue.too_long, queue.unreadable), (requests, requests));
}

/// Only the first requests of each of the two hours count as slow.
#[test]
fn details_allocate_nothing_for_requests_that_are_not_slow() {
    let _alone = only_user_of_the_buffers();
    let (pulse, manual_clock) = built(|b| b.keep_trace_ids(true).keep_request_paths(true));
    let with_id = |app| with_header(app, "x-request-id", "a-request-id");
    for hour in 0..2 {
        manual_clock.set_wall(NOW + hour * 3_600);
        pulse.simulation().drain();
        for (method, path) in [("GET", "/api/v1/users/7"), ("GET", "/none")] {
            let identity = with_id(routes().layer(Identity(())));
            let identity = allocations(identity, method, path);
            let ours = allocations(with_id(routes().layer(pulse.layer())), method, path);
            assert_eq!(ours, identity, "{method} {path}, hour {hour}");
        }
    }
}

#[test]
fn the_name_of_an_inner_layer_allocates_nothing() {
    let (pulse, _manual_clock) = built(|builder| builder);
    let route = |layer| Router::new().route("/x", get(|| async { "x" }).layer(layer));
    let twice = |app: Router| app.layer(Identity(()));
    let identity = Router::new().route("/x", get(|| async { "x" }).layer(Identity(())));
    let identity = allocations(twice(identity), "GET", "/x");
    let named = route(pulse.layer().named("x")).layer(pulse.layer());
    assert_eq!(allocations(named, "GET", "/x"), identity);
    assert_recorded(&pulse, [("x", 2)]);
}

#[test]
fn a_request_without_timers_allocates_nothing_on_a_path_with_timers() {
    let (pulse, _manual_clock) = built(|builder| builder);
    let routes = || {
        let pulse = pulse.clone();
        let handler = move |uri: http::Uri| {
            let timer = uri.query().map(|_| pulse.timer("db"));
            async move {
                std::future::ready(()).await;
                drop(timer);
                "done"
            }
        };
        Router::new().route("/x", get(handler))
    };
    let identity = allocations(routes().layer(Identity(())), "GET", "/x");
    let ours = routes().layer(pulse.layer());
    assert!(allocations(ours.clone(), "GET", "/x?timed") > identity);
    assert_eq!(allocations(ours, "GET", "/x"), identity);
    assert_recorded(&pulse, [("GET /x", 4), ("db", 2)]);
}

#[cfg(feature = "tracing")]
#[test]
fn a_statement_allocates_nothing_and_a_span_once() {
    use tracing_subscriber::prelude::*;
    let (pulse, _manual_clock) = built(|builder| builder);
    let subscriber = tracing_subscriber::registry().with(pulse.tracing());
    let _subscribed = subscriber.set_default();
    let statements = || {
        for _ in 0..REQUESTS {
            tracing::event!(
                target: "sqlx::query",
                tracing::Level::DEBUG,
                summary = "SELECT name FROM …",
                db.statement = "SELECT name FROM users WHERE id = $1",
                elapsed_secs = 0.001,
            );
        }
    };
    statements();
    assert_eq!(allocation_counter::measure(statements).count_total, 0);
    let spans = || {
        for _ in 0..REQUESTS {
            drop(tracing::debug_span!("render", pulse.timer = true).entered());
        }
    };
    spans();
    let requests = REQUESTS as u64;
    assert_eq!(allocation_counter::measure(spans).count_total, requests);
    // The span of a request allocates at most three times.
    let identity = allocations(routes().layer(Identity(())), "GET", "/ping");
    let ours = allocations(routes().layer(pulse.layer()), "GET", "/ping");
    let more = ours.saturating_sub(identity);
    assert!(more <= 3 * requests, "{more} more allocations");
    let contexts = [("GET /ping", 2), ("render", 2), ("sql SELECT users", 2)];
    assert_recorded(&pulse, contexts);
}

#[test]
fn a_failure_allocates_nothing_besides_its_extension_and_its_message() {
    let (pulse, _manual_clock) = built(|builder| builder);
    let routes = || {
        let handler = || async {
            let mut response = (StatusCode::BAD_GATEWAY, "down").into_response();
            let failure = Failure::new("db_timeout").with_message("no answer");
            response.extensions_mut().insert(failure);
            response
        };
        Router::new().route("/x", get(handler))
    };
    let identity = allocations(routes().layer(Identity(())), "GET", "/x");
    let ours = allocations(routes().layer(pulse.layer()), "GET", "/x");
    assert_eq!(ours, identity);
    let body = routes().layer(pulse.layer().until_body_end());
    let body = allocations(body, "GET", "/x");
    assert!((identity..=identity + REQUESTS as u64).contains(&body));
    assert_recorded(&pulse, [("GET /x", 4)]);
}

#[test]
fn a_request_that_was_measured_elsewhere_allocates_nothing() {
    let (pulse, _manual_clock) = built(|builder| {
        let builder = builder.app_version("1.4.2");
        builder.count_as_error(|head| head.headers.contains_key("x-error"))
    });
    let record = || {
        let millis = Duration::from_millis(3);
        for _ in 0..REQUESTS {
            pulse.record("GET /users/{id}", millis, StatusCode::OK);
            pulse.record("<unmatched>", millis, Outcome::Cancelled);
        }
    };
    record();
    assert_eq!(allocation_counter::measure(record).count_total, 0);
    assert_recorded(&pulse, [("<unmatched>", 2), ("GET /users/{id}", 2)]);
}

#[test]
fn adding_to_a_recent_id_allocates_nothing() {
    let (pulse, _manual_clock) = built(|builder| builder);
    let posts = pulse.ranking("posts").build().unwrap();
    let ids: Vec<String> = (0..100).map(|id| id.to_string()).collect();
    let add = || ids.iter().for_each(|id| posts.add(id, 1));
    add();
    pulse.simulation().drain();
    assert_eq!(allocation_counter::measure(add).count_total, 0);
    let new = allocation_counter::measure(|| posts.add("new", 1));
    assert!(new.count_total > 0, "nothing is counted");
}

#[test]
fn failed_requests_in_quick_succession_allocate_only_while_they_are_listed() {
    let (pulse, _manual_clock) = built(|builder| builder);
    let record = |millis, status| {
        pulse.record("GET /users/{id}", Duration::from_millis(millis), status);
    };
    // Afterwards, only requests of more than 9 ms count as slow.
    for _ in 0..6 {
        (0..20).for_each(|_| record(9, StatusCode::OK));
        pulse.simulation().drain();
    }
    let allocations = |status| {
        let requests = || (0..REQUESTS).for_each(|_| record(3, status));
        allocation_counter::measure(requests).count_total
    };
    for _ in 0..2 {
        assert_eq!(allocations(StatusCode::OK), 0);
        let listed = allocations(StatusCode::BAD_GATEWAY);
        assert!((1..=5).contains(&listed), "{listed}");
        assert_eq!(allocations(StatusCode::BAD_GATEWAY), 0);
        pulse.simulation().drain();
    }
}
