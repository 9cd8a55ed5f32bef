//! Splits a batch into the calls of a flush. The cost of each call for a store is limited.

use super::Batch;
use crate::section::{Room, Section};

/// The highest cost of a call, as an approximate number of commands of a store. A call that has only one counter, or
/// only one id of a ranking, may cost more. Folders refuse any other entry that costs more, so a larger value needs a
/// new version of entries.
pub const MAX_CALL_COST: usize = 512 * 24;
/// The most bytes in memory that the records and reports of a call take. Packed, they take fewer bytes. All other data
/// of a call takes up to 4 MiB packed, at the highest limits that the builder accepts. So a call fits into an entry
/// ([`MAX_ENTRY_BYTES`](crate::entry::MAX_ENTRY_BYTES)).
const MAX_CALL_BYTES: usize = 6 * 1024 * 1024;

impl Batch {
    /// Moves out a part that a store merges in about `cost` commands. The part is smaller if it would take too many
    /// bytes. Only an empty batch gives an empty part.
    pub fn split(&mut self, cost: usize) -> Self {
        let mut part = Self {
            late: std::mem::take(&mut self.late),
            since: self.since,
            ..Self::new(self.precisions.clone())
        };
        let mut room = Room::new(cost, MAX_CALL_BYTES);
        part.marks = self.marks.split(&mut room);
        while let Some((context, mut delta)) = self.contexts.pop_first() {
            let (cost, bytes) = (delta.cost(), delta.record_bytes());
            if cost <= room.cost && (bytes <= room.bytes || room.is_whole) {
                room.take(cost, bytes);
                part.contexts.insert(context, delta);
                continue;
            }
            // Only a context that is larger than a whole call is cut; any other context waits for the next call.
            if room.is_whole {
                let cut = delta.split(room.cost);
                part.contexts.insert(context.clone(), cut);
            }
            if !room.is_whole || !delta.is_empty() {
                self.contexts.insert(context, delta);
            }
            return part;
        }
        part.counters = self.counters.split(&mut room);
        part.rankings = self.rankings.split(&mut room);
        part.reports = Section::split(&mut self.reports, &mut room);
        part
    }
}
