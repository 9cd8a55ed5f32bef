//! A section of a batch: the data of one feature, other than contexts. Each feature has its section in its own file;
//! [`Batch::sections`](super::batch::Batch::sections) lists them.

use super::pack::Writer;
use super::slice::Precisions;

/// The approximate bytes of a name in memory, without its text and its data.
pub(crate) const PER_NAME: usize = 400;

/// The additions of one feature, by name.
pub(crate) trait Section {
    /// Moves out as much as a call has room for.
    fn split(&mut self, room: &mut Room) -> Self
    where
        Self: Sized;

    fn bytes(&self) -> usize;

    fn write(&self, out: &mut Writer, head: &EntryHead);
}

/// The head of an entry, which is read first.
pub struct EntryHead {
    /// The precisions of the entry's counters.
    pub precisions: Precisions,
    /// The second to which the starts of slices are relative.
    pub base: i64,
}

/// The room that is left in a call of a flush. An empty call has room for any first item.
pub(crate) struct Room {
    /// The cost that is left, as an approximate number of a store's commands.
    pub cost: usize,
    /// The bytes that are left for records and reports.
    pub bytes: usize,
    /// Whether nothing was taken yet.
    pub is_whole: bool,
    is_closed: bool,
}

impl Room {
    pub(crate) fn new(cost: usize, bytes: usize) -> Self {
        Self {
            cost: cost.max(1),
            bytes,
            is_whole: true,
            is_closed: false,
        }
    }

    pub(crate) fn has(&self, cost: usize) -> bool {
        !self.is_closed && (cost <= self.cost || self.is_whole)
    }

    pub(crate) fn take(&mut self, cost: usize, bytes: usize) {
        self.cost = self.cost.saturating_sub(cost);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_whole = false;
    }

    /// Leaves no room, not even for a first item.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }
}
