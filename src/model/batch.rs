//! What goes down to a store: for each name, what has been added since the last time.
//!
//! A batch is bounded by the number of names and by the retention, not by how long it collects:
//! slices that nobody could ever read again are folded away ([`Slices`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::access_time::DurationSums;
use super::context::Kind;
use super::histogram::{COARSE_SCALE, Histogram};
use super::outcome::OutcomeCounts;
use super::slice::{Precision, Precisions, hour_of};
pub use super::slices::{Merge, Slices};
use super::tier::TIERS;

/// Hours of statistics that are kept while a store is away: readers know this hour and the last.
pub(crate) const HOURS_KEPT: usize = 2;

/// Slices of each tier that keep their width when a batch is compacted.
const SLICES_NOT_COMPACTED: usize = 2;

/// The scale of histograms of a batch that is still too large when its slices are as wide as they can be: one
/// bucket per octave.
const COARSEST_SCALE: u8 = 0;

/// Histograms that are kept at the fine scale while a store is away. Older ones are reduced, so that
/// a long outage costs a quarter.
const FINE_KEPT: usize = 2;

/// What the counters of a context grew by within a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// How many requests, or runs of a timer.
    pub hits: u64,
    /// How many of them were errors.
    pub errors: u64,
    /// How long they took together, in microseconds.
    pub micros: u64,
}

impl Merge for RequestCounts {
    fn merge(&mut self, other: &Self) {
        self.hits = self.hits.saturating_add(other.hits);
        self.errors = self.errors.saturating_add(other.errors);
        self.micros = self.micros.saturating_add(other.micros);
    }
}

/// What is known of the requests of a context within a slice, or within one second that was drained:
/// everything that this crate knows of them, in one value that merges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// The access times.
    pub times: DurationSums,
    /// How the requests ended.
    pub tally: OutcomeCounts,
    /// The access times' histogram.
    pub histogram: Histogram,
}

impl Merge for Aggregate {
    fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.tally.merge(&other.tally);
        self.histogram.merge(&other.histogram);
    }
}

impl Aggregate {
    /// About how many bytes it takes in memory, with the start of its slice.
    pub(crate) fn bytes(&self) -> usize {
        const PER_BUCKET: usize = 16;
        size_of::<(i64, Self)>() + PER_BUCKET * self.histogram.buckets().len()
    }
}

impl Slices<Aggregate> {
    /// Reduces all but the newest to the coarse scale.
    fn coarsen(&mut self) {
        for (_, aggregate) in self.iter_mut().rev().skip(FINE_KEPT) {
            aggregate.histogram.coarsen(COARSE_SCALE);
        }
    }
}

/// Adds to the records of a tier. A slice that has to go for it is added to those of the next coarser one: while
/// a store is away for long, the pending records get coarser and not more.
fn add_record(records: &mut [Slices<Aggregate>], tier: usize, slice: i64, sums: Aggregate) {
    let mut overflow = Some((slice, sums));
    for (at, (slices, tier)) in records.iter_mut().zip(TIERS).enumerate().skip(tier) {
        let Some((slice, mut sums)) = overflow else {
            return;
        };
        if at > 0 {
            sums.histogram.coarsen(COARSE_SCALE);
        }
        overflow = slices.add(tier.slice(slice), sums, tier.samples as usize);
        slices.coarsen();
    }
}

/// What has been added to a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextDelta {
    /// What it stands for.
    pub kind: Kind,
    /// When something was last added, in Unix seconds.
    pub last_seen: i64,
    /// Counters, in the order of [`Precisions::counters`].
    pub counters: Vec<Slices<RequestCounts>>,
    /// Statistics by hour.
    pub hours: Slices<DurationSums>,
    /// Records, in the order of [`TIERS`]. Each request is in one of them: in the finest, unless the store has
    /// been away for so long that its slice is not retained there.
    pub records: [Slices<Aggregate>; TIERS.len()],
}

impl ContextDelta {
    fn new(kind: Kind, precisions: &Precisions) -> Self {
        Self {
            kind,
            last_seen: i64::MIN,
            counters: vec![Slices::default(); precisions.counters.len()],
            hours: Slices::default(),
            records: Default::default(),
        }
    }

    /// Adds what was collected within `second`. Returns how many requests were too old for the
    /// statistics to keep.
    fn add(&mut self, precisions: &Precisions, second: i64, found: &Aggregate) -> u64 {
        self.last_seen = self.last_seen.max(second);
        let hits = RequestCounts {
            hits: found.times.count,
            errors: found.tally.errors,
            micros: found.times.sum.saturating_add(500) / 1_000,
        };
        for (slices, precision) in self.counters.iter_mut().zip(&precisions.counters) {
            slices.add(precision.slice(second), hits, precision.samples as usize);
        }
        add_record(&mut self.records, 0, second, found.clone());
        let gone = self.hours.add(hour_of(second), found.times, HOURS_KEPT);
        gone.map_or(0, |(_, times)| times.count)
    }

