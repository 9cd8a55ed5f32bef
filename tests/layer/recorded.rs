//! Requests that the service measures itself, and passes to `Pulse::record`.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::Outcome;
use tower_pulse_model::context::Kind;

use super::{context, outcome, pulse, snapshot};
use crate::rig::reads::{StoreOf, StoreReads};

#[tokio::test]
async fn a_recorded_request_counts_like_a_request_through_the_layer() {
    let (pulse, _) = pulse();
    pulse.record("GET /", Duration::from_micros(1_500), StatusCode::OK);
    pulse.record("GET /", Duration::from_micros(500), StatusCode::BAD_GATEWAY);
    pulse.record("POST /", Duration::from_millis(7), Outcome::Cancelled);
    let get = context(&pulse, "GET /").await;
    assert_eq!(get.kind, Kind::Http);
    let hour = get.hour.unwrap();
    assert_eq!((hour.times.count, hour.times.sum), (2.0, 0.002));
    assert_eq!((hour.times.min, hour.times.max), (0.0005, 0.0015));
    let outcomes = hour.aggregate.outcomes;
    let counted = [Outcome::Success, Outcome::ServerError].map(|one| outcomes.count(one));
    assert_eq!((counted, outcomes.errors), ([1, 1], 1));
    assert_eq!(outcome(&pulse, "POST /", Outcome::Cancelled).await, (1, 0));
    let all = snapshot(&pulse).await.all.hour.unwrap();
    assert_eq!((all.times.count, all.aggregate.outcomes.errors), (3.0, 1));
    let store = pulse.backend();
    for (counter, expected) in [
        ("hits", 3),
        ("hits:GET /", 2),
        ("errors", 1),
        ("errors:GET /", 1),
        ("micros:GET /", 2_000),
    ] {
        let slices = store.counter(counter, 86_400).await.unwrap();
        assert_eq!(slices[0].1, expected, "{counter}");
    }
    let health = pulse.health().recording;
    assert_eq!((health.recorded, health.in_flight), (3, 0));
}

#[tokio::test]
async fn no_duration_is_too_long_for_the_sums() {
    let (pulse, _) = pulse();
    for _ in 0..3 {
        pulse.record("forever", Duration::MAX, StatusCode::OK);
        pulse.record_duration("queue", Duration::MAX);
    }
    let week = 7.0 * 86_400.0;
    for name in ["forever", "queue"] {
        let times = context(&pulse, name).await.hour.unwrap().times;
        assert_eq!((times.sum, times.max), (3.0 * week, week), "{name}");
    }
}
