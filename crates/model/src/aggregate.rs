//! All recorded data about samples, merged.

use super::access_time::{AccessTimeStats, DurationSums};
use super::histogram::{BUCKETS, COARSE_SCALE, Histogram, SCALE};
use super::measures::Measures;
use super::outcome::OutcomeCounts;
use super::pack::packed;
use super::slices::{Merge, summed};
use super::tally::{Codes, Kinds, MAX_CODES, MAX_KINDS};
use super::timer_sums::Timers;

packed! {
    /// Additions to the counters of a context within a slice.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RequestCounts {
        /// Number of samples.
        pub hits: u64,
        /// Number of samples that were errors.
        pub errors: u64,
        /// Sum of the samples' durations, in microseconds.
        pub micros: u64,
    }
}

summed!(RequestCounts {
    hits,
    errors,
    micros
});

/// All recorded data about the samples of a context within a slice, or within one drained second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// The durations.
    pub times: DurationSums,
    /// Counts by outcome.
    pub outcomes: OutcomeCounts,
    /// Histogram of the durations.
    pub histogram: Histogram,
    /// The part of the histogram for failures: errors and 4xx.
    pub failures: Histogram,
    /// The part of the histogram for censored requests: requests that were cancelled or whose body was aborted, except
    /// errors. The whole request would have taken at least the recorded time.
    pub censored: Histogram,
    /// The timers that ran within the requests.
    pub timers: Timers,
    /// The responses by status code. Requests without a response have no code.
    pub codes: Codes,
    /// The failures by kind. A response that is not an error may have a failure too.
    pub kinds: Kinds,
    /// Further sums and maxima.
    pub measures: Measures,
}

/// The most buckets of [`Aggregate::failures`] and of [`Aggregate::censored`]: as many as the coarse scale has.
pub const MAX_PART_BUCKETS: usize = BUCKETS >> (SCALE - COARSE_SCALE);

impl Merge for Aggregate {
    fn merge(&mut self, other: &Self) {
        self.histogram.merge(&other.histogram);
        self.merge_beside_histogram(other);
    }
}

impl Aggregate {
    /// Merges several aggregates, faster than [`merge`](Merge::merge) would one by one.
    pub fn merge_all(&mut self, others: &[&Self]) {
        let histograms: Vec<&Histogram> = others.iter().map(|other| &other.histogram).collect();
        self.histogram.merge_all(&histograms);
        for other in others {
            self.merge_beside_histogram(other);
        }
    }

    fn merge_beside_histogram(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.outcomes.merge(&other.outcomes);
        self.merge_parts(&other.failures, &other.censored);
        self.timers.merge(&other.timers);
        self.codes.merge(&other.codes);
        self.kinds.merge(&other.kinds);
        self.measures.merge(&other.measures);
    }

    /// Subtracts `other`, which was merged before. Minima and maxima stay.
    pub fn subtract(&mut self, other: &Self) {
        self.times.subtract(&other.times);
        self.outcomes.subtract(&other.outcomes);
        self.histogram.subtract(&other.histogram);
        self.timers.subtract(&other.timers);
        self.codes.subtract(&other.codes);
        self.kinds.subtract(&other.kinds);
        self.measures.subtract(&other.measures);
        for (part, other) in self.parts_mut().into_iter().zip(other.parts()) {
            part.subtract(other);
            if part.is_empty() {
                *part = Histogram::default();
            }
        }
    }

    /// Merges the parts of the histogram. A part with more than [`MAX_PART_BUCKETS`] buckets gets the coarse scale,
    /// which bounds its size. The scale depends only on the merged buckets, not on the order of merging.
    pub fn merge_parts(&mut self, failures: &Histogram, censored: &Histogram) {
        for (part, other) in self.parts_mut().into_iter().zip([failures, censored]) {
            if other.is_empty() {
                continue;
            }
            part.merge(other);
            if part.buckets().len() > MAX_PART_BUCKETS {
                part.coarsen(COARSE_SCALE);
            }
        }
    }

    /// Keeps the largest timers, codes and kinds. All other timers become one timer, and all other codes and kinds are
    /// added to [`Tally::other`](super::tally::Tally::other).
    pub fn limit(&mut self) {
        self.timers.limit();
        self.codes.limit(MAX_CODES);
        self.kinds.limit(MAX_KINDS);
    }

