//! The fixture of store tests: the store, its clock, and batches to send.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, ManualClock, StoreError};
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::{
    Appended, Cleaned, FencedBatch, Pass, RankingQuery, Store, StoreStatus,
};
use tower_pulse_file::{FileOptions, FileStore};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::ranking::{RankingDelta, RankingSpec};
use tower_pulse_model::slice::{HOUR, Precisions, hour_of};
use tower_pulse_model::slices::Merge;
use tower_pulse_model::snapshot::{ContextSnapshot, HourSnapshot, Problem};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::instances::TestFolder;
use crate::rig::process::TempDir;
use crate::rig::reads::{Snapshot, StoreReads};
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::PATIENCE;

/// The current hour of every test. Tests begin in the middle of this hour, at `NOW`.
pub const THIS_HOUR: i64 = 1_699_999_200;
pub const NOW: i64 = THIS_HOUR + 1_800;
pub const LAST_HOUR: i64 = THIS_HOUR - HOUR;
pub const MS: u64 = 1_000_000;

/// The samples of a call that some figures lack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergeReport {
    pub late: u64,
    pub skewed: u64,
    pub quarantined: Vec<Problem>,
}

impl MergeReport {
    pub fn quarantined_keys(self) -> Vec<String> {
        let quarantined = self.quarantined.into_iter();
        quarantined.map(|problem| problem.key).collect()
    }
}

/// Appends calls to a store and folds them at once.
#[derive(Clone)]
pub struct Writer {
    pub store: Arc<dyn Store>,
    pub folder: TestFolder,
}

impl Writer {
    pub fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        let folder = TestFolder::new(store.clone(), clock, "folder", 10_000);
        Self { store, folder }
    }

    pub async fn apply(&self, call: &FencedBatch) -> Result<MergeReport, StoreError> {
        let mut call = call.clone();
        if call.generation.is_empty() {
            call.generation = self.store.hello().await?.id;
        }
        let before = self.store.upkeep().status(NOW).await?.exceptions;
        let appended = self.store.append(&call).await?;
        assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
        assert!(self.folder.fold().await?, "another instance folds");
        let after = self.store.upkeep().status(NOW).await?.exceptions;
        let new = (after.quarantined - before.quarantined) as usize;
        let keys = after.quarantined_keys;
        Ok(MergeReport {
            late: after.late - before.late,
            skewed: after.skewed - before.skewed,
            quarantined: keys[keys.len() - new.min(keys.len())..].to_vec(),
        })
    }
}

/// Appends a call and folds it, in a store that no other instance uses.
pub async fn apply(store: &Arc<dyn Store>, call: &FencedBatch) -> Result<MergeReport, StoreError> {
    let writer = Writer::new(store.clone(), Clock::system());
    let applied = writer.apply(call).await;
    let _ = writer.folder.release().await;
    applied
}

/// How often each command has run in a server since the server's start or the last `CONFIG RESETSTAT`.
pub async fn calls(server: &RedisServer) -> BTreeMap<String, u64> {
    let stats = server.info("commandstats").await.into_iter();
    let calls = stats.filter_map(|(name, fields)| {
        let calls = fields.split(['=', ',']).nth(1)?.parse().ok()?;
        Some((name.strip_prefix("cmdstat_")?.to_owned(), calls))
    });
    calls.collect()
}

/// The keys of a store in a server, as another program reads and writes them.
pub struct Keys {
    pub client: redis::Client,
    pub prefix: String,
}

impl Keys {
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub async fn connection(&self) -> redis::aio::MultiplexedConnection {
        crate::rig::server::connect(&self.client).await
    }
}

pub struct Fixture {
    pub store: Arc<dyn Store>,
    pub precisions: Precisions,
    pub clock: Clock,
    pub manual_clock: ManualClock,
    pub server: Option<RedisServer>,
    /// The keys, if the store is in a server.
    pub keys: Option<Keys>,
    /// The directory of a store in a file, which is removed with the fixture.
    _dir: Option<TempDir>,
    pub writer: Writer,
    seq: u64,
}

impl Fixture {
    fn new(store: impl FnOnce(&Clock) -> Arc<dyn Store>) -> Self {
        let (clock, manual_clock) = Clock::manual(NOW);
        let store = store(&clock);
        Self {
            writer: Writer::new(store.clone(), clock.clone()),
            store,
            precisions: Precisions::default(),
            clock,
            manual_clock,
            server: None,
            keys: None,
            _dir: None,
            seq: 0,
        }
    }

    pub fn memory() -> Self {
        Self::new(|clock| Arc::new(MemoryStore::new(Precisions::default(), clock.clone())))
    }

