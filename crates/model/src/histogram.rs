//! The base-2 exponential histogram: from 1 µs to 1 h, each bound of a bucket is `2^(1/16)` times the bound before
//! (OpenTelemetry's exponential histogram at scale 4). Empty buckets take no memory.
//!
//! The error of a quantile is at most 2.2 % at [`SCALE`], and at most 9 % at [`COARSE_SCALE`], the scale of slices of
//! six hours and longer.

use crate::order::InOrder;

#[cfg(test)]
mod tests;

/// The finest scale: an octave has `2^SCALE` buckets.
pub const SCALE: u8 = 4;

/// The scale of the histograms of long slices: 4 buckets per octave.
pub const COARSE_SCALE: u8 = 2;

/// The number of buckets at [`SCALE`] between 1 µs and 1 h.
pub const BUCKETS: usize = 508;

const PER_OCTAVE: usize = 1 << SCALE;

/// The lower bounds of the buckets within an octave, shifted left until their highest bit is set. An octave begins at a
/// power of two, in nanoseconds. Buckets begin at 1 µs, so the bounds are `1000 / 1024 * 2^(k/16)` times the start of
/// an octave, for k = 1 to 16. The last element is above all bounds.
const BOUNDS: [u64; 17] = bounds();

/// The number of bounds at or below the start of each 64th of an octave.
const FIRST_GUESS: [u8; 64] = first_guess();

/// The octave that begins at 1,024 ns, the first after 1 µs.
const FIRST_OCTAVE: usize = 10;

const fn bounds() -> [u64; 17] {
    // A const cannot compute 2^(k/16), so these are the correctly rounded constants. Durations up to 1 h have at most
    // 42 bits, so the 53 exact bits of a bound are enough to separate them.
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

/// The bucket of a duration at [`SCALE`]. Durations below 1 µs are in the first bucket, durations above 1 h in the
/// last.
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
    // Durations from 1,000 to 1,023 ns are in the octave before `FIRST_OCTAVE`, above all of its bounds: they get
    // bucket 0.
    (octave as usize * PER_OCTAVE + within - FIRST_OCTAVE * PER_OCTAVE).min(BUCKETS - 1)
}

/// The lower bound of bucket `index` at `scale`, in seconds.
pub fn lower_bound(index: u16, scale: u8) -> f64 {
    (f64::from(index) / f64::from(1u32 << scale.min(20))).exp2() * 1e-6
}

/// The unused capacity that a histogram may keep, in buckets.
const SLACK: usize = 32;

/// A histogram without its empty buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    scale: u8,
    /// (index, count) pairs, sorted by index, without zero counts.
    buckets: Vec<(u16, u64)>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::from_sorted(SCALE, Vec::new())
    }
}

