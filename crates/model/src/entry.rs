//! An entry of the journal: a packed batch, which is read name by name.
//!
//! The first byte of an entry is the version of its format, [`ENTRY_VERSION`]. A folder must be able to read all of an
//! entry, so folders of older versions wait. In Redis, the field `need` of the journal's state tells them the highest
//! version of the entries.
//!
//! An entry omits the slices of a coarser precision if the reader can derive them by adding up the slices of the finest
//! precision. So an entry whose samples are all of the same second has only slices of the finest precision.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::batch::{Batch, MAX_CALL_COST};
use super::context::ContextId;
use super::context_delta::ContextDelta;
use super::counter::{self, CounterDelta};
use super::mark::Mark;
use super::minute_report::MinuteReport;
use super::pack::{Budget, Packed, Reader, Writer};
use super::ranking::RankingDelta;
use super::section::EntryHead;
use super::slice::{MAX_PRECISIONS, Precisions};

/// The version of the entry format. From the first release on, raise the version with every change that an older folder
/// cannot read.
pub const ENTRY_VERSION: u8 = 1;
/// The largest entry that a folder accepts, in bytes. A folder holds an entry in memory as a whole.
pub const MAX_ENTRY_BYTES: usize = 11 * 1024 * 1024;
/// The highest cost of an entry: that of a call, and 512 for the heads of rankings and reports, which a sender does not
/// count.
const ENTRY_BUDGET: Budget = Budget::new(MAX_CALL_COST + 512);

/// Packs a batch.
pub fn pack(batch: &Batch) -> Vec<u8> {
    let last_seen = batch.contexts.values().map(|delta| delta.last_seen);
    let head = EntryHead {
        precisions: batch.precisions().clone(),
        base: last_seen.max().unwrap_or(0),
    };
    let mut out = Writer(Vec::with_capacity(64 + 96 * batch.len()));
    out.0.push(ENTRY_VERSION);
    head.precisions.counters.write(&mut out);
    out.int(head.base);
    out.uint(batch.late);
    out.uint(batch.contexts.len() as u64);
    for (context, delta) in batch.contexts.iter() {
        delta.write(context, &mut out, &head);
    }
    for section in batch.sections() {
        section.write(&mut out, &head);
    }
    out.0
}

/// Reads an entry name by name, so that a long entry does not block a worker of the runtime.
pub struct EntryReader<'a> {
    reader: Reader<'a>,
    budget: Budget,
    head: EntryHead,
    /// The number of samples that were late when they were flushed.
    pub late: u64,
    /// The index in [`LISTS`] of the list that is read.
    list: usize,
    /// The number of unread names of this list; `None` while the list has not begun.
    names: Option<u64>,
}

/// One name of an entry, with its data.
#[derive(Debug, PartialEq)]
pub enum Item {
    /// A context and its delta.
    Context(ContextId, ContextDelta),
    /// One of the user's counters and its slices.
    Counter(Arc<str>, CounterDelta),
    /// Additions to a ranking.
    Ranking(Arc<str>, RankingDelta),
    /// A minute report, or a part of one.
    Report(MinuteReport),
    /// A mark.
    Mark(Mark),
}

/// Reads a name of a list with its data, and spends their cost from the budget.
type ReadItem = fn(&mut Reader<'_>, &EntryHead, &mut Budget) -> Option<Item>;

/// The readers of the lists of names, in the order of an entry.
const LISTS: [ReadItem; 5] = [
    |from, head, budget| {
        let (context, delta) = ContextDelta::read(from, head, budget)?;
        Some(Item::Context(context, delta))
    },
    |from, head, budget| {
        let (name, delta) = counter::read(from, head, budget)?;
        Some(Item::Counter(name, delta))
    },
    |from, head, budget| {
        let name = from.name()?;
        RankingDelta::read(from, head, budget).map(|delta| Item::Ranking(name, delta))
    },
    |from, head, budget| MinuteReport::read(from, head, budget).map(Item::Report),
    |from, _, budget| {
        budget.spend(1)?;
        Mark::read(from).map(Item::Mark)
    },
];

/// The error of an entry that cannot be decoded, or that no version of this crate sends. No version sends a name that
/// is too long, or an entry that exceeds the highest limits that `Builder` accepts. The reader's own limits do not
/// matter, because other instances may be configured differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecodable;

impl<'a> EntryReader<'a> {
    /// Reads the head of an entry.
    ///
    /// # Errors
    /// The bytes are not an entry, or an entry of another version.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Undecodable> {
        Self::after_head(bytes).ok_or(Undecodable)
    }

    fn after_head(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > MAX_ENTRY_BYTES {
            return None;
        }
        let mut reader = Reader(bytes);
        reader.byte().filter(|version| *version == ENTRY_VERSION)?;
        let counters = Vec::read(&mut reader).filter(|all| all.len() <= MAX_PRECISIONS)?;
        let head = EntryHead {
            precisions: Precisions { counters },
            base: reader.int()?,
        };
        Some(Self {
            head,
            late: reader.uint()?,
            list: 0,
            names: None,
            reader,
            budget: ENTRY_BUDGET,
        })
    }

    /// The number of unread bytes.
    pub fn bytes_left(&self) -> usize {
        self.reader.0.len()
    }

    /// The precisions of the batch.
    pub fn precisions(&self) -> &Precisions {
        &self.head.precisions
    }

    /// The next name; `None` after the last.
    ///
    /// # Errors
    /// The bytes cannot be decoded from here on. No part of the entry may be used.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Item>, Undecodable> {
        while let Some(read) = LISTS.get(self.list) {
            let names = match self.names {
                Some(names) => names,
                None => self.reader.uint().ok_or(Undecodable)?,
            };
            if names > 0 {
                self.names = Some(names - 1);
                let item = read(&mut self.reader, &self.head, &mut self.budget);
                return item.map(Some).ok_or(Undecodable);
            }
            (self.list, self.names) = (self.list + 1, None);
        }
        let is_whole = self.reader.0.is_empty();
        is_whole.then_some(None).ok_or(Undecodable)
    }
}
