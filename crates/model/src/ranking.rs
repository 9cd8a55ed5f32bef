//! Rankings within a moving window of time: the additions that an instance collects.

mod section;
pub mod specs;

pub(crate) use self::section::additions;

use std::fmt;
use std::sync::Arc;

use super::pack::packed;
use super::slice::Precision;
use super::slices::Slices;
use super::sorted::{Map, Set};

/// The most slices that can be configured for the window of a ranking.
pub const MAX_RANKING_SLICES: u32 = 1_500;

/// A ranking may exceed its maximum by at least this many ids before it is limited.
const ROOM_AT_LEAST: usize = 1_000;

/// A shard of the recorder has room for at least this many ids of a ranking.
pub const MIN_SHARD_IDS: usize = 16;

/// The configuration of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RankingSpec {
    /// The length of a slice, in seconds.
    pub interval: u32,
    /// The number of slices of a window: the current one and those before it.
    pub slices: u32,
    /// The most ids.
    pub max_ids: u32,
}

impl RankingSpec {
    /// The precision of the window.
    pub fn precision(self) -> Precision {
        Precision::new(self.interval, self.slices)
    }

    /// The length of the window, in seconds.
    pub fn period(self) -> i64 {
        i64::from(self.interval).saturating_mul(i64::from(self.slices))
    }

    /// The most ids that are folded at once, and the most ids that a ranking has before it is limited.
    pub fn most_at_once(self) -> usize {
        let max_ids = self.max_ids as usize;
        max_ids + max_ids.max(ROOM_AT_LEAST)
    }

    /// The start of the oldest slice of the window at `now`, in Unix seconds.
    pub fn oldest(self, now: i64) -> i64 {
        let width = i64::from(self.interval);
        let before = self.period().saturating_sub(width);
        self.precision().slice(now).saturating_sub(before)
    }
}

impl fmt::Display for RankingSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (period, interval, ids) = (self.period(), self.interval, self.max_ids);
        write!(
            f,
            "a period of {period} s, an interval of {interval} s and {ids} ids"
        )
    }
}

packed!(RankingSpec { interval, slices, max_ids } if |spec| spec.interval > 0 && spec.slices > 0);

/// A ranking in a store, without its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankingState {
    /// The configuration in effect: see [`CarriedSpecs`](specs::CarriedSpecs).
    pub spec: RankingSpec,
    /// The starts of the slices that the sums of the ids include, in Unix seconds.
    pub slices: Set,
}

packed!(RankingState { spec, slices });

impl RankingState {
    /// A ranking without slices.
    pub fn new(spec: RankingSpec) -> Self {
        Self {
            spec,
            slices: Set::default(),
        }
    }

    /// The slices that have left the window at `now`, oldest first.
    pub fn expired(&self, now: i64) -> impl Iterator<Item = i64> {
        self.slices.below(self.spec.oldest(now)).iter().copied()
    }
}

/// Additions to an id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdDelta {
    /// Whether the id was removed before the additions.
    pub is_removed: bool,
    /// The additions by slice.
    pub slices: Slices<i64>,
}

/// Additions to a ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankingDelta {
    /// The configuration of the instance, or one that covers the configurations of several instances.
    pub spec: RankingSpec,
    /// The additions by id.
    pub ids: Map<Arc<str>, IdDelta>,
    /// The sum of the additions that were dropped to make room.
    pub dropped: u64,
}

impl RankingDelta {
    /// No additions.
    pub fn new(spec: RankingSpec) -> Self {
        Self {
            spec,
            ids: Map::default(),
            dropped: 0,
        }
    }

    /// Whether there are no additions.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.dropped == 0
    }

    /// Adds `n` to an id at a second.
    pub fn add(&mut self, id: &Arc<str>, second: i64, n: i64) {
        let precision = self.spec.precision();
        let delta = (self.ids).or_insert_with(id.clone(), IdDelta::default);
        delta
            .slices
            .add(precision.slice(second), n, precision.retained as usize);
    }

    /// Removes an id. Later additions to the id count.
    pub fn remove(&mut self, id: &Arc<str>) {
        let removed = IdDelta {
            is_removed: true,
            ..IdDelta::default()
        };
        self.ids.insert(id.clone(), removed);
    }

    /// Merges `later`, which was collected after these additions.
    pub fn merge(&mut self, later: Self) {
        // With different configurations, a window may have more slices than either configuration.
        let retained = match self.spec == later.spec {
            true => self.spec.slices as usize,
            false => usize::MAX,
        };
        self.spec = self.spec.covering(later.spec);
        self.dropped = self.dropped.saturating_add(later.dropped);
        for (id, delta) in later.ids {
            match self.ids.get_mut(&id) {
                Some(mine) if !delta.is_removed => {
                    mine.slices.merge(delta.slices, retained, drop);
                }
                _ => drop(self.ids.insert(id, delta)),
            }
        }
    }

    /// Drops ids until there are at most `max_ids`, and counts their additions as dropped. The ids whose last addition
    /// is oldest are dropped first, and among these the ids with the smallest sums. Removals are dropped last.
    pub fn limit(&mut self) {
        self.limit_to(self.spec.max_ids as usize);
    }

    /// Limits the additions of several instances to [`most_at_once`](RankingSpec::most_at_once) ids, as
    /// [`limit`](Self::limit) does. Some more ids are tolerated, because limiting after every addition would be slow.
    pub fn bound(&mut self) {
        let most = self.spec.most_at_once();
        if self.ids.len() > most + self.spec.max_ids as usize {
            self.limit_to(most);
        }
    }

    fn limit_to(&mut self, most: usize) {
        let surplus = self.ids.len().saturating_sub(most);
        if surplus == 0 {
            return;
        }
        let mut droppable: Vec<_> = (self.ids.iter())
            .map(|(id, delta)| {
                let newest = delta.slices.iter().next_back().map(|(start, _)| start);
                (delta.is_removed, newest, sum_of(delta), id.clone())
            })
            .collect();
        droppable.select_nth_unstable(surplus - 1);
        for (is_removed, _, sum, id) in droppable.into_iter().take(surplus) {
            self.ids.remove(&id);
            let dropped = sum.unsigned_abs().max(u64::from(is_removed));
            self.dropped = self.dropped.saturating_add(dropped);
        }
    }

    /// Drops slices that start after `latest`. Only a wrong clock produces such slices.
    pub fn drop_future(&mut self, latest: i64) {
        for delta in self.ids.values_mut() {
            drop(delta.slices.drop_after(latest));
        }
    }
}

