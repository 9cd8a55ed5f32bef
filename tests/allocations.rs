//! The layer allocates nothing in steady state: a request has as many allocations as with a layer that does nothing,
//! and one more if the layer times until the body's end.
#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "rig/identity.rs"]
mod identity;

use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::FutureExt;
use http::{Request, StatusCode};
use identity::Identity;
use tower::Service;
use tower_pulse::{Builder, Clock, Failure, ManualClock, Pulse};

const NOW: i64 = 1_700_000_000;
const REQUESTS: usize = 200;

/// An instance without a runtime and tasks: nothing but the requests allocates.
fn built(configure: impl FnOnce(Builder) -> Builder) -> (Pulse, ManualClock) {
    let (clock, hand) = Clock::manual(NOW);
    let builder = configure(Pulse::builder().clock(clock));
    (builder.build_with_tasks().unwrap().0, hand)
}

fn routes() -> Router {
    let users = Router::new().route("/users/{id}", get(|| async { "user" }));
    Router::new()
        .route("/ping", get(|| async { "pong" }).post(|| async { "pong" }))
        .nest("/api/v1", users)
}

/// Adds a header to each request.
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
    let requests = || -> Vec<_> {
        let request = || {
            Request::builder()
                .method(method)
                .uri(path)
                .body(Body::empty())
        };
        (0..REQUESTS).map(|_| request().unwrap()).collect()
    };
    let mut send = |requests: Vec<Request<Body>>| {
        for request in requests {
            app.call(request).now_or_never().unwrap().unwrap();
        }
    };
    send(requests());
    let measured = requests();
    allocation_counter::measure(|| send(measured)).count_total
}

/// Lets one test at a time use the pool of buffers for the details of requests. The process has one pool: a thread that
/// cannot lock a list of buffers allocates a buffer if the other lists are empty.
fn only_user_of_the_buffers() -> MutexGuard<'static, ()> {
    static USER: Mutex<()> = Mutex::new(());
    USER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of requests of each context.
fn recorded(pulse: &Pulse) -> Vec<(String, usize)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let contexts = runtime.unwrap().block_on(async {
        pulse.flush().await.unwrap();
        let store: std::sync::Arc<dyn tower_pulse_core::store::Store> =
            pulse.store().clone().into();
        let index = store.query().record_index(NOW).await.unwrap().contexts;
        let mut contexts = Vec::new();
        for id in index {
            contexts.extend(store.query().contexts(&id.name, NOW).await.unwrap());
        }
        contexts.sort_by(|a, b| a.context.cmp(&b.context));
        contexts
    });
    let contexts = contexts.into_iter();
    contexts
        .map(|context| (context.context, context.hour.unwrap().times.count as usize))
        .collect()
}

#[test]
fn requests_allocate_no_more_than_without_the_layer() {
    let (pulse, _hand) = built(|builder| builder);
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
            "{method} {path} to the body's end: {body}, {identity} without"
        );
    }
    // All requests were recorded: to warm up and to measure, timed to the head and to the body's end.
    let counts = recorded(&pulse);
    let health = pulse.health();
    assert_eq!(health.recording.recorded, 6 * 4 * REQUESTS as u64);
    assert_eq!(health.recording.in_flight, 0);
    assert_eq!(health.recording.dropped, 0);
    let expected = [
        ("<unmatched>", 4 * REQUESTS),
        ("DELETE /ping", 4 * REQUESTS),
        ("GET /api/v1/users/{id}", 4 * REQUESTS),
        ("GET /ping", 4 * REQUESTS),
        ("HEAD /ping", 4 * REQUESTS),
        ("POST /ping", 4 * REQUESTS),
    ];
    assert_eq!(counts, expected.map(|(name, n)| (name.to_owned(), n)));
}

