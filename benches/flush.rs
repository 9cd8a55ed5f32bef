//! Flushing a batch of 1, 100 and 2,000 contexts: to memory, where it is folded at once, to the journal of
//! a real Redis, and folding from there.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rig::server::RedisServer;
use tower_pulse::Clock;
use tower_pulse::model::aggregate::Aggregate;
use tower_pulse::model::batch::Batch;
use tower_pulse::model::context::Kind;
use tower_pulse::model::histogram::{Histogram, SCALE, bucket_of};
use tower_pulse::model::outcome::Outcome;
use tower_pulse::model::slice::Precisions;
use tower_pulse::store::memory::MemoryStore;
use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse::store::{Appended, FencedBatch, Store};
use tower_pulse::testing::TestFolder;

const NOW: i64 = 1_700_001_000;
/// Requests per second of a context.
const REQUESTS: u64 = 20;
/// Commands of a call, about 16 contexts: the flusher's initial size.
const COST: usize = 16 * 24;

fn batch(contexts: usize) -> Batch {
    let mut batch = Batch::new(Precisions::default());
    for context in 0..contexts {
        let mut aggregate = Aggregate::default();
        let nanos: Vec<u64> = (1..=REQUESTS).map(|n| n * n * 700_000).collect();
        for nanos in &nanos {
            aggregate.times.record(*nanos);
            aggregate.outcomes.record(Outcome::Success, false);
        }
        let buckets = nanos.iter().map(|nanos| (bucket_of(*nanos) as u16, 1));
        aggregate.histogram = Histogram::new(SCALE, buckets);
        let name = format!("GET /api/v1/things-{context}/{{id}}").into();
        batch.add(&name, Kind::Http, NOW, &aggregate);
    }
    batch
}

/// A store with a folder, and the number of its last call.
struct Target {
    store: Arc<dyn Store>,
    seq: u64,
    folder: Option<TestFolder>,
}

impl Target {
    /// Sends a batch in calls, as the flusher does.
    async fn flush(&mut self, mut batch: Batch) {
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
        if let Some(folder) = &self.folder {
            assert!(folder.fold().await.unwrap());
        }
    }
}

fn flush(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(RedisServer::start());
    let options = RedisOptions::new(&server.url()).unwrap();
    let options = options.response_timeout(Duration::from_secs(10));
    let (clock, _hand) = Clock::manual(NOW);
    let redis = RedisStore::open(options).unwrap().with_clock(clock.clone());
    let redis: Arc<dyn Store> = Arc::new(redis);
    let memory = MemoryStore::new(Precisions::default(), clock.clone());
    let folder = TestFolder::new(redis.clone(), clock, "folder", 20_000);
    let target = |store, folder| Target {
        store,
        seq: 0,
        folder,
    };
    let mut targets = [
        ("memory", target(Arc::new(memory), None)),
        ("redis, appended and folded", target(redis, Some(folder))),
    ];
    let mut group = c.benchmark_group("flush");
    group.sample_size(20);
    for contexts in [1, 100, 2_000] {
        group.throughput(Throughput::Elements(contexts as u64));
        let whole = batch(contexts);
        group.bench_function(BenchmarkId::new("split into calls", contexts), |b| {
            let split = |mut batch: Batch| {
                let mut parts = 0;
                while !batch.is_empty() {
                    std::hint::black_box(batch.split(COST));
                    parts += 1;
                }
                parts
            };
            b.iter_batched(|| whole.clone(), split, BatchSize::LargeInput);
        });
        for (name, target) in &mut targets {
            group.bench_function(BenchmarkId::new(*name, contexts), |b| {
                b.iter_batched(
                    || whole.clone(),
                    |batch| runtime.block_on(target.flush(batch)),
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, flush);
criterion_main!(benches);
