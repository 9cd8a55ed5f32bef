//! A store with canned data, which can also fail or hang.

use std::future::pending;
use std::sync::{LazyLock, Mutex};

use tower_pulse_core::clock::Clock;
use tower_pulse_core::error::{StoreError, StoreErrorKind};
use tower_pulse_core::store::StoreFuture;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::table_reads::TableReader;
use tower_pulse_core::store::{
    Append, Appended, AppendedCall, BookStatistics, Cleaned, CounterQuery, CounterSeries,
    FencedBatch, Fleet, Generation, Heartbeat, PackedRecords, Pass, Query, Readable, RecordIndex,
    Store, StoreStatus, Upkeep,
};
#[cfg(feature = "rankings")]
use tower_pulse_core::store::{RankingPage, RankingQuery};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ALL, ContextId, Kind};
use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::pack;
#[cfg(feature = "rankings")]
use tower_pulse_model::ranking::RankingSpec;
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::records::{Record, RecordId};
use tower_pulse_model::slice::{Precisions, SliceCount, hour_of};
use tower_pulse_model::slowest::RankedContext;
use tower_pulse_model::snapshot::{
    AliveInstance, ContextSnapshot, FleetSnapshot, HourSnapshot, Problem,
};
use tower_pulse_model::tier::TierSlice;

/// Eight minutes and ten seconds into an hour.
pub(crate) const NOW: i64 = 1_336_374_000 + 490;

/// The half hours that hold the requests of this hour and of the last hour.
const HALF_HOURS: [i64; 2] = [NOW - 490, NOW - 490 - 1_800];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FaultMode {
    #[default]
    Fine,
    Failing,
    Hanging,
}

const REFUSED: &str = "redis://cache:6379: connection refused";

#[derive(Default)]
pub(crate) struct Canned {
    fault: Mutex<FaultMode>,
}

static EMPTY: LazyLock<MemoryStore> =
    LazyLock::new(|| MemoryStore::new(Precisions::default(), Clock::system()));

fn alive(instance: &str) -> AliveInstance {
    AliveInstance {
        instance: instance.into(),
        last_seen: NOW - 10,
        version: Some("1.4.2".into()),
        in_flight: Some(2),
        paths: Vec::new(),
        skew: None,
        cleaning: None,
    }
}

/// The sums of eight requests, two of which failed.
fn sums() -> Aggregate {
    let mut sums = Aggregate::default();
    let millis = [1, 1, 1, 1, 1, 900, 1_100, 700];
    for (at, millis) in millis.into_iter().enumerate() {
        sums.times.record(millis * 1_000_000);
        let outcome = match at {
            0 | 1 => Outcome::ServerError,
            _ => Outcome::Success,
        };
        sums.outcomes.record(outcome, outcome.is_error());
    }
    let buckets = millis.map(|millis| (bucket_of(millis * 1_000_000) as u16, 1));
    sums.histogram = Histogram::new(SCALE, buckets);
    sums
}

impl Canned {
    pub(crate) fn set(&self, fault: FaultMode) {
        *self.fault.lock().expect("no panic") = fault;
    }

    fn answer<'a, T: Send + 'a>(&'a self, value: T) -> StoreFuture<'a, T> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let fault = *self.fault.lock().expect("no panic");
            match fault {
                FaultMode::Fine => Ok(value),
                FaultMode::Failing => Err(StoreError::new(StoreErrorKind::Unreachable, REFUSED)),
                FaultMode::Hanging => pending().await,
            }
        })
    }
}

impl Store for Canned {
    fn precisions(&self) -> &Precisions {
        static PRECISIONS: LazyLock<Precisions> = LazyLock::new(Precisions::default);
        &PRECISIONS
    }

    fn journal(&self) -> &dyn tower_pulse_core::store::journal::Journal {
        &*EMPTY
    }

    fn query(&self) -> &dyn Query {
        self
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }

    fn describe(&self) -> String {
        "canned".into()
    }
}

impl Append for Canned {
    fn hello(&self) -> StoreFuture<'_, Generation> {
        unreachable!("the admin router only reads")
    }

    fn append<'a>(&'a self, _: &'a FencedBatch) -> StoreFuture<'a, Appended> {
        unreachable!("the admin router only reads")
    }

    fn readable<'a>(&'a self, _: &'a AppendedCall) -> StoreFuture<'a, Readable> {
        unreachable!("the admin router only reads")
    }
}

impl Query for Canned {
    fn tables(&self) -> &dyn TableReader {
        EMPTY.query().tables()
    }

