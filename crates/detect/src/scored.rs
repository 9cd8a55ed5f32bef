//! The scores of a minute, and the counts of several minutes.

use super::history::{BUCKETS, Counts, PackedMinute, Tick};
use super::reference::{Past, Reference, SCORES};

/// The mean scores of a minute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    pub(crate) tick: Tick,
    pub(crate) count: f32,
    pub(crate) scores: [f32; SCORES],
    pub(crate) bucket: f32,
}

pub(crate) fn score(tick: Tick, packed: PackedMinute<'_>, reference: &Reference) -> Scored {
    let mut sums = [0.0f64; SCORES];
    let (mut total, mut buckets) = (0.0f64, 0.0);
    packed.buckets(|bucket, count, censored| {
        if censored && bucket <= reference.median {
            return;
        }
        total += f64::from(count);
        buckets += f64::from(count) * bucket as f64;
        for (sum, score) in sums.iter_mut().zip(reference.of(bucket)) {
            *sum += f64::from(count) * f64::from(score);
        }
    });
    Scored {
        tick,
        count: total as f32,
        bucket: (buckets / total.max(1.0)) as f32,
        scores: sums.map(|sum| (sum / total.max(1.0)) as f32),
    }
}

/// The counts of successes and of censored requests, by bucket.
pub(crate) struct Tally([Box<Counts>; 2]);

impl Tally {
    pub(crate) fn new() -> Self {
        Self([(); 2].map(|()| Box::new([0; BUCKETS])))
    }

    pub(crate) fn add(&mut self, packed: PackedMinute<'_>) {
        packed.buckets(|bucket, count, censored| {
            let sum = &mut self.0[usize::from(censored)][bucket];
            *sum = sum.saturating_add(count);
        });
    }

    /// Adds the censored requests above the median to the successes. Each of these requests would have taken at least
    /// its recorded time. Below the median, this time tells nothing.
    pub(crate) fn finish(self) -> Box<Counts> {
        let [mut successes, censored] = self.0;
        let half = successes.iter().map(|n| u64::from(*n)).sum::<u64>() / 2;
        let mut below = 0;
        for (mine, censored) in successes.iter_mut().zip(censored.iter()) {
            below += u64::from(*mine);
            if below > half {
                *mine = mine.saturating_add(*censored);
            }
        }
        successes
    }
}

impl Past {
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = [0; BUCKETS];
        for (bucket, count) in &self.buckets {
            counts[usize::from(*bucket)] = *count;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_cut_off_above_the_median_counts_as_a_success() {
        let mut tally = Tally::new();
        (tally.0[0][20], tally.0[0][40]) = (10, 10);
        for bucket in [10, 20, 30, 40, 50] {
            tally.0[1][bucket] = 5;
        }
        let counts = tally.finish();
        let counted = [10, 20, 30, 40, 50].map(|bucket| counts[bucket]);
        assert_eq!(counted, [0, 10, 0, 15, 5]);
    }
}
