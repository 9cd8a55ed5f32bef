//! Splitting a batch into the calls of a flush, each of which costs a store about as much as any other.

use super::{Batch, Slices};

/// About how many commands a reported context costs, compared with those of the counters.
pub(super) const REPORTED_CONTEXT_COST: usize = 4;

impl Batch {
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
