//! Merged samples: everything that the crate records about them.

use super::access_time::DurationSums;
use super::histogram::Histogram;
use super::outcome::OutcomeCounts;
use super::slices::Merge;
use super::timer_sums::Timers;

/// Additions to the counters of a context within a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Number of samples.
    pub hits: u64,
    /// Number of samples that were errors.
    pub errors: u64,
    /// Sum of their durations, in microseconds.
    pub micros: u64,
}

impl Merge for RequestCounts {
    fn merge(&mut self, other: &Self) {
        self.hits = self.hits.saturating_add(other.hits);
        self.errors = self.errors.saturating_add(other.errors);
        self.micros = self.micros.saturating_add(other.micros);
    }
}

/// Merged samples of a context within a slice, or within one drained second: everything that the crate
/// records about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// The access times.
    pub times: DurationSums,
    /// Counts by outcome.
    pub outcomes: OutcomeCounts,
    /// Histogram of the access times.
    pub histogram: Histogram,
    /// The timers that ran within the requests.
    pub timers: Timers,
}

impl Merge for Aggregate {
    fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.outcomes.merge(&other.outcomes);
        self.histogram.merge(&other.histogram);
        self.timers.merge(&other.timers);
    }
}

impl Aggregate {
    /// Takes out all of `other`, which was merged before. The smallest and the largest access time stay.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.times.subtract(&other.times);
        self.outcomes.subtract(&other.outcomes);
        self.histogram.subtract(&other.histogram);
        self.timers.subtract(&other.timers);
    }

    /// Approximate bytes in memory, with the start of its slice.
    pub(crate) fn bytes(&self) -> usize {
        const PER_BUCKET: usize = 16;
        size_of::<(i64, Self)>() + PER_BUCKET * self.histogram.buckets().len() + self.timers.bytes()
    }
}
