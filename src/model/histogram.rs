//! The base-2 exponential histogram: the bounds of its buckets grow by `2^(1/16)` from 1 µs to 1 h
//! (OpenTelemetry's exponential histogram at scale 4). Empty buckets take no memory.
//!
//! The error of a quantile is at most 2.2 % at [`SCALE`], and at most 9 % at [`COARSE_SCALE`], to which a
//! histogram older than the current hour is reduced.

/// The finest scale: an octave has `2^SCALE` buckets.
pub const SCALE: u8 = 4;

/// The scale of histograms older than the current hour: 4 buckets per octave.
pub const COARSE_SCALE: u8 = 2;

/// Number of buckets at [`SCALE`] between 1 µs and 1 h.
pub const BUCKETS: usize = 508;

/// Number of buckets of an octave at [`SCALE`].
const PER_OCTAVE: usize = 1 << SCALE;

/// Lower bounds of the buckets of an octave of *nanoseconds*, as the upper 64 bits of the number. Buckets
/// begin at 1 µs, so the bounds are `1000 / 1024 * 2^(k/16)` for k = 1 to 16. The last bound is above every
/// number.
const BOUNDS: [u64; 17] = bounds();

/// Number of bounds at or below each 64th of an octave.
const FIRST_GUESS: [u8; 64] = first_guess();

/// The octave of nanoseconds that 1 µs would begin if it were 1,024 ns.
const FIRST_OCTAVE: usize = 10;

const fn bounds() -> [u64; 17] {
    // A const cannot compute 2^(k/16), so these are the correctly rounded constants. Numbers up to 1 h have
    // 42 bits: 53 exact bits of a bound are enough to separate them.
    const ROOTS: [f64; 16] = [
        1.044_273_782_427_413_8,
        1.090_507_732_665_257_7,
        1.138_788_634_756_691_6,
        1.189_207_115_002_721,
        1.241_857_812_073_484,
        1.296_839_554_651_009_6,
        1.354_255_546_936_892_8,
        std::f64::consts::SQRT_2,
        1.476_826_145_939_499_3,
        1.542_210_825_407_940_7,
        1.610_490_331_949_254_3,
        1.681_792_830_507_429,
        1.756_252_160_373_299_5,
        1.834_008_086_409_342_4,
        1.915_206_561_397_147_4,
        2.0,
    ];
    let mut bounds = [u64::MAX; 17];
    let mut k = 0;
    while k < 16 {
        bounds[k] = (ROOTS[k] * (1_000.0 / 1_024.0) * (1u64 << 63) as f64) as u64;
        k += 1;
    }
    bounds
}

const fn first_guess() -> [u8; 64] {
    let mut guess = [0; 64];
    let mut i = 0;
    while i < 64 {
        let start = 1 << 63 | (i as u64) << 57;
        let mut k = 0;
        while BOUNDS[k] <= start {
            k += 1;
        }
        guess[i] = k as u8;
        i += 1;
    }
    guess
}

/// The bucket of a duration at [`SCALE`]: below 1 µs the first, above 1 h the last.
#[inline]
pub fn bucket_of(nanos: u64) -> usize {
    if nanos < 1_000 {
        return 0;
    }
    let octave = nanos.ilog2();
    let bits = nanos << (63 - octave);
    // A 64th of an octave is narrower than a bucket, so at most one bound lies inside of it.
    let guess = FIRST_GUESS[(bits >> 57) as usize % 64] as usize;
    let within = guess + usize::from(bits >= BOUNDS[guess]);
    // The octave before the first holds the upper part of 1 µs's own octave, above all bounds.
    (octave as usize * PER_OCTAVE + within - FIRST_OCTAVE * PER_OCTAVE).min(BUCKETS - 1)
}

/// Lower bound of bucket `index` of `scale`, in seconds.
pub fn lower_bound(index: u16, scale: u8) -> f64 {
    (f64::from(index) / f64::from(1u32 << scale.min(20))).exp2() * 1e-6
}

/// Unused capacity, in buckets, that a histogram may hold.
const SLACK: usize = 32;

