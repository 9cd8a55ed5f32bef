//! The times of a flusher's flushes and heartbeats, and its waits after an error.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;

use super::{Behaviour, Flushing, MS, NOW, SECOND, gaps};
use crate::clock::{Clock, ManualClock};
use crate::error::StoreErrorKind;
use crate::flush::INSTANCES_PER_SECOND;
use crate::task::{Stop, lock};
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::ranking::RankingSpec;

/// The wait until the next flush of a flusher whose delay is half of the longest delay (`phase` is 0.5).
fn wait_at(millis: u64, interval: Option<Duration>, instances: u64) -> Duration {
    // A clock that was never set has the time 0.
    let waits = [0, NOW].map(|start| {
        let (clock, manual_clock) = Clock::manual(start);
        manual_clock.advance(Duration::from_millis(millis));
        let mut flushing = Flushing::with(None, clock, interval);
        let flusher = Arc::get_mut(&mut flushing.flusher).expect("it has no other owner");
        flusher.phase = 0.5;
        if flusher.is_interval_free {
            let seconds = instances.div_ceil(INSTANCES_PER_SECOND).max(1);
            flusher.interval = Mutex::new(Duration::from_secs(seconds));
        }
        flusher.until_next()
    });
    assert_eq!(waits[0], waits[1]);
    waits[0]
}

#[test]
fn an_instance_flushes_in_a_tenth_of_the_interval_and_a_large_fleet_in_all_of_it() {
    for (now, wait) in [(0, 50), (49, 1), (50, 1_000), (300, 750)] {
        assert_eq!(wait_at(now, None, 400), wait * MS, "at {now} ms");
    }
    for (now, wait) in [(0, 25), (25, 500), (300, 225)] {
        assert_eq!(wait_at(now, Some(500 * MS), 0), wait * MS, "at {now} ms");
    }
    assert_eq!(wait_at(0, Some(10 * SECOND), 0), 50 * MS);
    assert_eq!(wait_at(0, None, 4_000), 5 * SECOND);
    assert_eq!(wait_at(7_000, None, 4_000), 8 * SECOND);
    assert_eq!(wait_at(0, None, 401), SECOND);
}

#[tokio::test]
async fn the_interval_grows_with_the_fleet_unless_it_is_set() {
    for (interval, expected) in [(None, [1, 1, 2, 10]), (Some(3 * SECOND), [3; 4])] {
        let flushing = Flushing::with(None, Clock::system(), interval);
        for (instances, seconds) in [0, 400, 401, 10_000].into_iter().zip(expected) {
            flushing.store.instances.store(instances, Ordering::Relaxed);
            assert!(flushing.flusher.refresh_fleet().await.is_ok());
            let status = flushing.flusher.status();
            assert_eq!(status.interval, seconds * SECOND, "{instances} instances");
            assert_eq!(status.fleet.instances, instances);
        }
    }
}

/// Runs a flusher with an interval of 60 s for 102 s, and calls `each_second` before each second. Returns the seconds
/// in which calls were appended.
async fn flushes(flushing: &Flushing, clock: &ManualClock, each_second: impl Fn(u32)) -> Vec<u32> {
    let (stop, stopped) = Stop::new();
    let draining = Box::pin(flushing.recorder.clone().drain_each_second());
    let tasks = [
        tokio::spawn(stopped.clone().run(draining)),
        tokio::spawn(flushing.flusher.clone().flush_at_intervals(stopped)),
    ];
    tokio::task::yield_now().await;
    let (mut flushed, mut appended) = (Vec::new(), 0);
    for second in 1..=102 {
        each_second(second);
        clock.advance(SECOND);
        // Until the drain and the flusher wait for the clock again.
        for _ in 0..256 {
            tokio::task::yield_now().await;
        }
        let before = std::mem::replace(&mut appended, lock(&flushing.store.appended).len());
        flushed.extend((appended > before).then_some(second));
    }
    stop.stop();
    for task in tasks {
        task.await.expect("the task ends");
    }
    flushed
}

