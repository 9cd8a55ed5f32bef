//! When calls are sent, and what a shutdown gives up, with a scripted store in paused time. What a failover or a
//! reset loses is tested on a real server, by tests/journal.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::{FlushOptions, Flusher};
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::model::context::Kind;
use crate::model::outcome::Outcome;
use crate::model::slice::Precisions;
use crate::recorder::{Limits, Recorder};
use crate::store::{
    Append, Appended, AppendedCall, CleanReport, FencedBatch, Fleet, Generation, Heartbeat,
    NoQueries, Pass, PassRecord, Position, Readable, Receipt, Sealed, Store, StoreStatus, Upkeep,
};
use crate::task::{BoxFuture, Stop, lock};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// A multiple of ten seconds.
const NOW: i64 = 1_700_000_000;

/// What the store answers.
#[derive(Clone, Copy, Debug, Default)]
enum Behaviour {
    #[default]
    Fine,
    Failing(StoreErrorKind),
    Hanging,
}

/// A store that has no data, and acknowledges every call unless told otherwise.
struct Scripted {
    precisions: Precisions,
    generation: Mutex<Generation>,
    behaviour: Mutex<Behaviour>,
    /// The answers to the next calls; later ones are acknowledged.
    answers: Mutex<VecDeque<Appended>>,
    appended: Mutex<Vec<(Instant, FencedBatch)>>,
    heartbeats: Mutex<Vec<(Instant, Heartbeat)>>,
    instances: AtomicU64,
    is_unattended: bool,
}

impl Default for Scripted {
    fn default() -> Self {
        Self {
            precisions: Precisions::default(),
            generation: Mutex::new(generation("first", 0, true)),
            behaviour: Mutex::default(),
            answers: Mutex::default(),
            appended: Mutex::default(),
            heartbeats: Mutex::default(),
            instances: AtomicU64::new(0),
            is_unattended: false,
        }
    }
}

fn generation(id: &str, age: u64, is_fresh: bool) -> Generation {
    Generation {
        id: id.to_owned(),
        age,
        is_fresh,
    }
}

impl Scripted {
    fn set(&self, behaviour: Behaviour) {
        *lock(&self.behaviour) = behaviour;
    }

    fn answer<'a, T: Send + 'a>(&self, value: T) -> BoxFuture<'a, Result<T, StoreError>> {
        match *lock(&self.behaviour) {
            Behaviour::Fine => Box::pin(std::future::ready(Ok(value))),
            Behaviour::Failing(kind) => {
                let error = StoreError::new(kind, "the store fails");
                Box::pin(std::future::ready(Err(error)))
            }
            Behaviour::Hanging => Box::pin(pending()),
        }
    }

    /// The instance, number and size of each call.
    fn calls(&self) -> Vec<(String, u64, u64)> {
        let appended = lock(&self.appended);
        let calls = appended.iter().map(|(_, call)| call);
        calls
            .map(|call| (call.instance.clone(), call.seq, call.batch.requests()))
            .collect()
    }

    /// The times between calls.
    fn gaps(&self) -> Vec<Duration> {
        let appended = lock(&self.appended);
        let pairs = appended.windows(2);
        pairs.map(|pair| pair[1].0 - pair[0].0).collect()
    }
}

impl Sealed for Scripted {}

impl Append for Scripted {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        let generation = lock(&self.generation).clone();
        Box::pin(std::future::ready(Ok(generation)))
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        lock(&self.appended).push((Instant::now(), call.clone()));
        let done = Appended::Done(Receipt {
            is_attended: !self.is_unattended,
            ..Receipt::default()
        });
        let answer = lock(&self.answers).pop_front();
        self.answer(answer.unwrap_or(done))
    }

    fn readable<'a>(&'a self, _: &'a AppendedCall) -> BoxFuture<'a, Result<Readable, StoreError>> {
        unreachable!("a flusher only appends")
    }
}

