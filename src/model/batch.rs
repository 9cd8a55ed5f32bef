//! A batch: everything that was added to each name since the last flush. A store takes it.
//!
//! The number of names and the retention bound the size of a batch, however long it collects: slices that
//! no reader could see are dropped ([`Slices`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::access_time::DurationSums;
pub use super::aggregate::{Aggregate, RequestCounts};
use super::context::{ContextId, Kind};
pub use super::context_delta::ContextDelta;
use super::context_delta::add_record;
pub(crate) use super::context_delta::{MAX_HOURS, merge_all};
use super::minute_report::{MAX_PENDING_REPORTS, MinuteReport};
use super::ranking::RankingDelta;
use super::slice::{Precisions, hour_of};
pub use super::slices::{Merge, Slices};
use super::slow_request::{SlowRequest, SlowRequests};
use super::tier::TIERS;

/// Slices of each tier that keep their width when a batch is compacted.
const SLICES_NOT_COMPACTED: usize = 2;

/// The scale, one bucket per octave, of histograms of a batch that is still too large when its slices have
/// the widest tier.
const COARSEST_SCALE: u8 = 0;

/// About how many commands a reported context costs, compared with those of the counters.
const REPORTED_CONTEXT_COST: usize = 4;

/// Additions to one of the user's counters, in the order of [`Precisions::counters`].
pub type CounterDelta = Vec<Slices<i64>>;

/// Additions by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The precisions of its counters. A store has precisions as well, and refuses a batch with others.
    precisions: Precisions,
    /// Contexts, with `<all>` among them.
    pub contexts: BTreeMap<ContextId, ContextDelta>,
    /// The user's counters.
    pub counters: BTreeMap<Arc<str>, CounterDelta>,
    /// Additions to rankings.
    pub rankings: BTreeMap<Arc<str>, RankingDelta>,
    /// Minute reports, oldest first.
    pub reports: Vec<MinuteReport>,
    /// Samples whose hour was dropped from the statistics. The counters have them.
    pub late: u64,
}

impl Batch {
    /// An empty batch whose counters will have these precisions.
    pub fn new(precisions: Precisions) -> Self {
        Self {
            precisions,
            contexts: BTreeMap::new(),
            counters: BTreeMap::new(),
            rankings: BTreeMap::new(),
            reports: Vec::new(),
            late: 0,
        }
    }

