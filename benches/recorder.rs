//! Recording alone: on one thread and on several, with the same context and with different ones.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tower_pulse::Pulse;

fn recorder(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let pulse = Pulse::builder().build().unwrap();
    let counter = pulse.counter("sales");
    let mut group = c.benchmark_group("recorder");
    group.bench_function("counter", |b| b.iter(|| counter.add(1)));
    group.bench_function("Instant::now twice (baseline)", |b| {
        b.iter(|| (Instant::now(), Instant::now()))
    });
    for threads in [1, 2] {
        for same in [true, false] {
            let name = if same {
                "one context"
            } else {
                "a context each"
            };
            let id = BenchmarkId::new(name, format!("{threads} threads"));
            group.bench_function(id, |b| {
                b.iter_custom(|iterations| timed(&pulse, threads, same, iterations));
            });
        }
    }
    group.finish();
    runtime.block_on(pulse.shutdown()).unwrap();
}

/// The time of the slowest thread for this number of timers.
fn timed(pulse: &Pulse, threads: usize, same: bool, iterations: u64) -> Duration {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let context = if same {
                    "c".to_owned()
                } else {
                    format!("c{thread}")
                };
                scope.spawn(move || {
                    let start = Instant::now();
                    for _ in 0..iterations {
                        pulse.timer(&context).stop();
                    }
                    start.elapsed()
                })
            })
            .collect();
        let times = threads.into_iter().map(|thread| thread.join().unwrap());
        times.max().unwrap()
    })
}

criterion_group!(benches, recorder);
criterion_main!(benches);
