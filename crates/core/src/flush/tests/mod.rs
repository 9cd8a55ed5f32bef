//! Tests of a flusher with a scripted store. `tests/journal` tests failovers and resets of a real server.

mod calls;
mod finish;
mod recover;
mod replay;
mod schedule;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::{FlushOptions, Flushed, Flusher};
use crate::clock::{Clock, ManualClock};
use crate::error::StoreErrorKind;
use crate::recorder::{FlushCounters, Limits, Recorder};
use crate::store::locality::IN_PROCESS;
use crate::store::tests::{Behaviour, MS, NOW, Scripted, at, generation_of};
use crate::store::{Appended, FencedBatch};
use crate::task::{Stop, lock};
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::Precisions;

const SECOND: Duration = Duration::from_secs(1);

impl Scripted {
    /// The instance, number and size of each call.
    fn calls(&self) -> Vec<(String, u64, u64)> {
        let sent = |call: &FencedBatch| (call.instance.clone(), call.seq, call.batch.requests());
        let appended = lock(&self.appended);
        appended.iter().map(|(_, call)| sent(call)).collect()
    }

    fn sizes(&self) -> Vec<(u64, u64)> {
        let calls = self.calls().into_iter();
        calls.map(|(_, seq, requests)| (seq, requests)).collect()
    }
}

fn gaps<T>(calls: &Mutex<Vec<(Instant, T)>>) -> Vec<Duration> {
    let calls = lock(calls);
    let pairs = calls.windows(2);
    pairs.map(|pair| pair[1].0 - pair[0].0).collect()
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

    fn at_interval(interval: Option<Duration>) -> (Self, ManualClock) {
        let (clock, manual_clock) = Clock::manual(NOW);
        (Self::with(None, clock, interval), manual_clock)
    }

    fn with(name: Option<&str>, clock: Clock, interval: Option<Duration>) -> Self {
        let store = Arc::new(Scripted {
            locality: Some(&IN_PROCESS),
            ..Scripted::default()
        });
        let leaderless = Arc::new(Notify::new());
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
        self.store.set(behaviour);
    }

    fn answer(&self, answers: impl Into<VecDeque<Appended>>) {
        *lock(&self.store.answers) = answers.into();
    }

    fn record(&self, requests: usize) {
        let handle = self.recorder.context(Kind::Http, "GET /");
        (0..requests).for_each(|_| handle.record_measured(MS, Outcome::Success));
    }

    async fn flush(&self, requests: usize) -> Option<Flushed> {
        self.record(requests);
        self.flusher.flush().await.expect("the store answers")
    }

    async fn fail_to_flush(&self, requests: usize) -> StoreErrorKind {
        self.record(requests);
        self.flusher.flush().await.expect_err("it fails").kind()
    }

    fn start(&self) -> Stop {
        let (stop, stopped) = Stop::new();
        tokio::spawn(self.flusher.clone().flush_at_intervals(stopped));
        stop
    }

    fn counters(&self) -> FlushCounters {
        self.recorder.drain.counters(|counters| counters.clone())
    }

    fn lost(&self) -> u64 {
        self.counters().lost.samples
    }

    async fn was_notified(&self) -> bool {
        let notified = self.leaderless.notified();
        timeout(Duration::ZERO, notified).await.is_ok()
    }
}