    /// The precisions of its counters.
    pub fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    /// Moves everything out.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(self.precisions.clone());
        std::mem::replace(self, empty)
    }

    /// Adds an aggregate of one second to a context. The caller adds that of all HTTP contexts to `<all>`.
    pub fn add(&mut self, name: &Arc<str>, kind: Kind, second: i64, aggregate: &Aggregate) {
        let delta = self.contexts.entry(ContextId::new(kind, name.clone()));
        let delta = delta.or_insert_with(|| ContextDelta::new(&self.precisions));
        let late = delta.add(&self.precisions, second, aggregate);
        if kind != Kind::All {
            self.late += late;
        }
    }

    /// Adds a request that ended within a second to the slowest of a context.
    pub fn add_slow(&mut self, context: ContextId, second: i64, request: SlowRequest) {
        let mut slowest = SlowRequests::of(context.kind);
        slowest.add(request);
        self.add_slowest(context, second, slowest);
    }

    /// Adds requests that ended within a second to the slowest of a context.
    pub fn add_slowest(&mut self, context: ContextId, second: i64, slowest: SlowRequests) {
        let delta = self.contexts.entry(context);
        let delta = delta.or_insert_with(|| ContextDelta::new(&self.precisions));
        delta.last_seen = delta.last_seen.max(second);
        delta.slowest.add(hour_of(second), slowest, MAX_HOURS);
    }

    /// Adds `n` to one of the user's counters.
    pub fn count(&mut self, counter: &Arc<str>, second: i64, n: i64) {
        let precisions = &self.precisions.counters;
        let delta = self.counters.entry(counter.clone());
        let delta = delta.or_insert_with(|| vec![Slices::default(); precisions.len()]);
        for (slices, precision) in delta.iter_mut().zip(precisions) {
            slices.add(precision.slice(second), n, precision.retained as usize);
        }
    }

    /// Adds all of `other`, which was collected later and has the same precisions. Slices that no reader could
    /// see are dropped.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!(self.precisions, other.precisions);
        self.late += other.late;
        for (context, theirs) in other.contexts {
            match self.contexts.get_mut(&context) {
                Some(mine) => {
                    let late = mine.merge(theirs, &self.precisions, MAX_HOURS);
                    if context.kind != Kind::All {
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
                Some(mine) => merge_all(mine, theirs, &self.precisions.counters),
                None => {
                    self.counters.insert(counter, theirs);
                }
            }
        }
        for (ranking, theirs) in other.rankings {
            self.add_ranking(ranking, theirs);
        }
        for report in other.reports {
            self.add_report(report);
        }
    }

    /// Adds a minute report. Of too many reports, the oldest are dropped.
    pub fn add_report(&mut self, report: MinuteReport) {
        if let Some(mine) = self
            .reports
            .iter_mut()
            .find(|mine| mine.is_of_same(&report))
        {
            return mine.merge(report);
        }
        let later = |mine: &MinuteReport| mine.minute <= report.minute;
        let at = self.reports.partition_point(later);
        self.reports.insert(at, report);
        if self.reports.len() > MAX_PENDING_REPORTS {
            self.reports.remove(0);
        }
    }

    /// Adds to a ranking what was collected later.
    pub fn add_ranking(&mut self, ranking: Arc<str>, delta: RankingDelta) {
        match self.rankings.get_mut(&ranking) {
            Some(mine) => {
                mine.merge(delta);
                mine.limit();
            }
            None => drop(self.rankings.insert(ranking, delta)),
        }
    }

    /// Number of ids of all rankings.
    pub(crate) fn ranked_ids(&self) -> usize {
        self.rankings.values().map(|delta| delta.ids.len()).sum()
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of contexts, counters, rankings and reports in it.
    pub fn len(&self) -> usize {
        self.contexts.len() + self.counters.len() + self.rankings.len() + self.reports.len()
    }

    /// Approximate bytes in memory.
    pub fn approximate_bytes(&self) -> usize {
        const PER_NAME: usize = 400;
        const PER_SLICE: usize = 32;
        let slices = |counters: &[usize]| counters.iter().sum::<usize>() * PER_SLICE;
        let contexts = self.contexts.iter().map(|(context, delta)| {
            let lens: Vec<_> = delta.counters.iter().map(Slices::len).collect();
            let hours = delta.hours.len() * size_of::<(i64, DurationSums)>();
            let slowest = delta.slowest.iter().map(|(_, list)| list.bytes());
            let slowest = slowest.sum::<usize>();
            PER_NAME + context.name.len() + slices(&lens) + delta.record_bytes() + hours + slowest
        });
        let counters = self.counters.iter().map(|(name, delta)| {
            let lens: Vec<_> = delta.iter().map(Slices::len).collect();
            PER_NAME + name.len() + slices(&lens)
        });
        let rankings = self.rankings.iter();
        let rankings = rankings.map(|(name, delta)| PER_NAME + name.len() + delta.bytes());
        let reports = self.reports.iter().map(MinuteReport::bytes);
        contexts.sum::<usize>()
            + counters.sum::<usize>()
            + rankings.sum::<usize>()
            + reports.sum::<usize>()
    }

    /// Approximate bytes of its records and reports in memory.
    pub(crate) fn record_bytes(&self) -> usize {
        let contexts = self.contexts.values();
        let reports = self.reports.iter().map(MinuteReport::bytes);
        contexts.map(ContextDelta::record_bytes).sum::<usize>() + reports.sum::<usize>()
    }

    /// Compacts the records until they take about `bytes`: drops the oldest reports, then adds all but the newest slices of the finest
    /// tier to those of the next one, then these to the widest, then makes the histograms coarser. No count
    /// is lost.
    pub(crate) fn compact(&mut self, bytes: usize) {
        let surplus = self.record_bytes().saturating_sub(bytes);
        let mut dropped = 0;
        let is_kept = |report: &MinuteReport| {
            let is_kept = dropped >= surplus;
            dropped += if is_kept { 0 } else { report.bytes() };
            is_kept
        };
        self.reports.retain(is_kept);
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
                sums.coarsen(COARSEST_SCALE);
            }
        }
    }

    /// Number of samples, each counted once.
    pub fn requests(&self) -> u64 {
        let contexts = self.contexts.iter();
        contexts
            .filter(|(context, _)| context.kind != Kind::All)
            .map(|(_, delta)| delta.requests())
            .sum()
    }

    /// Number of samples, with those whose hour was dropped. The counters still have these: they outlast
    /// any outage, unless only fine precisions are configured. If either the contexts or `<all>` have been
    /// split off already, the other gives the number.
    pub fn requests_and_late(&self) -> u64 {
        let counted = |all: bool| -> u64 {
            let contexts = self.contexts.iter();
            contexts
                .filter(|(context, _)| (context.kind == Kind::All) == all)
                .filter_map(|(_, delta)| delta.counters.last())
                .flat_map(Slices::iter)
                .map(|(_, hits)| hits.hits)
                .sum()
        };
        counted(false).max(counted(true)).max(self.requests())
    }

    /// Moves out as much as a store merges in about `cost` commands. Always moves at least one slice, if
    /// there is one.
    pub fn split(&mut self, cost: usize) -> Self {
        let mut part = Self {
            late: std::mem::take(&mut self.late),
            ..Self::new(self.precisions.clone())
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
            // Only a context that is larger than a whole call is cut; any other waits for the next call.
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
        while let Some(mut entry) = self.rankings.first_entry() {
            if left == 0 && !part.is_empty() {
                break;
            }
            let (ranking, delta) = (entry.key().clone(), entry.get_mut().split(left));
            left = left.saturating_sub(delta.ids.values().map(|id| delta.cost(id)).sum());
            part.rankings.insert(ranking, delta);
            if entry.get().is_empty() {
                entry.remove();
            } else {
                return part;
            }
        }
        while let Some(report) = self.reports.first_mut() {
            if left < REPORTED_CONTEXT_COST && !part.is_empty() {
                break;
            }
            let moved = report.split((left / REPORTED_CONTEXT_COST).max(1));
            left = left.saturating_sub(REPORTED_CONTEXT_COST * moved.contexts.len().max(1));
            part.reports.push(moved);
            if report.contexts.is_empty() {
                self.reports.remove(0);
            }
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::context::{ALL, RecordId};
    use crate::model::histogram::bucket_of;
    use crate::model::histogram::{COARSE_SCALE, Histogram};
    use crate::model::slice::HOUR;
    use crate::model::timer_sums::{MAX_TIMERS, TimerSums};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn collected(nanos: u64, error: bool) -> Aggregate {
        let mut aggregate = Aggregate::default();
        aggregate.times.record(nanos);
        aggregate
            .outcomes
            .record(crate::model::outcome::Outcome::Success, error);
        aggregate.histogram = Histogram::new(4, [(bucket_of(nanos) as u16, 1)]);
        aggregate
    }

    fn get() -> ContextId {
        ContextId::new(Kind::Http, "GET /")
    }

    type Sample = (u8, i64, u64, bool);

    fn of(samples: &[Sample], precisions: &Precisions) -> Batch {
        let mut batch = Batch::new(precisions.clone());
        for (name, second, nanos, error) in samples {
            let context: Arc<str> = format!("GET /{name}").into();
            let aggregate = collected(*nanos, *error);
            batch.add(&context, Kind::Http, *second, &aggregate);
            batch.count(&"sales".into(), *second, 2);
        }
        batch
    }

    fn merged(a: &Batch, b: &Batch) -> Batch {
        let mut both = a.clone();
        both.merge(b.clone());
        both
    }

    /// Microseconds are rounded once per drain, so the sum depends on which samples are drained together.
    fn samples(seconds: std::ops::Range<i64>) -> impl Strategy<Value = Vec<Sample>> {
        let nanos = (0..4_000_000u64).prop_map(|micros| micros * 1_000);
        vec((0..3u8, seconds, nanos, any::<bool>()), 0..60)
    }

    /// Timers of this many names that ended after their requests.
    fn late_timers(names: usize) -> Aggregate {
        let mut aggregate = Aggregate::default();
        for number in 0..names {
            let sums = TimerSums {
                count: 1,
                requests: 0,
                sum: 1_000 + number as u64,
                covered: 0,
            };
            let timer = RecordId::new(Kind::Timer, &number.to_string());
            aggregate.timers.add(timer, &sums);
        }
        aggregate
    }

    #[test]
    fn timers_without_requests_are_in_the_records_only() {
        let mut batch = Batch::new(Precisions::default());
        batch.add(&"GET /".into(), Kind::Http, 1_700_000_000, &late_timers(1));
        let delta = &batch.contexts[&get()];
        assert!(delta.counters.iter().all(Slices::is_empty));
        assert!(delta.hours.is_empty());
        let (_, record) = delta.records[0].iter().next().expect("there is one");
        assert_eq!(record, &late_timers(1));
        assert_eq!((batch.requests(), batch.is_empty()), (0, false));
    }

    #[test]
    fn a_pending_slice_tells_a_limited_number_of_timers_apart() {
        let mut batch = Batch::new(Precisions::default());
        for part in 0..3 {
            let timers = late_timers(10 * (part + 1));
            batch.add(&"GET /".into(), Kind::Http, 1_700_000_000, &timers);
        }
        let (_, record) = (batch.contexts[&get()].records[0].iter().next()).expect("there is one");
        assert_eq!(record.timers.len(), MAX_TIMERS + 1);
        let count: u64 = record.timers.iter().map(|(_, sums)| sums.count).sum();
        assert_eq!(count, 10 + 20 + 30);
    }

    #[test]
    fn an_outage_retains_only_what_can_be_read() {
        let mut batch = Batch::new(Precisions::default());
        let start = hour_of(1_700_000_000);
        for second in 0..5 * HOUR {
            let aggregate = collected(1_000_000, false);
            batch.add(&"GET /".into(), Kind::Http, start + second, &aggregate);
        }
        let delta = &batch.contexts[&get()];
        assert!(delta.counters.iter().all(|slices| slices.len() <= 120));
        assert_eq!(delta.counters[0].len(), 120);
        assert_eq!(delta.records.each_ref().map(Slices::len), [130, 6, 0]);
        let coarse = delta.records.each_ref().map(|slices| {
            let scales = slices.iter().map(|(_, sums)| sums.histogram.scale());
            scales.filter(|scale| *scale == COARSE_SCALE).count()
        });
        assert_eq!(coarse, [128, 6, 0]);
        let recorded = delta.records.iter().flat_map(Slices::iter);
        let recorded: u64 = recorded.map(|(_, sums)| sums.times.count).sum();
        assert_eq!(recorded, 5 * HOUR as u64);
        assert_eq!(batch.requests() + batch.late, 5 * HOUR as u64);
        assert_eq!(batch.late, 3 * HOUR as u64);
        // A slice that covers the whole outage has all samples.
        let day: u64 = delta.counters[6].iter().map(|(_, h)| h.hits).sum();
        assert_eq!(day, 5 * HOUR as u64);
    }

    #[test]
    fn a_sample_too_old_for_the_finest_tier_is_coarse() {
        let precisions = Precisions::default();
        let mut delta = ContextDelta::new(&precisions);
        for minute in (0..=i64::from(TIERS[0].retained)).rev() {
            delta.add(&precisions, 60 * minute, &collected(1_000, false));
        }
        assert_eq!(delta.records.each_ref().map(Slices::len), [130, 1, 0]);
        let scales = delta.records[1].iter().map(|(_, s)| s.histogram.scale());
        assert!(scales.eq([COARSE_SCALE]));
    }

    #[test]
    fn a_drain_is_rounded_to_microseconds() {
        let precisions = Precisions::new([60], 120);
        for (nanos, micros) in [(499, 0), (500, 1), (2_345_499, 2_345), (2_345_500, 2_346)] {
            let mut delta = ContextDelta::new(&precisions);
            delta.add(&precisions, 0, &collected(nanos, false));
            assert_eq!(
                delta.counters[0].get(0).map(|hits| hits.micros),
                Some(micros)
            );
        }
    }

    #[test]
    fn an_hour_that_a_merge_drops_is_late_in_its_context_only() {
        let hours = |hours: &[i64]| {
            let mut batch = Batch::new(Precisions::default());
            for (context, kind, requests) in [("GET /", Kind::Http, 2), (ALL, Kind::All, 7)] {
                for hour in hours {
                    for _ in 0..requests {
                        let aggregate = collected(1_000, false);
                        batch.add(&context.into(), kind, HOUR * hour, &aggregate);
                    }
                }
            }
            batch
        };
        let mut batch = hours(&[1, 2]);
        assert_eq!((batch.requests(), batch.late), (4, 0));
        batch.merge(hours(&[3]));
        assert_eq!((batch.requests(), batch.late), (4, 2));
        batch.merge(hours(&[4, 5]));
        assert_eq!((batch.requests(), batch.late), (4, 6));
    }

    #[test]
    fn a_batch_has_the_length_of_its_names() {
        let mut batch = Batch::new(Precisions::default());
        let aggregate = collected(1_000, false);
        batch.add(&"GET /".into(), Kind::Http, 0, &aggregate);
        assert_eq!(batch.len(), 1);
        batch.count(&"sales".into(), 0, 1);
        batch.count(&"refunds".into(), 0, 1);
        assert_eq!(batch.len(), 3);
    }

    #[test]
    fn the_memory_of_a_batch_is_that_of_its_names_slices_and_records() {
        let mut batch = Batch::new(Precisions::new([60], 120));
        assert_eq!(batch.approximate_bytes(), 0);
        batch.count(&"sales".into(), 0, 1);
        assert_eq!(batch.approximate_bytes(), 400 + "sales".len() + 32);
        for minute in 0..10 {
            batch.count(&"sales".into(), 60 * minute, 1);
        }
        let counter = 400 + "sales".len() + 10 * 32;
        assert_eq!(batch.approximate_bytes(), counter);
        let aggregate = collected(1_000, false);
        for minute in 0..3 {
            batch.add(&"GET /".into(), Kind::Http, 60 * minute, &aggregate);
        }
        let (records, hour) = (batch.record_bytes(), size_of::<(i64, DurationSums)>());
        assert_eq!(records, 3 * aggregate.bytes());
        let context = 400 + "GET /".len() + 3 * 32 + records + hour;
        assert_eq!(batch.approximate_bytes(), counter + context);
    }

    #[test]
    fn a_part_has_as_many_names_as_it_may_cost() {
        let mut batch = Batch::new(Precisions::new([60], 120));
        for name in ["a", "b", "c", "d"] {
            let aggregate = collected(1_000, false);
            batch.add(&name.into(), Kind::Http, 0, &aggregate);
            batch.count(&name.into(), 0, 1);
        }
        let cost = batch.contexts[&ContextId::new(Kind::Http, "a")].cost();
        let lens = |part: &Batch| (part.contexts.len(), part.counters.len());
        assert_eq!(lens(&batch.split(2 * cost)), (2, 0));
        assert_eq!(lens(&batch.split(cost)), (1, 0));
        assert_eq!(lens(&batch.split(cost + 1)), (1, 1));
        assert_eq!(lens(&batch.split(2)), (0, 2));
        assert_eq!(lens(&batch.split(0)), (0, 1), "at least one");
        assert!(batch.is_empty());
    }

    #[test]
    fn late_requests_are_counted_in_whatever_part_is_left() {
        let mut batch = Batch::new(Precisions::default());
        for hour in 0..5 {
            for (context, kind) in [("GET /", Kind::Http), (ALL, Kind::All)] {
                let aggregate = collected(1_000, false);
                batch.add(&context.into(), kind, HOUR * hour, &aggregate);
            }
        }
        assert_eq!((batch.requests(), batch.requests_and_late()), (2, 5));
        for context in [ContextId::new(Kind::Http, "GET /"), ContextId::all()] {
            let mut part = batch.clone();
            part.contexts.remove(&context);
            assert_eq!(part.requests_and_late(), 5, "without {context:?}");
        }
    }

    #[test]
    fn an_aggregate_takes_more_memory_with_each_bucket() {
        let bytes = |buckets: u16| {
            let histogram = Histogram::new(4, (0..buckets).map(|index| (index, 1)));
            let aggregate = Aggregate {
                histogram,
                ..Aggregate::default()
            };
            aggregate.bytes()
        };
        assert_eq!(bytes(0), size_of::<(i64, Aggregate)>());
        assert_eq!(bytes(100), bytes(0) + 100 * size_of::<(u16, u64)>());
    }

    /// Two requests in a minute, one in the next, and two an hour later.
    fn delta_of_two_hours(start: i64) -> ContextDelta {
        let precisions = Precisions::new([1, 60], 120);
        let mut delta = ContextDelta::new(&precisions);
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
    fn a_context_that_is_split_completely_is_gone() {
        let mut batch = Batch::new(Precisions::new([60], 120));
        let aggregate = collected(1_000, false);
        batch.add(&"GET /".into(), Kind::Http, 0, &aggregate);
        let whole = batch.clone();
        // Smaller than the context, so that it is cut: after its only slice.
        assert_eq!(batch.split(1), whole);
        assert!(batch.is_empty());
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
        let mut whole = Batch::new(Precisions::default());
        let start = hour_of(1_700_000_000);
        for minute in 0..3_000 {
            for micros in [1, 40, 1_000, 30_000, 900_000] {
                let aggregate = collected(1_000 * (micros + minute as u64), false);
                whole.add(&"GET /".into(), Kind::Http, start + 60 * minute, &aggregate);
            }
        }
        let count = |batch: &Batch| -> u64 {
            let records = batch.contexts[&get()].records.iter();
            records
                .flat_map(Slices::iter)
                .map(|(_, sums)| sums.histogram.count())
                .sum()
        };
        let lens = |batch: &Batch| batch.contexts[&get()].records.each_ref().map(Slices::len);
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
        // The batch has reached its smallest size.
        assert_eq!(compacted(1), ([2, 2, 9], false));
        let mut least = whole.clone();
        least.compact(1);
        let scales = least.contexts[&get()].records.each_ref();
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
            let left = merged(&merged(&a, &b), &c);
            prop_assert_eq!(&left, &merged(&a, &merged(&b, &c)));
            prop_assert_eq!(&left, &merged(&c, &merged(&b, &a)));
            prop_assert_eq!(left, all);
        }

        #[test]
        fn splitting_and_merging_again_changes_nothing(samples in samples(0..20_000), cost in 1..400usize) {
            let precisions = Precisions::default();
            let whole = of(&samples, &precisions);
            let (mut left, mut again, mut parts) = (whole.clone(), Batch::new(precisions), 0);
            while !left.is_empty() {
                let part = left.split(cost);
                prop_assert!(!part.is_empty());
                again.merge(part);
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
