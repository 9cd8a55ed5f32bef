//! Flushing a batch of 1, 100 and 2,000 contexts to memory, to a file and to a real Redis, where it is folded; then two
//! tables: what a second costs each store, and how long a page waits for seven days of 2,000 contexts.
//!
//! `cargo bench -p pulse-benches --bench flush -- tables` prints the tables alone. They take a few minutes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub
)]

mod cost;
mod polls;
mod stores;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use pulse_rig::server::RedisServer;
use stores::{COST, NOW, PulseFile, Target, batch};
use tokio::runtime::Runtime;
use tower_pulse_model::batch::Batch;

fn flush(c: &mut Criterion, runtime: &Runtime) {
    let server = runtime.block_on(RedisServer::start());
    let file = PulseFile::new();
    let mut targets = [
        ("memory", Target::memory()),
        ("file", runtime.block_on(Target::file(&file))),
        ("redis", Target::redis(&server)),
    ];
    let mut group = c.benchmark_group("flush");
    group.sample_size(20);
    for contexts in [1, 100, 2_000] {
        group.throughput(Throughput::Elements(contexts as u64));
        let whole = batch(contexts, NOW);
        group.bench_function(BenchmarkId::new("split into calls", contexts), |b| {
            let split = |mut batch: Batch| {
                let mut calls = 0;
                while !batch.is_empty() {
                    std::hint::black_box(batch.split(COST));
                    calls += 1;
                }
                calls
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

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let wants_tables = std::env::args().any(|word| word == "tables");
    if !wants_tables {
        let mut criterion = Criterion::default().configure_from_args();
        flush(&mut criterion, &runtime);
        criterion.final_summary();
    }
    let is_whole = std::env::args().skip(1).all(|word| word == "--bench");
    if wants_tables || is_whole {
        runtime.block_on(async {
            cost::table().await;
            polls::table().await;
        });
    }
}