    fn fleet(&self, now: i64) -> StoreFuture<'_, FleetSnapshot> {
        // Two slices after `as_of`, one that has just ended, four of the ten slices from which the rate is computed,
        // and an older one.
        let ago = [0, 1, 2, 3, 4, 11, 12, 13];
        let counts = [900, 300, 200, 3, 5, 4, 8, 500];
        let slices = ago.into_iter().zip(counts);
        let slices = slices.map(|(ago, n)| SliceCount::new(now - ago, n));
        self.answer(FleetSnapshot {
            taken_at: now,
            contexts: 4,
            timers: 1,
            recent: slices.collect(),
            instances: 2,
            alive: ["abc", "def"].map(alive).to_vec(),
            in_flight: 4,
            problems: Vec::new(),
        })
    }

    fn book_statistics(&self, _: usize, _: i64) -> StoreFuture<'_, BookStatistics> {
        self.answer(BookStatistics {
            total: 1,
            foreign: 1,
            contexts: Vec::new(),
            problems: vec![Problem::new("stats:<script>", "holds a list")],
        })
    }

    fn contexts<'a>(&'a self, name: &'a str, now: i64) -> StoreFuture<'a, Vec<ContextSnapshot>> {
        let kinds = [("GET /ping", Kind::Http), (ALL, Kind::All)];
        let kinds = kinds.into_iter().filter(|(known, _)| *known == name);
        let contexts = kinds.map(|(context, kind)| ContextSnapshot {
            context: context.into(),
            kind,
            hour: Some(HourSnapshot {
                start: hour_of(now),
                times: AccessTimeStats::from(&sums().times),
                aggregate: sums(),
            }),
            last_hour: None,
        });
        self.answer(contexts.collect())
    }

    fn counters<'a>(&'a self, query: &'a CounterQuery) -> StoreFuture<'a, Vec<CounterSeries>> {
        let series = |name: &String| CounterSeries::new(name, Vec::new());
        self.answer(query.names.iter().map(series).collect())
    }

    fn counter_names<'a>(&'a self, _: &'a [u32]) -> StoreFuture<'a, Vec<String>> {
        self.answer(vec!["logins".into(), "sales".into()])
    }

    fn record_index(&self, _: i64) -> StoreFuture<'_, RecordIndex> {
        self.answer(RecordIndex {
            contexts: vec![ContextId::new(Kind::Http, "GET /ping")],
            revisions: HALF_HOURS.map(|start| ((1_800, start), 1)).into(),
            created: NOW - 1_000_000,
            recorded: RecordedTime::new(NOW - 1_000_000, []),
            ..RecordIndex::default()
        })
    }

    fn packed_records<'a>(
        &'a self,
        slices: &'a [TierSlice],
        ids: &'a [RecordId],
    ) -> StoreFuture<'a, Vec<PackedRecords>> {
        let record = pack::record(&Record {
            sums: sums(),
            ..Record::default()
        });
        let records = |slice: &TierSlice| match slice {
            (1_800, start) if HALF_HOURS.contains(start) => vec![Some(record.clone()); ids.len()],
            _ => vec![None; ids.len()],
        };
        self.answer(slices.iter().map(records).collect())
    }

    fn slowest(&self, _: usize) -> StoreFuture<'_, Vec<RankedContext>> {
        self.answer(vec![RankedContext::new("GET /reports/{day}", 1.0)])
    }

    #[cfg(feature = "rankings")]
    fn rankings(&self) -> StoreFuture<'_, Vec<String>> {
        self.answer(vec!["posts".to_owned(), "searches".to_owned()])
    }

    #[cfg(feature = "rankings")]
    fn ranking<'a>(&'a self, query: &'a RankingQuery) -> StoreFuture<'a, Option<RankingPage>> {
        let spec = RankingSpec {
            interval: 3_600,
            slices: 24,
            max_ids: 10,
        };
        let totals = [("b\"<", 7), ("a", 7), ("c", -1)].map(|(id, n)| (id.into(), n));
        let is_stored = ["posts", "searches"].contains(&&*query.name);
        self.answer(is_stored.then(|| RankingPage::new(spec, 4, totals.to_vec(), query)))
    }
}

impl Upkeep for Canned {
    fn status(&self, now: i64) -> StoreFuture<'_, StoreStatus> {
        // This call never fails, because the tests are about the calls after it.
        Box::pin(std::future::ready(Ok(StoreStatus {
            as_of: now - 1,
            created: Some(NOW - 1_000_000),
            since: Some(NOW - 1_000_000),
            ..StoreStatus::default()
        })))
    }

    fn heartbeat<'a>(&'a self, _: &'a Heartbeat) -> StoreFuture<'a, (Fleet, StoreStatus)> {
        unreachable!("the admin router only reads")
    }

    fn deregister<'a>(&'a self, _: &'a str) -> StoreFuture<'a, ()> {
        unreachable!("the admin router only reads")
    }

    fn clean<'a>(&'a self, _: &'a Pass) -> StoreFuture<'a, Option<Cleaned>> {
        unreachable!("the admin router only reads")
    }
}
