//! Splitting a batch into the calls of a flush, each of which costs a store about as much as any other.

use super::{Batch, MAX_PENDING_MARKS, Slices};

/// The most that a call costs, unless one counter or one id of a ranking costs more. Folders refuse an entry that costs
/// more, also folders of older versions: a larger value needs a new version of entries.
pub const MAX_CALL_COST: usize = 512 * 24;
/// The most bytes of records and reports of a call, in memory, where they take more than packed. Packed, all else of a
/// call takes up to 4 MiB, at the maxima of the builder.
const MAX_CALL_BYTES: usize = 6 * 1024 * 1024;
/// The largest entry that a folder accepts: it reads entries whole.
pub const MAX_ENTRY_BYTES: usize = 11 * 1024 * 1024;

/// About how many commands a reported context costs, compared with those of the counters.
pub(crate) const REPORTED_CONTEXT_COST: usize = 4;

impl Batch {
    /// Moves out as much as a store merges in about `cost` commands, or less if it takes too many bytes. Always moves
    /// at least one slice, if there is one.
    pub fn split(&mut self, cost: usize) -> Self {
        let mut part = Self {
            late: std::mem::take(&mut self.late),
            ..Self::new(self.precisions.clone())
        };
        let (mut left, mut bytes_left) = (cost.max(1), MAX_CALL_BYTES);
        while left > 0
            && part.marks.len() < MAX_PENDING_MARKS
            && let Some((id, mark)) = self.marks.pop_first()
        {
            part.marks.insert(id, mark);
            left -= 1;
        }
        while let Some(mut entry) = self.contexts.first_entry() {
            let (cost, bytes) = (entry.get().cost(), entry.get().record_bytes());
            if cost <= left && (bytes <= bytes_left || part.is_empty()) {
                let (context, delta) = entry.remove_entry();
                part.contexts.insert(context, delta);
                (left, bytes_left) = (left - cost, bytes_left.saturating_sub(bytes));
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
            let fits = report.contexts_within(bytes_left);
            if fits == 0 && !report.contexts.is_empty() && !part.is_empty() {
                break;
            }
            let moved = report.split((left / REPORTED_CONTEXT_COST).min(fits).max(1));
            left = left.saturating_sub(REPORTED_CONTEXT_COST * moved.contexts.len().max(1));
            bytes_left = bytes_left.saturating_sub(moved.bytes());
            part.reports.push(moved);
            if report.contexts.is_empty() {
                self.reports.remove(0);
            }
        }
        part
    }
}