impl Upkeep for Scripted {
    fn status(&self, now: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        self.answer(StoreStatus {
            as_of: now,
            instances: self.instances.load(Ordering::Relaxed),
            ..StoreStatus::default()
        })
    }

    fn heartbeat<'a>(
        &'a self,
        heartbeat: &'a Heartbeat,
    ) -> BoxFuture<'a, Result<Fleet, StoreError>> {
        lock(&self.heartbeats).push((Instant::now(), heartbeat.clone()));
        self.answer(Fleet::default())
    }

    fn deregister<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.answer(())
    }

    fn clean<'a>(&'a self, _: &'a Pass) -> BoxFuture<'a, Result<Option<CleanReport>, StoreError>> {
        unreachable!("a flusher only appends")
    }

    fn last_pass(&self) -> BoxFuture<'_, Result<Option<PassRecord>, StoreError>> {
        unreachable!("a flusher only appends")
    }
}

impl NoQueries for Scripted {}

impl Store for Scripted {
    fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    #[cfg(feature = "row-cache")]
    fn rows(&self) -> &dyn crate::store::rows::Rows {
        unreachable!("this store has no rows")
    }

    fn describe(&self) -> String {
        "a scripted store".to_owned()
    }
}

fn at(offset: u64) -> Position {
    Position { offset, chain: 0 }
}

struct Flushing {
    store: Arc<Scripted>,
    recorder: Arc<Recorder>,
    flusher: Arc<Flusher>,
    unattended: Arc<Notify>,
}

impl Flushing {
    fn of(store: Scripted, clock: Clock, interval: Option<Duration>) -> Self {
        Self::named(None, store, clock, interval)
    }

    fn named(
        name: Option<&str>,
        store: Scripted,
        clock: Clock,
        interval: Option<Duration>,
    ) -> Self {
        let limits = Limits {
            max_contexts: 1_000,
            max_counters: 1,
            pending_bytes: usize::MAX,
            error_rule: Default::default(),
            details: Default::default(),
            app_version: None,
        };
        let (store, unattended) = (Arc::new(store), Arc::new(Notify::new()));
        let recorder = Arc::new(Recorder::new(clock, Precisions::default(), limits));
        let options = FlushOptions {
            interval,
            replay_bytes: 1 << 20,
            name: name.map(str::to_owned),
        };
        let flusher = Flusher::new(
            recorder.clone(),
            store.clone(),
            &options,
            unattended.clone(),
        );
        Self {
            store,
            recorder,
            flusher: Arc::new(flusher),
            unattended,
        }
    }

    fn new() -> Self {
        Self::of(Scripted::default(), Clock::system(), None)
    }

    fn record(&self, requests: usize) {
        let entry = self.recorder.entry(Kind::Http, "GET /");
        (0..requests).for_each(|_| entry.record_measured(MS, Outcome::Success, false));
    }

    /// Flushes so many requests.
    async fn flush(&self, requests: usize) {
        self.record(requests);
        self.flusher.flush().await.expect("the store answers");
    }

    fn lost(&self) -> u64 {
        self.recorder.drain.counters(|counters| counters.lost)
    }

    fn resets(&self) -> u64 {
        let drain = &self.recorder.drain;
        drain.counters(|counters| counters.store_resets)
    }

    /// Whether the folder is told that entries wait.
    async fn is_unattended(&self) -> bool {
        timeout(Duration::ZERO, self.unattended.notified())
            .await
            .is_ok()
    }
}

/// The wait until the next flush, of a flusher half-way in the turn of its fleet.
fn wait_at(millis: u64, interval: Option<Duration>, instances: u64) -> Duration {
    // A clock that was never set stands at 0.
    let waits = [0, NOW].map(|start| {
        let (clock, manual_clock) = Clock::manual(start);
        manual_clock.advance(Duration::from_millis(millis));
        let mut flushing = Flushing::of(Scripted::default(), clock, interval);
        let flusher = Arc::get_mut(&mut flushing.flusher).expect("nobody else has it");
        flusher.phase = 0.5;
        if flusher.is_interval_free {
            let seconds = instances.div_ceil(super::INSTANCES_PER_SECOND).max(1);
            flusher.interval = AtomicU64::new(1_000 * seconds);
        }
        flusher.until_next()
    });
    assert_eq!(waits[0], waits[1]);
    waits[0]
}