#[tokio::test]
async fn contexts_that_are_all_busy_do_not_shorten_the_interval() {
    let (flushing, manual_clock) = Flushing::at_interval(Some(60 * SECOND));
    let handle = |n: u32| flushing.recorder.context(Kind::Http, &format!("GET /{n}"));
    let handles: Vec<_> = (0..2_000).map(handle).collect();
    let flushed = flushes(&flushing, &manual_clock, |_| {
        let handles = handles.iter();
        handles.for_each(|handle| handle.record_measured(MS, Outcome::Success));
    });
    // `NOW` is 20 s into a minute, so the minutes end after 40 and 100 s. The flusher flushes up to a tenth of a second
    // later.
    assert_eq!(flushed.await, [41, 101]);
    assert_eq!(flushing.flusher.status().last_interval, 60 * SECOND);
}

#[tokio::test]
async fn the_status_shows_the_time_between_early_flushes_for_a_ranking() {
    let (flushing, manual_clock) = Flushing::at_interval(Some(60 * SECOND));
    let spec = RankingSpec {
        interval: 3_600,
        slices: 1,
        max_ids: 2_000,
    };
    let ranking = flushing.recorder.ranking("searches", spec);
    let ranking = ranking.expect("the ranking is new");
    let flushed = flushes(&flushing, &manual_clock, |second| {
        // For 20 s, the ranking gets so many ids that flushes come early.
        let ids = if second <= 20 { 250 } else { 1 };
        (0..ids).for_each(|id| ranking.add(&format!("{second} {id}"), 1));
        let shown = flushing.flusher.status().last_interval;
        let is_early = (5..=41).contains(&second);
        let expected = if is_early { 4 } else { 60 };
        assert_eq!(shown, expected * SECOND, "in second {second}");
    });
    assert_eq!(flushed.await, [4, 8, 12, 16, 20, 41, 101]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_flush_is_tried_again_after_up_to_a_second() {
    let flushing = Flushing::new();
    flushing.set(Behaviour::Failing(StoreErrorKind::Unreachable));
    flushing.record(1);
    let _stop = flushing.start();
    sleep(100 * SECOND).await;
    let gaps = gaps(&flushing.store.appended);
    for (number, gap) in gaps.iter().enumerate() {
        let longest = (50 * MS * 2u32.pow(number.min(8) as u32)).min(SECOND);
        // Timers have a resolution of a millisecond.
        assert!(*gap <= longest + MS, "{gap:?} is the gap {number}");
    }
    // The gaps are half a second on average.
    assert!((120..400).contains(&gaps.len()), "{}", gaps.len());
    let errors = flushing.counters().flush_errors;
    assert_eq!(errors as usize, gaps.len() + 1);
    flushing.set(Behaviour::Fine);
    sleep(2 * SECOND).await;
    assert_eq!(flushing.flusher.status().series, 0);
    assert_eq!(flushing.counters().last_error, None);
}

#[tokio::test(start_paused = true)]
async fn a_denied_flusher_tries_again_every_two_seconds() {
    let flushing = Flushing::new();
    flushing.set(Behaviour::Failing(StoreErrorKind::Forbidden));
    flushing.record(1);
    let _stop = flushing.start();
    // The first attempt comes after at most 1.001 s, and three more follow.
    sleep(7 * SECOND + 500 * MS).await;
    assert_eq!(gaps(&flushing.store.appended), [2 * SECOND; 3]);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_say_that_the_store_answers_unless_flushes_fail() {
    let start = |flushing: &Flushing| {
        let (stop, stopped) = Stop::new();
        tokio::spawn((flushing.flusher.clone()).heartbeat_at_intervals(stopped.admission()));
        stop
    };
    let flushing = Flushing::new();
    let _stop = start(&flushing);
    assert_eq!(flushing.flusher.status().contact_age, None);
    sleep(10 * SECOND - MS).await;
    assert!(flushing.flusher.status().contact_age.is_some());
    assert_eq!(gaps(&flushing.store.heartbeats), [SECOND; 9]);
    let instance = flushing.flusher.status().instance;
    assert_eq!(lock(&flushing.store.heartbeats)[0].1.instance, instance);

    flushing.set(Behaviour::Failing(StoreErrorKind::Forbidden));
    sleep(7 * SECOND).await;
    let later = gaps(&flushing.store.heartbeats).split_off(9);
    assert_eq!(later, [1, 2, 2, 2].map(|seconds| seconds * SECOND));

    let failing = Flushing::new();
    failing.set(Behaviour::Failing(StoreErrorKind::Unreachable));
    failing.fail_to_flush(1).await;
    failing.set(Behaviour::Fine);
    let _stop = start(&failing);
    sleep(10 * SECOND).await;
    assert_eq!(failing.flusher.status().contact_age, None);
}