    /// Adds all of `other`, keeping the statistics of at most `hours_kept` hours. Returns how many
    /// requests were too old for them.
    pub(crate) fn merge(&mut self, other: Self, precisions: &Precisions, hours_kept: usize) -> u64 {
        self.kind = self.kind.max(other.kind);
        self.last_seen = self.last_seen.max(other.last_seen);
        merge_all(&mut self.counters, other.counters, &precisions.counters);
        for (tier, slices) in other.records.into_iter().enumerate() {
            for (slice, sums) in slices.into_slices() {
                add_record(&mut self.records, tier, slice, sums);
            }
        }
        let mut late = 0;
        self.hours
            .merge(other.hours, hours_kept, |times| late += times.count);
        late
    }

    /// Drops what begins after `latest`: nobody can be there yet. Returns how many requests of its
    /// statistics that were.
    pub(crate) fn drop_future(&mut self, latest: i64) -> u64 {
        let counters = self.counters.iter_mut();
        counters.for_each(|slices| drop(slices.drop_after(latest)));
        let records = self.records.iter_mut();
        records.for_each(|slices| drop(slices.drop_after(latest)));
        let hours = self.hours.drop_after(latest);
        hours.iter().map(|times| times.count).sum()
    }

    /// How many requests its statistics hold.
    pub fn requests(&self) -> u64 {
        self.hours.iter().map(|(_, times)| times.count).sum()
    }

    /// Roughly how many commands it takes a store to merge it.
    pub(crate) fn cost(&self) -> usize {
        let slices: usize = self.counters.iter().map(Slices::len).sum();
        2 * slices + self.fixed_cost()
    }

    fn fixed_cost(&self) -> usize {
        let records: usize = self.records.iter().map(Slices::len).sum();
        2 * records + 3 * self.hours.len() + 1
    }

    /// About how many bytes its records take in memory.
    fn record_bytes(&self) -> usize {
        let records = self.records.iter().flat_map(Slices::iter);
        records.map(|(_, record)| record.bytes()).sum()
    }

    fn is_empty(&self) -> bool {
        self.hours.is_empty()
            && self.counters.iter().all(Slices::is_empty)
            && self.records.iter().all(Slices::is_empty)
    }

    /// Moves out a part of about `cost`, at least one slice.
    fn split(&mut self, cost: usize) -> Self {
        let mut slices = (cost.saturating_sub(self.fixed_cost()) / 2).max(1);

        Self {
            kind: self.kind,
            last_seen: self.last_seen,
            hours: std::mem::take(&mut self.hours),
            records: std::mem::take(&mut self.records),
            counters: self
                .counters
                .iter_mut()
                .map(|counters| {
                    let part = counters.split_newest(slices);
                    slices -= part.len();
                    part
                })
                .collect(),
        }
    }
}

pub(crate) fn merge_all<V: Merge>(
    mine: &mut [Slices<V>],
    theirs: Vec<Slices<V>>,
    precisions: &[Precision],
) {
    for ((mine, theirs), precision) in mine.iter_mut().zip(theirs).zip(precisions) {
        mine.merge(theirs, precision.samples as usize, drop);
    }
}

/// What has been added to a counter of the user's, in the order of [`Precisions::counters`].
pub type CounterDelta = Vec<Slices<i64>>;

/// A map from names to what was added to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// By context, `<all>` among them.
    pub contexts: BTreeMap<Arc<str>, ContextDelta>,
    /// By counter.
    pub counters: BTreeMap<Arc<str>, CounterDelta>,
    /// Requests whose hour had to be folded away: they are in the counters, not in the statistics.
    pub late: u64,
}

impl Batch {
    /// Adds what was collected of a context within `second`, and, of an HTTP context, the same to
    /// `all`.
    pub fn add(
        &mut self,
        precisions: &Precisions,
        context: &Arc<str>,
        kind: Kind,
        second: i64,
        found: &Aggregate,
    ) {
        let delta = match self.contexts.get_mut(context) {
            Some(delta) => delta,
            None => self
                .contexts
                .entry(context.clone())
                .or_insert_with(|| ContextDelta::new(kind, precisions)),
        };
        delta.kind = delta.kind.max(kind);
        let late = delta.add(precisions, second, found);
        if kind != Kind::All {
            self.late += late;
        }
    }