#[test]
fn instances_flush_within_a_tenth_of_the_interval_after_its_turn() {
    for (now, wait) in [(0, 50), (49, 1), (50, 1_000), (300, 750)] {
        assert_eq!(wait_at(now, None, 400), wait * MS, "at {now} ms");
    }
    for (now, wait) in [(0, 25), (25, 500), (300, 225)] {
        assert_eq!(wait_at(now, Some(500 * MS), 0), wait * MS, "at {now} ms");
    }
    assert_eq!(wait_at(0, Some(10 * SECOND), 0), 50 * MS);
}

#[test]
fn a_large_fleet_flushes_all_over_its_interval() {
    assert_eq!(wait_at(0, None, 4_000), 5 * SECOND);
    assert_eq!(wait_at(7_000, None, 4_000), 8 * SECOND);
    assert_eq!(wait_at(0, None, 401), SECOND);
}

#[tokio::test]
async fn the_interval_grows_with_the_fleet_unless_it_is_set() {
    for (interval, expected) in [(None, [1, 1, 2, 10]), (Some(3 * SECOND), [3; 4])] {
        let flushing = Flushing::of(Scripted::default(), Clock::system(), interval);
        for (instances, seconds) in [0, 400, 401, 10_000].into_iter().zip(expected) {
            flushing.store.instances.store(instances, Ordering::Relaxed);
            flushing
                .flusher
                .refresh_fleet()
                .await
                .expect("the store answers");
            let status = flushing.flusher.status();
            assert_eq!(status.interval, seconds * SECOND, "{instances} instances");
            assert_eq!(status.fleet.instances, instances);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_flush_is_tried_again_after_up_to_a_second() {
    let flushing = Flushing::new();
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Unreachable));
    flushing.record(1);
    let (_stop, stopped) = Stop::new();
    tokio::spawn(flushing.flusher.clone().flush_at_intervals(stopped));
    sleep(100 * SECOND).await;
    let gaps = flushing.store.gaps();
    for (number, gap) in gaps.iter().enumerate() {
        let longest = (50 * MS * 2u32.pow(number.min(8) as u32)).min(SECOND);
        // Timers have a resolution of a millisecond.
        assert!(*gap <= longest + MS, "{gap:?} is the gap {number}");
    }
    // Half a second on average.
    assert!((120..400).contains(&gaps.len()), "{}", gaps.len());
    let errors = flushing
        .recorder
        .drain
        .counters(|counters| counters.flush_errors);
    assert_eq!(errors as usize, gaps.len() + 1);
    flushing.store.set(Behaviour::Fine);
    sleep(2 * SECOND).await;
    assert_eq!(flushing.flusher.status().series, 0);
    let last_error = |flushing: &Flushing| {
        let drain = &flushing.recorder.drain;
        drain.counters(|counters| counters.last_error.clone())
    };
    assert_eq!(last_error(&flushing), None);
}

#[tokio::test(start_paused = true)]
async fn a_denied_flusher_tries_again_every_30_seconds() {
    let flushing = Flushing::new();
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Forbidden));
    flushing.record(1);
    let (_stop, stopped) = Stop::new();
    tokio::spawn(flushing.flusher.clone().flush_at_intervals(stopped));
    sleep(100 * SECOND).await;
    assert_eq!(flushing.store.gaps(), [30 * SECOND; 3]);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_say_that_the_store_answers_unless_flushes_fail() {
    let flushing = Flushing::new();
    let (_stop, stopped) = Stop::new();
    tokio::spawn(flushing.flusher.clone().heartbeat_at_intervals(stopped));
    assert_eq!(flushing.flusher.status().contact_age, None);
    sleep(10 * SECOND - MS).await;
    assert!(flushing.flusher.status().contact_age.is_some());
    let gaps = |flushing: &Flushing| -> Vec<Duration> {
        let heartbeats = lock(&flushing.store.heartbeats);
        let pairs = heartbeats.windows(2);
        pairs.map(|pair| pair[1].0 - pair[0].0).collect()
    };
    assert_eq!(gaps(&flushing), [SECOND; 9]);
    let instance = flushing.flusher.status().instance;
    assert_eq!(lock(&flushing.store.heartbeats)[0].1.instance, instance);

    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Forbidden));
    sleep(91 * SECOND).await;
    assert_eq!(
        gaps(&flushing)[9..],
        [SECOND, 30 * SECOND, 30 * SECOND, 30 * SECOND]
    );

    let failing = Flushing::new();
    failing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Unreachable));
    failing.record(1);
    assert!(failing.flusher.flush().await.is_err());
    failing.store.set(Behaviour::Fine);
    let (_stop, stopped) = Stop::new();
    tokio::spawn(failing.flusher.clone().heartbeat_at_intervals(stopped));
    sleep(10 * SECOND).await;
    assert_eq!(failing.flusher.status().contact_age, None);
}