    pub(crate) fn parts(&self) -> [&Histogram; 2] {
        [&self.failures, &self.censored]
    }

    fn parts_mut(&mut self) -> [&mut Histogram; 2] {
        [&mut self.failures, &mut self.censored]
    }

    /// Reduces the histograms to `scale`, if they are finer.
    pub fn coarsen(&mut self, scale: u8) {
        self.histogram.coarsen(scale);
        // A record does not store the scale of an empty part, so this scale must stay the default.
        let parts = self.parts_mut().into_iter();
        parts
            .filter(|part| !part.is_empty())
            .for_each(|part| part.coarsen(scale));
    }

    /// The histogram of the successful responses, at the coarsest scale of the histogram and its parts.
    pub fn successes(&self) -> Histogram {
        let mut successes = self.histogram.clone();
        let parts = self.parts().into_iter();
        for part in parts.filter(|part| !part.is_empty()) {
            successes.coarsen(part.scale());
            successes.subtract(part);
        }
        successes
    }

    /// The share of the requests that succeeded within `seconds`: successes below this time, divided by all successes
    /// and errors. An error never counts as below, even if it is fast. A 4xx that is no error does not count, because
    /// the service is not to blame. Censored requests do not count, because their full duration is not known. `None` if
    /// no request counts.
    ///
    /// See [`Histogram::count_below`] for the precision.
    pub fn share_below(&self, seconds: f64) -> Option<f64> {
        let (below, all) = self.counts_below(seconds);
        (all > 0).then(|| below as f64 / all as f64)
    }

    /// The two numbers that [`share_below`](Self::share_below) divides: the successes within `seconds`, and all
    /// successes and errors.
    pub fn counts_below(&self, seconds: f64) -> (u64, u64) {
        let successes = self.successes();
        let all = successes.count().saturating_add(self.outcomes.errors);
        (successes.count_below(seconds), all)
    }

    /// The median, the 95th and the 99th percentile in seconds, limited to the smallest and the largest of `times`.
    pub fn percentiles(&self, times: &AccessTimeStats) -> [Option<f64>; 3] {
        let (min, max) = (times.smallest(), times.largest());
        [0.50, 0.95, 0.99].map(|q| self.histogram.quantile_within(q, min, max))
    }

    /// The approximate bytes in memory of the aggregate and of the start of its slice.
    pub fn bytes(&self) -> usize {
        const PER_BUCKET: usize = 16;
        let parts = self.parts().map(|part| part.buckets().len());
        let buckets = self.histogram.buckets().len() + parts.iter().sum::<usize>();
        let kinds = self.kinds.iter().map(|(kind, _)| kind.len());
        let tallies = self.codes.bytes() + self.kinds.bytes() + kinds.sum::<usize>();
        size_of::<(i64, Self)>() + PER_BUCKET * buckets + self.timers.bytes() + tallies
    }
}

#[cfg(test)]
mod tests {
    use proptest::array::uniform3;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::bucket_of;
    use crate::measures::Measure;
    use crate::tests::merged_in_any_order;

    /// The duration in nanoseconds, and 0 for a success, 1 for a failure, 2 for a censored request.
    type Sample = (u64, usize);

    fn aggregate_of(samples: &[Sample]) -> Aggregate {
        let mut aggregate = Aggregate::default();
        for (nanos, part) in samples {
            let one = Histogram::new(SCALE, [(bucket_of(*nanos) as u16, 1)]);
            let parts = [0, 1, 2].map(|number| match number == *part {
                true => one.clone(),
                false => Histogram::default(),
            });
            aggregate.times.record(*nanos);
            aggregate.histogram.merge(&one);
            aggregate.codes.add([200, 404, 499][*part], 1);
            aggregate.codes.add_other(nanos % 3);
            aggregate.kinds.add(part.to_string().into(), 1);
            for measure in Measure::ALL {
                aggregate.measures.add(*measure, *nanos);
            }
            aggregate.merge_parts(&parts[1], &parts[2]);
        }
        aggregate
    }

