//! The next instance that judges continues exactly where the previous instance stopped, also after a crash.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use fastrand::Rng;
use tower_pulse::{Change, ChangeKind};

use crate::changes::fleet::{Backend, Fleet, MINUTE, START};
use crate::changes::traffic::{Request, SEARCH, Traffic, fail, slow_down};
use crate::rig::json::is_same;
use crate::rig::seed::seed;

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
        fail(&mut requests, "GET /cart");
    }
    requests
}

/// Passes the same minutes in a fleet on `backend` and in its twin in memory. `judge` judges each minute of the fleet,
/// and may disturb the fleet. Checks after each minute that the fleet and its twin answer with the same changes and
/// `watched` pages.
async fn check_verdicts(
    backend: Backend,
    instances: usize,
    seed: u64,
    mut judge: impl AsyncFnMut(&mut Fleet, i64),
) {
    let mut fleet = Fleet::new(backend, instances);
    let mut twin = Fleet::new(Backend::memory(), instances);
    let mut traffic = Traffic::new(seed, instances);
    let mut is_watched = false;
    while twin.now < END {
        let requests = minute(&mut traffic, twin.now);
        twin.pass_and_judge(&requests).await;
        fleet.pass(&requests).await;
        let number = (fleet.now - START) / MINUTE;
        judge(&mut fleet, number).await;
        let expected = twin.instances[0].json("api/changes").await;
        for instance in &fleet.instances {
            let actual = instance.json("api/changes").await;
            assert!(
                is_same(&actual, &expected),
                "at the end of minute {number}:\n{actual:#}\ninstead of\n{expected:#}"
            );
        }
        is_watched |= expected["watched"][0]["context"] == SEARCH;
    }
    assert!(is_watched);
    let last = twin.changes().await;
    for kind in [ChangeKind::Slower, ChangeKind::Failing] {
        let ended = |change: &&Change| change.kind == kind && change.ended.is_some();
        assert_eq!(last.iter().filter(ended).count(), 1, "{last:#?}");
    }
}

#[tokio::test]
async fn a_killed_folder_and_a_restart_of_all_change_no_verdict() {
    let mut judge = 0;
    check_verdicts(Backend::redis().await, 2, seed(), async |fleet, minute| {
        assert_eq!(fleet.judge_by(judge).await, 1);
        match minute {
            // At these minutes, 0, 1, 2 and 0 changes are ongoing.
            30 | 51 | 55 | 63 => {
                fleet.restart(judge).await;
                judge = 1 - judge;
            }
            20 | 50 | 62 => {
                fleet.restart(0).await;
                fleet.restart(1).await;
            }
            _ => {}
        }
    })
    .await;
}

/// Polls a future up to `times` times, and drops it. Returns whether the future has ended.
async fn poll_up_to<T>(future: impl Future<Output = T>, times: usize) -> bool {
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

async fn a_judgement_that_is_dropped_changes_no_verdict(backend: Backend) {
    let seed = seed();
    let (mut rng, mut dropped) = (Rng::with_seed(seed), 0);
    let is_in_memory = matches!(backend, Backend::Memory(..));
    let few = if is_in_memory { 1 } else { 15 };
    check_verdicts(backend, 1, seed, async |fleet, minute| {
        let pulse = &fleet.instances[0].pulse;
        // A judgement needs a poll for the detector's thread, and one for each answer of Redis. After a dropped
        // judgement, the next one also reads all past minutes, so it needs more polls.
        let most = if minute % 4 == 0 { 20 * few } else { few };
        for _ in 0..3 {
            let has_ended = poll_up_to(pulse.simulation().judge(), rng.usize(1..=most)).await;
            dropped += usize::from(!has_ended);
        }
        assert!(fleet.judge().await <= 1);
        let until = fleet.instances[0].pulse.health().changes.judged_until;
        assert_eq!(until, Some(fleet.now));
    })
    .await;
    assert!(dropped >= 8, "{dropped} were dropped");
}

in_both!(a_judgement_that_is_dropped_changes_no_verdict);