#[tokio::test]
async fn flushing_shows_what_is_taken_and_not_acknowledged() {
    let flushing = Flushing::new();
    flushing.store.set(Behaviour::Hanging);
    flushing.record(3);
    assert!(timeout(MS, flushing.flusher.flush()).await.is_err());
    // The context and `<all>`.
    let status = flushing.flusher.status();
    assert_eq!(status.series, 2);
    assert!(status.in_doubt_age.is_some() && status.flushed_age.is_none());
    assert_eq!(lock(&flushing.flusher.state).requests, 3);
    flushing.store.set(Behaviour::Fine);
    let flushed = flushing.flusher.flush().await.expect("the store answers");
    assert_eq!(
        flushed.map(|flushed| (flushed.call.seq, flushed.call.instance)),
        Some((1, status.instance))
    );
    let status = flushing.flusher.status();
    assert_eq!((status.series, status.in_doubt_age), (0, None));
    assert!(status.flushed_age.is_some() && status.contact_age.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_counts_what_it_could_not_flush_as_lost() {
    let flushing = Flushing::new();
    flushing.record(1);
    flushing.flusher.flush().await.expect("the store answers");
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Unreachable));
    flushing.record(3);
    assert!(flushing.flusher.flush().await.is_err());
    flushing.record(2);
    let calls = flushing.store.calls().len();
    let lost = flushing.flusher.finish(10 * SECOND).await;
    let lost = lost.map_err(|lost| (lost.requests, lost.error.kind()));
    assert_eq!(lost, Err((5, StoreErrorKind::Unreachable)));
    assert_eq!(flushing.lost(), 5);
    let tries = flushing.store.calls().len() - calls;
    assert!((10..100).contains(&tries), "{tries}");
    // Nothing is left to lose.
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    assert_eq!(flushing.lost(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_nobody_polls_is_lost_until_it_is_sent_after_all() {
    let flushing = Flushing::new();
    flushing.store.set(Behaviour::Hanging);
    flushing.record(3);
    let mut held = Box::pin(flushing.flusher.flush());
    assert!(timeout(MS, &mut held).await.is_err());
    flushing.record(2);
    let lost = flushing.flusher.finish(SECOND).await;
    let lost = lost.map_err(|lost| (lost.requests, lost.error.kind()));
    assert_eq!(lost, Err((5, StoreErrorKind::TimedOut)));
    assert_eq!(flushing.lost(), 5);
    drop(held);
    flushing.store.set(Behaviour::Fine);
    flushing.flusher.flush().await.expect("the store answers");
    assert_eq!(flushing.lost(), 2);
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    assert_eq!(flushing.lost(), 2);
}

#[tokio::test]
async fn a_call_that_was_never_sent_cannot_be_a_duplicate() {
    let flushing = Flushing::new();
    let answers = [Appended::Duplicate(Receipt::default())];
    *lock(&flushing.store.answers) = answers.into();
    flushing.record(3);
    let name = flushing.flusher.status().instance;
    flushing.flusher.flush().await.expect("the store answers");
    let renamed = flushing.flusher.status().instance;
    assert_ne!(renamed, name);
    assert_eq!(flushing.store.calls(), [(name, 1, 3), (renamed, 1, 3)]);
    assert_eq!((flushing.resets(), flushing.lost()), (1, 0));
}

#[tokio::test]
async fn a_named_instance_has_an_id_of_its_own_in_the_journal() {
    let flushings = [(); 2].map(|()| {
        let store = Scripted::default();
        *lock(&store.answers) = [Appended::Duplicate(Receipt::default())].into();
        Flushing::named(Some("web-1"), store, Clock::system(), None)
    });
    let mut ids = Vec::new();
    for flushing in &flushings {
        flushing.flush(3).await;
        let status = flushing.flusher.status();
        assert_eq!(status.instance, "web-1");
        let calls = flushing.store.calls();
        let id = &calls[1].0;
        assert_eq!(status.unique_name, format!("web-1:{id}"));
        ids.extend(calls.into_iter().map(|(id, ..)| id));
    }
    // Each had to go on under another id.
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| id.len() == 32));
}

#[tokio::test]
async fn behind_a_garbled_fence_only_a_call_that_was_never_sent_is_sent_again() {
    let flushing = Flushing::new();
    *lock(&flushing.store.answers) = [Appended::Garbled].into();
    flushing.record(3);
    flushing.flusher.flush().await.expect("the store answers");
    assert_eq!((flushing.resets(), flushing.lost()), (1, 0));
    assert_eq!(flushing.store.calls().len(), 2);
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::TimedOut));
    flushing.record(2);
    assert!(flushing.flusher.flush().await.is_err());
    flushing.store.set(Behaviour::Fine);
    *lock(&flushing.store.answers) = [Appended::Garbled].into();
    flushing.flusher.flush().await.expect("the store answers");
    assert_eq!((flushing.resets(), flushing.lost()), (2, 2));
    let status = flushing.flusher.status();
    assert_eq!((status.series, status.in_doubt_age), (0, None));
}

