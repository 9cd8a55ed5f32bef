//! `as_of` and `complete` depend on the oldest sample that is not in the store.

use std::time::Duration;

use tower_pulse::{Clock, ManualClock, Pulse};

use crate::faults::losses::ask;
use crate::faults::service::{now, settle, with_clock, without_tasks};
use crate::rig::proxy::Proxy;
use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

/// The fields `as_of` and `complete` of `api/overview`, for a window of five minutes.
async fn completeness(pulse: &Pulse) -> (i64, f64) {
    let overview = ask(pulse, "/api/overview?window=5m").await;
    let complete = overview["window"]["complete"].as_f64();
    let health = ask(pulse, "/api/health").await;
    assert_eq!(overview["as_of"], health["as_of"]);
    (overview["as_of"].as_i64().unwrap(), complete.unwrap())
}

const SECOND: Duration = Duration::from_secs(1);

fn advance_and_drain(pulse: &Pulse, manual_clock: &ManualClock, time: Duration) {
    manual_clock.advance(time);
    pulse.simulation().drain();
}

fn request(pulse: &Pulse) {
    pulse.record("GET /page/0", SECOND, http::StatusCode::OK);
}

type RecordSample = fn(&Pulse);

#[tokio::test]
async fn as_of_stays_behind_while_appends_fail() {
    let kinds: [(&str, RecordSample); 4] = [
        ("requests", request),
        ("timers", |pulse| pulse.timer("job").stop()),
        ("counters", |pulse| pulse.counter("sold").add(7)),
        ("rankings", |pulse| {
            pulse.ranking("posts").build().unwrap().add("7", 1);
        }),
    ];
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(now());
    let pulse = without_tasks(with_clock(&server.url(), &clock));
    request(&pulse);
    settle(&pulse).await;
    advance_and_drain(&pulse, &manual_clock, 3_600 * SECOND);
    for (name, record) in kinds {
        request(&pulse);
        settle(&pulse).await;
        advance_and_drain(&pulse, &manual_clock, 5 * SECOND);
        let current = (clock.now_seconds(), 1.0);
        assert_eq!(completeness(&pulse).await, current, "{name}");
        assert_eq!(pulse.health().flush.pending_age_seconds, None);

        let () = server.run("CONFIG SET maxmemory 1").await;
        let recorded_at = clock.now_seconds();
        record(&pulse);
        pulse.flush().await.unwrap_err();
        for _ in 0..2 {
            advance_and_drain(&pulse, &manual_clock, 5 * SECOND);
            let (behind, complete) = completeness(&pulse).await;
            assert_eq!(behind, recorded_at, "{name}");
            assert!(complete < 1.0, "{complete} of {name}");
        }
        let age = pulse.health().flush.pending_age_seconds;
        let is_right = age.is_some_and(|age| (10.0..=11.0).contains(&age));
        assert!(is_right, "{age:?}");

        let () = server.run("CONFIG SET maxmemory 0").await;
        settle(&pulse).await;
        advance_and_drain(&pulse, &manual_clock, 2 * SECOND);
        let current = (clock.now_seconds(), 1.0);
        assert_eq!(completeness(&pulse).await, current, "{name}");
    }
    pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn as_of_stays_behind_during_a_call() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (clock, manual_clock) = Clock::manual(now());
    let pulse = without_tasks(with_clock(&proxy.url(), &clock));
    request(&pulse);
    settle(&pulse).await;
    advance_and_drain(&pulse, &manual_clock, 10 * SECOND);
    let recorded_at = clock.now_seconds();
    request(&pulse);
    proxy.black_hole(true);
    let mut held = Box::pin(pulse.flush());
    tokio::select! {
        ended = &mut held => panic!("the flush has ended: {ended:?}"),
        () = until("a call is in progress", async || {
            pulse.health().flush.in_doubt_age_seconds.is_some()
        }) => {}
    }
    proxy.heal();
    advance_and_drain(&pulse, &manual_clock, 5 * SECOND);
    // A request during the call is newer, so it must not change `as_of`.
    request(&pulse);
    pulse.simulation().drain();
    let can_be_read = async || pulse.backend().counter("hits", 1).await.is_ok();
    until("the store can be read", can_be_read).await;
    assert_eq!(completeness(&pulse).await.0, recorded_at);
    drop(held);
    settle(&pulse).await;
    advance_and_drain(&pulse, &manual_clock, 2 * SECOND);
    assert_eq!(completeness(&pulse).await.0, clock.now_seconds());
    let days = pulse.backend().counter("hits", 86_400).await.unwrap();
    assert_eq!(days.iter().map(|(_, n)| n).sum::<i64>(), 3);
    pulse.shutdown().await.unwrap();
}
