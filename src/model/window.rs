//! Windows: spans of time that somebody asks about, rounded outward to the slices that are kept.

use std::collections::HashMap;

use super::aggregate::Aggregate;
use super::pack;
use super::records::{Record, RecordId};
use super::slice::{HOUR, Precision, hour_of};
use super::slices::Merge;
use super::tier::{Revision, TIERS};

/// The windows that have a name, with their length in seconds.
pub const NAMED: [(&str, i64); 6] = [
    ("5m", 300),
    ("15m", 900),
    ("1h", 3_600),
    ("6h", 21_600),
    ("24h", 86_400),
    ("7d", 604_800),
];

/// Seconds that flushing and folding may lag behind before the time since then counts as not recorded.
const LAG: i64 = 15;

/// The end of the time that counts as recorded at `now`, if everything until `as_of` can be read. A short lag is
/// overlooked, unless it is `uncertain` when that ends.
pub fn recorded_until(as_of: i64, now: i64, uncertain: bool) -> i64 {
    let is_recent = !uncertain && as_of.saturating_add(LAG) >= now;
    if is_recent { now } else { as_of.min(now) }
}

/// A span of time, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// This number of seconds before now.
    Last(i64),
    /// The time between two Unix seconds, without the second one.
    Between(i64, i64),
    /// A UTC hour, by the number of hours since: 0 is the current hour.
    HoursAgo(i64),
}

/// Adjacent slices of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowSlices {
    /// The tier.
    pub tier: Precision,
    /// Start of the first slice, in Unix seconds.
    pub from: i64,
    /// End of the last slice, in Unix seconds.
    pub to: i64,
}

impl Window {
    /// The same window with the bounds of its slices at `now`, so that questions about nearby times share an answer.
    #[must_use]
    pub fn rounded(self, now: i64) -> Self {
        match self {
            Self::Between(..) => {
                let slices = self.slices(now);
                Self::Between(slices.from, slices.to)
            }
            Self::Last(_) | Self::HoursAgo(_) => self,
        }
    }

    /// The slices that cover the window at `now`: of the finest tier that still has its first slice and, if the
    /// window moves, also the first slice of the window before it. The last slice is that of `now` at the latest.
    ///
    /// ```
    /// # use tower_pulse::model::window::Window;
    /// let now = 1_700_000_000; // 20 s into a minute
    /// let slices = Window::Last(300).slices(now);
    /// assert_eq!((slices.tier.seconds, slices.from, slices.to), (60, now - 320, now + 40));
    /// ```
    pub fn slices(self, now: i64) -> WindowSlices {
        let (from, to) = match self {
            Self::Last(seconds) => (now.saturating_sub(seconds), now.saturating_add(1)),
            Self::Between(from, to) => (from, to.min(now.saturating_add(1))),
            Self::HoursAgo(hours) => return WindowSlices::hour(hour_of(now) - hours * HOUR),
        };
        let slices = TIERS.map(|tier| {
            let width = i64::from(tier.seconds);
            let start = tier.slice(from);
            let end = tier.slice(to.saturating_sub(1)).saturating_add(width);
            WindowSlices {
                tier,
                from: start,
                to: end.max(start.saturating_add(width)),
            }
        });
        let is_retained = |slices: &&WindowSlices| {
            let first = match self {
                Self::Last(_) => slices.before().from,
                Self::Between(..) | Self::HoursAgo(_) => slices.from,
            };
            first > slices.tier.cut_off(now)
        };
        let widest = slices[slices.len() - 1];
        slices.iter().find(is_retained).copied().unwrap_or(widest)
    }
}

impl WindowSlices {
    /// The hour that starts at `from`, in half hours: few slices, with the fine histograms.
    pub fn hour(from: i64) -> Self {
        Self {
            tier: TIERS[1],
            from,
            to: from.saturating_add(HOUR),
        }
    }

    /// The slices of the same length just before.
    pub fn before(&self) -> Self {
        Self {
            from: self.from.saturating_sub(self.to.saturating_sub(self.from)),
            to: self.from,
            ..*self
        }
    }

