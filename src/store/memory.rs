//! The embedded store: all data is in this process. It is the reference for the behaviour of every store.
//!
//! `journal` takes calls in and applies the steps of folding to the `tables`; `add` applies their additions.
//! `table_reads` reads the tables, `query` answers other queries, `clean` removes old data.

mod add;
mod clean;
mod journal;
mod query;
#[cfg(feature = "row-cache")]
mod rows;
#[cfg(any(test, feature = "__test_store"))]
mod saved;
mod table_reads;
mod tables;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use self::journal::{Entered, Fence, JOURNAL_BYTES};
#[cfg(any(test, feature = "__test_store"))]
#[doc(hidden)]
pub use self::saved::Saved;
use self::tables::Tables;
use super::sealed::Sealed;
use super::table_reads::TableReader;
use super::{
    Append, Appended, AppendedCall, CleanReport, CounterQuery, CounterSeries, Exceptions,
    FencedBatch, Fleet, Generation, Heartbeat, Pass, PassRecord, Query, Readable, SlowestQuery,
    Store, StoreStatus, Upkeep, check_precisions, read,
};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::model::recorded::Gap;
use crate::model::slice::Precisions;
use crate::model::slowest::{RANKING_LEN, RankedContext};
use crate::model::snapshot::FleetSnapshot;
use crate::model::tier::RolledUp;
use crate::random::short_random_name;
use crate::task::{BoxFuture, lock};

/// A store in the memory of this process. Its data ends with the process.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::sync::Arc;
/// use tower_pulse::{Clock, Pulse};
/// use tower_pulse::store::{CounterQuery, Precisions, Query, memory::MemoryStore};
///
/// // One page for two parts of a service that are configured differently.
/// let store = Arc::new(MemoryStore::new(Precisions::default(), Clock::system()));
/// let inner = Pulse::builder().store(store.clone()).build().unwrap();
/// let outer = Pulse::builder().store(store.clone()).build().unwrap();
/// inner.counter("sales").add(1);
/// outer.counter("sales").add(2);
/// inner.flush().await.unwrap();
/// outer.flush().await.unwrap();
/// let sold = store.counters(&CounterQuery::new(["sales"], 86_400)).await.unwrap();
/// assert_eq!(sold[0].sum(), 3);
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    precisions: Precisions,
    clock: Clock,
    /// The approximate limit of the records, in bytes.
    record_bytes: usize,
    /// The most bytes of the journal.
    journal_bytes: u64,
    /// Held by the instance that folds.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// The approximate limit of the records unless configured otherwise, in bytes.
pub(crate) const RECORD_BYTES: usize = 256 * 1024 * 1024;

/// The counts of a counter at a precision, by the start of their slice.
type SliceCounts = BTreeMap<i64, i64>;

/// The data of the store.
#[derive(Debug, Default)]
#[cfg_attr(any(test, feature = "__test_store"), derive(Clone))]
struct State {
    /// The name of the store's generation.
    generation: String,
    /// When the generation began, in Unix seconds.
    created: i64,
    /// When the first sample was recorded that it holds, or the generation began.
    since: i64,
    /// The times in which no instance recorded. Only tests set them: this store ends with its process.
    gaps: Vec<Gap>,
    /// The fence of each instance.
    fences: HashMap<String, Fence>,
    journal: Entered,
    exceptions: Exceptions,
    /// By counter and precision.
    counters: HashMap<String, HashMap<u32, SliceCounts>>,
    /// Contexts whose last sample is not after this time are not among the slowest any more.
    ranked_since: i64,
    rolled: RolledUp,
    tables: Tables,
    instances: HashMap<String, Heartbeat>,
    /// When an instance of each version of the application was last alive.
    versions: HashMap<Arc<str>, i64>,
    last_pass: Option<PassRecord>,
    /// By the name of the cache.
    #[cfg(feature = "row-cache")]
    row_caches: HashMap<String, rows::RowCache>,
}

