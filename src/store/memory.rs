//! The embedded store: everything in this process, and the reference for what every store does.
//!
//! `fold` takes calls in, `read` gives snapshots out, `clean` forgets.

mod clean;
mod fold;
mod read;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use super::{
    Appended, CleanReport, Exceptions, FencedBatch, Generation, Heartbeat, INSTANCE_TTL, Pass,
    PassRecord, Position, Readable, Store, StoreStatus,
};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::model::access_time::AccessTimeStats;
use crate::model::batch::Aggregate;
use crate::model::context::Kind;
use crate::model::records::{RecordId, Records};
use crate::model::slice::Precisions;
use crate::model::slowest;
use crate::model::snapshot::{ContextSnapshot, Snapshot};
use crate::model::tier::RolledUp;
use crate::task::{BoxFuture, lock};

/// Keeps aggregates in this process; they end with it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tower_pulse::{Clock, model::slice::Precisions, store::{Store, memory::MemoryStore}};
/// let store = MemoryStore::new(Precisions::default(), Clock::system());
/// assert!(store.snapshot(0).await.unwrap().contexts.is_empty());
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    precisions: Precisions,
    clock: Clock,
    created: i64,
    /// About how many bytes the records may take.
    record_bytes: usize,
    state: Mutex<State>,
}

/// About how many bytes the records may take unless configured otherwise.
pub(crate) const RECORD_BYTES: usize = 256 * 1024 * 1024;

/// Samples by the start of their slice.
type Samples = BTreeMap<i64, i64>;

/// All that is kept.
#[derive(Debug, Default)]
struct State {
    /// The name of the store's one generation.
    generation: String,
    /// The last call of each instance. They are never forgotten: as the store ends with its process,
    /// there is hardly more than one.
    fences: HashMap<String, u64>,
    exceptions: Exceptions,
    /// By counter and precision.
    counters: HashMap<String, BTreeMap<u32, Samples>>,
    contexts: BTreeMap<String, ContextState>,
    records: Records,
    rolled: RolledUp,
    /// Contexts that are to be rolled up, with the slices that are due.
    due: BTreeMap<RecordId, Vec<i64>>,
    slowest: HashMap<String, f64>,
    instances: HashMap<String, Heartbeat>,
    last_pass: Option<PassRecord>,
}

/// What is known of a context beside its records.
#[derive(Debug)]
struct ContextState {
    kind: Kind,
    last_seen: i64,
    /// The statistics of the current hour and its start.
    current: Option<(i64, AccessTimeStats)>,
    /// The statistics of the hour before that in which anything happened.
    last: Option<(i64, AccessTimeStats)>,
}

impl MemoryStore {
    /// An empty store. Its own time, which decides what comes from the future, is `clock`'s.
    pub fn new(precisions: Precisions, clock: Clock) -> Self {
        Self {
            precisions,
            state: Mutex::new(State {
                generation: format!("memory-{:016x}", fastrand::u64(..)),
                ..State::default()
            }),
            created: clock.now_seconds(),
            record_bytes: RECORD_BYTES,
            clock,
        }
    }

    /// Keeps records of about so many bytes, 256 MiB unless it is set: above it, the oldest minutes go first, then
    /// the oldest half hours.
    pub fn with_record_bytes(mut self, bytes: usize) -> Self {
        self.record_bytes = bytes;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete between two statements that could panic.
        lock(&self.state)
    }
}

/// A store that is ready at once.
fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Store for MemoryStore {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        ready(Generation {
            id: self.state().generation.clone(),
            age: u64::try_from(self.clock.now_seconds().saturating_sub(self.created)).unwrap_or(0),
            is_fresh: true,
        })
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        Box::pin(async move {
            let now = self.clock.now_seconds();
            Ok(self
                .state()
                .append(call, &self.precisions, self.record_bytes, now))
        })
    }

    fn readable<'a>(
        &'a self,
        generation: &'a str,
        instance: &'a str,
        seq: u64,
        _position: Position,
    ) -> BoxFuture<'a, Result<Readable, StoreError>> {
        let state = self.state();
        let fence = state.fences.get(instance).copied().unwrap_or(0);
        ready(match state.generation == generation && fence >= seq {
            true => Readable::Yes,
            false => Readable::Lost,
        })
    }

    fn status(&self, now: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        let state = self.state();
        let alive = state.instances.values();
        let alive = alive.filter(|heartbeat| heartbeat.at >= now.saturating_sub(INSTANCE_TTL));
        ready(StoreStatus {
            as_of: now,
            instances: alive.count() as u64,
            exceptions: state.exceptions.clone(),
            journal: None,
        })
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut state = self.state();
            state
                .instances
                .insert(heartbeat.instance.clone(), heartbeat.clone());
            Ok(())
        })
    }

    fn deregister<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.state().instances.remove(instance);
            Ok(())
        })
    }

    fn snapshot(&self, now: i64) -> BoxFuture<'_, Result<Snapshot, StoreError>> {
        ready(self.state().snapshot(&self.precisions, now))
    }

    fn context<'a>(
        &'a self,
        context: &'a str,
        now: i64,
    ) -> BoxFuture<'a, Result<Option<ContextSnapshot>, StoreError>> {
        ready(self.state().context(context, now))
    }

    fn counter<'a>(
        &'a self,
        name: &'a str,
        precision: u32,
    ) -> BoxFuture<'a, Result<Vec<(i64, i64)>, StoreError>> {
        ready(self.state().counter(name, precision))
    }

    fn records<'a>(
        &'a self,
        context: &'a str,
        width: u32,
        now: i64,
    ) -> BoxFuture<'a, Result<Vec<(i64, Aggregate)>, StoreError>> {
        ready(self.state().records(context, width, now))
    }

    fn slowest(&self) -> BoxFuture<'_, Result<Vec<(String, f64)>, StoreError>> {
        let mut ranking: Vec<_> = self.state().slowest.clone().into_iter().collect();
        slowest::sort(&mut ranking);
        ready(ranking)
    }

    fn clean<'a>(
        &'a self,
        pass: &'a Pass,
    ) -> BoxFuture<'a, Result<Option<CleanReport>, StoreError>> {
        Box::pin(async move {
            let start = self.clock.tick();
            let mut state = self.state();
            let Some(cleaned) = state.clean(pass, &self.precisions) else {
                return Ok(None);
            };
            state.last_pass = Some(PassRecord {
                number: pass.number(),
                at: pass.now,
                instance: pass.instance.clone(),
                millis: u64::try_from(self.clock.since(start).as_millis()).unwrap_or(u64::MAX),
                cleaned: cleaned.clone(),
            });
            Ok(Some(cleaned))
        })
    }

    fn last_pass(&self) -> BoxFuture<'_, Result<Option<PassRecord>, StoreError>> {
        ready(self.state().last_pass.clone())
    }

    fn describe(&self) -> String {
        "memory of this process".to_owned()
    }
}