    fn parts(sums: &Aggregate) -> [Histogram; 3] {
        let (failures, censored) = (sums.failures.clone(), sums.censored.clone());
        [sums.successes(), failures, censored]
    }

    fn samples(most: usize) -> impl Strategy<Value = Vec<Sample>> {
        let nanos = (0.0..42.0f64).prop_map(|exponent| exponent.exp2() as u64);
        vec((nanos, 0..3usize), 0..most)
    }

    fn spread(buckets: usize, part: usize) -> Vec<Sample> {
        let start = |index: usize| (1_001.0 * (index as f64 / 16.0).exp2()) as u64;
        (0..buckets).map(|index| (start(index), part)).collect()
    }

    #[test]
    fn a_part_with_many_buckets_is_coarse() {
        let scale = |buckets| aggregate_of(&spread(buckets, 1)).failures.scale();
        assert_eq!(scale(MAX_PART_BUCKETS), SCALE);
        assert_eq!(scale(MAX_PART_BUCKETS + 1), COARSE_SCALE);
        let both = [spread(9, 0), spread(200, 2)].concat();
        let successes = aggregate_of(&both).successes();
        assert_eq!((successes.scale(), successes.count()), (COARSE_SCALE, 9));
        assert_eq!(aggregate_of(&spread(9, 0)).successes().scale(), SCALE);
    }

    #[test]
    fn a_subtracted_part_leaves_nothing() {
        let mut all = aggregate_of(&[spread(20, 0), spread(200, 1)].concat());
        all.coarsen(0);
        all.subtract(&aggregate_of(&spread(200, 1)));
        assert_eq!(all.failures, Histogram::default());
        assert_eq!(all.successes().count(), 20);
    }

    #[test]
    fn only_successes_are_below_a_target() {
        const MILLI: u64 = 1_000_000;
        let share = |samples: &[Sample], errors| {
            let mut aggregate = aggregate_of(samples);
            aggregate.outcomes.errors = errors;
            aggregate.share_below(0.1)
        };
        let [fast, slow] = [(50 * MILLI, 0), (200 * MILLI, 0)];
        assert_eq!(share(&[], 0), None);
        assert_eq!(share(&[fast, fast, fast, slow], 0), Some(0.75));
        assert_eq!(share(&[fast, (MILLI, 1)], 1), Some(0.5));
        assert_eq!(share(&[(MILLI, 1)], 1), Some(0.0));
        // Neither a 4xx nor a censored request counts.
        assert_eq!(share(&[fast, slow, (MILLI, 1), (MILLI, 2)], 0), Some(0.5));
        assert_eq!(share(&[(MILLI, 1), (MILLI, 2)], 0), None);
    }

    proptest! {
        #[test]
        fn successes_and_parts_add_up_to_the_histogram(samples in samples(600), coarse in any::<bool>()) {
            let mut aggregate = aggregate_of(&samples);
            if coarse {
                aggregate.coarsen(COARSE_SCALE);
            }
            let mut sum = Histogram::default();
            for (number, part) in parts(&aggregate).iter().enumerate() {
                let samples = samples.iter().filter(|(_, part)| *part == number);
                prop_assert_eq!(part.count(), samples.count() as u64);
                sum.merge(part);
            }
            let mut histogram = aggregate.histogram.clone();
            histogram.coarsen(sum.scale());
            prop_assert_eq!(sum, histogram);
        }

        #[test]
        fn merging_is_associative_and_commutative(parts in uniform3(samples(300))) {
            let all = aggregate_of(&parts.concat());
            let merged = merged_in_any_order(parts.map(|part| aggregate_of(&part)), Merge::merge);
            prop_assert_eq!(merged, all);
        }

        #[test]
        fn merged_sums_can_be_subtracted(a in samples(300), b in samples(300)) {
            let (a, b) = (aggregate_of(&a), aggregate_of(&b));
            let mut left = a.clone();
            left.merge(&b);
            left.subtract(&b);
            let counts = |sums: &Aggregate| parts(sums).map(|part| part.count());
            prop_assert_eq!(counts(&left), counts(&a));
            prop_assert_eq!((left.codes, left.kinds), (a.codes, a.kinds));
        }
    }
}