#[tokio::test]
async fn a_store_that_asks_for_the_same_call_again_and_again_is_a_failure() {
    let flushing = Flushing::new();
    flushing.record(1);
    *lock(&flushing.store.answers) = [Appended::Gap { fence: 0 }; 3].into();
    flushing.flusher.flush().await.expect("three times may be");
    assert_eq!(flushing.store.calls().len(), 4);
    flushing.record(1);
    *lock(&flushing.store.answers) = [Appended::Gap { fence: 1 }; 9].into();
    let error = flushing.flusher.flush().await.expect_err("it never ends");
    assert_eq!(error.kind(), StoreErrorKind::Unexpected);
    assert_eq!(flushing.store.calls().len(), 8);
}

#[tokio::test]
async fn a_store_that_loses_the_same_call_again_and_again_is_a_failure() {
    let flushing = Flushing::new();
    flushing.flush(1).await;
    let done = Appended::Done(Receipt::default());
    let answers = [Appended::Gap { fence: 0 }, done].repeat(9);
    *lock(&flushing.store.answers) = answers.into();
    flushing.record(1);
    let error = flushing.flusher.flush().await.expect_err("it never ends");
    assert_eq!(error.kind(), StoreErrorKind::Unexpected);
    // Three rounds, one for the call that is replayed, and the one that is too many.
    assert_eq!(flushing.store.calls().len(), 1 + 2 * 5);
}

