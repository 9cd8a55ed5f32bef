//! Requests that were measured elsewhere.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tower_pulse::{Clock, Outcome, Pulse};
use tower_pulse_core::store::Precisions;
use tower_pulse_core::store::Store;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_model::context::{EMPTY, Kind};

use super::rig::reads::{StoreOf, StoreReads};
use super::{NOW, context, outcome, pulse, snapshot};

#[tokio::test]
async fn a_recorded_request_counts_like_one_that_went_through_the_layer() {
    let (pulse, _hand) = pulse();
    pulse.record("GET /", Duration::from_micros(1_500), StatusCode::OK);
    pulse.record("GET /", Duration::from_micros(500), StatusCode::BAD_GATEWAY);
    pulse.record("POST /", Duration::from_millis(7), Outcome::Cancelled);
    let get = context(&pulse, "GET /").await;
    assert_eq!(get.kind, Kind::Http);
    let hour = get.hour.unwrap();
    assert_eq!((hour.times.count, hour.times.sum), (2.0, 0.002));
    assert_eq!((hour.times.min, hour.times.max), (0.0005, 0.0015));
    let outcomes = hour.aggregate.outcomes;
    assert_eq!(
        [Outcome::Success, Outcome::ServerError].map(|outcome| outcomes.count(outcome)),
        [1, 1]
    );
    assert_eq!(outcomes.errors, 1);
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
async fn names_are_cleaned_and_bounded() {
    let (clock, _hand) = Clock::manual(super::NOW);
    let builder = Pulse::builder().clock(clock).max_contexts(2);
    let pulse = builder.build().unwrap();
    let record = |name: &str| {
        // Twice: when it is new, and when it is known.
        for _ in 0..2 {
            pulse.record(name, Duration::from_millis(1), StatusCode::OK);
        }
    };
    for name in ["", "a\nb", "c", "<all>", "<unmatched>"] {
        record(name);
    }
    let counted = super::counts(&pulse).await;
    let expected = super::expected([
        (EMPTY, 2),
        ("a\\nb", 2),
        ("<overflow>", 4),
        ("<unmatched>", 2),
    ]);
    assert_eq!(counted, expected);
    assert_eq!(pulse.health().recording.overflowed, 4);
    let all = snapshot(&pulse).await.all.hour.unwrap();
    assert_eq!(all.times.count, 10.0);
}

#[tokio::test]
async fn the_users_rule_judges_a_status_and_not_an_outcome() {
    let (clock, _hand) = Clock::manual(super::NOW);
    let pulse = Pulse::builder()
        .clock(clock)
        .count_as_error(|head| {
            assert!(head.headers.is_empty());
            head.status == StatusCode::TOO_MANY_REQUESTS
        })
        .build()
        .unwrap();
    for status in [429, 200, 503] {
        let status = StatusCode::from_u16(status).unwrap();
        pulse.record(status.as_str(), Duration::ZERO, status);
    }
    pulse.record("panic", Duration::ZERO, Outcome::Panicked);
    let ended = [
        ("429", Outcome::ClientError, 1),
        ("200", Outcome::Success, 0),
        ("503", Outcome::ServerError, 0),
        ("panic", Outcome::Panicked, 1),
    ];
    for (name, ending, errors) in ended {
        assert_eq!(outcome(&pulse, name, ending).await, (1, errors), "{name}");
    }
}

#[tokio::test]
async fn no_duration_is_too_long_for_the_sums() {
    let (pulse, _hand) = pulse();
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

#[tokio::test]
async fn after_a_shutdown_it_is_dropped_and_told() {
    let (pulse, _hand) = pulse();
    pulse.shutdown().await.unwrap();
    pulse.record("GET /", Duration::from_millis(1), StatusCode::OK);
    let recording = pulse.health().recording;
    assert_eq!((recording.recorded, recording.dropped), (0, 1));
}

#[tokio::test]
async fn a_drain_counts_in_the_second_that_has_ended() {
    let (clock, hand) = Clock::manual(super::NOW);
    let builder = Pulse::builder().clock(clock).retained_slices(200);
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let record = || pulse.record("GET /", Duration::from_millis(1), StatusCode::OK);
    // To the next second, over a gap, and one second back.
    for second in [0, 1, 60, 61] {
        hand.set_wall(super::NOW + second);
        record();
        hand.set_wall(super::NOW + second + 1);
        pulse.simulation().drain();
    }
    hand.set_wall(super::NOW + 60);
    pulse.simulation().drain();
    record();
    hand.set_wall(super::NOW + 61);
    pulse.simulation().drain();
    pulse.flush().await.unwrap();
    let hits = pulse.backend().counter("hits", 1).await.unwrap();
    let expected = [(0, 1), (1, 1), (60, 2), (61, 1)];
    assert_eq!(hits, expected.map(|(at, n)| (super::NOW + at, n)));
}

#[tokio::test]
async fn an_instance_whose_tasks_do_not_run_is_alive_for_a_minute_after_a_heartbeat() {
    let (clock, time) = Clock::manual(NOW);
    let store = MemoryStore::new(Precisions::default(), clock.clone());
    let store: Arc<dyn Store> = Arc::new(store);
    let pulses = [(); 2].map(|()| {
        let builder = Pulse::builder().store(store.clone()).clock(clock.clone());
        builder.build_with_tasks().unwrap().0
    });
    let alive = async |second| store.upkeep().status(second).await.unwrap().instances;
    assert_eq!(alive(NOW).await, 0);
    for pulse in &pulses {
        pulse.simulation().heartbeat().await.unwrap();
        time.set_wall(NOW + 1);
    }
    assert_eq!(alive(NOW + 60).await, 2);
    assert_eq!(alive(NOW + 61).await, 1);
}