impl State {
    /// No data, in a new generation.
    fn new(created: i64) -> Self {
        Self {
            generation: format!("memory-{}", short_random_name()),
            created,
            since: created,
            ranked_since: i64::MIN,
            ..Self::default()
        }
    }
}

impl MemoryStore {
    /// An empty store. `clock` is the store's time, against which samples are judged as skewed.
    pub fn new(precisions: Precisions, clock: Clock) -> Self {
        Self {
            precisions,
            state: Mutex::new(State::new(clock.now_seconds())),
            record_bytes: RECORD_BYTES,
            journal_bytes: JOURNAL_BYTES,
            turn: tokio::sync::Mutex::default(),
            clock,
        }
    }

    /// Limits the records to about `bytes`, 256 MiB by default. Above the limit, the oldest minutes are removed
    /// first, then the oldest half hours.
    pub fn with_record_bytes(mut self, bytes: usize) -> Self {
        self.record_bytes = bytes;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete between two statements that could panic.
        lock(&self.state)
    }
}

/// A future that is ready at once.
fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Sealed for MemoryStore {}

impl Store for MemoryStore {
    fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    fn journal(&self) -> Option<&dyn super::journal::Journal> {
        Some(self)
    }

    #[cfg(feature = "row-cache")]
    fn rows(&self) -> &dyn super::rows::Rows {
        self
    }

    fn describe(&self) -> String {
        "memory of this process".to_owned()
    }
}

impl Append for MemoryStore {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        let state = self.state();
        let age = self.clock.now_seconds().saturating_sub(state.created);
        ready(Generation {
            id: state.generation.clone(),
            age: u64::try_from(age).unwrap_or(0),
            is_fresh: true,
        })
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        Box::pin(async move {
            check_precisions(&call.batch, &self.precisions)?;
            let now = self.clock.now_seconds();
            Ok(self.state().append(call, self.journal_bytes, now))
        })
    }

    fn readable<'a>(
        &'a self,
        call: &'a AppendedCall,
    ) -> BoxFuture<'a, Result<Readable, StoreError>> {
        let AppendedCall {
            generation,
            instance,
            seq,
            position,
        } = call;
        ready(self.state().readable(generation, instance, *seq, *position))
    }
}

impl Upkeep for MemoryStore {
    fn status(&self, now: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        ready(self.state().status(now))
    }

    fn heartbeat<'a>(
        &'a self,
        heartbeat: &'a Heartbeat,
    ) -> BoxFuture<'a, Result<(Fleet, StoreStatus), StoreError>> {
        Box::pin(async move {
            let mut state = self.state();
            Ok((state.heartbeat(heartbeat), state.status(heartbeat.at)))
        })
    }

    fn deregister<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.state().instances.remove(instance);
            Ok(())
        })
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
}

impl Query for MemoryStore {
    fn tables(&self) -> &dyn TableReader {
        self
    }

    fn fleet(&self, now: i64) -> BoxFuture<'_, Result<FleetSnapshot, StoreError>> {
        ready(self.state().fleet(&self.precisions, now))
    }

    fn counters<'a>(
        &'a self,
        query: &'a CounterQuery,
    ) -> BoxFuture<'a, Result<Vec<CounterSeries>, StoreError>> {
        let state = self.state();
        let names = query.names.iter();
        let series =
            |name: &String| CounterSeries::new(name.clone(), state.counter(name, query.precision));
        ready(names.map(series).collect())
    }

    fn counter_names<'a>(
        &'a self,
        precisions: &'a [u32],
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        ready(self.state().counter_names(precisions))
    }

    fn slowest<'a>(
        &'a self,
        query: &'a SlowestQuery,
    ) -> BoxFuture<'a, Result<Vec<RankedContext>, StoreError>> {
        let (since, now) = (self.state().ranked_since, self.clock.now_seconds());
        let limit = query.limit.min(RANKING_LEN);
        Box::pin(read::slowest(self, since, limit, now))
    }
}