/// A histogram without its empty buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    scale: u8,
    /// (index, count), sorted by index, no count 0.
    buckets: Vec<(u16, u64)>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            scale: SCALE,
            buckets: Vec::new(),
        }
    }
}

impl Histogram {
    /// A histogram of `scale` from (index, count) pairs in any order. Counts of the same index are
    /// added.
    pub fn new(scale: u8, pairs: impl IntoIterator<Item = (u16, u64)>) -> Self {
        let mut buckets: Vec<_> = pairs.into_iter().filter(|(_, n)| *n > 0).collect();
        buckets.sort_unstable_by_key(|(index, _)| *index);
        buckets.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1 = first.1.saturating_add(later.1);
            }
            same
        });
        let mut histogram = Self { scale, buckets };
        histogram.give_room_back();
        histogram
    }

    /// A histogram of `scale` from (index, count) pairs that are sorted by index, each index once.
    pub(crate) fn from_sorted(scale: u8, mut buckets: Vec<(u16, u64)>) -> Self {
        buckets.retain(|(_, n)| *n > 0);
        Self { scale, buckets }
    }

    /// After a merge or a reduction the capacity is that of all parts. Without shrinking it would stay.
    fn give_room_back(&mut self) {
        if self.buckets.capacity() > SLACK + self.buckets.len() {
            self.buckets.shrink_to_fit();
        }
    }

    /// The histogram of a full array of counts at [`SCALE`].
    pub fn from_counts(counts: &[u32]) -> Self {
        let buckets = (0u16..)
            .zip(counts)
            .filter(|(_, n)| **n > 0)
            .map(|(index, n)| (index, u64::from(*n)))
            .collect();
        Self {
            scale: SCALE,
            buckets,
        }
    }

    /// Buckets per octave are `2^scale`.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// (index, count) of the buckets that were hit, by index.
    pub fn buckets(&self) -> &[(u16, u64)] {
        &self.buckets
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Adds all of `other`; the result has the coarser scale of the two. Associative and
    /// commutative.
    pub fn merge(&mut self, other: &Self) {
        self.coarsen(other.scale);
        let shift = other.scale - self.scale;
        if self.buckets.is_empty() && shift == 0 {
            self.buckets.clone_from(&other.buckets);
            return;
        }
        if shift == 0 && self.has_buckets_of(other) {
            self.add_to_buckets(other);
            return;
        }
        let mut merged = Vec::with_capacity(self.buckets.len() + other.buckets.len());
        let mut mine = self.buckets.drain(..).peekable();
        for (index, n) in &other.buckets {
            let index = index >> shift;
            while let Some(bucket) = mine.next_if(|(i, _)| *i <= index) {
                merged.push(bucket);
            }
            match merged.last_mut() {
                // The other's bucket is one of mine, or several of its finer buckets are one at this scale.
                Some((last, sum)) if *last == index => *sum = sum.saturating_add(*n),
                _ => merged.push((index, *n)),
            }
        }
        merged.extend(mine);
        self.buckets = merged;
        self.give_room_back();
    }

    /// Adds all of some others, as [`merge`](Self::merge) does one after the other. All buckets of the range stand in an
    /// array meanwhile, so that no list of them is made anew for each.
    pub(crate) fn merge_all(&mut self, others: &[&Self]) {
        let scales = others.iter().map(|other| other.scale);
        self.coarsen(scales.min().unwrap_or(self.scale));
        let scale = self.scale;
        let place = |other: &Self, index: u16| usize::from(index >> (other.scale - scale));
        let all = || others.iter().copied().chain([&*self]);
        let largest = all().filter_map(|other| Some(place(other, other.buckets.last()?.0)));
        let largest = largest.max().unwrap_or(0);
        if others.len() < 2 || largest >= BUCKETS {
            others.iter().for_each(|other| self.merge(other));
            return;
        }
        let mut counts = vec![0u64; largest + 1];
        for other in all() {
            for (index, n) in &other.buckets {
                let sum = &mut counts[place(other, *index)];
                *sum = sum.saturating_add(*n);
            }
        }
        let counts = (0..).zip(counts).filter(|(_, n)| *n > 0);
        self.buckets.clear();
        self.buckets.extend(counts);
        self.give_room_back();
    }

    /// Whether it has every bucket of another histogram of the same scale.
    fn has_buckets_of(&self, other: &Self) -> bool {
        let mut mine = self.buckets.iter();
        let mut theirs = other.buckets.iter();
        theirs.all(|(index, _)| {
            mine.find(|(i, _)| i >= index)
                .is_some_and(|(i, _)| i == index)
        })
    }

    /// Adds to buckets that are there.
    fn add_to_buckets(&mut self, other: &Self) {
        let mut mine = self.buckets.iter_mut();
        for (index, n) in &other.buckets {
            if let Some((_, sum)) = mine.find(|(i, _)| i == index) {
                *sum = sum.saturating_add(*n);
            }
        }
    }

    /// Takes out all of `other`, which was merged before. The scale stays.
    pub fn subtract(&mut self, other: &Self) {
        let mut other = other.clone();
        other.coarsen(self.scale);
        let mut taken = other.buckets.into_iter().peekable();
        self.buckets.retain_mut(|(index, n)| {
            while taken.next_if(|(i, _)| i < index).is_some() {}
            if let Some((_, less)) = taken.next_if(|(i, _)| i == index) {
                *n = n.saturating_sub(less);
            }
            *n > 0
        });
        self.give_room_back();
    }

    /// The largest relative error of a quantile, for durations from 1 µs to 1 h.
    pub fn error(&self) -> f64 {
        let width = (1.0 / f64::from(1u32 << self.scale.min(20))).exp2();
        (width - 1.0) / (width + 1.0)
    }

    /// Reduces the histogram to `scale`, if it is finer.
    pub fn coarsen(&mut self, scale: u8) {
        if scale < self.scale {
            let shift = self.scale - scale;
            let buckets = self.buckets.drain(..).map(|(index, n)| (index >> shift, n));
            *self = Self::new(scale, buckets);
        }
    }

    /// The `q`-quantile in seconds (nearest rank), for `q` from 0 to 1; `None` when it is empty.
    ///
    /// The value is the point of the bucket whose largest relative error is smallest: at most 2.2 %
    /// at [`SCALE`], 9 % at [`COARSE_SCALE`], for durations from 1 µs to 1 h.
    ///
    /// ```
    /// # use tower_pulse::model::histogram::{Histogram, bucket_of};
    /// let mut histogram = Histogram::default();
    /// for millis in 1..=100u64 {
    ///     let bucket = bucket_of(millis * 1_000_000) as u16;
    ///     histogram.merge(&Histogram::new(4, [(bucket, 1)]));
    /// }
    /// let p95 = histogram.quantile(0.95).unwrap();
    /// assert!((p95 / 0.095 - 1.0).abs() < 0.022);
    /// ```
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let count = self.count();
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0u64;
        for (index, n) in &self.buckets {
            seen = seen.saturating_add(*n);
            if seen >= rank {
                return Some(self.middle(*index));
            }
        }
        None
    }

    /// The mean in seconds, with each duration taken as the middle of its bucket; `None` when it is empty.
    pub fn mean(&self) -> Option<f64> {
        let (mut count, mut sum) = (0.0, 0.0);
        for (index, n) in &self.buckets {
            let low = lower_bound(*index, self.scale);
            let high = lower_bound(index.saturating_add(1), self.scale);
            count += *n as f64;
            sum += *n as f64 * (low + high) / 2.0;
        }
        (count > 0.0).then(|| sum / count)
    }

    /// Number of durations below `seconds`.
    ///
    /// A bucket counts as a whole, by its middle. So this is the exact number below a duration that differs from
    /// `seconds` by no more than [`error`](Self::error), for durations from 1 µs to 1 h.
    pub fn count_below(&self, seconds: f64) -> u64 {
        let buckets = self.buckets.iter();
        let below = buckets.take_while(|(index, _)| self.middle(*index) < seconds);
        below.fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// The point of a bucket whose largest relative error is smallest, in seconds.
    fn middle(&self, index: u16) -> f64 {
        let low = lower_bound(index, self.scale);
        let high = lower_bound(index.saturating_add(1), self.scale);
        2.0 * low * high / (low + high)
    }

    /// The `q`-quantile, limited to the exact smallest and largest value.
    pub fn quantile_within(&self, q: f64, min: Option<f64>, max: Option<f64>) -> Option<f64> {
        let value = self.quantile(q)?;
        let value = min.map_or(value, |min| value.max(min));
        Some(max.map_or(value, |max| value.min(max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn of(nanos: &[u64]) -> Histogram {
        Histogram::new(SCALE, nanos.iter().map(|v| (bucket_of(*v) as u16, 1)))
    }

    fn merged(a: &Histogram, b: &Histogram) -> Histogram {
        let mut both = a.clone();
        both.merge(b);
        both
    }

    /// The exact nearest-rank quantile.
    fn exact(values: &mut [u64], q: f64) -> f64 {
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).max(1);
        values[rank - 1] as f64 / 1e9
    }

    #[test]
    fn the_error_is_that_of_the_scale() {
        let error = |scale| Histogram::new(scale, []).error();
        assert!((error(SCALE) - 0.0217).abs() < 1e-4);
        assert!((error(COARSE_SCALE) - 0.0864).abs() < 1e-4);
        assert!((error(0) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_histogram_takes_the_memory_of_its_own_buckets() {
        let full = || Histogram::new(SCALE, (0..BUCKETS as u16).map(|index| (index, 1)));
        let mut histogram = full();
        histogram.merge(&full());
        assert!(histogram.buckets.capacity() <= BUCKETS + SLACK);
        histogram.coarsen(COARSE_SCALE);
        assert_eq!(histogram.buckets.len(), BUCKETS / 4);
        assert!(histogram.buckets.capacity() <= BUCKETS / 4 + SLACK);
    }

    #[test]
    fn the_range_is_1_us_to_1_h() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(1_000), 0);
        assert_eq!(bucket_of(1_044), 0);
        assert_eq!(bucket_of(1_045), 1);
        assert_eq!(bucket_of(1_999), 15);
        assert_eq!(bucket_of(2_000), 16);
        assert_eq!(bucket_of(3_600_000_000_000), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert!(lower_bound(BUCKETS as u16, SCALE) > 3_600.0);
    }

    #[test]
    fn every_bucket_begins_at_its_bound() {
        for index in 1..BUCKETS {
            let first = (lower_bound(index as u16, SCALE) * 1e9).ceil() as u64;
            assert_eq!((bucket_of(first), bucket_of(first - 1)), (index, index - 1));
        }
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert!(Histogram::default().is_empty());
        assert!(!of(&[1_000]).is_empty());
    }

    #[test]
    fn a_quantile_is_limited_to_the_smallest_and_largest_duration() {
        let histogram = of(&[2_000_000]);
        let within = |min, max| histogram.quantile_within(0.5, min, max);
        let middle = histogram.quantile(0.5);
        assert_eq!(within(None, None), middle);
        assert_eq!(within(Some(1e-3), Some(3e-3)), middle);
        assert_eq!(within(Some(3e-3), None), Some(3e-3));
        assert_eq!(within(None, Some(1e-3)), Some(1e-3));
        assert_eq!(
            Histogram::default().quantile_within(0.5, Some(1.0), None),
            None
        );
    }

    #[test]
    fn an_empty_histogram_takes_the_scale_of_the_coarser_one() {
        let fine = of(&[2_000_000, 2_500_000]);
        let mut coarse = fine.clone();
        coarse.coarsen(COARSE_SCALE);
        let (empty, empty_coarse) = (of(&[]), Histogram::new(COARSE_SCALE, []));
        assert_eq!(merged(&empty, &fine), fine);
        assert_eq!(merged(&empty, &coarse), coarse);
        assert_eq!(merged(&empty_coarse, &fine), coarse);
    }

    #[test]
    fn buckets_without_durations_are_left_out() {
        let pairs = [(3, 0), (7, 2), (9, 0)];
        for histogram in [
            Histogram::new(SCALE, pairs),
            Histogram::from_sorted(SCALE, pairs.to_vec()),
            Histogram::from_counts(&[0, 0, 0, 0, 0, 0, 0, 2, 0, 0]),
        ] {
            assert_eq!(histogram.buckets(), [(7, 2)]);
        }
    }

    /// Durations of all magnitudes, so that small ones are tested as often as large ones.
    fn durations() -> impl Strategy<Value = u64> {
        (1_000f64.log2()..3.6e12f64.log2()).prop_map(|exponent| exponent.exp2() as u64)
    }

    proptest! {
        #[test]
        fn a_bucket_holds_what_lies_between_its_bounds(nanos in durations()) {
            let index = bucket_of(nanos) as u16;
            let seconds = nanos as f64 / 1e9;
            // Half a nanosecond in a microsecond of tolerance, as the bounds are rounded.
            prop_assert!(lower_bound(index, SCALE) <= seconds * (1.0 + 1e-12));
            prop_assert!(seconds < lower_bound(index + 1, SCALE) * (1.0 + 1e-12));
        }

        #[test]
        fn histograms_that_are_merged_at_once_are_those_that_are_merged_one_by_one(parts in vec((vec(durations(), 0..40), 2..=6u8), 0..6)) {
            // A finer scale than ours has buckets beyond the array.
            let parts: Vec<_> = parts.into_iter().map(|(values, scale)| match scale {
                0..=SCALE => {
                    let mut part = of(&values);
                    part.coarsen(scale);
                    part
                }
                _ => Histogram::new(scale, values.into_iter().map(|nanos| ((nanos % 60_000) as u16, 1))),
            }).collect();
            let mut merged = parts.first().cloned().unwrap_or_default();
            let mut expected = merged.clone();
            for part in parts.iter().skip(1) {
                expected.merge(part);
            }
            merged.merge_all(&parts.iter().skip(1).collect::<Vec<_>>());
            prop_assert_eq!(merged, expected);
        }

        #[test]
        fn quantiles_are_within_the_stated_bound(mut values in vec(durations(), 1..300), q in 0.0..=1.0f64) {
            let mut histogram = of(&values);
            let exact = exact(&mut values, q);
            let fine = histogram.quantile(q).expect("not empty");
            prop_assert!((fine / exact - 1.0).abs() <= 0.022, "{} for {}", fine, exact);
            histogram.coarsen(COARSE_SCALE);
            let coarse = histogram.quantile(q).expect("not empty");
            prop_assert!((coarse / exact - 1.0).abs() <= 0.09, "{} for {}", coarse, exact);
        }

        #[test]
        fn what_is_below_a_target_is_exact_for_one_within_the_stated_bound(values in vec(durations(), 1..300), target in durations(), coarse in any::<bool>()) {
            let mut histogram = of(&values);
            if coarse {
                histogram.coarsen(COARSE_SCALE);
            }
            let (error, target) = (histogram.error() + 1e-6, target as f64 / 1e9);
            let exact = |target: f64| values.iter().filter(|nanos| (**nanos as f64 / 1e9) < target).count() as u64;
            let below = histogram.count_below(target);
            let (least, most) = (exact(target / (1.0 + error)), exact(target / (1.0 - error)));
            prop_assert!((least..=most).contains(&below), "{} <= {} <= {}", least, below, most);
        }

        #[test]
        fn merging_loses_nothing_in_any_order(a in vec(any::<u64>(), 0..50), b in vec(durations(), 0..50), c in vec(durations(), 0..50), coarse in any::<bool>()) {
            let all = [a.clone(), b.clone(), c.clone()].concat();
            let (a, mut b, c) = (of(&a), of(&b), of(&c));
            if coarse {
                b.coarsen(COARSE_SCALE);
            }
            let left = merged(&merged(&a, &b), &c);
            prop_assert_eq!(left.count(), all.len() as u64);
            prop_assert_eq!(&left, &merged(&a, &merged(&b, &c)));
            prop_assert_eq!(&left, &merged(&c, &merged(&b, &a)));
            if !coarse {
                prop_assert_eq!(&left, &of(&all));
            }
        }
    }
}
