//! The memory of a batch, and how a batch that is too large is compacted.

use super::Batch;
use crate::access_time::DurationSums;
use crate::context_delta::{ContextDelta, add_record};
use crate::section::{PER_NAME, Section};
use crate::slices::Slices;
use crate::tier::TIERS;

/// The number of newest slices of a tier that are not merged into wider slices.
const SLICES_NOT_COMPACTED: usize = 2;

/// One bucket per octave. Older histograms get this scale if a batch is too large even after its older slices have
/// moved to wider tiers.
const COARSEST_SCALE: u8 = 0;

impl Batch {
    /// Approximate bytes in memory.
    pub fn approximate_bytes(&self) -> usize {
        const PER_SLICE: usize = 32;
        let contexts = self.contexts.iter().map(|(context, delta)| {
            let slices = delta.counters.iter().map(Slices::len).sum::<usize>() * PER_SLICE;
            let hours = delta.hours.len() * size_of::<(i64, DurationSums)>();
            let slowest = delta.slowest.iter().map(|(_, list)| list.bytes());
            let slowest = slowest.sum::<usize>();
            PER_NAME + context.name.len() + slices + delta.record_bytes() + hours + slowest
        });
        let sections = self.sections();
        let sections = sections.iter().map(|section| section.bytes());
        contexts.chain(sections).sum()
    }

    /// The approximate bytes of the records and reports in memory.
    pub fn record_bytes(&self) -> usize {
        let contexts = self.contexts.values().map(ContextDelta::record_bytes);
        contexts.sum::<usize>() + self.reports.bytes()
    }

    /// Compacts the records and the reports, until they take at most `bytes` or nothing more can be done. First drops
    /// the oldest reports. Then merges older slices into the next wider tier, finest tier first. Then makes the
    /// histograms of older slices coarser. The records keep all requests. Returns the number of dropped reports.
    pub fn compact(&mut self, bytes: usize) -> u64 {
        let surplus = self.record_bytes().saturating_sub(bytes);
        let (before, mut freed) = (self.reports.len(), 0);
        self.reports.retain(|report| {
            let is_retained = freed >= surplus;
            freed += if is_retained { 0 } else { report.bytes() };
            is_retained
        });
        let dropped = (before - self.reports.len()) as u64;
        for tier in 1..TIERS.len() {
            if self.record_bytes() <= bytes {
                return dropped;
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
            return dropped;
        }
        for delta in self.contexts.values_mut() {
            let newest = delta.records[0].len();
            let records = delta.records.iter_mut().flat_map(Slices::iter_mut);
            for (_, sums) in records.skip(newest) {
                sums.coarsen(COARSEST_SCALE);
            }
        }
        dropped
    }
}