    /// Adds `n` to a counter of the user's.
    pub fn count(&mut self, precisions: &Precisions, counter: &Arc<str>, second: i64, n: i64) {
        let delta = match self.counters.get_mut(counter) {
            Some(delta) => delta,
            None => self
                .counters
                .entry(counter.clone())
                .or_insert_with(|| vec![Slices::default(); precisions.counters.len()]),
        };
        for (slices, precision) in delta.iter_mut().zip(&precisions.counters) {
            slices.add(precision.slice(second), n, precision.samples as usize);
        }
    }

    /// Adds all of `other`, folding what nobody could read any more.
    pub fn merge(&mut self, other: Self, precisions: &Precisions) {
        self.late += other.late;
        for (context, theirs) in other.contexts {
            match self.contexts.get_mut(&context) {
                Some(mine) => {
                    let late = mine.merge(theirs, precisions, HOURS_KEPT);
                    if mine.kind != Kind::All {
                        self.late += late;
                    }
                }
                None => {
                    self.contexts.insert(context, theirs);
                }
            }
        }
        for (counter, theirs) in other.counters {
            match self.counters.get_mut(&counter) {
                Some(mine) => merge_all(mine, theirs, &precisions.counters),
                None => {
                    self.counters.insert(counter, theirs);
                }
            }
        }
    }

