//! A store around another one, in this process, that fails on demand.

use std::sync::{Arc, Mutex, MutexGuard};

use tower_pulse::store::memory::MemoryStore;
use tower_pulse::store::{CounterQuery, CounterSeries, RankedContext, SlowestQuery};
use tower_pulse::{Clock, ManualClock, StoreError, StoreErrorKind};
use tower_pulse_core::store::table_reads::{Answers, Purpose, TableRead, TableReader};
use tower_pulse_core::store::{Append, Query, Store, Upkeep};
use tower_pulse_core::store::{
    Appended, AppendedCall, Cleaned, FencedBatch, Fleet, Generation, Heartbeat, Pass, Readable,
    StoreStatus,
};
use tower_pulse_core::task::BoxFuture;
use tower_pulse_core::testing::TestFolder;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::snapshot::FleetSnapshot;

/// The fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMode {
    Fine,
    /// The call never arrives.
    Refused,
    /// The call is folded, and the answer is lost.
    Unanswered,
    /// The call arrives much later, and perhaps now too. The answer is lost.
    Delayed,
}

/// A memory store that can fail, be reset, and lose its last calls.
pub struct Faulty {
    precisions: Precisions,
    state: Mutex<State>,
    /// A journal without entries: each call is folded when it is appended.
    journal: MemoryStore,
}

struct State {
    inner: Arc<MemoryStore>,
    /// The clock of `inner`.
    manual_clock: ManualClock,
    /// The number of the generation. Each reset begins one.
    generation: u64,
    /// When the generation began, in Unix seconds.
    created: i64,
    clock: Clock,
    precisions: Precisions,
    rng: fastrand::Rng,
    /// The probability of a fault.
    trouble: f64,
    away: bool,
    /// The calls that were folded and their times, in order.
    log: Vec<(FencedBatch, i64)>,
    delayed: Vec<FencedBatch>,
    /// The calls that were acknowledged, once each.
    acknowledged: Vec<FencedBatch>,
    /// The largest number of slices of one precision in any call.
    widest: usize,
    calls: u64,
}

impl Faulty {
    pub fn new(clock: Clock, precisions: Precisions, seed: u64) -> Arc<Self> {
        let (inner, manual_clock) = empty(&precisions);
        Arc::new(Self {
            journal: MemoryStore::new(precisions.clone(), Clock::system()),
            precisions: precisions.clone(),
            state: Mutex::new(State {
                inner,
                manual_clock,
                generation: 1,
                created: clock.now_seconds(),
                clock,
                precisions,
                rng: fastrand::Rng::with_seed(seed),
                trouble: 0.0,
                away: false,
                log: Vec::new(),
                delayed: Vec::new(),
                acknowledged: Vec::new(),
                widest: 0,
                calls: 0,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Sets the probability of a fault.
    pub fn trouble(&self, trouble: f64) {
        self.state().trouble = trouble;
    }

    /// Sets whether all calls fail.
    pub fn away(&self, away: bool) {
        self.state().away = away;
    }

    /// Resets the store: a new generation begins. Delayed calls of the old one still arrive.
    pub fn forget(&self) {
        let mut state = self.state();
        (state.inner, state.manual_clock) = empty(&state.precisions);
        state.generation += 1;
        state.created = state.clock.now_seconds();
        state.log.clear();
    }

    /// Loses the last calls, as a failover does. The generation stays.
    pub fn fall_back(&self, calls: usize) -> usize {
        let mut state = self.state();
        let calls = calls.min(state.log.len());
        (state.inner, state.manual_clock) = empty(&state.precisions);
        let left = state.log.len() - calls;
        state.log.truncate(left);
        state.delayed.clear();
        let now = state.clock.now_seconds();
        for (call, at) in state.log.clone() {
            state.manual_clock.set_wall(at);
            state.append_to_inner(&call);
        }
        state.manual_clock.set_wall(now);
        calls
    }

    /// The calls that were ever acknowledged, once each.
    pub fn acknowledged(&self) -> Vec<FencedBatch> {
        self.state().acknowledged.clone()
    }

    pub fn widest(&self) -> usize {
        self.state().widest
    }

    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    fn inner(&self) -> Arc<MemoryStore> {
        let state = self.state();
        state.manual_clock.set_wall(state.clock.now_seconds());
        state.inner.clone()
    }
}

fn empty(precisions: &Precisions) -> (Arc<MemoryStore>, ManualClock) {
    let (clock, manual_clock) = Clock::manual(0);
    (
        Arc::new(MemoryStore::new(precisions.clone(), clock)),
        manual_clock,
    )
}

/// Runs a future to its end. The memory store only yields, and never waits.
fn ready<T>(future: impl Future<Output = T>) -> T {
    // Nobody gives the task a new budget meanwhile.
    let mut future = std::pin::pin!(tokio::task::unconstrained(future));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

fn failed(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "a fault on demand")
}

impl State {
    fn append(&mut self, call: &FencedBatch) -> Result<Appended, StoreError> {
        self.calls += 1;
        for delta in call.batch.contexts.values() {
            let counters = delta.counters.iter().map(|slices| slices.len());
            let widest = counters.chain(delta.records.iter().map(|slices| slices.len()));
            self.widest = self.widest.max(widest.max().unwrap_or(0));
        }
        let fault = self.fault();
        if fault == FaultMode::Refused {
            return Err(failed(StoreErrorKind::Unreachable));
        }
        if !self.delayed.is_empty() && self.rng.bool() {
            let late = self
                .delayed
                .swap_remove(self.rng.usize(..self.delayed.len()));
            self.fold(&late);
        }
        if fault == FaultMode::Delayed {
            self.delayed.push(call.clone());
            if self.rng.bool() {
                self.fold(call);
            }
            return Err(failed(StoreErrorKind::TimedOut));
        }
        let appended = self.fold(call);
        if fault == FaultMode::Unanswered {
            return Err(failed(StoreErrorKind::TimedOut));
        }
        let is_known =
            |other: &FencedBatch| other.instance == call.instance && other.seq == call.seq;
        if matches!(appended, Appended::Done(_) | Appended::Duplicate(_))
            && !self.acknowledged.iter().any(is_known)
        {
            self.acknowledged.push(call.clone());
        }
        Ok(appended)
    }

    /// Draws the fault of the next call.
    fn fault(&mut self) -> FaultMode {
        match self.rng.f64() < self.trouble {
            _ if self.away => FaultMode::Refused,
            false => FaultMode::Fine,
            true => [
                FaultMode::Refused,
                FaultMode::Unanswered,
                FaultMode::Delayed,
            ][self.rng.usize(..3)],
        }
    }

    /// Returns the generation, or an error where the answer would be lost or late.
    fn hello(&mut self) -> Result<Generation, StoreError> {
        match self.fault() {
            FaultMode::Fine => Ok(Generation {
                id: self.generation_name(),
                age: u64::try_from(self.clock.now_seconds() - self.created).unwrap_or(0),
                is_fresh: true,
            }),
            FaultMode::Refused => Err(failed(StoreErrorKind::Unreachable)),
            FaultMode::Unanswered | FaultMode::Delayed => Err(failed(StoreErrorKind::TimedOut)),
        }
    }

    fn generation_name(&self) -> String {
        format!("generation {}", self.generation)
    }

    fn fold(&mut self, call: &FencedBatch) -> Appended {
        if call.generation != self.generation_name() {
            return Appended::Reset;
        }
        let now = self.clock.now_seconds();
        self.manual_clock.set_wall(now);
        let appended = self.append_to_inner(call);
        if matches!(appended, Appended::Done(_)) {
            self.log.push((call.clone(), now));
        }
        appended
    }

    /// The memory store has one generation, which stands for the present one.
    fn append_to_inner(&self, call: &FencedBatch) -> Appended {
        let generation = ready(self.inner.hello()).unwrap().id;
        let call = FencedBatch {
            generation,
            ..call.clone()
        };
        let appended = ready(self.inner.append(&call)).unwrap();
        let folder = TestFolder::new(self.inner.clone(), self.clock.clone(), "folder", 0);
        assert!(ready(folder.fold()).unwrap());
        appended
    }
}

impl Store for Faulty {
    fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    fn journal(&self) -> &dyn tower_pulse_core::store::journal::Journal {
        &self.journal
    }

    fn describe(&self) -> String {
        "memory that fails".to_owned()
    }
}

impl Append for Faulty {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.state().hello()
        })
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let appended = self.state().append(call);
            tokio::task::yield_now().await;
            appended
        })
    }

