//! The cost of the detector: 2,000 contexts with 1,000 requests per minute each, over two hours.

use std::time::Duration;

use pulse_rig::process::resident_bytes;
use tower_pulse_detect::detector::{Detector, DetectorState, Minute};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::histogram::{BUCKETS, Histogram, bucket_of};
use tower_pulse_model::outcome::Outcome;

use crate::rng::Random;

const CONTEXTS: usize = 2_000;
const REQUESTS: f64 = 1_000.0;
const MINUTES: i64 = 120;
/// The goals for the mean time of judging one minute, and for the memory of the detector.
const MOST_TIME: Duration = Duration::from_millis(60);
const MOST_BYTES: u64 = 36 << 20;

/// Prints the cost. Returns whether the cost is within the goals.
pub(crate) fn print(seed: u64) -> bool {
    let mut random = Random::new(seed);
    // Log-normal times with a median of 50 ms.
    let mut counts = vec![0u32; BUCKETS];
    for _ in 0..200_000 {
        let nanos = (0.05 * random.normal().exp() * 1e9) as u64;
        counts[bucket_of(nanos)] += 1;
    }
    let expected = counts
        .iter()
        .map(|count| f64::from(*count) / 200_000.0 * REQUESTS);
    let expected: Vec<_> = expected.collect();
    let ids: Vec<_> = (0..CONTEXTS)
        .map(|number| RecordId::new(Kind::Http, &number.to_string()))
        .collect();
    let mut detector = Detector::new(DetectorState::default());
    let (mut longest, mut total) = (Duration::ZERO, Duration::ZERO);
    let mut requests = || -> Vec<_> {
        let contexts = 0..CONTEXTS;
        contexts
            .map(|_| aggregate(&mut random, &expected))
            .collect()
    };
    // Each minute reuses this memory, so the measurement does not include it.
    drop(requests());
    let before = resident_bytes(std::process::id());
    for minute in 0..MINUTES {
        let sums = requests();
        let given = Minute {
            start: 1_800_000_000 + 60 * minute,
            contexts: ids.iter().copied().zip(&sums).collect(),
            instances: Vec::new(),
        };
        let start = processor_time();
        detector.judge(&given);
        detector.watched();
        let took = processor_time() - start;
        if minute >= 90 {
            total += took;
            longest = longest.max(took);
        }
    }
    let bytes = resident_bytes(std::process::id()).saturating_sub(before);
    let mean = total / (MINUTES as u32 - 90);
    println!(
        "\ncost of a minute with {CONTEXTS} contexts of {REQUESTS:.0} requests/min: mean {:.0} ms, longest {:.0} ms; \
         {:.1} MiB; goals: mean {} ms, {} MiB",
        mean.as_secs_f64() * 1e3,
        longest.as_secs_f64() * 1e3,
        bytes as f64 / 1_048_576.0,
        MOST_TIME.as_millis(),
        MOST_BYTES >> 20,
    );
    mean <= MOST_TIME && bytes <= MOST_BYTES
}

/// The time of this thread on a processor, which other processes do not affect.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn aggregate(random: &mut Random, expected: &[f64]) -> Aggregate {
    let counts: Vec<_> = expected
        .iter()
        .map(|requests| random.poisson(*requests) as u32)
        .collect();
    let mut aggregate = Aggregate {
        histogram: Histogram::from_counts(0, &counts),
        ..Aggregate::default()
    };
    let count = aggregate.histogram.count();
    aggregate.times.count = count;
    aggregate.times.sum = count * 80_000_000;
    aggregate.outcomes.counts[Outcome::Success as usize] = count;
    aggregate
}
