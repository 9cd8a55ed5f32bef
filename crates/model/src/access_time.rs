//! Statistics of durations: count, sum, sum of squares, smallest, largest, mean and standard deviation. The book *Redis
//! in Action* has them in its recipes *statistics* and *access times*.
//!
//! [`DurationSums`] has exact integers, for batches and records. [`AccessTimeStats`] has seconds, for the book's keys
//! and for answers. The fold adds the exact sums of a whole round at once, so floats are rounded once per round, not
//! once per request.

use super::slices::Merge;

/// Sums of durations in nanoseconds, without rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationSums {
    /// Number of durations.
    pub count: u64,
    /// Sum of the durations, in nanoseconds.
    pub sum: u64,
    /// Sum of the squared durations, in square nanoseconds.
    pub sumsq: u128,
    /// The smallest duration, in nanoseconds; `u64::MAX` without durations.
    pub min: u64,
    /// The largest duration, in nanoseconds.
    pub max: u64,
}

impl Default for DurationSums {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0,
            sumsq: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl DurationSums {
    /// Adds one duration.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(nanos);
        self.sumsq = self
            .sumsq
            .saturating_add(u128::from(nanos) * u128::from(nanos));
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// Subtracts `other`, which was merged before. `min` and `max` stay, because they cannot be subtracted.
    pub fn subtract(&mut self, other: &Self) {
        self.count = self.count.saturating_sub(other.count);
        self.sum = self.sum.saturating_sub(other.sum);
        self.sumsq = self.sumsq.saturating_sub(other.sumsq);
    }
}

impl Merge for DurationSums {
    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.sumsq = self.sumsq.saturating_add(other.sumsq);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Statistics in seconds. The fields are the members of the sorted set in the book's recipe *statistics*.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessTimeStats {
    /// Number of durations.
    pub count: f64,
    /// Sum of the durations, in seconds.
    pub sum: f64,
    /// Sum of the squared durations, in square seconds.
    pub sumsq: f64,
    /// The smallest duration, in seconds; infinite without durations.
    pub min: f64,
    /// The largest duration, in seconds; minus infinite without durations.
    pub max: f64,
}

impl Default for AccessTimeStats {
    fn default() -> Self {
        Self {
            count: 0.0,
            sum: 0.0,
            sumsq: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

impl From<&DurationSums> for AccessTimeStats {
    fn from(durations: &DurationSums) -> Self {
        if durations.count == 0 {
            return Self::default();
        }
        Self {
            count: durations.count as f64,
            sum: durations.sum as f64 / 1e9,
            sumsq: durations.sumsq as f64 / 1e18,
            min: durations.min as f64 / 1e9,
            max: durations.max as f64 / 1e9,
        }
    }
}

impl AccessTimeStats {
    /// Merges `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.sumsq += other.sumsq;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The mean, `sum / count`; `None` without durations, or if the sum is infinite.
    pub fn mean(&self) -> Option<f64> {
        self.has_mean().then(|| self.sum / self.count)
    }

    /// The sample standard deviation, `sqrt((sumsq - sum² / count) / max(count - 1, 1))`; `None` if there is no
    /// [mean](Self::mean). A radicand that is negative because of rounding counts as 0.
    pub fn stddev(&self) -> Option<f64> {
        self.has_mean().then(|| {
            let radicand =
                (self.sumsq - self.sum * self.sum / self.count) / (self.count - 1.0).max(1.0);
            // If both terms are infinite, the radicand is NaN, which `max` turns into 0.
            radicand.max(0.0).sqrt()
        })
    }

    /// The smallest duration, in seconds; `None` without durations.
    pub fn smallest(&self) -> Option<f64> {
        self.min.is_finite().then_some(self.min)
    }

    /// The largest duration, in seconds; `None` without durations.
    pub fn largest(&self) -> Option<f64> {
        self.max.is_finite().then_some(self.max)
    }

    fn has_mean(&self) -> bool {
        self.count > 0.0 && self.sum.is_finite()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn durations_of(values: &[u64]) -> DurationSums {
        let mut durations = DurationSums::default();
        values.iter().for_each(|v| durations.record(*v));
        durations
    }

    #[test]
    fn the_mean_and_the_deviation_have_the_formulas_of_the_book() {
        let times = AccessTimeStats::from(&durations_of(&[SECOND, 2 * SECOND, 4 * SECOND]));
        assert_eq!(times.mean(), Some(7.0 / 3.0));
        let radicand: f64 = (21.0 - 49.0 / 3.0) / 2.0;
        assert!((times.stddev().expect("counted") - radicand.sqrt()).abs() < 1e-12);
        assert_eq!((times.smallest(), times.largest()), (Some(1.0), Some(4.0)));
        let none = AccessTimeStats::default();
        assert_eq!([none.mean(), none.stddev(), none.smallest()], [None; 3]);
        assert_eq!(AccessTimeStats::from(&DurationSums::default()), none);
    }

    #[test]
    fn statistics_merge_as_durations_do() {
        let mut all = durations_of(&[SECOND, 4 * SECOND]);
        let others = durations_of(&[2 * SECOND, 8 * SECOND, 16 * SECOND]);
        let mut times = AccessTimeStats::from(&all);
        times.merge(&AccessTimeStats::from(&others));
        all.merge(&others);
        assert_eq!(times, AccessTimeStats::from(&all));
        assert_eq!((times.count, times.sum, times.sumsq), (5.0, 31.0, 341.0));
        assert_eq!((times.min, times.max), (1.0, 16.0));
    }

    proptest! {
        #[test]
        fn a_deviation_is_neither_negative_nor_nan(values in vec(0..4_000_000_000_000u64, 1..60), repeat in 1usize..40) {
            let times = AccessTimeStats::from(&durations_of(&values.repeat(repeat)));
            let stddev = times.stddev().expect("counted");
            prop_assert!(stddev >= 0.0 && stddev.is_finite());
        }

        #[test]
        fn arbitrary_sums_give_no_nan(count in any::<f64>(), sum in any::<f64>(), sumsq in any::<f64>()) {
            let times = AccessTimeStats { count, sum, sumsq, ..AccessTimeStats::default() };
            prop_assert!(!times.mean().is_some_and(f64::is_nan));
            prop_assert!(!times.stddev().is_some_and(f64::is_nan));
        }
    }
}
