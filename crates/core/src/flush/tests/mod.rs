//! Tests of a flusher with a scripted store, in paused time. tests/journal tests failovers and resets of a real
//! server.

mod calls;
mod finish;
mod recover;
mod replay;
mod schedule;

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::{FlushOptions, Flushed, Flusher};
use crate::clock::{Clock, ManualClock};
use crate::error::{StoreError, StoreErrorKind};
use crate::recorder::{FlushCounters, Limits, Recorder};
use crate::store::StoreFuture;
use crate::store::locality::{IN_PROCESS, Locality};
use crate::store::{
    Append, Appended, AppendedCall, Cleaned, FencedBatch, Fleet, Generation, Heartbeat, Pass,
    Position, Readable, Receipt, Store, StoreStatus, Upkeep,
};
use crate::task::{Stop, lock};
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::Precisions;

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

/// A multiple of ten seconds.
const NOW: i64 = 1_700_000_000;

/// How the store answers.
#[derive(Clone, Copy, Default)]
enum Behaviour {
    #[default]
    Fine,
    Failing(StoreErrorKind),
    Hanging,
}

/// A store that has no data, and acknowledges every call unless its behaviour or its answers say otherwise.
#[derive(Default)]
struct Scripted {
    precisions: Precisions,
    /// The generation; `None` for a fresh generation of age 0.
    generation: Mutex<Option<Generation>>,
    behaviour: Mutex<Behaviour>,
    /// The answers to the next calls; later ones are acknowledged.
    answers: Mutex<VecDeque<Appended>>,
    appended: Mutex<Vec<(Instant, FencedBatch)>>,
    heartbeats: Mutex<Vec<(Instant, Heartbeat)>>,
    instances: AtomicU64,
}

fn generation_of(id: &str, age: u64, is_fresh: bool) -> Generation {
    Generation {
        id: id.to_owned(),
        age,
        is_fresh,
    }
}

impl Scripted {
    fn status_at(&self, now: i64) -> StoreStatus {
        StoreStatus {
            as_of: now,
            instances: self.instances.load(Ordering::Relaxed),
            ..StoreStatus::default()
        }
    }

    fn answer<'a, T: Send + 'a>(&self, value: T) -> StoreFuture<'a, T> {
        let answer = match *lock(&self.behaviour) {
            Behaviour::Fine => Ok(value),
            Behaviour::Failing(kind) => Err(StoreError::new(kind, "the store fails")),
            Behaviour::Hanging => return Box::pin(pending()),
        };
        Box::pin(ready(answer))
    }

    /// The instance, number and size of each call.
    fn calls(&self) -> Vec<(String, u64, u64)> {
        let sent = |call: &FencedBatch| (call.instance.clone(), call.seq, call.batch.requests());
        let appended = lock(&self.appended);
        appended.iter().map(|(_, call)| sent(call)).collect()
    }

    /// The number and size of each call.
    fn sizes(&self) -> Vec<(u64, u64)> {
        let calls = self.calls().into_iter();
        calls.map(|(_, seq, requests)| (seq, requests)).collect()
    }
}

/// The times between calls.
fn gaps<T>(calls: &Mutex<Vec<(Instant, T)>>) -> Vec<Duration> {
    let calls = lock(calls);
    let pairs = calls.windows(2);
    pairs.map(|pair| pair[1].0 - pair[0].0).collect()
}

impl Append for Scripted {
    fn hello(&self) -> StoreFuture<'_, Generation> {
        let generation = lock(&self.generation).clone();
        let generation = generation.unwrap_or_else(|| generation_of("first", 0, true));
        Box::pin(ready(Ok(generation)))
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> StoreFuture<'a, Appended> {
        lock(&self.appended).push((Instant::now(), call.clone()));
        let done = Appended::Done(Receipt {
            has_leader: true,
            ..Receipt::default()
        });
        let answer = lock(&self.answers).pop_front();
        self.answer(answer.unwrap_or(done))
    }

    fn readable<'a>(&'a self, _: &'a AppendedCall) -> StoreFuture<'a, Readable> {
        unreachable!("a flusher only appends")
    }
}

