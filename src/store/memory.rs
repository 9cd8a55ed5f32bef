//! The embedded store: all data is in this process. It is the reference for the behaviour of every store.
//!
//! `fold` adds calls, `rankings` holds the rankings, `minute_reports` what each instance did, `changes` the changes and
//! marks; `read` answers queries, `clean` removes old data.

mod changes;
mod clean;
mod fold;
mod minute_reports;
mod rankings;
mod read;
#[cfg(feature = "row-cache")]
mod rows;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use self::changes::ChangeState;
use self::minute_reports::MinuteReports;
use self::rankings::Ranking;
use super::sealed::Sealed;
use super::{
    Append, Appended, AppendedCall, BookStatistics, CleanReport, ContextQuery, ContextRecords,
    CounterQuery, CounterSeries, Exceptions, FencedBatch, Fleet, Generation, Heartbeat,
    INSTANCE_TTL, InstanceMinuteRecords, Pass, PassRecord, Query, RankingPage, RankingQuery,
    Readable, RecordIndex, RecordQuery, SliceRecords, SlowRequestQuery, SlowestQuery, Store,
    StoreStatus, Upkeep, VersionRecords, check_precisions,
};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::model::access_time::AccessTimeStats;
use crate::model::context::{ContextId, Kind};
use crate::model::records::{RecordId, Records};
use crate::model::slice::Precisions;
use crate::model::slow_request::SlowRequests;
use crate::model::slowest::{self, RankedContext};
use crate::model::snapshot::{ContextSnapshot, FleetSnapshot, Snapshot};
use crate::model::tier::{RolledUp, TierSlice};
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
    created: i64,
    /// The approximate limit of the records, in bytes.
    record_bytes: usize,
    state: Mutex<State>,
}

/// The approximate limit of the records unless configured otherwise, in bytes.
pub(crate) const RECORD_BYTES: usize = 256 * 1024 * 1024;

/// The counts of a counter at a precision, by the start of their slice.
type SliceCounts = BTreeMap<i64, i64>;

/// The data of the store.
#[derive(Debug, Default)]
struct State {
    /// The name of the store's one generation.
    generation: String,
    /// The fence of each instance. Fences are never removed: the store ends with its process, so there is
    /// hardly more than one.
    fences: HashMap<String, u64>,
    exceptions: Exceptions,
    /// By counter and precision.
    counters: HashMap<String, HashMap<u32, SliceCounts>>,
    /// By name, as the book's keys are.
    contexts: HashMap<String, ContextState>,
    records: Records,
    rolled: RolledUp,
    /// Contexts that are to be rolled up, with the slices that are due.
    due: BTreeMap<RecordId, Vec<i64>>,
    slowest: HashMap<String, f64>,
    /// The slowest and the newest failed requests, by hour and context.
    slow_requests: HashMap<i64, HashMap<ContextId, SlowRequests>>,
    minute_reports: MinuteReports,
    rankings: HashMap<Arc<str>, Ranking>,
    changes: ChangeState,
    instances: HashMap<String, Heartbeat>,
    /// When an instance of each version of the application was last alive.
    versions: HashMap<Arc<str>, i64>,
    last_pass: Option<PassRecord>,
    /// By the name of the cache.
    #[cfg(feature = "row-cache")]
    row_caches: HashMap<String, rows::RowCache>,
}

/// The data of the contexts of one name beside their records.
#[derive(Debug, Default)]
struct ContextState {
    /// When each kind of context last had a sample, sorted by kind.
    last_seen: Vec<(Kind, i64)>,
    /// The start of the current hour, and its statistics.
    current: Option<(i64, AccessTimeStats)>,
    /// The start and statistics of the last hour before that which has samples.
    last: Option<(i64, AccessTimeStats)>,
}

impl ContextState {
    /// When any of the contexts last had a sample.
    fn last_seen(&self) -> i64 {
        let last_seen = self.last_seen.iter().map(|(_, at)| *at);
        last_seen.max().unwrap_or(i64::MIN)
    }
}

impl MemoryStore {
    /// An empty store. `clock` is the store's time, against which samples are judged as skewed.
    pub fn new(precisions: Precisions, clock: Clock) -> Self {
        Self {
            precisions,
            state: Mutex::new(State {
                generation: format!("memory-{}", short_random_name()),
                ..State::default()
            }),
            created: clock.now_seconds(),
            record_bytes: RECORD_BYTES,
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

    #[cfg(feature = "row-cache")]
    fn rows(&self) -> &dyn super::rows::Rows {
        self
    }

    fn changes(&self) -> Option<&dyn super::changes::Changes> {
        Some(self)
    }

    fn describe(&self) -> String {
        "memory of this process".to_owned()
    }
}

impl Append for MemoryStore {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        ready(Generation {
            id: self.state().generation.clone(),
            age: u64::try_from(self.clock.now_seconds().saturating_sub(self.created)).unwrap_or(0),
            is_fresh: true,
        })
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        Box::pin(async move {
            check_precisions(&call.batch, &self.precisions)?;
            let now = self.clock.now_seconds();
            Ok(self.state().append(call, self.record_bytes, now))
        })
    }

    fn readable<'a>(
        &'a self,
        call: &'a AppendedCall,
    ) -> BoxFuture<'a, Result<Readable, StoreError>> {
        let state = self.state();
        let fence = state.fences.get(&call.instance).copied().unwrap_or(0);
        ready(
            match state.generation == call.generation && fence >= call.seq {
                true => Readable::Yes,
                false => Readable::Lost,
            },
        )
    }
}

