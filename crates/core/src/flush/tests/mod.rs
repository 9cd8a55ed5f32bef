//! Tests of a flusher with a scripted store, in paused time. tests/journal tests failovers and resets of a real
//! server.

mod calls;
mod finish;
mod recover;
mod replay;
mod schedule;

use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::{FlushOptions, Flusher};
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::recorder::{Limits, Recorder};
use crate::store::StoreFuture;
use crate::store::locality::{IN_PROCESS, Locality};
use crate::store::{
    Append, Appended, AppendedCall, Cleaned, FencedBatch, Fleet, Generation, Heartbeat, Pass,
    Position, Readable, Receipt, Store, StoreStatus, Upkeep,
};
use crate::task::lock;
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::Precisions;

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

/// A multiple of ten seconds.
const NOW: i64 = 1_700_000_000;

/// How the store answers.
#[derive(Clone, Copy, Debug, Default)]
enum Behaviour {
    #[default]
    Fine,
    Failing(StoreErrorKind),
    Hanging,
}

/// A store that has no data, and acknowledges every call unless its behaviour or its answers say otherwise.
struct Scripted {
    precisions: Precisions,
    generation: Mutex<Generation>,
    behaviour: Mutex<Behaviour>,
    /// The answers to the next calls; later ones are acknowledged.
    answers: Mutex<VecDeque<Appended>>,
    appended: Mutex<Vec<(Instant, FencedBatch)>>,
    heartbeats: Mutex<Vec<(Instant, Heartbeat)>>,
    instances: AtomicU64,
    is_leaderless: bool,
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
            is_leaderless: false,
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
    fn status_at(&self, now: i64) -> StoreStatus {
        StoreStatus {
            as_of: now,
            instances: self.instances.load(Ordering::Relaxed),
            ..StoreStatus::default()
        }
    }

    fn set(&self, behaviour: Behaviour) {
        *lock(&self.behaviour) = behaviour;
    }

    fn answer<'a, T: Send + 'a>(&self, value: T) -> StoreFuture<'a, T> {
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

impl Append for Scripted {
    fn hello(&self) -> StoreFuture<'_, Generation> {
        let generation = lock(&self.generation).clone();
        Box::pin(std::future::ready(Ok(generation)))
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> StoreFuture<'a, Appended> {
        lock(&self.appended).push((Instant::now(), call.clone()));
        let done = Appended::Done(Receipt {
            has_leader: !self.is_leaderless,
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
    fn of(store: Scripted, clock: Clock, interval: Option<Duration>) -> Self {
        Self::named(None, store, clock, interval)
    }

    fn named(
        name: Option<&str>,
        store: Scripted,
        clock: Clock,
        interval: Option<Duration>,
    ) -> Self {
        let limits = Limits::new(100_000, 1);
        let (store, leaderless) = (Arc::new(store), Arc::new(Notify::new()));
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
            leaderless.clone(),
        );
        Self {
            store,
            recorder,
            flusher: Arc::new(flusher),
            leaderless,
        }
    }

    fn new() -> Self {
        Self::of(Scripted::default(), Clock::system(), None)
    }

    fn record(&self, requests: usize) {
        let entry = self.recorder.entry(Kind::Http, "GET /");
        (0..requests).for_each(|_| entry.record_measured(MS, Outcome::Success, false));
    }

    /// Records this many requests and flushes them.
    async fn flush(&self, requests: usize) {
        self.record(requests);
        self.flusher.flush().await.expect("the store answers");
    }

    fn lost(&self) -> u64 {
        self.recorder
            .drain
            .counters(|counters| counters.lost.requests)
    }

    fn last_error(&self) -> Option<String> {
        let drain = &self.recorder.drain;
        drain.counters(|counters| counters.last_error.clone())
    }

    fn resets(&self) -> u64 {
        let drain = &self.recorder.drain;
        drain.counters(|counters| counters.store_resets)
    }

    /// Whether the folder has been notified of entries that wait.
    async fn is_leaderless(&self) -> bool {
        timeout(Duration::ZERO, self.leaderless.notified())
            .await
            .is_ok()
    }
}