impl Upkeep for Scripted {
    fn status(&self, now: i64) -> StoreFuture<'_, StoreStatus> {
        self.answer(self.status_at(now))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> StoreFuture<'a, (Fleet, StoreStatus)> {
        lock(&self.heartbeats).push((Instant::now(), heartbeat.clone()));
        self.answer((Fleet::default(), self.status_at(heartbeat.at)))
    }

    fn deregister<'a>(&'a self, _: &'a str) -> StoreFuture<'a, ()> {
        self.answer(())
    }

    fn clean<'a>(&'a self, _: &'a Pass) -> StoreFuture<'a, Option<Cleaned>> {
        unreachable!("a flusher only appends")
    }
}

impl Store for Scripted {
    fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    fn journal(&self) -> &dyn crate::store::journal::Journal {
        unreachable!("a flusher only appends")
    }

    fn query(&self) -> &dyn crate::store::Query {
        unreachable!("a flusher only appends")
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }

    fn locality(&self) -> &'static Locality {
        &IN_PROCESS
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
    leaderless: Arc<Notify>,
}

impl Flushing {
    fn new() -> Self {
        Self::with(None, Clock::system(), None)
    }

    /// A flusher with this interval, and a manual clock that begins at `NOW`.
    fn at_interval(interval: Option<Duration>) -> (Self, ManualClock) {
        let (clock, manual_clock) = Clock::manual(NOW);
        (Self::with(None, clock, interval), manual_clock)
    }

    fn with(name: Option<&str>, clock: Clock, interval: Option<Duration>) -> Self {
        let (store, leaderless) = (Arc::new(Scripted::default()), Arc::new(Notify::new()));
        let limits = Limits::new(100_000, 1);
        let recorder = Arc::new(Recorder::new(clock, Precisions::default(), limits));
        let options = FlushOptions {
            interval,
            replay_bytes: 1 << 20,
            name: name.map(str::to_owned),
        };
        let notify = leaderless.clone();
        let flusher = Flusher::new(recorder.clone(), store.clone(), &options, notify);
        Self {
            store,
            recorder,
            flusher: Arc::new(flusher),
            leaderless,
        }
    }

    fn set(&self, behaviour: Behaviour) {
        *lock(&self.store.behaviour) = behaviour;
    }

    /// Sets the answers to the next calls.
    fn answer(&self, answers: impl Into<VecDeque<Appended>>) {
        *lock(&self.store.answers) = answers.into();
    }

    fn record(&self, requests: usize) {
        let entry = self.recorder.entry(Kind::Http, "GET /");
        (0..requests).for_each(|_| entry.record_measured(MS, Outcome::Success));
    }

    /// Records this many requests and flushes them.
    async fn flush(&self, requests: usize) -> Option<Flushed> {
        self.record(requests);
        self.flusher.flush().await.expect("the store answers")
    }

    /// Records this many requests, and flushes them in vain. Returns the kind of the error.
    async fn fail_to_flush(&self, requests: usize) -> StoreErrorKind {
        self.record(requests);
        self.flusher.flush().await.expect_err("it fails").kind()
    }

    /// Flushes at intervals until the signal is sent.
    fn start(&self) -> (Stop, JoinHandle<()>) {
        let (stop, stopped) = Stop::new();
        let flusher = self.flusher.clone();
        (stop, tokio::spawn(flusher.flush_at_intervals(stopped)))
    }

    fn counters(&self) -> FlushCounters {
        self.recorder.drain.counters(|counters| counters.clone())
    }

    fn lost(&self) -> u64 {
        self.counters().lost.requests
    }

    /// Whether the folder has been notified of entries that wait.
    async fn was_notified(&self) -> bool {
        let notified = self.leaderless.notified();
        timeout(Duration::ZERO, notified).await.is_ok()
    }
}
