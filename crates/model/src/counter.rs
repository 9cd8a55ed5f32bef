//! Additions to the user's counters, as a section of a batch.

use std::sync::Arc;

use super::pack::{Budget, Reader, Writer};
use super::section::{EntryHead, PER_NAME, Room, Section};
use super::slices::Slices;
use super::sorted::Map;

/// Additions to one of the user's counters, in the order of
/// [`Precisions::counters`](super::slice::Precisions::counters).
pub(crate) type CounterDelta = Vec<Slices<i64>>;

pub(crate) type CounterDeltas = Map<Arc<str>, CounterDelta>;

pub(super) fn sum_without_signs(slices: &Slices<i64>) -> u64 {
    let numbers = slices.iter().map(|(_, n)| n.unsigned_abs());
    numbers.fold(0, u64::saturating_add)
}

/// The sum of the additions to counters, without their signs.
pub(super) fn additions(counters: &CounterDeltas) -> u64 {
    // Of the precisions of a counter, the one with the largest sum is used: in coarse slices, +1 and -1 may cancel out,
    // and the finest slices do not reach back far.
    let sums = counters.values();
    let sums = sums.map(|series| series.iter().map(sum_without_signs).max().unwrap_or(0));
    sums.fold(0, u64::saturating_add)
}

/// Reads a counter from an entry, and spends the number of its slices from the budget.
pub(super) fn read(
    from: &mut Reader<'_>,
    head: &EntryHead,
    budget: &mut Budget,
) -> Option<(Arc<str>, CounterDelta)> {
    let name = from.name()?;
    let series = from.series(&head.precisions.counters, head.base)?;
    budget.spend(series.iter().map(Slices::len).sum())?;
    Some((name, series))
}

impl Section for CounterDeltas {
    fn split(&mut self, room: &mut Room) -> Self {
        let mut part = Self::default();
        while let Some((counter, delta)) = self.pop_first() {
            let cost = delta.iter().map(Slices::len).sum();
            if !room.has(cost) {
                self.insert(counter, delta);
                break;
            }
            room.take(cost, 0);
            part.insert(counter, delta);
        }
        part
    }

    fn bytes(&self) -> usize {
        const PER_SLICE: usize = 32;
        let counters = self.iter().map(|(name, delta)| {
            let slices = delta.iter().map(Slices::len);
            PER_NAME + name.len() + slices.sum::<usize>() * PER_SLICE
        });
        counters.sum()
    }

    fn write(&self, out: &mut Writer, head: &EntryHead) {
        out.uint(self.len() as u64);
        for (name, series) in self.iter() {
            out.bytes(name.as_bytes());
            out.series(series, &head.precisions.counters, head.base);
        }
    }
}