#[test]
fn reading_the_header_of_the_queue_allocates_nothing() {
    let _alone = only_user_of_the_buffers();
    let (pulse, _hand) = built(|builder| builder.queue_time_header("x-request-start"));
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

/// Sends requests with ids and paths in two hours. Only the first requests of each hour count as slow.
#[test]
fn details_of_slow_requests_allocate_nothing_while_a_request_is_not_slow() {
    let _alone = only_user_of_the_buffers();
    let (pulse, hand) = built(|b| b.keep_trace_ids(true).keep_request_paths(true));
    let with_id = |app| with_header(app, "x-request-id", "a-request-id");
    for hour in 0..2 {
        hand.set_wall(NOW + hour * 3_600);
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
    let (pulse, _hand) = built(|builder| builder);
    let route = |layer| Router::new().route("/x", get(|| async { "x" }).layer(layer));
    let twice = |app: Router| app.layer(Identity(()));
    let identity = Router::new().route("/x", get(|| async { "x" }).layer(Identity(())));
    let identity = allocations(twice(identity), "GET", "/x");
    let named = route(pulse.layer().named("x")).layer(pulse.layer());
    assert_eq!(allocations(named, "GET", "/x"), identity);
    assert_eq!(recorded(&pulse), [("x".to_owned(), 2 * REQUESTS)]);
}

#[test]
fn a_request_without_timers_allocates_nothing_on_a_path_with_timers() {
    let (pulse, _hand) = built(|builder| builder);
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
    let expected = [
        ("GET /x".to_owned(), 4 * REQUESTS),
        ("db".to_owned(), 2 * REQUESTS),
    ];
    assert_eq!(recorded(&pulse), expected);
}

#[cfg(feature = "tracing")]
#[test]
fn a_statement_allocates_nothing_and_a_span_once() {
    use tracing_subscriber::prelude::*;
    let (pulse, _hand) = built(|builder| builder);
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
    // The span of a request has the scope of the request, which the request has too.
    let identity = allocations(routes().layer(Identity(())), "GET", "/ping");
    let ours = allocations(routes().layer(pulse.layer()), "GET", "/ping");
    assert!(
        ours <= identity + 3 * requests,
        "{ours}, {identity} without"
    );
    let expected = [("GET /ping", 2), ("render", 2), ("sql SELECT users", 2)];
    let expected = expected.map(|(name, times)| (name.to_owned(), times * REQUESTS));
    assert_eq!(recorded(&pulse), expected);
}

#[test]
fn a_failure_allocates_nothing_besides_its_extension_and_its_message() {
    let (pulse, _hand) = built(|builder| builder);
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
    assert_eq!(recorded(&pulse), [("GET /x".to_owned(), 4 * REQUESTS)]);
}

#[test]
fn a_request_that_was_measured_elsewhere_allocates_nothing() {
    let (pulse, _hand) = built(|builder| {
        let builder = builder.app_version("1.4.2");
        builder.count_as_error(|head| head.headers.contains_key("x-error"))
    });
    let record = || {
        let millis = std::time::Duration::from_millis(3);
        for _ in 0..REQUESTS {
            pulse.record("GET /users/{id}", millis, http::StatusCode::OK);
            pulse.record("<unmatched>", millis, tower_pulse::Outcome::Cancelled);
        }
    };
    record();
    assert_eq!(allocation_counter::measure(record).count_total, 0);
    let expected = ["<unmatched>", "GET /users/{id}"].map(|name| (name.to_owned(), 2 * REQUESTS));
    assert_eq!(recorded(&pulse), expected);
}

#[test]
fn adding_to_an_id_of_the_last_seconds_allocates_nothing() {
    let (pulse, _hand) = built(|builder| builder);
    let posts = pulse.ranking("posts").build().unwrap();
    let ids: Vec<String> = (0..100).map(|id| id.to_string()).collect();
    let add = || ids.iter().for_each(|id| posts.add(id, 1));
    add();
    pulse.simulation().drain();
    let allocated = allocation_counter::measure(add).count_total;
    assert_eq!(allocated, 0);
    let new = allocation_counter::measure(|| posts.add("new", 1));
    assert!(new.count_total > 0, "nothing is counted");
}

#[test]
fn failed_requests_in_quick_succession_allocate_only_while_they_are_listed() {
    let (pulse, _hand) = built(|builder| builder);
    let record = |millis, status| {
        let millis = std::time::Duration::from_millis(millis);
        pulse.record("GET /users/{id}", millis, status);
    };
    // Afterwards, only requests of more than 9 ms count as slow.
    for _ in 0..6 {
        (0..20).for_each(|_| record(9, http::StatusCode::OK));
        pulse.simulation().drain();
    }
    let allocations = |status| {
        let requests = || (0..REQUESTS).for_each(|_| record(3, status));
        allocation_counter::measure(requests).count_total
    };
    let failed = http::StatusCode::BAD_GATEWAY;
    for _ in 0..2 {
        assert_eq!(allocations(http::StatusCode::OK), 0);
        let listed = allocations(failed);
        assert!((1..=5).contains(&listed), "{listed}");
        assert_eq!(allocations(failed), 0);
        pulse.simulation().drain();
    }
}
