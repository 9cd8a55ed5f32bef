//! Additions to the user's counters, as a section of a batch.

use std::sync::Arc;

use super::amounts::Amounts;
use super::pack::{Budget, Reader, Writer};
use super::section::{EntryHead, PER_NAME, Room, Section};
use super::slice::Precision;
use super::slices::{Slices, merge_all};
use super::sorted::Map;

/// Additions to one of the user's counters, in the order of
/// [`Precisions::counters`](super::slice::Precisions::counters).
pub(crate) type CounterDelta = Vec<Slices<i64>>;

/// Additions to counters, by name.
pub(crate) type CounterDeltas = Map<Arc<str>, CounterDelta>;

/// The sum of the absolute values of all additions.
pub(super) fn sum_without_signs(slices: &Slices<i64>) -> u64 {
    let numbers = slices.iter().map(|(_, n)| n.unsigned_abs());
    numbers.fold(0, u64::saturating_add)
}

/// Reads a counter, and subtracts its slices from the budget.
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
    fn merge(&mut self, later: Self, precisions: &[Precision]) {
        for (counter, theirs) in later {
            self.merge(counter, theirs, |mine, theirs| {
                merge_all(mine, theirs, precisions)
            });
        }
    }

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

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn bytes(&self) -> usize {
        const PER_SLICE: usize = 32;
        let counters = self.iter().map(|(name, delta)| {
            let slices = delta.iter().map(Slices::len);
            PER_NAME + name.len() + slices.sum::<usize>() * PER_SLICE
        });
        counters.sum()
    }

    fn amounts(&self) -> Amounts {
        // In a coarse slice, +1 and -1 may cancel out; in finer slices they may be in different slices. But the finest
        // series may lack old slices. So the series with the largest sum is used.
        let counters = self
            .values()
            .map(|series| series.iter().map(sum_without_signs).max().unwrap_or(0));
        Amounts::of_additions(counters.fold(0, u64::saturating_add))
    }

    fn write(&self, out: &mut Writer, head: &EntryHead) {
        out.uint(self.len() as u64);
        for (name, series) in self.iter() {
            out.bytes(name.as_bytes());
            out.series(series, &head.precisions.counters, head.base);
        }
    }
}
