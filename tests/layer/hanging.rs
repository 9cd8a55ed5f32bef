//! The requests in flight of each path, and the paths that hang.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::FutureExt;
use tower::ServiceExt;
use tower_pulse::query::{Answer, Changes, ChangesQuery, PathQuery};
use tower_pulse::{Builder, Clock, ManualClock, Pulse, Unrecorded};

use super::{NOW, request, send};

/// A `Pulse` without background tasks, so only the test reads its requests in flight.
fn pulse_with(configure: impl FnOnce(Builder) -> Builder) -> (Pulse, ManualClock) {
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = configure(Pulse::builder().clock(clock));
    (builder.build_with_tasks().unwrap().0, manual_clock)
}

async fn changes_after(pulse: &Pulse, manual_clock: &ManualClock, seconds: u64) -> Answer<Changes> {
    manual_clock.advance(Duration::from_secs(seconds));
    pulse.flush().await.unwrap();
    pulse.simulation().heartbeat().await.unwrap();
    pulse.query().ask(&ChangesQuery::default()).await.unwrap()
}

/// The paths that hang: name, requests in flight, and seconds.
fn hanging(changes: &Answer<Changes>) -> Vec<(&str, u64, u64)> {
    let paths = changes.hanging.iter();
    let paths = paths.map(|path| (&*path.name.context, path.in_flight, path.seconds));
    paths.collect()
}

async fn in_flight(pulse: &Pulse, context: &str) -> Option<u64> {
    let mut query = PathQuery::default();
    query.context = context.to_owned();
    pulse.query().ask(&query).await.unwrap().in_flight
}

const STUCK: &str = "GET /stuck";

async fn a_route_that_never_ends_hangs(configure: impl FnOnce(Builder) -> Builder) {
    let (pulse, manual_clock) = pulse_with(|builder| configure(builder.instance("web-1")));
    let is_stuck = Arc::new(AtomicBool::new(false));
    let stuck = is_stuck.clone();
    let handler = || async move {
        if stuck.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    };
    let app = Router::new()
        .route("/stuck", get(handler))
        .route("/fine", get(|| async {}))
        .layer(pulse.layer());
    send(&app, "GET", "/stuck").await;
    is_stuck.store(true, Ordering::Relaxed);
    // No path hangs, because no request is in flight.
    assert_eq!(
        hanging(&changes_after(&pulse, &manual_clock, 3_600).await),
        []
    );
    let call = || Box::pin(app.clone().oneshot(request("GET", "/stuck")));
    let mut calls: Vec<_> = (0..12).map(|_| call()).collect();
    for call in &mut calls {
        assert!(call.now_or_never().is_none());
    }
    send(&app, "GET", "/fine").await;
    assert_eq!(hanging(&changes_after(&pulse, &manual_clock, 1).await), []);
    assert_eq!(in_flight(&pulse, STUCK).await, Some(12));
    assert_eq!(in_flight(&pulse, "GET /fine").await, Some(0));
    assert_eq!(hanging(&changes_after(&pulse, &manual_clock, 59).await), []);
    let changes = changes_after(&pulse, &manual_clock, 1).await;
    assert_eq!(hanging(&changes), [(STUCK, 12, 60)]);
    assert_eq!(&*changes.hanging[0].instances[0], "web-1");
    assert_eq!((changes.problems, changes.ongoing), (1, 0));
    let changes = changes_after(&pulse, &manual_clock, 180).await;
    assert_eq!(hanging(&changes), [(STUCK, 12, 240)]);

    // One request ends after 241 s. The path now hangs only after more than twice this time.
    drop(calls.pop());
    assert_eq!(hanging(&changes_after(&pulse, &manual_clock, 1).await), []);
    assert_eq!(
        hanging(&changes_after(&pulse, &manual_clock, 480).await),
        []
    );
    let changes = changes_after(&pulse, &manual_clock, 3).await;
    assert_eq!(hanging(&changes), [(STUCK, 11, 483)]);
    // A path with only two requests in flight does not hang, because two clients may be slow.
    calls.truncate(2);
    changes_after(&pulse, &manual_clock, 1).await;
    assert_eq!(
        hanging(&changes_after(&pulse, &manual_clock, 36_000).await),
        []
    );
    assert_eq!(in_flight(&pulse, STUCK).await, Some(2));
    calls.clear();
    changes_after(&pulse, &manual_clock, 1).await;
    assert_eq!(in_flight(&pulse, STUCK).await, Some(0));
}

#[tokio::test]
async fn a_route_that_never_ends_hangs_after_a_minute() {
    a_route_that_never_ends_hangs(|builder| builder).await;
}

#[tokio::test]
async fn a_route_hangs_also_if_request_paths_are_kept() {
    a_route_that_never_ends_hangs(|builder| builder.keep_request_paths(true)).await;
}

#[tokio::test]
async fn a_request_that_is_not_recorded_or_is_measured_elsewhere_is_not_in_flight() {
    let (pulse, manual_clock) = pulse_with(|builder| builder);
    let handler = |Path(is_recorded): Path<bool>| async move {
        let mut response = "done".into_response();
        if !is_recorded {
            response.extensions_mut().insert(Unrecorded);
        }
        response
    };
    let app = Router::new().route("/{is_recorded}", get(handler));
    let app = app.layer(pulse.layer());
    let (context, duration) = ("GET /{is_recorded}", Duration::from_millis(3));
    for path in ["/true", "/false", "/false", "/true"] {
        send(&app, "GET", path).await;
        pulse.record(context, duration, http::StatusCode::OK);
    }
    changes_after(&pulse, &manual_clock, 1).await;
    assert_eq!(in_flight(&pulse, context).await, Some(0));
    pulse.record(context, duration, http::StatusCode::OK);
    changes_after(&pulse, &manual_clock, 1).await;
    assert_eq!(in_flight(&pulse, context).await, Some(0));
}

#[tokio::test]
async fn a_request_is_in_flight_under_the_context_of_the_inner_layer() {
    let (pulse, manual_clock) = pulse_with(|builder| builder);
    let handler = |Path(ends): Path<bool>| async move {
        if !ends {
            pending::<()>().await;
        }
    };
    let inner = Router::new().route("/{ends}", get(handler));
    let inner = inner.layer(pulse.layer().named("inner"));
    let app = Router::new().fallback_service(inner);
    let app = app.route("/other", get(|| async {})).layer(pulse.layer());
    for path in ["/true", "/other", "/true"] {
        send(&app, "GET", path).await;
    }
    let mut call = Box::pin(app.oneshot(request("GET", "/false")));
    assert!((&mut call).now_or_never().is_none());
    changes_after(&pulse, &manual_clock, 1).await;
    assert_eq!(in_flight(&pulse, "inner").await, Some(1));
    drop(call);
    changes_after(&pulse, &manual_clock, 1).await;
    for context in ["inner", "GET /other"] {
        assert_eq!(in_flight(&pulse, context).await, Some(0), "{context}");
    }
}
