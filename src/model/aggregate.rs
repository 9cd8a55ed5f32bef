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
    /// The part of the histogram that is of failures: 4xx, 5xx, errors and panics.
    pub failures: Histogram,
    /// The part of the histogram that is of requests which were cut off: cancelled, or with an aborted body.
    /// They would have taken at least this long.
    pub cut_off: Histogram,
    /// The timers that ran within the requests.
    pub timers: Timers,
}

impl Merge for Aggregate {
    fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.outcomes.merge(&other.outcomes);
        self.histogram.merge(&other.histogram);
        self.failures.merge(&other.failures);
        self.cut_off.merge(&other.cut_off);
        self.timers.merge(&other.timers);
    }
}

impl Aggregate {
    /// Takes out all of `other`, which was merged before. The smallest and the largest access time stay.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.times.subtract(&other.times);
        self.outcomes.subtract(&other.outcomes);
        self.histogram.subtract(&other.histogram);
        self.failures.subtract(&other.failures);
        self.cut_off.subtract(&other.cut_off);
        self.timers.subtract(&other.timers);
    }

    /// Reduces the histograms to `scale`, if they are finer.
    pub(crate) fn coarsen(&mut self, scale: u8) {
        self.histogram.coarsen(scale);
        self.failures.coarsen(scale);
        self.cut_off.coarsen(scale);
    }

    /// Histogram of the successful responses.
    pub fn successes(&self) -> Histogram {
        let mut successes = self.histogram.clone();
        successes.subtract(&self.failures);
        successes.subtract(&self.cut_off);
        successes
    }

    /// Approximate bytes in memory, with the start of its slice.
    pub(crate) fn bytes(&self) -> usize {
        const PER_BUCKET: usize = 16;
        let histograms = [&self.histogram, &self.failures, &self.cut_off];
        let buckets = histograms.map(|histogram| histogram.buckets().len());
        let buckets: usize = buckets.iter().sum();
        size_of::<(i64, Self)>() + PER_BUCKET * buckets + self.timers.bytes()
    }
}