    /// Whether there is nothing to merge.
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty() && self.counters.is_empty()
    }

    /// How many names have something to merge.
    pub fn len(&self) -> usize {
        self.contexts.len() + self.counters.len()
    }

    /// About how many bytes it takes in memory.
    pub fn approximate_bytes(&self) -> usize {
        const PER_NAME: usize = 400;
        const PER_SLICE: usize = 32;
        let slices = |counters: &[usize]| counters.iter().sum::<usize>() * PER_SLICE;
        let contexts = self.contexts.iter().map(|(name, delta)| {
            let lens: Vec<_> = delta.counters.iter().map(Slices::len).collect();
            let hours = delta.hours.len() * size_of::<(i64, DurationSums)>();
            PER_NAME + name.len() + slices(&lens) + delta.record_bytes() + hours
        });
        let counters = self.counters.iter().map(|(name, delta)| {
            let lens: Vec<_> = delta.iter().map(Slices::len).collect();
            PER_NAME + name.len() + slices(&lens)
        });
        contexts.sum::<usize>() + counters.sum::<usize>()
    }

    /// About how many bytes its records take in memory.
    pub(crate) fn record_bytes(&self) -> usize {
        let contexts = self.contexts.values();
        contexts.map(ContextDelta::record_bytes).sum()
    }

    /// Makes its records smaller until they take about `bytes`: adds all but the newest slices of the finest tier
    /// to those of the next one, then these to the widest, then makes the histograms coarser. No count is lost.
    pub(crate) fn compact(&mut self, bytes: usize) {
        for tier in 1..TIERS.len() {
            if self.record_bytes() <= bytes {
                return;
            }
            for delta in self.contexts.values_mut() {
                let newest = delta.records[tier - 1].split_newest(SLICES_NOT_COMPACTED);
                let older = std::mem::replace(&mut delta.records[tier - 1], newest);
                for (slice, sums) in older.into_slices() {
                    add_record(&mut delta.records, tier, slice, sums);
                }
            }
        }
        if self.record_bytes() <= bytes {
            return;
        }
        for delta in self.contexts.values_mut() {
            let newest = delta.records[0].len();
            let records = delta.records.iter_mut().flat_map(Slices::iter_mut);
            for (_, sums) in records.skip(newest) {
                sums.histogram.coarsen(COARSEST_SCALE);
            }
        }
    }

    /// How many requests and runs of timers it holds, each once.
    pub fn requests(&self) -> u64 {
        let contexts = self.contexts.values();
        contexts
            .filter(|delta| delta.kind != Kind::All)
            .map(ContextDelta::requests)
            .sum()
    }

    /// The same, with those whose hour had to be folded away: by the counters, which keep longer
    /// than any outage, unless only fine precisions are configured. Where the contexts or their sum
    /// in `<all>` have been sent already, the other.
    pub fn requests_and_late(&self) -> u64 {
        let counted = |all: bool| -> u64 {
            let contexts = self.contexts.values();
            contexts
                .filter(|delta| (delta.kind == Kind::All) == all)
                .filter_map(|delta| delta.counters.last())
                .flat_map(Slices::iter)
                .map(|(_, hits)| hits.hits)
                .sum()
        };
        counted(false).max(counted(true)).max(self.requests())
    }

    /// Moves out as much as a store merges in about `cost` commands: at least one slice, as long as
    /// there is one.
    pub fn split(&mut self, cost: usize) -> Self {
        let mut part = Self {
            late: std::mem::take(&mut self.late),
            ..Self::default()
        };
        let mut left = cost.max(1);
        while let Some(mut entry) = self.contexts.first_entry() {
            let cost = entry.get().cost();
            if cost <= left {
                let (context, delta) = entry.remove_entry();
                part.contexts.insert(context, delta);
                left -= cost;
                continue;
            }
            // Only what is larger than a whole call is cut; the next one waits for the next call.
            if part.is_empty() {
                let (context, delta) = (entry.key().clone(), entry.get_mut().split(left));
                part.contexts.insert(context, delta);
                if entry.get().is_empty() {
                    entry.remove();
                }
            }
            return part;
        }
        while let Some(entry) = self.counters.first_entry() {
            let cost: usize = entry.get().iter().map(Slices::len).sum();
            if cost > left && !part.is_empty() {
                break;
            }
            let (counter, delta) = entry.remove_entry();
            part.counters.insert(counter, delta);
            left = left.saturating_sub(cost);
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::histogram::bucket_of;
    use crate::model::slice::HOUR;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn collected(nanos: u64, error: bool) -> Aggregate {
        let mut found = Aggregate::default();
        found.times.record(nanos);
        found
            .tally
            .record(crate::model::outcome::Outcome::Success, error);
        found.histogram = Histogram::new(4, [(bucket_of(nanos) as u16, 1)]);
        found
    }

    type Sample = (u8, i64, u64, bool);

    fn of(samples: &[Sample], precisions: &Precisions) -> Batch {
        let mut batch = Batch::default();
        for (name, second, nanos, error) in samples {
            let context: Arc<str> = format!("GET /{name}").into();
            let found = collected(*nanos, *error);
            batch.add(precisions, &context, Kind::Http, *second, &found);
            batch.count(precisions, &"sales".into(), *second, 2);
        }
        batch
    }

    fn merged(a: &Batch, b: &Batch, precisions: &Precisions) -> Batch {
        let mut both = a.clone();
        both.merge(b.clone(), precisions);
        both
    }

    /// Microseconds are rounded once per drain, and so differ by what is drained together.
    fn samples(seconds: std::ops::Range<i64>) -> impl Strategy<Value = Vec<Sample>> {
        let nanos = (0..4_000_000u64).prop_map(|micros| micros * 1_000);
        vec((0..3u8, seconds, nanos, any::<bool>()), 0..60)
    }

    #[test]
    fn an_outage_folds_to_what_can_be_read() {
        let precisions = Precisions::default();
        let mut batch = Batch::default();
        let start = hour_of(1_700_000_000);
        for second in 0..5 * HOUR {
            let found = collected(1_000_000, false);
            batch.add(
                &precisions,
                &"GET /".into(),
                Kind::Http,
                start + second,
                &found,
            );
        }
        let delta = &batch.contexts["GET /"];
        assert!(delta.counters.iter().all(|slices| slices.len() <= 120));
        assert_eq!(delta.counters[0].len(), 120);
        assert_eq!(delta.records.each_ref().map(Slices::len), [130, 6, 0]);
        let scales = delta.records[0].iter().map(|(_, s)| s.histogram.scale());
        assert_eq!(scales.filter(|scale| *scale == COARSE_SCALE).count(), 128);
        let recorded = delta.records.iter().flat_map(Slices::iter);
        let recorded: u64 = recorded.map(|(_, sums)| sums.times.count).sum();
        assert_eq!(recorded, 5 * HOUR as u64);
        assert_eq!(batch.requests() + batch.late, 5 * HOUR as u64);
        assert_eq!(batch.late, 3 * HOUR as u64);
        // What covers the whole outage has it all.
        let day: u64 = delta.counters[6].iter().map(|(_, h)| h.hits).sum();
        assert_eq!(day, 5 * HOUR as u64);
    }

    /// Two requests in a minute, one in the next, and two an hour later.
    fn delta_of_two_hours(start: i64) -> ContextDelta {
        let precisions = Precisions::new([1, 60], 120);
        let mut delta = ContextDelta::new(Kind::Http, &precisions);
        for second in [0, 1, 60, HOUR, HOUR] {
            delta.add(&precisions, start + second, &collected(1_000, false));
        }
        delta
    }

    #[test]
    fn the_cost_of_a_delta_grows_with_its_slices() {
        let mut delta = delta_of_two_hours(hour_of(1_700_000_000));
        let counters = 2 * (4 + 3);
        let others = 2 * 3 + 3 * 2 + 1;
        assert_eq!(delta.fixed_cost(), others);
        assert_eq!(delta.cost(), counters + others);
        // Two slices of a counter, and what does not split.
        let part = delta.split(others + 4);
        assert_eq!(part.cost(), others + 4);
        assert_eq!(delta.cost(), counters - 4 + 1);
    }

    #[test]
    fn what_begins_after_the_latest_moment_is_dropped_and_counted() {
        let start = hour_of(1_700_000_000);
        let mut delta = delta_of_two_hours(start);
        assert_eq!(delta.drop_future(start + HOUR), 0);
        assert_eq!(delta, delta_of_two_hours(start));
        assert_eq!(delta.drop_future(start + HOUR - 1), 2);
        assert_eq!(delta.requests(), 3);
        let lens: Vec<_> = delta.counters.iter().map(Slices::len).collect();
        assert_eq!((lens, delta.records[0].len()), (vec![3, 2], 2));
    }

    #[test]
    fn a_batch_is_made_smaller_without_losing_a_count() {
        let (precisions, mut whole) = (Precisions::default(), Batch::default());
        let start = hour_of(1_700_000_000);
        for minute in 0..3_000 {
            for micros in [1, 40, 1_000, 30_000, 900_000] {
                let found = collected(1_000 * (micros + minute as u64), false);
                whole.add(
                    &precisions,
                    &"GET /".into(),
                    Kind::Http,
                    start + 60 * minute,
                    &found,
                );
            }
        }
        let count = |batch: &Batch| -> u64 {
            let records = batch.contexts["GET /"].records.iter();
            records
                .flat_map(Slices::iter)
                .map(|(_, sums)| sums.histogram.count())
                .sum()
        };
        let lens = |batch: &Batch| batch.contexts["GET /"].records.each_ref().map(Slices::len);
        let all = whole.record_bytes();
        let compacted = |bytes: usize| {
            let mut batch = whole.clone();
            batch.compact(bytes);
            assert_eq!(count(&batch), 15_000);
            (lens(&batch), batch.record_bytes() < bytes)
        };
        assert_eq!(compacted(all + 1), ([130, 96, 0], true));
        assert_eq!(
            compacted(all),
            ([130, 96, 0], false),
            "it is as large as it may be"
        );
        assert_eq!(compacted(all - 1), ([2, 98, 1], true));
        assert_eq!(compacted(all / 4), ([2, 2, 9], true));
        // Nothing makes it smaller than that.
        assert_eq!(compacted(1), ([2, 2, 9], false));
        let mut least = whole.clone();
        least.compact(1);
        let scales = least.contexts["GET /"].records.each_ref();
        let scales =
            scales.map(|slices| slices.iter().map(|(_, sums)| sums.histogram.scale()).max());
        assert_eq!(scales, [Some(4), Some(0), Some(0)]);
    }

    proptest! {
        #[test]
        fn merging_is_associative_and_commutative(a in samples(0..400), b in samples(0..400), c in samples(0..400)) {
            let precisions = Precisions::default();
            let all = of(&[a.clone(), b.clone(), c.clone()].concat(), &precisions);
            let (a, b, c) = (of(&a, &precisions), of(&b, &precisions), of(&c, &precisions));
            let left = merged(&merged(&a, &b, &precisions), &c, &precisions);
            prop_assert_eq!(&left, &merged(&a, &merged(&b, &c, &precisions), &precisions));
            prop_assert_eq!(&left, &merged(&c, &merged(&b, &a, &precisions), &precisions));
            prop_assert_eq!(left, all);
        }

        #[test]
        fn splitting_and_merging_again_changes_nothing(samples in samples(0..20_000), cost in 1..400usize) {
            let precisions = Precisions::default();
            let whole = of(&samples, &precisions);
            let (mut rest, mut again, mut parts) = (whole.clone(), Batch::default(), 0);
            again.late = std::mem::take(&mut rest.late);
            while !rest.is_empty() {
                let part = rest.split(cost);
                prop_assert!(!part.is_empty());
                again.merge(part, &precisions);
                parts += 1;
                prop_assert!(parts < 10_000);
            }
            prop_assert_eq!(again, whole);
        }

        #[test]
        fn every_request_is_in_the_statistics_or_late(samples in samples(0..40_000)) {
            let batch = of(&samples, &Precisions::default());
            prop_assert_eq!(batch.requests() + batch.late, samples.len() as u64);
        }
    }
}