    /// A store in a file, which keeps counters of contexts like the other stores.
    pub fn file() -> Self {
        let dir = TempDir::new("file");
        let options = FileOptions::new(dir.path().join("pulse.redb")).unwrap();
        let mut fixture = Self::new(|clock| {
            let mut store = FileStore::open(options.clock(clock.clone())).unwrap();
            store.has_context_counters = true;
            Arc::new(store)
        });
        fixture._dir = Some(dir);
        fixture
    }

    pub async fn redis() -> Self {
        Self::redis_with(RedisServer::start().await, "pulse:")
    }

    /// A store in a server, with the keys of *Redis in Action*.
    pub async fn without_prefix() -> Self {
        Self::redis_with(RedisServer::start().await, "")
    }

    /// A store in a server that the test has started.
    pub fn redis_with(server: RedisServer, prefix: &str) -> Self {
        let mut fixture = Self::redis_in(&server, prefix);
        fixture.server = Some(server);
        fixture
    }

    /// A store in a server that outlives the fixture.
    pub fn redis_in(server: &RedisServer, prefix: &str) -> Self {
        let keys = Keys {
            client: server.client(),
            prefix: prefix.to_owned(),
        };
        Self::over(redis_store(&server.url(), prefix), keys)
    }

    /// A store with keys in a server or cluster that outlives the fixture.
    pub fn over(store: RedisStore, keys: Keys) -> Self {
        let mut fixture = Self::new(|clock| Arc::new(store.with_clock(clock.clone())));
        fixture.keys = Some(keys);
        fixture
    }

    pub fn server(&self) -> &RedisServer {
        self.server.as_ref().unwrap()
    }

    pub async fn run<T: redis::FromRedisValue>(&self, line: &str) -> T {
        self.server().run(line).await
    }

    pub async fn issue<T>(&self, command: &str, arguments: impl redis::ToRedisArgs) -> T
    where
        T: redis::FromRedisValue,
    {
        issue(&mut self.server().connection().await, command, arguments).await
    }

    pub fn now(&self) -> i64 {
        self.clock.now_seconds()
    }

    /// Appends a batch as the next call, and folds it.
    pub async fn merge(&mut self, batch: Batch) -> MergeReport {
        self.seq += 1;
        let call = call("a", self.seq, batch);
        self.writer.apply(&call).await.unwrap()
    }

    /// Appends a batch as the next call, and folds nothing.
    pub async fn append(&mut self, batch: Batch) {
        self.seq += 1;
        let mut call = call("a", self.seq, batch);
        call.generation = self.store.hello().await.unwrap().id;
        let appended = self.store.append(&call).await.unwrap();
        assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
    }

    /// Merges a batch, and checks that all figures have all samples of the batch.
    pub async fn merge_whole(&mut self, batch: Batch) {
        assert_eq!(self.merge(batch).await, MergeReport::default());
    }

    pub async fn count(&mut self, second: i64, counts: &[(&str, i64)]) -> MergeReport {
        let mut batch = self.batch(&[]);
        for (name, n) in counts {
            batch.count(&Arc::from(*name), second, *n);
        }
        self.merge(batch).await
    }

    pub async fn hit(&mut self, context: &str, second: i64, nanos: u64) -> MergeReport {
        let batch = self.batch(&[(context, Kind::Http, second, &[nanos])]);
        self.merge(batch).await
    }

    /// A batch of samples: context, kind, second, and the nanoseconds of each sample.
    pub fn batch(&self, requests: &[(&str, Kind, i64, &[u64])]) -> Batch {
        let mut batch = Batch::new(self.precisions.clone());
        for (context, kind, second, nanos) in requests {
            let aggregate = aggregate_of(nanos, Outcome::Success);
            batch.add(&Arc::from(*context), *kind, *second, &aggregate);
        }
        batch
    }

    pub async fn snapshot(&self) -> Snapshot {
        self.store.snapshot(self.now()).await.unwrap()
    }

    pub async fn context(&self, context: &str) -> ContextSnapshot {
        let found = self.store.context(context, self.now()).await;
        found.unwrap().unwrap()
    }

    pub async fn counter(&self, name: &str, precision: u32) -> Vec<(i64, i64)> {
        self.store.counter(name, precision).await.unwrap()
    }

    pub async fn records(&self, name: &str, width: u32) -> Vec<(i64, Aggregate)> {
        let now = self.now();
        self.store.records_of(name, width, now).await.unwrap()
    }

    pub async fn slowest_means(&self) -> Vec<(String, f64)> {
        self.store.slowest_means().await.unwrap()
    }

    pub async fn clean(&self) -> Cleaned {
        let cleaned = self.store.upkeep().clean(&self.pass()).await;
        cleaned.unwrap().unwrap()
    }

