//! Timers outside of requests.

use std::time::Duration;

use futures_util::FutureExt;
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;

use super::{context, outcome, pulse, snapshot};
use crate::rig::reads::{StoreOf, StoreReads};

#[tokio::test]
async fn a_timer_writes_its_own_counters_and_not_those_of_all_requests() {
    let (pulse, manual_clock) = pulse();
    let timer = pulse.timer("db:find_user");
    manual_clock.advance(Duration::from_millis(3));
    timer.stop();
    let mut failing = pulse.timer("db:find_user");
    failing.failed();
    manual_clock.advance(Duration::from_millis(5));
    drop(failing);
    let find_user = context(&pulse, "db:find_user").await;
    assert_eq!(find_user.kind, Kind::Timer);
    let hour = find_user.hour.unwrap();
    assert_eq!((hour.times.count, hour.times.max), (2.0, 0.005));
    let outcomes = hour.aggregate.outcomes;
    assert_eq!((outcomes.count(Outcome::Failed), outcomes.errors), (1, 1));
    let store = pulse.backend();
    assert_eq!(store.counter("hits", 1).await.unwrap(), []);
    assert_eq!(store.counter("errors", 1).await.unwrap(), []);
    let hits = store.counter("hits:db:find_user", 3_600).await.unwrap();
    assert_eq!(hits[0].1, 2);
    let slowest = store.slowest_means().await.unwrap();
    assert_eq!(slowest, [("db:find_user".to_owned(), 0.004)]);
    assert_eq!(snapshot(&pulse).await.all.hour, None);
}

#[tokio::test]
async fn each_end_of_a_timer_has_its_outcome() {
    let (pulse, _) = pulse();
    assert_eq!(pulse.time("done", async { 42 }).await, 42);
    let fine = pulse.try_time("fine", async { Ok::<_, u8>(42) }).await;
    assert_eq!(fine, Ok(42));
    let bad = pulse.try_time("bad", async { Err::<u8, _>("no") }).await;
    assert_eq!(bad, Err("no"));
    let waiting = pulse.time("cancelled", std::future::pending::<()>());
    assert!(waiting.now_or_never().is_none());
    drop(pulse.time("never polled", std::future::pending::<()>()));
    let boom = pulse.time("boom", async { panic!("on purpose") });
    tokio::spawn(boom).await.unwrap_err();
    let inner = pulse.clone();
    let job = async move {
        let _timer = inner.timer("job");
        panic!("on purpose")
    };
    tokio::spawn(job).await.unwrap_err();
    pulse.timer("cached").discard();
    pulse.record_duration("queue", Duration::from_millis(12));
    let all = [
        ("done", Outcome::Completed, 0),
        ("fine", Outcome::Completed, 0),
        ("bad", Outcome::Failed, 1),
        ("cancelled", Outcome::Cancelled, 0),
        ("boom", Outcome::Panicked, 1),
        ("job", Outcome::Panicked, 1),
        ("queue", Outcome::Completed, 0),
    ];
    for (name, ended, errors) in all {
        assert_eq!(outcome(&pulse, name, ended).await, (1, errors), "{name}");
    }
    assert_eq!(snapshot(&pulse).await.contexts.len(), all.len());
    let queue = context(&pulse, "queue").await;
    assert_eq!(queue.kind, Kind::Timer);
    assert_eq!(queue.hour.unwrap().times.max, 0.012);
    assert_eq!(pulse.health().recording.recorded, all.len() as u64);
}