#[tokio::test]
async fn calls_are_numbered_and_name_the_one_before() {
    let flushing = Flushing::new();
    for requests in 1..=3 {
        flushing.flush(requests).await;
    }
    let appended = lock(&flushing.store.appended);
    let numbers = appended.iter().map(|(_, call)| (call.seq, call.previous));
    assert!(numbers.eq([(1, 0), (2, 1), (3, 2)]));
}

#[tokio::test]
async fn calls_that_the_store_lacks_are_replayed_and_counted() {
    let flushing = Flushing::new();
    flushing.flush(1).await;
    flushing.flush(2).await;
    assert_eq!(flushing.flusher.replays(), 0);
    let done = Appended::Done(Receipt::default());
    let answers = [Appended::Gap { fence: 0 }, done, Appended::Gap { fence: 1 }];
    *lock(&flushing.store.answers) = answers.into();
    flushing.flush(3).await;
    let calls = flushing.store.calls();
    let calls: Vec<_> = calls
        .iter()
        .map(|(_, seq, requests)| (*seq, *requests))
        .collect();
    let expected = [(1, 1), (2, 2), (3, 3), (1, 1), (3, 3), (2, 2), (3, 3)];
    assert_eq!(calls, expected);
    let replayed = flushing
        .recorder
        .drain
        .counters(|counters| counters.replayed);
    assert_eq!((flushing.flusher.replays(), replayed), (2, 2));
}

#[tokio::test]
async fn requests_that_come_during_a_flush_wait_for_the_next_one() {
    let flushing = Flushing::new();
    flushing.record(1);
    let mut flush = Box::pin(flushing.flusher.flush());
    // It lets other tasks run after each call.
    assert!((&mut flush).now_or_never().is_none());
    flushing.record(2);
    flushing.recorder.drain();
    flush.await.expect("the store answers");
    assert_eq!(flushing.store.calls().len(), 1);
    assert_eq!(flushing.recorder.drain.drain_stats().pending, 2);
}

#[tokio::test]
async fn a_flush_of_nothing_asks_for_the_newest_call() {
    let flushing = Flushing::new();
    flushing.flusher.flush().await.expect("nothing is asked");
    flushing.flush(1).await;
    let last_error = || {
        let drain = &flushing.recorder.drain;
        drain.counters(|counters| counters.last_error.clone())
    };
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Unreachable));
    assert!(flushing.flusher.flush().await.is_err());
    assert!(last_error().is_some());
    flushing.store.set(Behaviour::Fine);
    flushing.flusher.flush().await.expect("the store answers");
    assert_eq!(last_error(), None);
    let calls = flushing.store.calls();
    let calls: Vec<_> = calls
        .iter()
        .map(|(_, seq, requests)| (*seq, *requests))
        .collect();
    assert_eq!(calls, [(1, 1), (1, 0), (1, 0)]);
}

#[tokio::test]
async fn a_call_has_16_contexts_and_the_last_ones_64() {
    let flushing = Flushing::new();
    let record = || {
        for number in 0..200 {
            let entry = flushing
                .recorder
                .entry(Kind::Timer, &format!("job {number}"));
            entry.record_measured(MS, Outcome::Success, false);
        }
    };
    let contexts = || -> Vec<_> {
        let mut appended = lock(&flushing.store.appended);
        appended
            .drain(..)
            .map(|(_, call)| call.batch.contexts.len())
            .collect()
    };
    record();
    flushing.flusher.flush().await.expect("the store answers");
    let first = contexts()[0];
    assert!((16..=24).contains(&first), "{first}");
    record();
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    let last = contexts()[0];
    assert!((64..=80).contains(&last), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_flush_sends_what_a_dropped_shutdown_had_taken() {
    let flushing = Flushing::new();
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Unreachable));
    flushing.record(1);
    let shutdown = flushing.flusher.finish(SECOND);
    assert!(timeout(MS, shutdown).await.is_err());
    let error = flushing.flusher.flush().await.map(|_| ());
    let kind = error.map_err(|error| error.kind());
    assert_eq!(kind, Err(StoreErrorKind::Unreachable));
    flushing.store.set(Behaviour::Fine);
    let flushed = flushing.flusher.flush().await.expect("the store answers");
    assert_eq!(flushed.map(|flushed| flushed.call.seq), Some(1));
    // The shutdown may have tried it twice before it was dropped.
    let calls = flushing.store.calls().len();
    assert!((3..=4).contains(&calls), "{calls} calls");
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    assert_eq!(flushing.lost(), 0);
}