    fn readable<'a>(
        &'a self,
        call: &'a AppendedCall,
    ) -> BoxFuture<'a, Result<Readable, StoreError>> {
        Box::pin(async move {
            if call.generation != self.state().generation_name() {
                return Ok(Readable::Lost);
            }
            let inner = self.inner();
            let call = AppendedCall {
                generation: inner.hello().await?.id,
                ..call.clone()
            };
            inner.readable(&call).await
        })
    }
}

impl Upkeep for Faulty {
    fn status(&self, now: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        Box::pin(async move {
            if self.state().away {
                return Err(failed(StoreErrorKind::Unreachable));
            }
            self.inner().status(now).await
        })
    }

    fn heartbeat<'a>(
        &'a self,
        heartbeat: &'a Heartbeat,
    ) -> BoxFuture<'a, Result<(Fleet, StoreStatus), StoreError>> {
        Box::pin(async move {
            if self.state().away {
                return Err(failed(StoreErrorKind::Unreachable));
            }
            self.inner().heartbeat(heartbeat).await
        })
    }

    fn deregister<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.inner().deregister(instance).await })
    }

    fn clean<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Cleaned>, StoreError>> {
        Box::pin(async move { self.inner().clean(pass).await })
    }
}

impl TableReader for Faulty {
    fn read_tables<'a>(
        &'a self,
        purpose: Purpose,
        reads: &'a [TableRead],
    ) -> BoxFuture<'a, Result<Answers, StoreError>> {
        Box::pin(async move { self.inner().tables().read_tables(purpose, reads).await })
    }
}

impl Query for Faulty {
    fn tables(&self) -> &dyn TableReader {
        self
    }

    fn fleet(&self, now: i64) -> BoxFuture<'_, Result<FleetSnapshot, StoreError>> {
        Box::pin(async move { self.inner().fleet(now).await })
    }

    fn counters<'a>(
        &'a self,
        query: &'a CounterQuery,
    ) -> BoxFuture<'a, Result<Vec<CounterSeries>, StoreError>> {
        Box::pin(async move { self.inner().counters(query).await })
    }

    fn counter_names<'a>(
        &'a self,
        precisions: &'a [u32],
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(async move { self.inner().counter_names(precisions).await })
    }

    fn slowest<'a>(
        &'a self,
        query: &'a SlowestQuery,
    ) -> BoxFuture<'a, Result<Vec<RankedContext>, StoreError>> {
        Box::pin(async move { self.inner().slowest(query).await })
    }
}
