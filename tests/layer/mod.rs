//! The layer and the timers, with the store in memory.

mod bodies;
mod contexts;
mod failures;
#[cfg(feature = "query")]
mod hanging;
#[cfg(feature = "admin")]
mod mounted;
mod names;
mod nested_timers;
mod order;
mod outcomes;
mod polls;
mod queue;
mod recorded;
mod request_timers;
mod slow_requests;
#[cfg(feature = "tracing")]
mod spans;
mod timers;

use std::collections::BTreeMap;

use crate::rig::reads::{Snapshot, StoreOf, StoreReads};
use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use tower::ServiceExt;
use tower_pulse::{Builder, Clock, ManualClock, Pulse};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::snapshot::ContextSnapshot;

/// 2023-11-14 22:30:00 UTC.
const NOW: i64 = 1_700_001_000;

fn pulse() -> (Pulse, ManualClock) {
    pulse_with(|builder| builder)
}

fn pulse_with(configure: impl FnOnce(Builder) -> Builder) -> (Pulse, ManualClock) {
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = configure(Pulse::builder().clock(clock));
    (builder.build().unwrap(), manual_clock)
}

async fn ok() -> &'static str {
    "ok"
}

/// The routes twice: with a layer that times to the head, and with a layer that times to the end of the body.
fn layered(pulse: &Pulse, routes: Router) -> [Router; 2] {
    let until_body_end = routes.clone().layer(pulse.layer().until_body_end());
    [routes.layer(pulse.layer()), until_body_end]
}

fn request(method: &str, path: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    request.body(Body::empty()).unwrap()
}

async fn send(app: &Router, method: &str, path: &str) -> Response<Body> {
    let app: Router = app.clone();
    app.oneshot(request(method, path)).await.unwrap()
}

async fn snapshot(pulse: &Pulse) -> Snapshot {
    pulse.flush().await.unwrap();
    pulse.backend().snapshot(NOW).await.unwrap()
}

async fn counts(pulse: &Pulse) -> BTreeMap<String, u64> {
    let contexts = snapshot(pulse).await.contexts.into_iter();
    contexts
        .map(|context| (context.context, context.hour.unwrap().times.count as u64))
        .collect()
}

/// Sends requests, such as `GET /`, and asserts the number of samples of each context.
async fn assert_counts<const N: usize>(
    pulse: &Pulse,
    app: &Router,
    requests: &[&str],
    contexts: [(&str, u64); N],
) {
    for request in requests {
        let (method, path) = request.split_once(' ').unwrap();
        send(app, method, path).await;
    }
    assert_eq!(counts(pulse).await, expected(contexts), "{requests:?}");
    assert_eq!(pulse.health().recording.in_flight, 0);
}

fn expected<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    let counts = counts.into_iter();
    counts.map(|(name, n)| (name.to_owned(), n)).collect()
}

async fn context(pulse: &Pulse, name: &str) -> ContextSnapshot {
    pulse.flush().await.unwrap();
    let snapshot = pulse.backend().context(name, NOW).await.unwrap();
    snapshot.unwrap_or_else(|| panic!("no context {name}"))
}

/// Returns the number of samples of a context, which must all have this outcome, and the number of errors.
async fn outcome(pulse: &Pulse, name: &str, outcome: Outcome) -> (u64, u64) {
    let outcomes = context(pulse, name).await.hour.unwrap().aggregate.outcomes;
    assert_eq!(
        outcomes.counts.iter().sum::<u64>(),
        outcomes.count(outcome),
        "{outcomes:?}"
    );
    (outcomes.count(outcome), outcomes.errors)
}
