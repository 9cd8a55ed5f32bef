//! Splits a batch into the calls of a flush, each of about the same cost for a store.

use super::Batch;
use crate::section::{Room, Section};

/// The highest cost of a call, unless a single counter or id of a ranking costs more. Folders refuse an entry that
/// costs more, so a larger value needs a new version of entries.
pub const MAX_CALL_COST: usize = 512 * 24;
/// The most bytes in memory that the records and reports of a call take. Packed, they take less. At the highest limits
/// that the builder accepts, all other data of a call takes up to 4 MiB packed.
const MAX_CALL_BYTES: usize = 6 * 1024 * 1024;

impl Batch {
    /// Moves out a part that a store merges in about `cost` commands, or less if the part takes too many bytes. Moves
    /// at least one slice, if there is one.
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