fn sum_of(delta: &IdDelta) -> i64 {
    let counts = delta.slices.iter().map(|(_, n)| *n);
    counts.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{pack, unpack};
    use crate::tests::spec;
    use proptest::prelude::*;

    const SPEC: RankingSpec = spec(60, 3, 4);

    #[test]
    fn the_smallest_ids_of_the_oldest_slice_are_dropped() {
        let mut delta = RankingDelta::new(SPEC);
        for (id, second, n) in [
            ("a", 60, 9),
            ("b", 60, 2),
            ("c", 0, 5),
            ("d", 0, 50),
            ("e", 120, 1),
        ] {
            delta.add(&id.into(), second, n);
        }
        delta.remove(&"f".into());
        delta.limit();
        let sums = delta.ids.iter().map(|(id, delta)| (&**id, sum_of(delta)));
        assert!(sums.eq([("a", 9), ("b", 2), ("e", 1), ("f", 0)]));
        assert_eq!(delta.dropped, 55);
    }

    #[test]
    fn the_additions_of_several_instances_are_bounded_with_some_room() {
        let large = spec(60, 3, 2 * ROOM_AT_LEAST as u32);
        assert_eq!(large.most_at_once(), 4 * ROOM_AT_LEAST);
        assert_eq!(SPEC.most_at_once(), 4 + ROOM_AT_LEAST);
        let mut delta = RankingDelta::new(SPEC);
        for number in 0..ROOM_AT_LEAST + 8 {
            delta.add(&number.to_string().into(), 60, 1);
        }
        delta.bound();
        assert_eq!((delta.ids.len(), delta.dropped), (ROOM_AT_LEAST + 8, 0));
        delta.add(&"one more".into(), 60, 1);
        delta.bound();
        assert_eq!((delta.ids.len(), delta.dropped), (ROOM_AT_LEAST + 4, 5));
    }

    #[test]
    fn a_state_is_read_back_from_its_bytes() {
        let mut state = RankingState::new(SPEC);
        assert_eq!(unpack(&pack(&state)), Some(state.clone()));
        state.slices.extend([-60, 0, 120]);
        let packed = pack(&state);
        assert_eq!(packed, [60, 3, 4, 3, 119, 0, 240, 1]);
        assert_eq!(unpack(&packed), Some(state.clone()));
        assert!(state.expired(239).eq([-60, 0]));
        for bytes in [&b""[..], &[0, 3, 4, 0], &[60, 0, 4, 0], &packed[..7]] {
            assert_eq!(unpack::<RankingState>(bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole(operations in proptest::collection::vec((0..4u8, 0..500i64, -3..9i64, 0..6u8), 0..60), at in any::<prop::sample::Index>(), cost in 0..30usize, dropped in 0..3u64) {
            let collect = |operations: &[(u8, i64, i64, u8)]| {
                let mut delta = RankingDelta::new(SPEC);
                for (id, second, n, operation) in operations {
                    let id: Arc<str> = id.to_string().into();
                    match operation {
                        0 => delta.remove(&id),
                        _ => delta.add(&id, *second, *n),
                    }
                }
                delta
            };
            let (first, later) = operations.split_at(at.index(operations.len() + 1));
            let mut merged = collect(first);
            merged.merge(collect(later));
            let mut whole = collect(&operations);
            // Only the newest slice of each id is compared, because a part may retain other old slices than the whole.
            let newest = |delta: &RankingDelta| delta.ids.iter().map(|(id, d)| {
                let newest = d.slices.iter().next_back().map(|(start, n)| (start, *n));
                (id.clone(), d.is_removed, newest)
            }).collect::<Vec<_>>();
            prop_assert_eq!(newest(&merged), newest(&whole));
            whole.dropped = dropped;
            let (mut left, mut parts) = (whole.clone(), RankingDelta::new(SPEC));
            while !left.is_empty() {
                let part = left.split(cost);
                prop_assert!(!part.ids.is_empty() || whole.ids.is_empty());
                parts.merge(part);
            }
            prop_assert_eq!(parts, whole);
        }
    }
}
