//! The time during which at least one of several intervals was in progress.

/// The maximum number of disjoint intervals that are kept. A later interval may join these intervals.
const MAX_OPEN: usize = 64;

/// The union of intervals that are added in the order of their ends. All times are nanoseconds since the same moment.
#[derive(Debug, Default)]
pub(super) struct IntervalUnion {
    /// The length of the union of the intervals before `settled_until`.
    settled: u64,
    settled_until: u64,
    /// Later intervals, disjoint, oldest first.
    open: Vec<(u64, u64)>,
}

impl IntervalUnion {
    /// Adds an interval. `oldest` is the earliest start of the intervals that are known to be added later.
    pub(super) fn add(&mut self, start: u64, end: u64, oldest: Option<u64>) {
        // Threads read the clock before they take the lock, so an interval may be added slightly too late.
        let mut start = start.max(self.settled_until);
        let mut end = end.max(start);
        while let Some((before, until)) = self.open.pop_if(|(_, until)| *until >= start) {
            start = start.min(before);
            end = end.max(until);
        }
        self.open.push((start, end));
        if self.open.len() <= MAX_OPEN {
            return;
        }
        let (start, end) = self.open.remove(0);
        if oldest.is_some_and(|oldest| oldest < end) {
            // Joins the two oldest intervals. The gap between these two intervals counts as covered, because a timer
            // that began before the gap still runs. If this timer is discarded, the total is too large.
            self.open[0].0 = start;
        } else {
            self.settled += end - start;
            self.settled_until = end;
        }
    }

    pub(super) fn total(&self) -> u64 {
        let open = self.open.iter().map(|(start, end)| end - start);
        self.settled + open.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_long_interval_covers_shorter_ones_and_earlier_gaps() {
        let mut covered = IntervalUnion::default();
        (1..1_000).for_each(|at| covered.add(10 * at, 10 * at + 3, Some(0)));
        assert!(covered.open.len() <= MAX_OPEN);
        covered.add(0, 10_000, None);
        assert_eq!(covered.total(), 10_000);
        // The intervals from 0 and from 18 are known only at their ends.
        let mut covered = IntervalUnion::default();
        for (start, end) in [(5, 10), (20, 25), (0, 22), (18, 30)] {
            covered.add(start, end, None);
        }
        assert_eq!(covered.total(), 30);
        let mut covered = IntervalUnion::default();
        (1..=100).for_each(|at| covered.add(10 * at, 10 * at + 3, None));
        assert_eq!((covered.total(), covered.open.len()), (300, MAX_OPEN));
        covered.add(900, 2_000, None);
        assert_eq!(covered.total(), 89 * 3 + 1_100);
    }

    proptest! {
        #[test]
        fn the_total_counts_each_moment_once(mut intervals in vec((0..100u64, 0..40u64, any::<bool>()), 0..40)) {
            intervals.iter_mut().for_each(|interval| interval.1 += interval.0);
            intervals.sort_unstable_by_key(|(start, end, _)| (*end, *start));
            let (mut covered, mut moments) = (IntervalUnion::default(), [false; 140]);
            for (at, (start, end, is_added)) in intervals.iter().enumerate() {
                // The other intervals belong to timers that were discarded.
                if *is_added {
                    let running = intervals[at + 1..].iter().map(|(start, ..)| *start);
                    covered.add(*start, *end, running.min());
                    (*start..*end).for_each(|moment| moments[moment as usize] = true);
                }
                let expected = moments.iter().filter(|moment| **moment).count();
                prop_assert_eq!(covered.total(), expected as u64);
            }
        }
    }
}
