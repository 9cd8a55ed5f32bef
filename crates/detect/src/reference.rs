//! The past that a page is compared with: the distribution of its times in a quiet hour, and the scores derived from
//! it.
//!
//! A request has four scores, each a function of its bucket (Hájek, Šidák and Sen, *Theory of Rank Tests*, 1999):
//! - its *rank* in the reference (Wilcoxon's score; for grouped data Bross's ridit);
//! - its *location*: `-f'/f`, where `f` is the smoothed density of the reference. This is the locally most powerful
//!   score for a shift of the logarithm. With several modes, such as the hits and misses of a cache, this score shows a
//!   shift of the modes much better than the rank does, but hardly a change of their shares;
//! - its *tail*: for a request in the upper tenth (the tail), its *excess*, which is the distance from the start of the
//!   tail in logarithms, minus the usual excess. A longer tail changes the score; more requests in the tail hardly do;
//! - its *mix*: the logarithm of a likelihood ratio. The numerator is the likelihood of the request if some requests
//!   take three times as long and more requests are in the slower mode; the denominator is its likelihood in the past.
//!   The mix shows a cache that misses more often, or a lock for which one request in three waits.

use super::history::{BUCKETS, Counts, SCALE, WIDTH};
use super::noise::Noise;
use tower_pulse_model::pack::packed;

pub(crate) const SCORES: usize = 4;
/// The indices of the scores.
pub(crate) const RANK: usize = 0;
pub(crate) const LOCATION: usize = 1;
pub(crate) const TAIL: usize = 2;
pub(crate) const MIX: usize = 3;

/// The number of spans whose highest mean a past stores: 2 to `SPANS + 1` minutes.
pub(crate) const SPANS: usize = 9;

/// The largest shift for which expected scores are stored, in buckets.
const FARTHEST: usize = 28;
const SHIFTS: usize = 2 * FARTHEST + 1;

/// A tail score counts an excess only up to this multiple of the usual excess, so a single slow request counts for
/// little.
const USUAL_TAILS: f64 = 6.0;
/// The bounds of this limit: the logarithms of 2 and 16.
const LEAST_LARGEST_TAIL: f64 = 0.69;
const LARGEST_TAIL: f64 = 2.77;
/// The requests of a usual tail that `shrink_tail` adds.
const USUAL_TAIL_REQUESTS: f64 = 20.0;
/// The largest location score, in standard deviations.
const LARGEST_LOCATION: f64 = 3.0;
/// The mix that the mix score detects: this share of the requests takes three times as long, and another share of the
/// same size is beyond the [split](Density::split).
const MIX_SHARE: f64 = 0.15;
const MIX_SHIFT: f64 = 1.0986;
/// The largest ratio of densities in a mix score.
const LARGEST_MIX: f64 = 20.0;
/// The largest share of the past's requests below the split.
const MOST_BELOW: f64 = 0.97;
/// The split is chosen for a minute with this many requests and this wobble, as in [`Noise`].
const MIX_REQUESTS: f64 = 100.0;
const MIX_WOBBLE: f64 = 0.05;

packed! {
    /// The stored form of a reference. The fields are integers, so storing them loses no precision.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct Past {
        /// Counts of successful responses, and of censored requests above the median, by bucket at scale 3.
        pub(crate) buckets: Vec<(u8, u32)>,
        /// The first minute after the past.
        pub(crate) end: i32,
        pub(crate) minutes: u32,
        pub(crate) requests: u64,
        /// The number of errors, or, in the past of a change of the kind `Refusing`, the number of 4xx.
        pub(crate) errors: u64,
        /// The service time of all requests, in microseconds.
        pub(crate) micros: u64,
        /// The mean [level](super::all) of the past's minutes, in millionths.
        pub(crate) level: i64,
        pub(crate) noise: [Noise; SCORES],
        /// For each score, the largest mean of 2, 3, … consecutive minutes, minus the expected mean, in millionths.
        pub(crate) highest: [[i32; SPANS]; SCORES],
    }
}

