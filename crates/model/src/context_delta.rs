//! Additions to one context, by slice.

use super::access_time::DurationSums;
use super::aggregate::{Aggregate, RequestCounts};
use super::context::ContextId;
use super::histogram::COARSE_SCALE;
use super::measures::Measure;
use super::pack::{Budget, Packed, Reader, Writer};
use super::section::EntryHead;
use super::slice::{HOUR, Precision, Precisions, hour_of};
use super::slices::{Slices, merge_all};
use super::slow_request::SlowRequests;
use super::tier::TIERS;

/// The hours of statistics that are retained while a store is away. Answers only show the current hour and the hour
/// before.
pub const MAX_HOURS: usize = 2;

const HOURS: Precision = Precision::new(HOUR as u32, MAX_HOURS as u32);

/// The number of newest slices of the finest tier whose histograms keep the fine scale while a store is away. Older
/// histograms get the coarse scale.
const FINE_KEPT: usize = 2;

/// Adds to the records of a tier. If a tier then has too many slices, its oldest slice is added to the next coarser
/// tier. So pending records grow coarser during a long outage, and their number stays bounded.
pub(super) fn add_record(
    records: &mut [Slices<Aggregate>],
    tier: usize,
    slice: i64,
    sums: Aggregate,
) {
    let mut overflow = Some((slice, sums));
    for (at, (slices, tier)) in records.iter_mut().zip(TIERS).enumerate().skip(tier) {
        let Some((slice, mut sums)) = overflow else {
            return;
        };
        if at > 0 {
            sums.coarsen(COARSE_SCALE);
        }
        let start = tier.slice(slice);
        overflow = slices.add(start, sums, tier.retained as usize);
        if let Some(sums) = slices.get_mut(start) {
            sums.limit();
        }
        for (_, older) in slices.iter_mut().rev().skip(FINE_KEPT) {
            older.coarsen(COARSE_SCALE);
        }
    }
}

/// Additions to one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextDelta {
    /// The time of the last addition, in Unix seconds.
    pub last_seen: i64,
    /// Counters, in the order of [`Precisions::counters`].
    pub counters: Vec<Slices<RequestCounts>>,
    /// The statistics: sums of the durations by hour, as in the book.
    pub hours: Slices<DurationSums>,
    /// Records, in the order of [`TIERS`]. Each sample is in one record, in a coarser tier if the store was away for
    /// long.
    pub records: [Slices<Aggregate>; TIERS.len()],
    /// The slowest and the newest failed requests, by hour.
    pub slowest: Slices<SlowRequests>,
}

impl ContextDelta {
    pub(super) fn new(precisions: &Precisions) -> Self {
        Self {
            last_seen: i64::MIN,
            counters: vec![Slices::default(); precisions.counters.len()],
            hours: Slices::default(),
            records: Default::default(),
            slowest: Slices::default(),
        }
    }

    /// Adds an aggregate of one second. Returns the number of samples whose hour was dropped from the statistics.
    pub(super) fn add(
        &mut self,
        precisions: &Precisions,
        second: i64,
        aggregate: &Aggregate,
    ) -> u64 {
        self.last_seen = self.last_seen.max(second);
        add_record(&mut self.records, 0, second, aggregate.clone());
        if aggregate.times.count == 0 {
            // The aggregate only has timers or failures that came after their requests: these are only in the records.
            return 0;
        }
        let counts = RequestCounts {
            hits: aggregate.times.count,
            errors: aggregate.outcomes.errors,
            micros: aggregate.times.sum.saturating_add(500) / 1_000,
        };
        for (slices, precision) in self.counters.iter_mut().zip(&precisions.counters) {
            slices.add(precision.slice(second), counts, precision.retained as usize);
        }
        let gone = self.hours.add(hour_of(second), aggregate.times, MAX_HOURS);
        gone.map_or(0, |(_, times)| times.count)
    }

    /// Merges `other`, retaining statistics of at most `max_hours` hours. Returns the number of samples whose hour was
    /// dropped.
    pub fn merge(&mut self, other: Self, precisions: &Precisions, max_hours: usize) -> u64 {
        self.last_seen = self.last_seen.max(other.last_seen);
        merge_all(&mut self.counters, other.counters, &precisions.counters);
        for (tier, slices) in other.records.into_iter().enumerate() {
            for (slice, sums) in slices.into_slices() {
                add_record(&mut self.records, tier, slice, sums);
            }
        }
        self.slowest.merge(other.slowest, max_hours, drop);
        let mut late = 0;
        self.hours
            .merge(other.hours, max_hours, |times| late += times.count);
        late
    }

