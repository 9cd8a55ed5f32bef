//! The histogram: finding a bucket, merging, and computing a quantile.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};

fn histogram(c: &mut Criterion) {
    let mut group = c.benchmark_group("histogram");
    let durations: Vec<u64> = (0..1_024)
        .map(|_| fastrand::u64(1_000..10_000_000_000))
        .collect();
    let mut i = 0;
    group.bench_function("bucket_of", |b| {
        b.iter(|| {
            i = (i + 1) % durations.len();
            bucket_of(black_box(durations[i]))
        });
    });
    group.bench_function("bucket by log2 (baseline)", |b| {
        b.iter(|| {
            i = (i + 1) % durations.len();
            ((black_box(durations[i]) as f64 / 1_000.0).log2() * 16.0) as usize
        });
    });
    let of = |durations: &[u64]| {
        Histogram::new(SCALE, durations.iter().map(|v| (bucket_of(*v) as u16, 1)))
    };
    let (many, few) = (of(&durations), of(&durations[..32]));
    group.bench_function("merge 32 buckets into many", |b| {
        b.iter(|| {
            let mut both = many.clone();
            both.merge(black_box(&few));
            both
        });
    });
    group.bench_function("p99", |b| b.iter(|| black_box(&many).quantile(0.99)));
    group.finish();
}

criterion_group!(benches, histogram);
criterion_main!(benches);