/// The scores by bucket, and their expected values under a shift.
pub(crate) struct Reference {
    first: usize,
    scores: Vec<[f32; SCORES]>,
    /// The bucket of the median. A cut-off request up to this bucket is ignored.
    pub(crate) median: usize,
    /// The expected scores if all times are shifted by -FARTHEST to FARTHEST buckets.
    shifted: Vec<[f32; SCORES]>,
    /// The variance of the scores of one request.
    pub(crate) variance: [f64; SCORES],
    /// The third central moment of the scores of one request, divided by the variance.
    pub(crate) skew: [f64; SCORES],
    /// The share of the requests in the tail: a tenth or more, because the tail begins at the start of a bucket.
    pub(crate) tail_share: f64,
    pub(crate) count: f64,
    /// The mean bucket of the requests.
    pub(crate) bucket: f64,
}

/// Mean times of requests, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means {
    pub(crate) all: f64,
    /// The mean of the slowest tenth.
    pub(crate) tail: f64,
    /// The variance of `all` by chance, divided by the square of `all`.
    pub(crate) variance: f64,
}

impl Means {
    pub(crate) fn of(counts: &Counts) -> Self {
        let total: f64 = counts.iter().map(|n| f64::from(*n)).sum();
        let (mut sum, mut squares) = (0.0, 0.0);
        let (mut tail, mut left) = (0.0, total / 10.0);
        for (bucket, count) in counts.iter().enumerate().rev() {
            let (count, seconds) = (f64::from(*count), seconds(bucket));
            sum += count * seconds;
            squares += count * seconds * seconds;
            let slowest = count.min(left);
            tail += slowest * seconds;
            left -= slowest;
        }
        let total = total.max(1.0);
        Self {
            all: sum / total,
            tail: tail * 10.0 / total,
            variance: (squares / (sum * sum).max(f64::MIN_POSITIVE) - 1.0 / total).max(0.0),
        }
    }
}

/// The middle of a bucket, in seconds.
fn seconds(bucket: usize) -> f64 {
    ((bucket as f64 + 0.5) / f64::from(1u32 << SCALE)).exp2() * 1e-6
}

impl Reference {
    /// The scores for these counts; `None` if there are no counts.
    pub(crate) fn new(counts: &Counts) -> Option<Self> {
        let total: f64 = counts.iter().map(|n| f64::from(*n)).sum();
        let low = counts.iter().position(|n| *n > 0)?;
        let high = counts.iter().rposition(|n| *n > 0)?;
        let first = low.saturating_sub(FARTHEST);
        let last = (high + FARTHEST).min(BUCKETS - 1);
        let share = |bucket: usize| f64::from(counts[bucket]) / total;

        // The upper tenth begins at the highest bucket with at least a tenth of the requests at or above it.
        let mut above = 0.0;
        let mut threshold = high;
        for bucket in (low..=high).rev() {
            above += share(bucket);
            threshold = bucket;
            if above >= 0.1 {
                break;
            }
        }
        let excess = |bucket: usize| (bucket as f64 - threshold as f64 + 0.5) * WIDTH;
        let usual = |largest: f64| {
            let excesses =
                (threshold..=high).map(|bucket| share(bucket) * excess(bucket).min(largest));
            excesses.sum::<f64>() / above
        };
        let largest = (USUAL_TAILS * usual(LARGEST_TAIL)).clamp(LEAST_LARGEST_TAIL, LARGEST_TAIL);
        let usual_excess = usual(largest);
        let density = Density::new(counts, first, last, total);
        let (location, mix) = (density.location_scores(counts), density.mix_scores());
        let mut scores = Vec::with_capacity(last - first + 1);
        let (mut below, mut median) = (0.0, low);
        for bucket in first..=last {
            let share = share(bucket);
            let rank = below + share / 2.0 - 0.5;
            if rank < 0.0 {
                median = bucket;
            }
            below += share;
            let tail = match bucket >= threshold {
                true => excess(bucket).min(largest) - usual_excess,
                false => 0.0,
            };
            let (location, mix) = (location[bucket - first] as f32, mix[bucket - first] as f32);
            scores.push([rank as f32, location, tail as f32, mix]);
        }
        let buckets = (low..=high).map(|bucket| share(bucket) * bucket as f64);
        let mut reference = Self {
            first,
            scores,
            median,
            shifted: Vec::with_capacity(SHIFTS),
            variance: [0.0; SCORES],
            skew: [0.0; SCORES],
            tail_share: above,
            count: total,
            bucket: buckets.sum(),
        };
        reference.centre(counts, low..=high, total);
        reference.shrink_tail(usual_excess);
        Some(reference)
    }