impl Histogram {
    /// A histogram of `scale` from (index, count) pairs in any order. Counts of the same index are added.
    pub fn new(scale: u8, pairs: impl IntoIterator<Item = (u16, u64)>) -> Self {
        let mut buckets: Vec<_> = pairs.into_iter().filter(|(_, n)| *n > 0).collect();
        buckets.order_by_key(|(index, _)| *index);
        buckets.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1 = first.1.saturating_add(later.1);
            }
            same
        });
        let mut histogram = Self { scale, buckets };
        histogram.shrink();
        histogram
    }

    /// A histogram of `scale` from (index, count) pairs that are sorted by index, each index once.
    pub fn from_sorted(scale: u8, mut buckets: Vec<(u16, u64)>) -> Self {
        buckets.retain(|(_, n)| *n > 0);
        Self { scale, buckets }
    }

    fn shrink(&mut self) {
        if self.buckets.capacity() > SLACK + self.buckets.len() {
            self.buckets.shrink_to_fit();
        }
    }

    /// A histogram of counts at [`SCALE`], from bucket `first` on.
    pub fn from_counts(first: u16, counts: &[u32]) -> Self {
        let counts = (first..).zip(counts).filter(|(_, n)| **n > 0);
        let buckets = counts.map(|(index, n)| (index, u64::from(*n)));
        Self::from_sorted(SCALE, buckets.collect())
    }

    /// The scale: an octave has `2^scale` buckets.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// The (index, count) pairs of the buckets that are not empty, by index.
    pub fn buckets(&self) -> &[(u16, u64)] {
        &self.buckets
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// Whether the histogram is empty.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Merges `other`; the result has the coarser scale of the two. Merging is associative and commutative.
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
                // The bucket exists already, or several finer buckets of `other` are one bucket at this scale.
                Some((last, sum)) if *last == index => *sum = sum.saturating_add(*n),
                _ => merged.push((index, *n)),
            }
        }
        merged.extend(mine);
        self.buckets = merged;
        self.shrink();
    }

    /// Merges several histograms, as [`merge`](Self::merge) does one by one, but faster: all counts are added up in one
    /// array.
    pub fn merge_all(&mut self, others: &[&Self]) {
        let scales = others.iter().map(|other| other.scale);
        self.coarsen(scales.min().unwrap_or(self.scale));
        let scale = self.scale;
        let bucket = |other: &Self, index: u16| usize::from(index >> (other.scale - scale));
        let all = || others.iter().copied().chain([&*self]);
        let largest = all().filter_map(|other| Some(bucket(other, other.buckets.last()?.0)));
        let largest = largest.max().unwrap_or(0);
        if others.len() < 2 || largest >= BUCKETS {
            others.iter().for_each(|other| self.merge(other));
            return;
        }
        let mut counts = vec![0u64; largest + 1];
        for other in all() {
            for (index, n) in &other.buckets {
                let sum = &mut counts[bucket(other, *index)];
                *sum = sum.saturating_add(*n);
            }
        }
        let counts = (0..).zip(counts).filter(|(_, n)| *n > 0);
        self.buckets.clear();
        self.buckets.extend(counts);
        self.shrink();
    }

    /// Whether this histogram has every bucket of another one of the same scale.
    fn has_buckets_of(&self, other: &Self) -> bool {
        let mut mine = self.buckets.iter();
        let mut theirs = other.buckets.iter();
        theirs.all(|(index, _)| {
            mine.find(|(i, _)| i >= index)
                .is_some_and(|(i, _)| i == index)
        })
    }

    fn add_to_buckets(&mut self, other: &Self) {
        let mut mine = self.buckets.iter_mut();
        for (index, n) in &other.buckets {
            if let Some((_, sum)) = mine.find(|(i, _)| i == index) {
                *sum = sum.saturating_add(*n);
            }
        }
    }

    /// Subtracts `other`, which was merged before. The scale stays.
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
        self.shrink();
    }

    /// The largest relative error of a quantile, for durations from 1 µs to 1 h.
    pub fn error(&self) -> f64 {
        let width = (1.0 / f64::from(1u32 << self.scale.min(20))).exp2();
        (width - 1.0) / (width + 1.0)
    }

    /// Reduces the histogram to `scale`, if its own scale is finer.
    pub fn coarsen(&mut self, scale: u8) {
        if scale < self.scale {
            let shift = self.scale - scale;
            let buckets = self.buckets.drain(..).map(|(index, n)| (index >> shift, n));
            *self = Self::new(scale, buckets);
        }
    }

    /// The `q`-quantile in seconds (nearest rank), for `q` from 0 to 1; `None` for an empty histogram.
    ///
    /// The value is the point of the bucket with the smallest maximal relative error: at most 2.2 % at [`SCALE`], 9 %
    /// at [`COARSE_SCALE`], for durations from 1 µs to 1 h.
    ///
    /// ```
    /// # use tower_pulse_model::histogram::{Histogram, bucket_of};
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

    /// The mean in seconds, as if each duration were halfway between its bucket's bounds; `None` for an empty
    /// histogram.
    pub fn mean(&self) -> Option<f64> {
        let (mut count, mut sum) = (0.0, 0.0);
        for (low, high, n) in self.ranges() {
            count += n as f64;
            sum += n as f64 * (low + high) / 2.0;
        }
        (count > 0.0).then(|| sum / count)
    }

    /// The number of durations below `seconds`.
    ///
    /// A bucket counts as a whole if its middle is below `seconds`. So the result is exact for another duration, which
    /// differs from `seconds` by at most the relative [`error`](Self::error), for durations from 1 µs to 1 h.
    pub fn count_below(&self, seconds: f64) -> u64 {
        let buckets = self.buckets.iter();
        let below = buckets.take_while(|(index, _)| self.middle(*index) < seconds);
        below.fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// The bounds of each bucket in seconds, with its count.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = (f64, f64, u64)> {
        let buckets = self.buckets.iter();
        buckets.map(|(index, n)| {
            let (low, high) = self.range(*index);
            (low, high, *n)
        })
    }

    fn range(&self, index: u16) -> (f64, f64) {
        let next = index.saturating_add(1);
        (
            lower_bound(index, self.scale),
            lower_bound(next, self.scale),
        )
    }

    /// The point of a bucket with the smallest maximal relative error, in seconds.
    fn middle(&self, index: u16) -> f64 {
        let (low, high) = self.range(index);
        2.0 * low * high / (low + high)
    }

    /// The `q`-quantile in seconds, limited to `min` and `max`, the exact smallest and largest duration.
    pub fn quantile_within(&self, q: f64, min: Option<f64>, max: Option<f64>) -> Option<f64> {
        let value = self.quantile(q)?;
        let value = min.map_or(value, |min| value.max(min));
        Some(max.map_or(value, |max| value.min(max)))
    }
}
