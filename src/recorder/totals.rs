//! Cumulative totals of this instance since it started, as the Prometheus text shows them.

use std::sync::LazyLock;

use crate::model::batch::Aggregate;
use crate::model::context::Kind;
use crate::model::histogram::{BUCKETS, SCALE, lower_bound};
use crate::model::outcome::OutcomeCounts;

/// Upper bounds of the buckets in seconds. Prometheus' own defaults, and 1 ms and 30 s around them,
/// as many services answer faster than 5 ms.
pub(crate) const BOUNDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Which of [`BOUNDS`] the middle of each bucket of the exponential histogram lies below.
static PLACES: LazyLock<[usize; BUCKETS]> = LazyLock::new(|| {
    std::array::from_fn(|index| {
        let low = lower_bound(index as u16, SCALE);
        let middle = low.midpoint(lower_bound(index as u16 + 1, SCALE));
        BOUNDS.partition_point(|bound| *bound < middle)
    })
});

/// What a context has come to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Totals {
    /// What it stands for.
    pub(crate) kind: Kind,
    /// How many.
    pub(crate) count: u64,
    /// How long they took together, in nanoseconds.
    pub(crate) nanos: u128,
    /// How they ended.
    pub(crate) tally: OutcomeCounts,
    /// How many lie in each bucket, the last being beyond all bounds. Not cumulative.
    pub(crate) buckets: [u64; BOUNDS.len() + 1],
}

impl Totals {
    /// Nothing yet.
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            count: 0,
            nanos: 0,
            tally: OutcomeCounts::default(),
            buckets: [0; BOUNDS.len() + 1],
        }
    }

    /// Adds what was collected. A duration within a bucket of the exponential histogram that a
    /// bound cuts counts as that bucket's middle: the bounds are exact to 2.2 %.
    pub(crate) fn add(&mut self, found: &Aggregate) {
        self.count += found.times.count;
        self.nanos += u128::from(found.times.sum);
        self.tally.merge(&found.tally);
        for (index, n) in found.histogram.buckets() {
            self.buckets[PLACES[usize::from(*index).min(BUCKETS - 1)]] += n;
        }
    }
}
