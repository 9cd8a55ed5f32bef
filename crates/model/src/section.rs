//! A section of a batch: what a feature adds to it beside the contexts. Each feature has its section in its own file;
//! [`Batch::sections`](super::batch::Batch::sections) lists them.

use super::amounts::Amounts;
use super::pack::Writer;
use super::slice::{Precision, Precisions};

/// Approximate bytes of a name in memory, beside its text and its data.
pub(crate) const PER_NAME: usize = 400;

/// The additions of one feature, by name.
pub(crate) trait Section {
    /// Adds what was collected later. The precisions are those of the counters.
    fn merge(&mut self, later: Self, precisions: &[Precision])
    where
        Self: Sized;

    /// Moves out what a call has room for.
    fn split(&mut self, room: &mut Room) -> Self
    where
        Self: Sized;

    /// Number of names.
    fn len(&self) -> usize;

    /// Approximate bytes in memory.
    fn bytes(&self) -> usize;

    /// How much it holds.
    fn amounts(&self) -> Amounts;

    /// Packs it into an entry.
    fn write(&self, out: &mut Writer, head: &EntryHead);
}

/// What is read of an entry before all else.
pub struct EntryHead {
    /// The precisions of its counters.
    pub precisions: Precisions,
    /// The second to which the starts of slices are relative.
    pub base: i64,
}

/// The room that is left in a call of a flush. A call without anything has room for whatever comes first.
pub(crate) struct Room {
    /// About how many commands of a store are left.
    pub cost: usize,
    /// Bytes of records and reports that are left.
    pub bytes: usize,
    /// Whether nothing was taken yet.
    pub is_whole: bool,
    is_closed: bool,
}

impl Room {
    /// The room of a whole call.
    pub(crate) fn new(cost: usize, bytes: usize) -> Self {
        Self {
            cost: cost.max(1),
            bytes,
            is_whole: true,
            is_closed: false,
        }
    }

    /// Whether there is room for what costs this much.
    pub(crate) fn has(&self, cost: usize) -> bool {
        !self.is_closed && (cost <= self.cost || self.is_whole)
    }

    /// Takes some of it.
    pub(crate) fn take(&mut self, cost: usize, bytes: usize) {
        self.cost = self.cost.saturating_sub(cost);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_whole = false;
    }

    /// Leaves no room for anything else.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }
}