    /// The length, in seconds.
    pub fn seconds(&self) -> i64 {
        self.to.saturating_sub(self.from)
    }

    /// The slices that are retained at `now`.
    #[must_use]
    pub fn retained(&self, now: i64) -> Self {
        let width = i64::from(self.tier.seconds);
        let oldest = self.tier.slice(self.tier.cut_off(now)) + width;
        Self {
            from: self.from.max(oldest.min(self.to)),
            ..*self
        }
    }

    /// The starts of the slices that are retained at `now`, oldest first.
    pub fn starts(&self, now: i64) -> impl Iterator<Item = i64> + use<> {
        let Self { from, to, .. } = self.retained(now);
        (from..to).step_by(self.tier.seconds as usize)
    }

    /// Whether a time lies within the slices.
    pub fn contains(&self, time: i64) -> bool {
        (self.from..self.to).contains(&time)
    }

    /// The part of the window that was recorded, if there is data from `since` to `until`, in seconds.
    pub fn covered(&self, since: i64, until: i64, now: i64) -> i64 {
        let oldest = self.tier.slice(self.tier.cut_off(now)) + i64::from(self.tier.seconds);
        let first = self.from.max(since).max(oldest);
        let last = self.to.min(until).min(now);
        last.saturating_sub(first).max(0)
    }

    /// The share of the window until `now` that was recorded, 0 to 1.
    pub fn complete(&self, since: i64, until: i64, now: i64) -> f64 {
        let passed = self.to.min(now).saturating_sub(self.from);
        match passed {
            ..=0 => 0.0,
            passed => self.covered(since, until, now) as f64 / passed as f64,
        }
    }
}

/// The packed sums of a context, or that it has none.
pub type PackedSums = (RecordId, Option<Box<[u8]>>);

/// Bytes of the sums of a context beside their packed form.
const PER_CONTEXT: usize = 64;

/// Bytes of a slice in it.
const PER_SLICE: usize = 40;

/// The sums of each context over some slices, to which slices are added and from which they are taken out as
/// a window moves on, for one group of contexts after the other. They are held packed, in a fifth of the memory.
#[derive(Debug, Default)]
pub struct RunningSums {
    /// The slices of each group.
    slices: Vec<HashMap<i64, Revision>>,
    sums: HashMap<RecordId, Box<[u8]>>,
    /// Bytes of the sums.
    bytes: usize,
    /// Whether a slice was taken out, and others not.
    is_reduced: bool,
}

impl RunningSums {
    /// The starts of a group's slices in it, in any order, with the revision that each had when it was added.
    pub fn slices(&self, group: usize) -> impl Iterator<Item = (i64, Revision)> {
        let slices = self.slices.get(group).into_iter().flatten();
        slices.map(|(start, revision)| (*start, *revision))
    }

    /// The revision of a group's slice when it was added.
    pub fn revision(&self, group: usize, start: i64) -> Option<Revision> {
        self.slices.get(group)?.get(&start).copied()
    }

    /// The number of groups that have had slices in it.
    pub fn groups(&self) -> usize {
        self.slices.len()
    }