    /// A folder that keeps a history of this number of days, if any.
    pub fn folder(&self, name: &str, days: Option<u32>) -> TestFolder {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        TestFolder::with_history(store, clock, name, 1_000, days)
    }

    /// Lets a new folder take over, which remembers no records.
    pub async fn take_over(&mut self, name: &str, days: Option<u32>) {
        self.writer.folder.release().await.unwrap();
        self.writer.folder = self.folder(name, days);
    }

    pub async fn status(&self) -> StoreStatus {
        self.store.upkeep().status(self.now()).await.unwrap()
    }

    /// The counts of this hour and of the last hour. If the store exports statistics, these are the exported counts,
    /// which must not exceed the counts in the records.
    pub async fn hours(&self, context: &str) -> (Option<f64>, Option<f64>) {
        let snapshot = self.context(context).await;
        let count = |hour: Option<HourSnapshot>| hour.map(|hour| hour.times.count);
        let shown = (count(snapshot.hour), count(snapshot.last_hour));
        let Some(exports) = self.store.query().exports() else {
            return shown;
        };
        let now = self.now();
        let hours = exports.statistics(context, now).await.unwrap();
        let hours = hours.unwrap_or_default();
        let count = |start: i64| {
            let hour = hours.iter().find(|(hour, _)| *hour == start);
            hour.map(|(_, times)| times.count)
        };
        let exported = (count(hour_of(now)), count(hour_of(now) - HOUR));
        assert!(exported <= shown, "{context}: {exported:?}, {shown:?}");
        exported
    }

    /// Returns `n`, or 0 if the store exports no statistics, because then a fold counts no sample as late.
    pub fn late(&self, n: u64) -> u64 {
        self.store.query().exports().map_or(0, |_| n)
    }

    pub fn advance(&self, seconds: i64) {
        self.manual_clock
            .advance(Duration::from_secs(seconds as u64));
    }

    pub fn pass(&self) -> Pass {
        pass_of("a", self.now(), 60)
    }
}

/// A cleaning pass that forgets contexts after a week.
pub fn pass_of(instance: &str, now: i64, interval: i64) -> Pass {
    Pass {
        instance: instance.to_owned(),
        now,
        interval,
        ranking_retention: 24 * HOUR,
        context_retention: 7 * 24 * HOUR,
    }
}

pub const fn spec(interval: u32, slices: u32, max_ids: u32) -> RankingSpec {
    RankingSpec {
        interval,
        slices,
        max_ids,
    }
}

/// A batch of additions to the ranking `posts`.
pub fn ranked(delta: RankingDelta) -> Batch {
    let mut batch = Batch::new(Precisions::default());
    batch.rankings.insert("posts".into(), delta);
    batch
}

/// A query for the first `limit` ids of the ranking `posts`.
pub fn posts(now: i64, limit: usize) -> RankingQuery {
    RankingQuery {
        name: "posts".to_owned(),
        now,
        limit,
        ..RankingQuery::default()
    }
}

pub fn redis_store(url: &str, prefix: &str) -> RedisStore {
    opened(RedisOptions::new(url).unwrap().prefix(prefix))
}

/// A store with long timeouts, because the tests run at the same time.
pub fn opened(options: RedisOptions) -> RedisStore {
    let options = options.response_timeout(PATIENCE);
    RedisStore::open(options.connection_timeout(PATIENCE)).unwrap()
}

pub fn call(instance: &str, seq: u64, batch: Batch) -> FencedBatch {
    FencedBatch {
        generation: String::new(),
        instance: instance.into(),
        seq,
        previous: seq - 1,
        batch,
    }
}

pub fn aggregate_of(nanos: &[u64], outcome: Outcome) -> Aggregate {
    let mut aggregate = Aggregate::default();
    for nanos in nanos {
        aggregate.times.record(*nanos);
        aggregate.outcomes.record(outcome, outcome.is_error());
    }
    let count = nanos.len() as u64;
    match outcome {
        Outcome::Success => aggregate.codes.add(200, count),
        Outcome::ClientError => aggregate.codes.add(404, count),
        Outcome::ServerError => aggregate.codes.add(503, count),
        _ => {}
    }
    if outcome.is_error() {
        aggregate.kinds.add("db_timeout".into(), count);
    }
    let buckets = nanos.iter().map(|nanos| (bucket_of(*nanos) as u16, 1));
    aggregate.histogram = Histogram::new(SCALE, buckets);
    let (part, mut parts) = (aggregate.histogram.clone(), Aggregate::default());
    match outcome {
        Outcome::Cancelled | Outcome::BodyAborted => parts.censored = part,
        _ if outcome == Outcome::ClientError || outcome.is_error() => parts.failures = part,
        _ => {}
    }
    aggregate.merge(&parts);
    aggregate
}
