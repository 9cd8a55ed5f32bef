//! Additions to rankings, as a section of a batch and in an entry.

use std::sync::Arc;

use super::{IdDelta, MAX_RANKING_SLICES, RankingDelta, RankingSpec};
use crate::counter::sum_without_signs;
use crate::pack::{Budget, Packed, Reader, Writer};
use crate::section::{EntryHead, PER_NAME, Room, Section};
use crate::sorted::Map;

impl Section for Map<Arc<str>, RankingDelta> {
    fn split(&mut self, room: &mut Room) -> Self {
        let mut part = Self::default();
        while room.has(1)
            && let Some((ranking, mut left)) = self.pop_first()
        {
            let delta = left.split(room.cost);
            room.take(delta.ids.values().map(|id| delta.cost(id)).sum(), 0);
            part.insert(ranking.clone(), delta);
            if !left.is_empty() {
                self.insert(ranking, left);
                room.close();
            }
        }
        part
    }

    fn bytes(&self) -> usize {
        let rankings = self.iter();
        let rankings = rankings.map(|(name, delta)| PER_NAME + name.len() + delta.bytes());
        rankings.sum()
    }

    fn write(&self, out: &mut Writer, head: &EntryHead) {
        out.uint(self.len() as u64);
        for (name, delta) in self.iter() {
            out.bytes(name.as_bytes());
            delta.write(out, head);
        }
    }
}

/// The sum of the additions to rankings, without their signs. A removal counts as 1.
pub(crate) fn additions(rankings: &Map<Arc<str>, RankingDelta>) -> u64 {
    let of_rankings = rankings.values().map(|delta| {
        let of_ids = delta
            .ids
            .values()
            .map(|id| sum_without_signs(&id.slices).saturating_add(u64::from(id.is_removed)));
        of_ids.fold(delta.dropped, u64::saturating_add)
    });
    of_rankings.fold(0, u64::saturating_add)
}

impl RankingDelta {
    /// The approximate number of commands that a store needs to merge an id.
    fn cost(&self, delta: &IdDelta) -> usize {
        let removed = usize::from(delta.is_removed) * (self.spec.slices as usize / 8);
        1 + 2 * delta.slices.len() + removed
    }

    /// Moves out ids that cost about `cost` commands, but at least one id.
    pub(super) fn split(&mut self, cost: usize) -> Self {
        let mut part = Self {
            dropped: std::mem::take(&mut self.dropped),
            ..Self::new(self.spec)
        };
        let mut left = cost;
        while let Some((id, delta)) = self.ids.pop_first() {
            let cost = self.cost(&delta);
            if cost > left && !part.ids.is_empty() {
                self.ids.insert(id, delta);
                break;
            }
            left = left.saturating_sub(cost);
            part.ids.insert(id, delta);
        }
        part
    }

    fn bytes(&self) -> usize {
        const PER_ID: usize = 112;
        let ids = self.ids.iter();
        ids.map(|(id, delta)| PER_ID + id.len() + 16 * delta.slices.len())
            .sum()
    }

    fn write(&self, out: &mut Writer, head: &EntryHead) {
        self.spec.write(out);
        out.uint(self.dropped);
        out.uint(self.ids.len() as u64);
        for (id, added) in self.ids.iter() {
            out.bytes(id.as_bytes());
            added.is_removed.write(out);
            let precision = self.spec.precision();
            out.slices(&added.slices, precision, head.base, Packed::write);
        }
    }

    /// Reads additions from an entry, and spends their cost.
    pub fn read(from: &mut Reader<'_>, head: &EntryHead, budget: &mut Budget) -> Option<Self> {
        let spec = RankingSpec::read(from).filter(|spec| spec.slices <= MAX_RANKING_SLICES)?;
        let mut delta = Self::new(spec);
        delta.dropped = from.uint()?;
        budget.spend(0)?;
        for _ in 0..from.uint()? {
            let id = from.name()?;
            let is_removed = bool::read(from)?;
            let slices = from.slices(spec.precision(), head.base, i64::read)??;
            let added = IdDelta { is_removed, slices };
            budget.spend(delta.cost(&added))?;
            delta.ids.insert(id, added);
        }
        Some(delta)
    }
}