    /// The sums that a context would have without the records of some slices, which were added before, and with those
    /// of others.
    pub fn changed<'a>(
        &self,
        id: RecordId,
        removed: impl Iterator<Item = &'a Record>,
        added: impl Iterator<Item = &'a Record>,
    ) -> PackedSums {
        let mut sums = self.get(id);
        if let Some(sums) = &mut sums {
            removed.for_each(|record| sums.subtract(&record.sums));
        }
        // Timers that ended after their requests may be all that is left.
        sums = sums.filter(|sums| sums.times.count > 0 || !sums.timers.is_empty());
        for record in added {
            match &mut sums {
                Some(sums) => sums.merge(&record.sums),
                None => sums = Some(record.sums.clone()),
            }
        }
        (id, sums.map(|sums| pack::aggregate(&sums).into()))
    }

    /// Takes slices of a group out and adds others, which are not in it yet, with the sums that the contexts of the
    /// group [have then](Self::changed). A context that neither has records in these slices may be left out.
    pub fn change(
        &mut self,
        group: usize,
        removed: impl Iterator<Item = i64>,
        added: impl Iterator<Item = (i64, Revision)>,
        sums: Vec<PackedSums>,
    ) {
        if self.slices.len() <= group {
            self.slices.resize_with(group + 1, HashMap::new);
        }
        let slices = &mut self.slices[group];
        for start in removed {
            self.is_reduced |= slices.remove(&start).is_some();
        }
        for (start, revision) in added {
            let before = slices.insert(start, revision);
            debug_assert_eq!(before, None, "the slice is in it");
        }
        for (id, sums) in sums {
            self.bytes += sums.as_ref().map_or(0, |sums| sums.len() + PER_CONTEXT);
            let before = match sums {
                Some(sums) => self.sums.insert(id, sums),
                None => self.sums.remove(&id),
            };
            self.bytes -= before.map_or(0, |before| before.len() + PER_CONTEXT);
        }
        if self.slices.iter().all(HashMap::is_empty) {
            self.clear();
        }
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the smallest and the largest access times are those of the slices in it: they cannot be taken out.
    pub fn has_exact_bounds(&self) -> bool {
        !self.is_reduced
    }

    /// The sums of a context.
    pub fn get(&self, id: RecordId) -> Option<Aggregate> {
        pack::read_aggregate(self.sums.get(&id)?)
    }

    /// Whether a context has sums.
    pub fn contains(&self, id: RecordId) -> bool {
        self.sums.contains_key(&id)
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        let slices = self.slices.iter().map(HashMap::len).sum::<usize>();
        self.bytes + slices * PER_SLICE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::context::Kind;
    use crate::model::histogram::{Histogram, bucket_of};
    use crate::model::timer_sums::TimerSums;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const NOW: i64 = 1_700_000_000;

    fn seconds_of(name: &str) -> i64 {
        NAMED
            .iter()
            .find(|(other, _)| *other == name)
            .expect("it is one")
            .1
    }

    #[test]
    fn a_rounded_window_has_the_same_slices() {
        for (from, to) in [
            (30, 0),
            (3_600, 60),
            (9_000, 8_000),
            (400_000, 0),
            (2_000_000, 7),
        ] {
            for now in (NOW..NOW + 3_600).step_by(13) {
                let window = Window::Between(now - from, now - to + 1);
                let rounded = window.rounded(now);
                assert_eq!(rounded.slices(now), window.slices(now));
                assert_eq!(rounded.rounded(now), rounded);
            }
        }
    }

    #[test]
    fn a_named_window_and_the_one_before_it_are_kept() {
        for (name, tier) in [
            ("5m", 60),
            ("15m", 60),
            ("1h", 60),
            ("6h", 1_800),
            ("24h", 1_800),
            ("7d", 21_600),
        ] {
            for now in (NOW..NOW + 21_600).step_by(7) {
                let slices = Window::Last(seconds_of(name)).slices(now);
                assert_eq!(slices.tier.seconds, tier, "{name} at {now}");
                assert!(slices.contains(now) && slices.to - now <= i64::from(tier));
                assert!(slices.from <= now - seconds_of(name));
                assert!(slices.from > now - seconds_of(name) - i64::from(tier));
                let before = slices.before();
                assert_eq!(
                    (before.to, before.seconds()),
                    (slices.from, slices.seconds())
                );
                let starts: Vec<_> = before.starts(now).collect();
                assert_eq!(starts.first(), Some(&before.from), "{name} at {now}");
                assert_eq!(starts.len() as i64, before.seconds() / i64::from(tier));
                assert!((before.complete(i64::MIN, now, now) - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn an_hour_is_two_half_hours_and_the_one_before_it_is_kept() {
        for (hours, now) in [
            (0, NOW),
            (1, NOW),
            (1, hour_of(NOW)),
            (0, hour_of(NOW) + HOUR - 1),
        ] {
            let slices = Window::HoursAgo(hours).slices(now);
            assert_eq!(slices.from, hour_of(now) - hours * HOUR);
            assert_eq!((slices.tier.seconds, slices.seconds()), (1_800, HOUR));
            let starts: Vec<_> = slices.before().starts(now).collect();
            assert_eq!(starts, [slices.from - HOUR, slices.from - HOUR / 2]);
        }
    }

    #[test]
    fn a_window_between_two_times_is_rounded_outward() {
        let between = |from: i64, to: i64| {
            let slices = Window::Between(NOW + from, NOW + to).slices(NOW);
            (slices.tier.seconds, slices.from - NOW, slices.to - NOW)
        };
        // NOW is 20 s into a minute.
        assert_eq!(between(-100, -40), (60, -140, -20));
        assert_eq!(between(-80, -20), (60, -80, -20));
        assert_eq!(
            between(-80, 500),
            (60, -80, 40),
            "it ends with the slice of now"
        );
        assert_eq!(between(-7_700, -7_600).0, 60);
        assert_eq!(
            between(-7_900, -7_600).0,
            1_800,
            "a minute of then is not kept"
        );
        assert_eq!(between(-200_000, -100).0, 21_600);
        let old = Window::Between(0, 100_000).slices(NOW);
        assert_eq!((old.tier.seconds, old.from, old.to), (21_600, 0, 108_000));
        assert_eq!(
            (old.starts(NOW).count(), old.complete(0, NOW, NOW)),
            (0, 0.0)
        );
    }

    #[test]
    fn what_was_not_recorded_is_not_complete() {
        let slices = Window::Last(3_600).slices(NOW);
        let length = NOW - slices.from;
        assert_eq!(slices.covered(i64::MIN, NOW, NOW), length);
        assert_eq!(slices.covered(NOW - 600, NOW, NOW), 600);
        assert_eq!(slices.covered(i64::MIN, NOW - 600, NOW), length - 600);
        assert_eq!(slices.covered(NOW - 100, NOW - 200, NOW), 0);
        assert_eq!(slices.complete(NOW - length / 2, NOW, NOW), 0.5);
        // An answer of a store whose clock is ahead.
        assert_eq!(slices.complete(i64::MIN, NOW + 7, NOW), 1.0);
    }

    #[test]
    fn a_short_lag_is_overlooked_unless_nobody_knows_when_it_ends() {
        for (lag, uncertain, until) in [
            (0, false, 0),
            (LAG, false, 0),
            (LAG + 1, false, -LAG - 1),
            (1, true, -1),
            (-7, false, 0),
            (-7, true, 0),
        ] {
            let found = recorded_until(NOW - lag, NOW, uncertain) - NOW;
            assert_eq!(found, until, "{lag} s, {uncertain}");
        }
    }

    fn record(nanos: &[u64]) -> Record {
        let mut sums = Aggregate::default();
        for nanos in nanos {
            sums.times.record(*nanos);
            sums.outcomes.counts[*nanos as usize % 10] += 1;
            let bucket = bucket_of(*nanos) as u16;
            sums.histogram.merge(&Histogram::new(4, [(bucket, 1)]));
            let timer = RecordId::new(Kind::Timer, &(nanos % 3).to_string());
            let timed = TimerSums {
                count: 2,
                requests: 1,
                sum: nanos / 2,
                covered: nanos / 3,
            };
            sums.timers.add(timer, &timed);
            sums.timers.covered += nanos / 3;
        }
        Record {
            sums,
            ..Record::default()
        }
    }

    type SliceOf<'a> = Option<(i64, &'a [(RecordId, Record)])>;

    /// Takes a slice out and adds another one, of two groups of contexts one after the other.
    fn change(running: &mut RunningSums, removed: SliceOf<'_>, added: SliceOf<'_>) {
        let records = |slice: SliceOf<'_>| slice.map_or(&[][..], |(_, records)| records).to_vec();
        let (taken, given) = (records(removed), records(added));
        let ids = taken.iter().chain(&given).map(|(id, _)| *id);
        let ids: BTreeSet<RecordId> = ids.collect();
        for group in 0..2 {
            let is_in = |id: &&RecordId| usize::from(id.to_bytes()[7]) % 2 == group;
            let of = |records: &[(RecordId, Record)], id: RecordId| {
                let records = records.iter().filter(|(of, _)| *of == id);
                records
                    .map(|(_, record)| record.clone())
                    .collect::<Vec<_>>()
            };
            let sums = ids
                .iter()
                .filter(is_in)
                .map(|id| running.changed(*id, of(&taken, *id).iter(), of(&given, *id).iter()));
            let sums: Vec<_> = sums.collect();
            let removed = removed.map(|(start, _)| start);
            let added = added.map(|(start, _)| (start, 7));
            running.change(group, removed.into_iter(), added.into_iter(), sums);
        }
    }

    #[test]
    fn timers_whose_requests_have_left_stay_until_they_leave() {
        let id = RecordId::new(Kind::Http, "GET /");
        let mut late = Record::default();
        let timer = RecordId::new(Kind::Timer, "db");
        let sums = TimerSums {
            count: 1,
            sum: 7,
            ..TimerSums::default()
        };
        late.sums.timers.add(timer, &sums);
        let (first, second) = ([(id, record(&[1_000]))], [(id, late)]);
        let mut running = RunningSums::default();
        change(&mut running, None, Some((0, &first)));
        change(&mut running, None, Some((60, &second)));
        change(&mut running, Some((0, &first)), None);
        let sums = running.get(id).expect("the timer is left");
        let left = sums.timers.get(timer).map(|timer| timer.sum);
        assert_eq!((sums.times.count, left), (0, Some(7)));
        assert!(running.bytes() > PER_SLICE + PER_CONTEXT);
        change(&mut running, Some((60, &second)), None);
        assert_eq!((running.contains(id), running.bytes()), (false, 0));
    }

    proptest! {
        #[test]
        fn sums_that_moved_on_are_those_of_the_slices_in_them(slices in vec(vec((0..3u8, vec(1_000..9_000_000_000u64, 1..9)), 0..4), 1..20), width in 1..8usize) {
            let slices: Vec<Vec<_>> = slices.into_iter().map(|slice| {
                let mut of: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
                for (name, nanos) in slice {
                    of.entry(name).or_default().extend(nanos);
                }
                let records = of.into_iter();
                records.map(|(name, nanos)| (RecordId::new(Kind::Http, &name.to_string()), record(&nanos))).collect()
            }).collect();
            let mut running = RunningSums::default();
            for (at, records) in slices.iter().enumerate() {
                // In one step, or in two as when a window was not asked for meanwhile.
                let leaving = at.checked_sub(width).map(|at| (at as i64, &slices[at][..]));
                let entering = Some((at as i64, &records[..]));
                if at % 2 == 0 {
                    change(&mut running, leaving, entering);
                } else {
                    change(&mut running, None, entering);
                    change(&mut running, leaving, None);
                }
                let first = (at + 1).saturating_sub(width);
                for group in 0..2 {
                    let starts: BTreeSet<i64> = running.slices(group).map(|(start, _)| start).collect();
                    prop_assert!(starts.into_iter().eq(first as i64..=at as i64));
                }
                let mut expected: HashMap<RecordId, Aggregate> = HashMap::new();
                for (id, record) in slices[first..=at].iter().flatten() {
                    expected.entry(*id).or_default().merge(&record.sums);
                }
                prop_assert_eq!(running.sums.len(), expected.len());
                let bytes = running.sums.values().map(|sums| sums.len() + PER_CONTEXT).sum::<usize>();
                prop_assert_eq!(running.bytes(), bytes + 2 * (at - first + 1) * PER_SLICE);
                for (id, mut expected) in expected {
                    let sums = running.get(id).expect("it has sums");
                    if !running.has_exact_bounds() {
                        expected.times.min = sums.times.min;
                        expected.times.max = sums.times.max;
                    }
                    prop_assert_eq!(sums, expected);
                }
            }
        }
    }
}
