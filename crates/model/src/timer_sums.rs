//! The sums of the timers that ran within the requests of a context. They show where the time of the requests goes.

use super::context::{Kind, RecordId};
use super::slices::{Merge, summed};
use crate::order::InOrder;

/// The most timers of a context that are kept separately; further timers count as `<other>`.
pub const MAX_TIMERS: usize = 16;

/// The name of all timers beyond [`MAX_TIMERS`].
pub const OTHER: &str = "<other>";

/// A timer with more runs per request than this is repeated.
const NOT_REPEATED: u64 = 20;

/// Whether a timer with `count` runs in `requests` requests is repeated. A repeated timer is usually a query for each
/// row of another query.
pub fn is_repeated(count: u64, requests: u64) -> bool {
    requests > 0 && count > NOT_REPEATED.saturating_mul(requests)
}

/// The timer that measures how long requests wait in front of the service. The wait is not part of a request's time.
pub const QUEUE: &str = "queue";

/// The id of [`QUEUE`].
pub fn queue() -> RecordId {
    RecordId::new(Kind::Timer, QUEUE)
}

/// The id of [`OTHER`].
pub fn other() -> RecordId {
    RecordId::new(Kind::Timer, OTHER)
}

/// Sums of one timer within the requests of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerSums {
    /// The number of runs.
    pub count: u64,
    /// The number of requests within which the timer ran.
    pub requests: u64,
    /// The sum of the durations, in nanoseconds.
    pub sum: u64,
    /// The time of the requests during which the timer ran, in nanoseconds. If several runs overlap, their common time
    /// counts once.
    pub covered: u64,
}

summed!(TimerSums {
    count,
    requests,
    sum,
    covered
});

/// The timers within the requests of a context, each under the id of its own context of kind [`Timer`](Kind::Timer).
/// That context has the timer's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The time of the requests during which any timer ran, in nanoseconds.
    pub covered: u64,
    /// Sorted by id. A map would take several times the memory of this list.
    sums: Vec<(RecordId, TimerSums)>,
}

impl Timers {
    /// Whether any timer ran during the requests' own time, rather than only before or after it.
    pub fn cover_some(&self) -> bool {
        self.sums.iter().any(|(_, sums)| sums.covered > 0)
    }

    /// Whether no timer ran.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// The number of timers.
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// The ids of the timers, with their sums.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (RecordId, &TimerSums)> {
        self.sums.iter().map(|(id, sums)| (*id, sums))
    }

    /// The sums of a timer, if it ran.
    pub fn get(&self, timer: RecordId) -> Option<&TimerSums> {
        let at = self.find(timer).ok()?;
        Some(&self.sums[at].1)
    }

    fn find(&self, timer: RecordId) -> Result<usize, usize> {
        self.sums.binary_search_by_key(&timer, |(id, _)| *id)
    }

    /// Adds to the sums of a timer.
    pub fn add(&mut self, timer: RecordId, sums: &TimerSums) {
        match self.find(timer) {
            Ok(at) => self.sums[at].1.merge(sums),
            Err(at) => {
                // Doubling the capacity would waste memory: there are many lists, and they rarely grow.
                self.sums.reserve_exact(1);
                self.sums.insert(at, (timer, *sums));
            }
        }
    }

    /// Adds all timers to `<other>` except the [`MAX_TIMERS`] with the most time.
    pub fn limit(&mut self) {
        let other = other();
        if self.sums.len() <= MAX_TIMERS {
            return;
        }
        // `queue` stays separate, because it is not part of the requests' time.
        let queue = queue();
        let named = self.iter().filter(|(id, _)| *id != other);
        let mut named: Vec<_> = named
            .map(|(id, sums)| (id != queue, std::cmp::Reverse(sums.sum), id))
            .collect();
        named.order();
        for (_, _, id) in named.into_iter().skip(MAX_TIMERS) {
            if let Ok(at) = self.find(id) {
                let (_, sums) = self.sums.remove(at);
                self.add(other, &sums);
            }
        }
        self.sums.shrink_to_fit();
    }

    /// Subtracts `other`, which was merged before.
    pub fn subtract(&mut self, other: &Self) {
        self.covered = self.covered.saturating_sub(other.covered);
        for (id, theirs) in &other.sums {
            if let Ok(at) = self.find(*id) {
                self.sums[at].1.subtract(theirs);
                if self.sums[at].1 == TimerSums::default() {
                    self.sums.remove(at);
                }
            }
        }
    }

    /// The approximate number of bytes on the heap.
    pub fn bytes(&self) -> usize {
        const ALLOCATION: usize = 16;
        match self.len() {
            0 => 0,
            timers => timers * size_of::<(RecordId, TimerSums)>() + ALLOCATION,
        }
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
    use crate::tests::{timer as id, timer_sums};

    fn timers(sums: impl IntoIterator<Item = (usize, u64)>) -> Timers {
        let mut timers = Timers::default();
        for (number, sum) in sums {
            timers.add(id(number), &timer_sums(1, 1, sum, sum));
            timers.covered += sum;
        }
        timers
    }

    #[test]
    fn a_timer_that_runs_more_than_twenty_times_a_request_is_repeated() {
        assert!(!is_repeated(20, 1) && is_repeated(21, 1) && !is_repeated(60, 3));
        assert!(!is_repeated(5, 0), "no request ran it");
        assert!(!is_repeated(u64::MAX, u64::MAX));
    }

    #[test]
    fn one_timer_that_covers_time_of_its_requests_is_enough() {
        assert!(!timers([]).cover_some() && !timers([(1, 0)]).cover_some());
        assert!(timers([(1, 0), (2, 7)]).cover_some());
    }

    #[test]
    fn sums_that_were_added_can_be_taken_out() {
        let (a, b) = (timers([(1, 5), (2, 7)]), timers([(2, 3), (3, 9)]));
        assert_eq!((timers([]).bytes(), a.bytes()), (0, 2 * 40 + 16));
        let mut both = a.clone();
        both.merge(&b);
        assert_eq!(both.covered, 24);
        assert_eq!(both.get(id(2)).expect("it ran").sum, 10);
        both.subtract(&b);
        assert_eq!(both, a);
        both.subtract(&a);
        assert_eq!(both, Timers::default());
    }

    #[test]
    fn the_timers_with_the_most_time_keep_their_names() {
        let mut many = timers((0..20).map(|number| (number, 100 - number as u64)));
        let expected = many.clone();
        many.limit();
        assert_eq!(many.len(), MAX_TIMERS + 1);
        let others = many.get(other()).expect("the sums of the other timers");
        assert_eq!((others.sum, others.count), ((81..=84).sum::<u64>(), 4));
        assert!((0..16).all(|n| many.get(id(n)) == expected.get(id(n))));
        assert!(many.iter().is_sorted_by_key(|(id, _)| id));
        let limited = many.clone();
        many.limit();
        assert_eq!(many, limited);
    }
}
