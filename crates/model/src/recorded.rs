//! The time that a store has recorded. Outside of this time, there may have been requests that were not recorded.

use std::sync::Arc;

/// The start and the end of a gap, in Unix seconds. The end is not a part of the gap.
pub type Gap = (i64, i64);

/// The time that a store has recorded: since a moment, without the gaps in which no instance was running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTime {
    since: i64,
    /// The gaps, ascending and disjoint.
    gaps: Arc<[Gap]>,
}

impl RecordedTime {
    /// All time from `since` on, in Unix seconds, except for the gaps.
    pub fn new(since: i64, gaps: impl IntoIterator<Item = Gap>) -> Self {
        let mut sorted: Vec<Gap> = gaps.into_iter().filter(|(from, to)| from < to).collect();
        sorted.sort_unstable();
        let mut gaps: Vec<Gap> = Vec::with_capacity(sorted.len());
        for (from, to) in sorted {
            match gaps.last_mut() {
                Some((_, end)) if from <= *end => *end = to.max(*end),
                _ => gaps.push((from, to)),
            }
        }
        Self {
            since,
            gaps: gaps.into(),
        }
    }

    /// The start of the recorded time, in Unix seconds.
    pub fn since(&self) -> i64 {
        self.since
    }

    /// The same time, but beginning at `since` if `since` is earlier.
    #[must_use]
    pub fn extended_to(&self, since: i64) -> Self {
        Self {
            since: since.min(self.since),
            gaps: self.gaps.clone(),
        }
    }

    /// The recorded seconds between two moments.
    pub fn seconds(&self, from: i64, to: i64) -> i64 {
        let whole = to.saturating_sub(from.max(self.since)).max(0);
        whole - length(self.gaps(from, to))
    }

    /// Whether any second between two moments was recorded.
    pub fn has_any(&self, from: i64, to: i64) -> bool {
        self.seconds(from, to) > 0
    }

    /// The gaps between two moments, in order. The time before the start is not a gap.
    pub fn gaps(&self, from: i64, to: i64) -> impl Iterator<Item = Gap> {
        let from = from.max(self.since);
        let first = self.gaps.partition_point(|(_, end)| *end <= from);
        let gaps = self.gaps[first..].iter();
        let gaps = gaps.map(move |(start, end)| (from.max(*start), to.min(*end)));
        gaps.take_while(|(start, end)| start < end)
    }
}

/// The total length of gaps, in seconds.
pub fn length(gaps: impl Iterator<Item = Gap>) -> i64 {
    gaps.map(|(from, to)| to.saturating_sub(from)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn recorded_time_has_a_beginning_and_gaps_in_order() {
        let recorded = RecordedTime::new(100, [(300, 360), (200, 220)]);
        assert!(!recorded.has_any(200, 220) && recorded.has_any(199, 220));
        let gaps: Vec<_> = recorded.gaps(90, 310).collect();
        assert_eq!(gaps, [(200, 220), (300, 310)]);
        assert_eq!(length(gaps.into_iter()), 30);
        assert_eq!(RecordedTime::new(i64::MIN, []).seconds(-7, 7), 14);
        let recorded = RecordedTime::new(0, [(50, 60), (10, 20), (20, 30), (15, 18), (70, 70)]);
        assert!(recorded.gaps(0, 100).eq([(10, 30), (50, 60)]));
        // A gap that began earlier is cut at the start of the recorded time.
        let recorded = RecordedTime::new(100, [(40, 60), (90, 120)]);
        assert!(recorded.gaps(0, 130).eq([(100, 120)]));
        assert_eq!(recorded.seconds(0, 130), 10);
        let earlier = recorded.extended_to(30);
        assert_eq!(earlier.seconds(0, 130), 130 - 30 - 20 - 30);
        assert_eq!(recorded.extended_to(200), recorded);
    }

    proptest! {
        #[test]
        fn recorded_seconds_equal_a_count_second_by_second(since in -20..60i64, mut gaps in vec((-30..130i64, 0..20i64), 0..8), from in -40..140i64, to in -40..140i64) {
            gaps.iter_mut().for_each(|gap| gap.1 += gap.0);
            let recorded = RecordedTime::new(since, gaps.clone());
            let is_recorded = |second: &i64| {
                *second >= since && !gaps.iter().any(|(from, to)| (*from..*to).contains(second))
            };
            let expected = (from..to).filter(is_recorded).count() as i64;
            prop_assert_eq!(recorded.seconds(from, to), expected);
        }
    }
}
