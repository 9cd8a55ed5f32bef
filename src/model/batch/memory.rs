//! The memory that a batch takes, and how a batch that takes too much is compacted.

use super::{Batch, ContextDelta, DurationSums, MinuteReport, Slices};
use crate::model::context_delta::add_record;
use crate::model::tier::TIERS;

/// Slices of each tier that keep their width when a batch is compacted.
const SLICES_NOT_COMPACTED: usize = 2;

/// The scale, one bucket per octave, of histograms of a batch that is still too large when its slices have
/// the widest tier.
const COARSEST_SCALE: u8 = 0;

impl Batch {
    /// Approximate bytes in memory.
    pub fn approximate_bytes(&self) -> usize {
        const PER_NAME: usize = 400;
        const PER_SLICE: usize = 32;
        const PER_MARK: usize = 200;
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
        let marks = self.marks.values();
        let marks = marks.map(|mark| PER_MARK + mark.id.len() + mark.text.len());
        contexts.sum::<usize>()
            + counters.sum::<usize>()
            + rankings.sum::<usize>()
            + reports.sum::<usize>()
            + marks.sum::<usize>()
    }

    /// Approximate bytes of its records and reports in memory.
    pub(crate) fn record_bytes(&self) -> usize {
        let contexts = self.contexts.values();
        let reports = self.reports.iter().map(MinuteReport::bytes);
        contexts.map(ContextDelta::record_bytes).sum::<usize>() + reports.sum::<usize>()
    }

    /// Compacts the records until they take about `bytes`: drops the oldest reports, then adds all but the newest
    /// slices of the finest tier to those of the next one, then these to the widest, then makes the histograms
    /// coarser. No count is lost. Returns how many reports were dropped.
    pub(crate) fn compact(&mut self, bytes: usize) -> u64 {
        let surplus = self.record_bytes().saturating_sub(bytes);
        let mut dropped = 0;
        let fits = |report: &MinuteReport| {
            let fits = dropped >= surplus;
            dropped += if fits { 0 } else { report.bytes() };
            fits
        };
        let before = self.reports.len();
        self.reports.retain(fits);
        let reports = (before - self.reports.len()) as u64;
        self.compact_records(bytes);
        reports
    }

    /// Compacts the records until they take about `bytes`, or as far as that goes.
    fn compact_records(&mut self, bytes: usize) {
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
}