    /// Centres the scores, and sets their expected values, variances and skews.
    fn centre(&mut self, counts: &Counts, support: std::ops::RangeInclusive<usize>, total: f64) {
        let occupied = support.filter(|bucket| counts[*bucket] > 0);
        let shares: Vec<_> = occupied
            .map(|bucket| (bucket, f64::from(counts[bucket]) / total))
            .collect();
        let mut squares = [0.0; SCORES];
        for (bucket, share) in &shares {
            for (square, score) in squares.iter_mut().zip(self.of(*bucket)) {
                *square += share * f64::from(score).powi(2);
            }
        }
        for shift in 0..SHIFTS {
            let mut expected = [0.0; SCORES];
            for (bucket, share) in &shares {
                let scores = self.of((bucket + shift).saturating_sub(FARTHEST));
                for (sum, score) in expected.iter_mut().zip(scores) {
                    *sum += share * f64::from(score);
                }
            }
            self.shifted.push(expected.map(|score| score as f32));
        }
        let centre = self.shifted[FARTHEST];
        for kind in 0..SCORES {
            self.variance[kind] = (squares[kind] - f64::from(centre[kind]).powi(2)).max(1e-6);
        }
        for scores in self.scores.iter_mut().chain(&mut self.shifted) {
            for (score, centre) in scores.iter_mut().zip(centre) {
                *score -= centre;
            }
        }
        for (bucket, share) in shares {
            for (kind, score) in self.of(bucket).into_iter().enumerate() {
                self.skew[kind] += share * f64::from(score).powi(3) / self.variance[kind];
            }
        }
    }

    /// Adds requests of a usual, exponential tail, because the past's few requests in the tail are not enough to
    /// estimate its variation. `excess` is the mean excess of the tail's requests.
    fn shrink_tail(&mut self, excess: f64) {
        let seen = self.tail_share * self.count;
        let weight = seen / (seen + USUAL_TAIL_REQUESTS);
        let third = self.skew[TAIL] * self.variance[TAIL];
        let mix = |own: f64, usual: f64| weight * own + (1.0 - weight) * self.tail_share * usual;
        let variance = mix(self.variance[TAIL], excess.powi(2));
        self.skew[TAIL] = mix(third, 2.0 * excess.powi(3)) / variance;
        self.variance[TAIL] = variance;
    }

    /// The scores of a request in this bucket.
    pub(crate) fn of(&self, bucket: usize) -> [f32; SCORES] {
        let last = self.scores.len() - 1;
        self.scores[bucket.saturating_sub(self.first).min(last)]
    }

    /// The expected score if all times are multiplied by `exp(shift)`.
    pub(crate) fn expected(&self, kind: usize, shift: f64) -> f64 {
        let at = (shift / WIDTH + FARTHEST as f64).clamp(0.0, (SHIFTS - 1) as f64);
        let below = (at as usize).min(SHIFTS - 2);
        let (low, high) = (self.shifted[below][kind], self.shifted[below + 1][kind]);
        f64::from(low) + (at - below as f64) * f64::from(high - low)
    }

    /// The shift that explains a mean rank score. After this shift, the rank test finds no difference, as in Hodges and
    /// Lehmann's estimate (1963).
    pub(crate) fn shift_of(&self, rank_score: f64) -> f64 {
        let shifted = &self.shifted;
        let above = shifted.partition_point(|scores| f64::from(scores[RANK]) < rank_score);
        if above == 0 || above == SHIFTS {
            let end = if above == 0 { -1.0 } else { 1.0 };
            return end * FARTHEST as f64 * WIDTH;
        }
        let [low, high] = [above - 1, above].map(|at| f64::from(shifted[at][RANK]));
        let within = (rank_score - low) / (high - low).max(1e-9);
        (above as f64 - 1.0 + within - FARTHEST as f64) * WIDTH
    }

    /// The share of the requests that take much longer, from the mean mix score.
    pub(crate) fn mixed_share(&self, mix_score: f64) -> f64 {
        (mix_score / self.expected(MIX, MIX_SHIFT).max(1e-3)).clamp(-0.4, 1.0)
    }

    /// The change of the expected score per unit of a small shift; for the tail score, at least the share of the tail.
    pub(crate) fn slope(&self, kind: usize) -> f64 {
        let rise = f64::from(self.shifted[FARTHEST + 1][kind] - self.shifted[FARTHEST - 1][kind]);
        let least = match kind {
            TAIL => self.tail_share,
            _ => 1e-3,
        };
        (rise / (2.0 * WIDTH)).max(least)
    }
}

