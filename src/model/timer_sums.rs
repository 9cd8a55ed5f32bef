//! Where the time of a context's requests goes: sums of the timers that ran within them.

use std::collections::BTreeMap;

use super::context::{Kind, RecordId};
use super::slices::Merge;

/// Timers of a context that are told apart; further ones count as `<other>`.
pub const MAX_TIMERS: usize = 16;

/// The name of all timers beyond [`MAX_TIMERS`].
pub const OTHER: &str = "<other>";

/// The id of [`OTHER`].
pub fn other() -> RecordId {
    RecordId::new(Kind::Timer, OTHER)
}

/// Sums of one timer within the requests of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerSums {
    /// How often it ran.
    pub count: u64,
    /// Number of requests within which it ran.
    pub requests: u64,
    /// Its durations added up, in nanoseconds.
    pub sum: u64,
    /// The time of the requests during which it ran at least once, in nanoseconds: where it ran several times
    /// at once, less than the sum.
    pub covered: u64,
}

impl TimerSums {
    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.requests = self.requests.saturating_add(other.requests);
        self.sum = self.sum.saturating_add(other.sum);
        self.covered = self.covered.saturating_add(other.covered);
    }

    fn subtract(&mut self, other: &Self) {
        self.count = self.count.saturating_sub(other.count);
        self.requests = self.requests.saturating_sub(other.requests);
        self.sum = self.sum.saturating_sub(other.sum);
        self.covered = self.covered.saturating_sub(other.covered);
    }
}

/// The timers within the requests of a context, each under the id of its own context of kind
/// [`Timer`](Kind::Timer), which has the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The time of the requests during which any timer ran, in nanoseconds.
    pub covered: u64,
    /// The sums by timer.
    pub sums: BTreeMap<RecordId, TimerSums>,
}

impl Timers {
    /// Whether no timer ran.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Adds to the sums of a timer.
    pub fn add(&mut self, timer: RecordId, sums: &TimerSums) {
        self.sums.entry(timer).or_default().merge(sums);
    }

    /// Adds all but the [`MAX_TIMERS`] timers that took most of the time to `<other>`.
    pub fn limit(&mut self) {
        let other = other();
        if self.sums.len() <= MAX_TIMERS {
            return;
        }
        let mut timers: Vec<_> = (self.sums.iter())
            .filter(|(id, _)| **id != other)
            .map(|(id, sums)| (std::cmp::Reverse(sums.sum), *id))
            .collect();
        timers.sort_unstable();
        for (_, id) in timers.into_iter().skip(MAX_TIMERS) {
            if let Some(sums) = self.sums.remove(&id) {
                self.add(other, &sums);
            }
        }
    }

    /// Takes out all of `other`, which was merged before.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.covered = self.covered.saturating_sub(other.covered);
        for (id, theirs) in &other.sums {
            if let Some(mine) = self.sums.get_mut(id) {
                mine.subtract(theirs);
                if *mine == TimerSums::default() {
                    self.sums.remove(id);
                }
            }
        }
    }

    /// Approximate bytes in memory, without the struct itself.
    pub fn bytes(&self) -> usize {
        const PER_TIMER: usize = 64;
        self.sums.len() * PER_TIMER
    }
}

impl Merge for Timers {
    fn merge(&mut self, other: &Self) {
        self.covered = self.covered.saturating_add(other.covered);
        for (id, sums) in &other.sums {
            self.add(*id, sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> RecordId {
        RecordId::new(Kind::Timer, &format!("db:{number}"))
    }

    fn timers(sums: impl IntoIterator<Item = (usize, u64)>) -> Timers {
        let mut timers = Timers::default();
        for (number, sum) in sums {
            let sums = TimerSums {
                count: 1,
                requests: 1,
                sum,
                covered: sum,
            };
            timers.add(id(number), &sums);
            timers.covered += sum;
        }
        timers
    }

    #[test]
    fn sums_that_were_added_can_be_taken_out() {
        let (a, b) = (timers([(1, 5), (2, 7)]), timers([(2, 3), (3, 9)]));
        let mut both = a.clone();
        both.merge(&b);
        assert_eq!(both.covered, 24);
        assert_eq!(both.sums[&id(2)].sum, 10);
        both.subtract(&b);
        assert_eq!(both, a);
        both.subtract(&a);
        assert_eq!(both, Timers::default());
    }

    #[test]
    fn the_timers_with_the_most_time_are_told_apart() {
        let mut many = timers((0..20).map(|number| (number, 100 - number as u64)));
        let expected = many.clone();
        many.limit();
        assert_eq!(many.sums.len(), MAX_TIMERS + 1);
        assert_eq!(many.sums[&other()].sum, (81..=84).sum::<u64>());
        assert_eq!(many.sums[&other()].count, 4);
        assert!((0..16).all(|n| many.sums[&id(n)] == expected.sums[&id(n)]));
        let limited = many.clone();
        many.limit();
        assert_eq!(many, limited);
    }
}
