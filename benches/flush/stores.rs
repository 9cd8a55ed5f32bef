//! The three stores, each with a folder, and the batches that are flushed to them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, ManualClock};
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::{Append, Store};
use tower_pulse_core::store::{Appended, FencedBatch};
use tower_pulse_file::{FileOptions, FileStore};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, Kind};
use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::Precisions;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::instances::TestFolder;
use pulse_rig::process::{TempDir, wait_until_released};
use pulse_rig::server::RedisServer;

/// The time at which a bench begins: the start of a day, in Unix seconds.
pub const NOW: i64 = 1_700_006_400;
pub const REQUESTS: u64 = 20;
/// The cost, in commands, of a call with about 16 contexts: the smallest call of a flusher to a store in its process.
pub const COST: usize = 16 * 24;
/// The size limit of the memory and of the file: room for all minutes of 2,000 contexts.
const BYTES: u64 = 1024 * 1024 * 1024;
/// The number of records that the folder caches if the store is Redis.
const MAX_RECORDS: usize = 6_000;

/// The requests of one second to `contexts` contexts.
pub fn batch(contexts: usize, now: i64) -> Batch {
    let mut batch = Batch::new(Precisions::default());
    // The durations are from 0.7 to 280 ms.
    let nanos: Vec<u64> = (1..=REQUESTS).map(|n| n * n * 700_000).collect();
    let requests = aggregate(&nanos);
    for context in 0..contexts {
        let name = format!("GET /api/v1/things-{context}/{{id}}").into();
        batch.add(&name, Kind::Http, now, &requests);
    }
    let all = aggregate(&nanos.repeat(contexts));
    batch.add(&ALL.into(), Kind::All, now, &all);
    batch
}

fn aggregate(nanos: &[u64]) -> Aggregate {
    let mut aggregate = Aggregate::default();
    for nanos in nanos {
        aggregate.times.record(*nanos);
        aggregate.outcomes.record(Outcome::Success, false);
        aggregate.codes.add(200, 1);
    }
    let buckets = nanos.iter().map(|nanos| (bucket_of(*nanos) as u16, 1));
    aggregate.histogram = Histogram::new(SCALE, buckets);
    aggregate
}

pub struct Target {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub manual: ManualClock,
    /// The number of the last call.
    seq: u64,
    folder: TestFolder,
}

impl Target {
    fn new(store: Arc<dyn Store>, clock: Clock, manual: ManualClock, max_records: usize) -> Self {
        let folder = TestFolder::new(store.clone(), clock.clone(), "folder", max_records);
        Self {
            store,
            clock,
            manual,
            seq: 0,
            folder,
        }
    }

    pub fn memory() -> Self {
        let (clock, manual) = Clock::manual(NOW);
        let store = MemoryStore::in_memory(Precisions::default(), clock.clone(), BYTES as usize);
        Self::new(Arc::new(store), clock, manual, 0)
    }

    pub fn redis(server: &RedisServer) -> Self {
        let (clock, manual) = Clock::manual(NOW);
        let options = RedisOptions::new(&server.url()).unwrap();
        let options = options.response_timeout(Duration::from_secs(10));
        let store = RedisStore::open(options).unwrap();
        let store = store.with_clock(clock.clone());
        Self::new(Arc::new(store), clock, manual, MAX_RECORDS)
    }

    pub async fn file(file: &PulseFile) -> Self {
        let (clock, manual) = Clock::manual(NOW);
        let store = file.open(&clock).await;
        Self::new(store, clock, manual, 0)
    }

    /// Closes the file, and opens it as the next process does.
    pub async fn reopen(&mut self, file: &PulseFile) {
        let (clock, manual, seq) = (self.clock.clone(), self.manual.clone(), self.seq);
        // This drops the store and the folder, which both hold the file. Otherwise the file would stay locked.
        *self = Self::memory();
        let store = file.open(&clock).await;
        *self = Self::new(store, clock, manual, 0);
        self.seq = seq;
    }

    /// Splits the batch into calls, as the flusher does, and appends and folds the calls.
    pub async fn flush(&mut self, mut batch: Batch) {
        while !batch.is_empty() {
            self.seq += 1;
            let call = FencedBatch {
                generation: self.store.hello().await.unwrap().id,
                instance: "bench".into(),
                seq: self.seq,
                previous: self.seq - 1,
                batch: batch.split(COST),
            };
            let appended = self.store.append(&call).await.unwrap();
            assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
        }
        assert!(self.folder.fold().await.unwrap());
    }
}

pub struct PulseFile(TempDir);

impl PulseFile {
    pub fn new() -> Self {
        Self(TempDir::new("bench"))
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().join("pulse.redb")
    }

    pub fn mib(&self) -> f64 {
        self.path().metadata().unwrap().len() as f64 / 1_048_576.0
    }

    /// Waits until no process holds the file, and opens it.
    pub async fn open(&self, clock: &Clock) -> Arc<dyn Store> {
        wait_until_released(&self.path());
        let options = FileOptions::new(self.path()).unwrap();
        let options = options.clock(clock.clone()).file_bytes(BYTES).unwrap();
        let store = FileStore::open(options).unwrap();
        while store.hello().await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Arc::new(store)
    }
}
