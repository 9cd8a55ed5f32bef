//! Totals of this instance since it started, for the Prometheus text.

use std::sync::LazyLock;

use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::Kind;
use tower_pulse_model::histogram::{BUCKETS, SCALE, lower_bound};
use tower_pulse_model::outcome::OutcomeCounts;

/// Upper bounds of the buckets in seconds: the defaults of Prometheus, with 1 ms and 30 s added because
/// many services answer within 5 ms.
pub const BOUNDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// For each bucket of the exponential histogram, the first of [`BOUNDS`] above its middle.
static PLACES: LazyLock<[usize; BUCKETS]> = LazyLock::new(|| {
    std::array::from_fn(|index| {
        let low = lower_bound(index as u16, SCALE);
        let middle = low.midpoint(lower_bound(index as u16 + 1, SCALE));
        BOUNDS.partition_point(|bound| *bound < middle)
    })
});

/// Totals of a context.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// Whether the context stands for HTTP requests, other code or the sum of all.
    pub kind: Kind,
    /// Number of samples.
    pub count: u64,
    /// Sum of their durations, in nanoseconds.
    pub nanos: u128,
    /// Counts by outcome.
    pub outcomes: OutcomeCounts,
    /// Number of durations in each bucket, not cumulative. The last bucket is beyond all bounds.
    pub buckets: [u64; BOUNDS.len() + 1],
}

impl Totals {
    /// Totals of a context without samples.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            count: 0,
            nanos: 0,
            outcomes: OutcomeCounts::default(),
            buckets: [0; BOUNDS.len() + 1],
        }
    }

    /// Adds an aggregate. A bucket of the exponential histogram that a bound cuts is counted on the side of
    /// its middle, so the bounds are exact to 2.2 %.
    pub fn add(&mut self, aggregate: &Aggregate) {
        self.count += aggregate.times.count;
        self.nanos += u128::from(aggregate.times.sum);
        self.outcomes.merge(&aggregate.outcomes);
        for (index, n) in aggregate.histogram.buckets() {
            let place = PLACES.get(usize::from(*index));
            self.buckets[place.copied().unwrap_or(BOUNDS.len())] += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::histogram::{Histogram, bucket_of};
    use tower_pulse_model::outcome::Outcome;

    #[test]
    fn aggregates_add_up_to_totals() {
        let mut totals = Totals::new(Kind::Timer);
        for micros in [900u64, 1_000, 3_000, 700_000, 60_000_000] {
            let mut aggregate = Aggregate::default();
            for _ in 0..2 {
                aggregate.times.record(1_000 * micros);
                aggregate.outcomes.record(Outcome::Completed, false);
            }
            let bucket = bucket_of(1_000 * micros) as u16;
            aggregate.histogram = Histogram::new(SCALE, [(bucket, 2)]);
            totals.add(&aggregate);
        }
        assert_eq!((totals.count, totals.nanos), (10, 2 * 60_704_900_000));
        assert_eq!(totals.outcomes.count(Outcome::Completed), 10);
        let mut buckets = [0; BOUNDS.len() + 1];
        // The middle of the bucket of 1 ms is above 1 ms.
        for upper_bound in [0.001, 0.0025, 0.005, 1.0] {
            let at = BOUNDS.iter().position(|bound| *bound == upper_bound);
            buckets[at.expect("there is this bound")] = 2;
        }
        buckets[BOUNDS.len()] = 2;
        assert_eq!(totals.buckets, buckets);
    }
}