    /// Drops slices that start after `latest`. Only a wrong clock produces such slices. Returns the number of samples
    /// that were dropped from the statistics.
    pub fn drop_future(&mut self, latest: i64) -> u64 {
        let counters = self.counters.iter_mut();
        counters.for_each(|slices| drop(slices.drop_after(latest)));
        let records = self.records.iter_mut();
        records.for_each(|slices| drop(slices.drop_after(latest)));
        drop(self.slowest.drop_after(latest));
        let hours = self.hours.drop_after(latest);
        hours.iter().map(|times| times.count).sum()
    }

    /// Adds this number of missing requests to the record of a second. Only `<all>` has missing requests.
    pub fn add_missing(&mut self, second: i64, requests: u64) {
        if requests > 0 {
            let mut sums = Aggregate::default();
            sums.measures.add(Measure::Missing, requests);
            self.last_seen = self.last_seen.max(second);
            add_record(&mut self.records, 0, second, sums);
        }
    }

    /// The number of requests in the records, including missing ones.
    pub fn served(&self) -> u64 {
        let sums = self.records.iter().flat_map(Slices::iter);
        let served = sums.map(|(_, sums)| (sums.times.count, sums.measures.get(Measure::Missing)));
        served.fold(0, |sum, (count, missing)| {
            sum.saturating_add(count).saturating_add(missing)
        })
    }

    /// The number of samples in the statistics.
    pub fn requests(&self) -> u64 {
        self.hours.iter().map(|(_, times)| times.count).sum()
    }

    /// The approximate number of commands that a store needs to merge the additions.
    pub fn cost(&self) -> usize {
        let slices: usize = self.counters.iter().map(Slices::len).sum();
        2 * slices + self.fixed_cost()
    }

    pub(super) fn fixed_cost(&self) -> usize {
        let records: usize = self.records.iter().map(Slices::len).sum();
        2 * records + 3 * self.hours.len() + self.slowest.len() + 1
    }

    pub(super) fn record_bytes(&self) -> usize {
        let records = self.records.iter().flat_map(Slices::iter);
        records.map(|(_, record)| record.bytes()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hours.is_empty()
            && self.slowest.is_empty()
            && self.counters.iter().all(Slices::is_empty)
            && self.records.iter().all(Slices::is_empty)
    }

    /// Moves out the newest slices of the counters, and all other data whole. The part costs about `cost` commands, and
    /// has at least one slice of a counter.
    pub(super) fn split(&mut self, cost: usize) -> Self {
        let mut slices = (cost.saturating_sub(self.fixed_cost()) / 2).max(1);
        let counters = self.counters.iter_mut().map(|counters| {
            let part = counters.split_newest(slices);
            slices -= part.len();
            part
        });
        Self {
            counters: counters.collect(),
            last_seen: self.last_seen,
            hours: std::mem::take(&mut self.hours),
            records: std::mem::take(&mut self.records),
            slowest: std::mem::take(&mut self.slowest),
        }
    }

    pub(super) fn write(&self, context: &ContextId, out: &mut Writer, head: &EntryHead) {
        let base = head.base;
        context.write(out);
        out.int(self.last_seen.wrapping_sub(base));
        let precisions = &head.precisions.counters;
        out.series(&self.counters, precisions, base);
        for (slices, tier) in self.records.iter().zip(TIERS) {
            out.slices(slices, tier, base, Packed::write);
        }
        match hours_of(&self.records[0]) == self.hours {
            true => out.uint(0),
            false => out.slices(&self.hours, HOURS, base, Packed::write),
        }
        out.slices(&self.slowest, HOURS, base, SlowRequests::write);
    }

    /// Reads additions from an entry, and spends their cost from the budget.
    pub(super) fn read(
        from: &mut Reader<'_>,
        head: &EntryHead,
        budget: &mut Budget,
    ) -> Option<(ContextId, Self)> {
        let base = head.base;
        let context = ContextId::read(from)?;
        let last_seen = base.wrapping_add(from.int()?);
        let counters = from.series(&head.precisions.counters, base)?;
        let mut records: [Slices<Aggregate>; TIERS.len()] = Default::default();
        for (slices, tier) in records.iter_mut().zip(TIERS) {
            *slices = from.slices(tier, base, Packed::read)??;
        }
        let hours = match from.slices(HOURS, base, Packed::read)? {
            Some(hours) => hours,
            None => hours_of(&records[0]),
        };
        let slowest = from.slices(HOURS, base, |from| SlowRequests::read(from, context.kind))??;
        let delta = Self {
            last_seen,
            counters,
            hours,
            records,
            slowest,
        };
        budget.spend(delta.cost())?;
        Some((context, delta))
    }
}

/// A context's statistics by hour, derived from its finest records.
fn hours_of(finest: &Slices<Aggregate>) -> Slices<DurationSums> {
    let mut hours = Slices::default();
    for (start, record) in finest.iter().filter(|(_, record)| record.times.count > 0) {
        hours.add(HOURS.slice(start), record.times, MAX_HOURS);
    }
    hours
}
