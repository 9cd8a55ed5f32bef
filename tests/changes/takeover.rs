//! Whoever judges next goes on exactly where the last one was, however that one has ended.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use fastrand::Rng;
use tower_pulse::{Change, ChangeKind};

use crate::fleet::{Backend, Fleet, MINUTE, START};
use crate::rig::json::is_same;
use crate::rig::seed::seed;
use crate::traffic::{Request, SEARCH, Traffic, slow_down};

const SLOW_AT: i64 = START + 45 * MINUTE;
const FAST_AT: i64 = SLOW_AT + 14 * MINUTE;
const END: i64 = FAST_AT + 15 * MINUTE;

/// The requests of a minute, with two incidents that overlap.
fn minute(traffic: &mut Traffic, start: i64) -> Vec<Request> {
    let mut requests = traffic.minute();
    if (SLOW_AT..FAST_AT).contains(&start) {
        slow_down(&mut requests, SEARCH, 2.5);
    }
    if (SLOW_AT + 5 * MINUTE..FAST_AT + 2 * MINUTE).contains(&start) {
        for request in requests.iter_mut().filter(|r| *r.context == *"GET /cart") {
            request.status = 500;
        }
    }
    requests
}

/// The changes at the end of each minute of a fleet that nothing befalls, judged by its first instance.
async fn undisturbed(backend: Backend, seed: u64, instances: usize) -> Vec<Vec<Change>> {
    let mut fleet = Fleet::new(backend, instances);
    let mut traffic = Traffic::new(seed, instances);
    let mut minutes = Vec::new();
    while fleet.now < END {
        let requests = minute(&mut traffic, fleet.now);
        fleet.pass_and_judge(&requests).await;
        minutes.push(fleet.changes().await);
    }
    let last = minutes.last().unwrap();
    for kind in [ChangeKind::Slower, ChangeKind::Failing] {
        let ended = |change: &&Change| change.kind == kind && change.ended.is_some();
        assert_eq!(last.iter().filter(ended).count(), 1, "{last:#?}");
    }
    minutes
}

/// Asserts that changes are the same.
fn assert_same(now: i64, actual: &[Change], expected: &[Change]) {
    let minute = (now - START) / MINUTE;
    let values = |changes: &[Change]| serde_json::to_value(changes).unwrap();
    assert!(
        is_same(&values(actual), &values(expected)),
        "at the end of minute {minute}:\n{actual:#?}\ninstead of\n{expected:#?}"
    );
}

async fn a_killed_folder_changes_no_verdict(backend: Backend, twin: Backend) {
    let seed = seed();
    let expected = undisturbed(twin, seed, 2).await;
    let mut fleet = Fleet::new(backend, 2);
    let mut traffic = Traffic::new(seed, 2);
    let mut judge = 0;
    for expected in expected {
        let requests = minute(&mut traffic, fleet.now);
        fleet.pass(&requests).await;
        assert_eq!(
            fleet.instances[judge]
                .pulse
                .simulation()
                .judge()
                .await
                .unwrap(),
            1
        );
        let actual = fleet.instances[1 - judge].pulse.changes().await.unwrap();
        assert_same(fleet.now, &actual, &expected);
        // In a quiet time, with one change, with two, with none again.
        if [30, 51, 55, 63].contains(&((fleet.now - START) / MINUTE)) {
            fleet.restart(judge).await;
            judge = 1 - judge;
        }
    }
}

#[tokio::test]
async fn a_restart_of_all_instances_changes_no_verdict() {
    let seed = seed();
    let expected = undisturbed(Backend::memory(), seed, 2).await;
    let mut fleet = Fleet::new(Backend::redis().await, 2);
    let mut traffic = Traffic::new(seed, 2);
    for expected in expected {
        let requests = minute(&mut traffic, fleet.now);
        fleet.pass(&requests).await;
        assert_eq!(fleet.judge().await, 1);
        assert_same(fleet.now, &fleet.changes().await, &expected);
        if [20, 50, 62].contains(&((fleet.now - START) / MINUTE)) {
            for number in 0..2 {
                fleet.restart(number).await;
            }
        }
    }
}

/// Polls a future up to so many times, each time once it has been woken, then drops it. Returns whether it has ended.
async fn poll_times<T>(future: impl Future<Output = T>, times: usize) -> bool {
    let (mut future, mut polls) = (pin!(future), 0);
    poll_fn(|context| {
        if polls == times {
            return Poll::Ready(false);
        }
        polls += 1;
        future.as_mut().poll(context).map(|_| true)
    })
    .await
}

async fn a_judgement_that_is_dropped_changes_no_verdict(
    backend: Backend,
    (twin, points): (Backend, usize),
) {
    let seed = seed();
    let expected = undisturbed(twin, seed, 1).await;
    let mut fleet = Fleet::new(backend, 1);
    let mut traffic = Traffic::new(seed, 1);
    let (mut rng, mut dropped) = (Rng::with_seed(seed), 0);
    for (number, expected) in expected.iter().enumerate() {
        let requests = minute(&mut traffic, fleet.now);
        fleet.pass(&requests).await;
        let pulse = &fleet.instances[0].pulse;
        // In memory, a judgement waits for the detector's thread only: once for the minute and, after a judgement that
        // was dropped, for each minute of the past. In Redis, for each answer too.
        let most = if number % 4 == 0 {
            2 * points
        } else {
            points / 10
        };
        for _ in 0..3 {
            let has_ended = poll_times(pulse.simulation().judge(), rng.usize(1..=most)).await;
            dropped += usize::from(!has_ended);
        }
        let judged = pulse.simulation().judge().await.unwrap();
        assert!(judged <= 1);
        assert_same(fleet.now, &fleet.changes().await, expected);
        let until = fleet.instances[0].pulse.health().changes.judged_until;
        assert_eq!(until, Some(fleet.now));
    }
    assert!(dropped >= 8, "{dropped} were dropped");
}

// Both stores give the same verdicts.
in_both!(
    a_killed_folder_changes_no_verdict(Backend::memory(), Backend::memory()),
    a_judgement_that_is_dropped_changes_no_verdict(
        (Backend::memory(), 10),
        (Backend::memory(), 150)
    )
);