impl Upkeep for MemoryStore {
    fn status(&self, now: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        let state = self.state();
        let alive = state.instances.values();
        let alive = alive.filter(|heartbeat| heartbeat.at >= now.saturating_sub(INSTANCE_TTL));
        ready(StoreStatus {
            as_of: now,
            created: self.created,
            instances: alive.count() as u64,
            exceptions: state.exceptions.clone(),
            ranking_warnings: state.ranking_warnings(),
            journal: None,
        })
    }

    fn heartbeat<'a>(
        &'a self,
        heartbeat: &'a Heartbeat,
    ) -> BoxFuture<'a, Result<Fleet, StoreError>> {
        Box::pin(async move { Ok(self.state().heartbeat(heartbeat)) })
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
    fn snapshot(&self, now: i64) -> BoxFuture<'_, Result<Snapshot, StoreError>> {
        ready(self.state().snapshot(&self.precisions, now))
    }

    fn fleet(&self, now: i64) -> BoxFuture<'_, Result<FleetSnapshot, StoreError>> {
        ready(self.state().fleet(&self.precisions, now))
    }

    fn book_statistics(
        &self,
        _: usize,
        _: i64,
    ) -> BoxFuture<'_, Result<BookStatistics, StoreError>> {
        // No other program writes here.
        ready(BookStatistics::default())
    }

    fn contexts<'a>(
        &'a self,
        query: &'a ContextQuery,
    ) -> BoxFuture<'a, Result<Vec<ContextSnapshot>, StoreError>> {
        let state = self.state();
        let names = query.names.iter();
        ready(
            names
                .flat_map(|name| state.context(name, query.now))
                .collect(),
        )
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

    fn records<'a>(
        &'a self,
        query: &'a RecordQuery,
    ) -> BoxFuture<'a, Result<Vec<ContextRecords>, StoreError>> {
        let state = self.state();
        let records = query.contexts.iter().map(|context| ContextRecords {
            slices: state.records(context, query.width, query.now),
            context: context.clone(),
        });
        ready(records.collect())
    }

    fn record_index(&self, _: i64) -> BoxFuture<'_, Result<RecordIndex, StoreError>> {
        ready(RecordIndex {
            created: self.created,
            ..self.state().record_index()
        })
    }

    fn slice_records<'a>(
        &'a self,
        slices: &'a [TierSlice],
    ) -> BoxFuture<'a, Result<Vec<SliceRecords>, StoreError>> {
        Box::pin(async move {
            let mut records = Vec::with_capacity(slices.len());
            for slice in slices {
                records.push(SliceRecords {
                    records: self.state().records.in_slice(*slice),
                });
                // Copying a slice holds the runtime up for a while.
                tokio::task::yield_now().await;
            }
            Ok(records)
        })
    }

    fn slowest<'a>(
        &'a self,
        query: &'a SlowestQuery,
    ) -> BoxFuture<'a, Result<Vec<RankedContext>, StoreError>> {
        let state = self.state();
        let ranking = state.slowest.iter();
        let ranking = ranking.map(|(name, mean)| RankedContext::new(name, *mean));
        let mut ranking: Vec<_> = ranking.collect();
        slowest::sort(&mut ranking);
        ranking.truncate(query.limit);
        ready(ranking)
    }

    fn slow_requests<'a>(
        &'a self,
        query: &'a SlowRequestQuery,
    ) -> BoxFuture<'a, Result<Vec<SlowRequests>, StoreError>> {
        let state = self.state();
        let hour = state.slow_requests.get(&query.hour);
        let list = |context: &ContextId| {
            let list = hour.and_then(|hour| hour.get(context));
            list.cloned()
                .unwrap_or_else(|| SlowRequests::of(context.kind))
        };
        ready(query.contexts.iter().map(list).collect())
    }

    fn minute_reports<'a>(
        &'a self,
        minutes: &'a [i64],
    ) -> BoxFuture<'a, Result<Vec<Vec<InstanceMinuteRecords>>, StoreError>> {
        let state = self.state();
        let minutes = minutes.iter();
        ready(
            minutes
                .map(|minute| state.minute_reports.instances(*minute))
                .collect(),
        )
    }

    fn version_records<'a>(
        &'a self,
        minutes: &'a [i64],
    ) -> BoxFuture<'a, Result<Vec<VersionRecords>, StoreError>> {
        let state = self.state();
        let minutes = minutes.iter();
        ready(
            minutes
                .flat_map(|minute| state.minute_reports.versions(*minute))
                .collect(),
        )
    }

    fn rankings(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        ready(self.state().ranking_names())
    }

    fn ranking<'a>(
        &'a self,
        query: &'a RankingQuery,
    ) -> BoxFuture<'a, Result<Option<RankingPage>, StoreError>> {
        ready(self.state().ranking_page(query))
    }
}