#[tokio::test]
async fn a_shutdown_that_was_begun_flushes_what_is_pending_itself() {
    let flushing = Flushing::new();
    flushing.record(1);
    let sending = flushing.flusher.sending.lock().await;
    assert!(flushing.flusher.finish(SECOND).now_or_never().is_none());
    drop(sending);
    assert!(flushing.flusher.flush().await.is_err());
    assert_eq!(flushing.store.calls(), []);
}

#[tokio::test]
async fn a_call_without_an_answer_is_sent_again_and_may_be_a_duplicate() {
    let flushing = Flushing::new();
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::TimedOut));
    flushing.record(1);
    assert!(flushing.flusher.flush().await.is_err());
    flushing.store.set(Behaviour::Fine);
    *lock(&flushing.store.answers) = [Appended::Duplicate(Receipt::default())].into();
    flushing.flusher.flush().await.expect("the store answers");
    let calls = flushing.store.calls();
    assert!(calls.len() == 2 && calls[0] == calls[1], "{calls:?}");
    assert_eq!(
        (flushing.resets(), flushing.flusher.status().series),
        (0, 0)
    );
}

#[tokio::test]
async fn a_store_that_loses_the_newest_call_again_and_again_is_not_asked_forever() {
    let flushing = Flushing::new();
    flushing.flush(1).await;
    flushing.flush(1).await;
    let done = Appended::Done(Receipt::default());
    let answers = [Appended::Gap { fence: 1 }, done].repeat(20);
    *lock(&flushing.store.answers) = answers.into();
    flushing.flusher.flush().await.expect("the store answers");
    // Each question is followed by a replay.
    assert_eq!(flushing.store.calls().len(), 2 + 2 * 6);
}

#[tokio::test]
async fn entries_that_no_instance_folds_are_reported_to_the_folder() {
    let attended = Flushing::new();
    attended.record(1);
    attended.flusher.flush().await.expect("the store answers");
    assert!(!attended.is_unattended().await);
    *lock(&attended.store.answers) = [Appended::Full].into();
    attended.record(1);
    let error = attended.flusher.flush().await.expect_err("it is full");
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(attended.is_unattended().await);

    let store = Scripted {
        is_unattended: true,
        ..Scripted::default()
    };
    let unattended = Flushing::of(store, Clock::system(), None);
    unattended.record(1);
    unattended.flusher.flush().await.expect("the store answers");
    assert!(unattended.is_unattended().await);
}

#[tokio::test]
async fn a_flush_of_nothing_reports_an_entry_that_no_instance_folds() {
    let receipt = |folded, is_attended| Receipt {
        position: at(100),
        folded: at(folded),
        is_attended,
    };
    let flushing = Flushing::new();
    *lock(&flushing.store.answers) = [Appended::Done(receipt(0, true))].into();
    flushing.flush(1).await;
    for (folded, is_attended, is_reported) in [
        (99, true, false),
        (99, false, true),
        (100, false, false),
        (101, false, false),
    ] {
        let answer = Appended::Duplicate(receipt(folded, is_attended));
        *lock(&flushing.store.answers) = [answer].into();
        flushing.flusher.flush().await.expect("the store answers");
        assert_eq!(flushing.is_unattended().await, is_reported, "{folded}");
    }
}