/// The density by bucket, smoothed with a normal kernel. The kernel's width follows Silverman's rule of thumb (1986),
/// with the spread of the narrowest half so that modes are not merged.
struct Density {
    first: usize,
    total: f64,
    density: Vec<f64>,
}

impl Density {
    fn new(counts: &Counts, first: usize, last: usize, total: f64) -> Self {
        let spread = narrowest_half(counts, total) / 1.35;
        let width = (0.9 * spread * total.powf(-0.2)).clamp(0.8, 6.0);
        let reach = (3.0 * width).ceil() as usize;
        let kernel: Vec<_> = (0..=reach)
            .map(|d| (-0.5 * (d as f64 / width).powi(2)).exp())
            .collect();
        let area: f64 = kernel.iter().sum::<f64>() * 2.0 - kernel[0];
        let size = last - first + 1;
        let mut density = vec![0.5 / size as f64; size];
        for (bucket, count) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            for at in bucket.saturating_sub(reach).max(first)..=(bucket + reach).min(last) {
                density[at - first] += f64::from(*count) * kernel[at.abs_diff(bucket)] / area;
            }
        }
        Self {
            first,
            total,
            density,
        }
    }

    /// `-f'/f` by bucket.
    fn location_scores(&self, counts: &Counts) -> Vec<f64> {
        let (density, size) = (&self.density, self.density.len());
        let raw = |at: usize| {
            let (before, after) = (at.saturating_sub(1), (at + 1).min(size - 1));
            (density[before] / density[after]).ln() / (after - before).max(1) as f64
        };
        let mut scores: Vec<_> = (0..size).map(raw).collect();
        let share = |at: usize| f64::from(counts[self.first + at]) / self.total;
        let mean: f64 = (0..size).map(|at| share(at) * scores[at]).sum();
        let squares = (0..size).map(|at| share(at) * (scores[at] - mean).powi(2));
        let deviation = squares.sum::<f64>().sqrt().max(1e-6);
        for score in &mut scores {
            *score = ((*score - mean) / deviation).clamp(-LARGEST_LOCATION, LARGEST_LOCATION);
        }
        scores
    }

    /// The logarithm of the likelihood ratio of a mix: some requests take three times as long, and more than usual are
    /// beyond the [split](Self::split).
    fn mix_scores(&self) -> Vec<f64> {
        let shift = (MIX_SHIFT / WIDTH).round() as usize;
        let (split, beyond) = self.split();
        let mixed = |at: usize| {
            let before = at.checked_sub(shift).map_or(0.0, |from| self.density[from]);
            let slower = (before / self.density[at]).min(LARGEST_MIX);
            let more = if at >= split { 1.0 / beyond } else { 0.0 };
            (1.0 - 2.0 * MIX_SHARE + MIX_SHARE * (slower + more)).ln()
        };
        (0..self.density.len()).map(mixed).collect()
    }

    /// The bucket beyond which additional requests are detected soonest, and the usual share of requests beyond it.
    /// Usually, few requests are beyond the bucket, and the wobble moves few requests across it. With two modes, the
    /// bucket is between them.
    fn split(&self) -> (usize, f64) {
        let all: f64 = self.density.iter().sum();
        let (mut below, mut best, mut split) = (0.0, 0.0, (0, 1.0));
        for (at, density) in self.density.iter().enumerate() {
            let share = below / all;
            if (0.4..=MOST_BELOW).contains(&share) {
                let sampling = share * (1.0 - share) / MIX_REQUESTS;
                let wobble = (MIX_WOBBLE * density / all / WIDTH).powi(2);
                let noticed = share * share / (sampling + wobble);
                if noticed > best {
                    (best, split) = (noticed, (at, 1.0 - share));
                }
            }
            below += density;
        }
        split
    }
}

/// The width of the narrowest range with half of the counts, in buckets: Grübel's (1988) shorth.
fn narrowest_half(counts: &Counts, total: f64) -> f64 {
    let (mut inside, mut low, mut narrowest) = (0.0, 0, BUCKETS);
    for high in 0..BUCKETS {
        inside += f64::from(counts[high]);
        while low < high && inside - f64::from(counts[low]) >= total / 2.0 {
            inside -= f64::from(counts[low]);
            low += 1;
        }
        if inside >= total / 2.0 {
            narrowest = narrowest.min(high - low + 1);
        }
    }
    narrowest as f64
}

#[cfg(test)]
mod tests;