#[tokio::test]
async fn a_replayed_call_is_waited_for_at_its_new_position() {
    let done = |offset| {
        Appended::Done(Receipt {
            position: at(offset),
            is_attended: true,
            ..Receipt::default()
        })
    };
    let flushing = Flushing::new();
    *lock(&flushing.store.answers) = [done(100), done(200)].into();
    flushing.flush(1).await;
    flushing.flush(1).await;
    let gap = |fence| Appended::Gap { fence };
    *lock(&flushing.store.answers) = [gap(0), done(300), gap(1), done(400)].into();
    let flushed = flushing.flusher.flush().await.expect("the store answers");
    let newest = flushed.map(|flushed| (flushed.call.seq, flushed.call.position));
    assert_eq!(newest, Some((2, at(400))));
    *lock(&flushing.store.answers) = [gap(0), Appended::Full].into();
    let error = flushing.flusher.flush().await.expect_err("it is full");
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(flushing.is_unattended().await);
}

/// Whether an instance has another name, and how many of two requests it counts as lost, when the store's
/// generation of this age answers for ten seconds more and is followed by another.
async fn after_reset(age: u64, next: Generation) -> (bool, u64) {
    let (clock, manual_clock) = Clock::manual(NOW);
    let flushing = Flushing::of(Scripted::default(), clock, None);
    *lock(&flushing.store.generation) = generation("first", age, true);
    flushing.flush(1).await;
    manual_clock.advance(10 * SECOND);
    flushing.flush(1).await;
    let name = flushing.flusher.status().instance;
    // How old it became without an answer does not matter.
    manual_clock.advance(100 * SECOND);
    *lock(&flushing.store.generation) = next;
    *lock(&flushing.store.answers) = [Appended::Reset].into();
    flushing.flush(2).await;
    assert_eq!(flushing.resets(), 1);
    let is_renamed = flushing.flusher.status().instance != name;
    let last = flushing.store.calls().pop();
    let is_sent_again = last.is_some_and(|(_, _, requests)| requests == 2);
    let is_taken_again = lock(&flushing.store.appended).len() == 4;
    assert_eq!(is_taken_again, flushing.lost() == 0);
    assert!(is_sent_again);
    if !is_taken_again {
        // Nor is the store asked for calls of the old name.
        flushing.flusher.flush().await.expect("nothing is asked");
        assert_eq!(lock(&flushing.store.appended).len(), 3);
    }
    (is_renamed, flushing.lost())
}

#[tokio::test]
async fn after_a_reset_a_call_is_sent_again_if_the_store_cannot_have_it() {
    // The generation began less than a minute ago, so a failover has lost it with the calls that it had.
    assert_eq!(
        after_reset(49, generation("next", 0, true)).await,
        (false, 0)
    );
    // The store was emptied.
    assert_eq!(
        after_reset(50, generation("next", 0, true)).await,
        (true, 0)
    );
    // Another instance was here first, or the store went back to what it was.
    assert_eq!(
        after_reset(49, generation("next", 0, false)).await,
        (true, 2)
    );
    assert_eq!(
        after_reset(49, generation("first", 0, true)).await,
        (true, 2)
    );
}

/// The warning is tested by tests/warnings.
#[tokio::test(start_paused = true)]
async fn a_flusher_without_a_pulse_flushes_once_more() {
    let flushing = Flushing::new();
    let (stop, stopped) = Stop::new();
    let task = tokio::spawn(flushing.flusher.clone().flush_at_intervals(stopped));
    tokio::task::yield_now().await;
    flushing.record(2);
    drop(stop);
    task.await.expect("it ends");
    let requests: u64 = flushing.store.calls().iter().map(|call| call.2).sum();
    assert_eq!(requests, 2);

    let stopping = Flushing::new();
    let (stop, stopped) = Stop::new();
    let task = tokio::spawn(stopping.flusher.clone().flush_at_intervals(stopped));
    tokio::task::yield_now().await;
    stopping.record(2);
    stop.stop();
    task.await.expect("it ends");
    assert_eq!(stopping.store.calls(), [], "the shutdown flushes");
}
