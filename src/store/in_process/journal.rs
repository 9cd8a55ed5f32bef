//! The journal, and the steps of folding. As all instances are in this process, they take turns to fold, and none has
//! to find out whether another one is alive.

use std::collections::VecDeque;

use super::fields::Fields;
use super::state::State;
use crate::error::StoreError;
use crate::model::context::fnv1a;
use crate::model::entry;
use crate::model::tier::COARSEST;
use crate::store::journal::{Acquired, Entry, FoldStep, Partitions, Progress, Step};
use crate::store::{Appended, FencedBatch, Position, Readable, Receipt};

/// The bits of a position's chain, as in Redis.
const CHAIN_BITS: u32 = 52;

/// The entries, and how far they are folded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entered {
    /// Entries that are not folded, oldest first.
    pub(crate) entries: VecDeque<Entry>,
    /// The position of the newest entry that was ever appended.
    pub(crate) head: Position,
    /// The position up to which all entries are folded.
    pub(crate) low: Position,
    /// The end of the round that was begun, if one was.
    pub(crate) upto: Option<Position>,
    /// The partitions of that round that are folded.
    pub(crate) done: Partitions,
    /// The newest stamp of that round.
    pub(crate) stamp: Option<i64>,
    /// The version, which each step must give and replaces.
    pub(crate) version: String,
    /// Entries of that round, or the first one, that no instance can read.
    pub(crate) aside: Vec<Position>,
    /// Requests in all entries that were set aside.
    pub(crate) set_aside: u64,
    /// Bytes of entries that were gone before they were folded.
    pub(crate) hole_bytes: u64,
}

/// The number of the last call of an instance, and when it was appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) seq: u64,
    /// In Unix seconds.
    pub(crate) at: i64,
}

/// Seconds after its last append at which the fence of an instance is removed.
const FENCE_TTL: i64 = 86_400;

/// A call, with its batch as the journal has it.
#[derive(Debug)]
pub(super) struct PackedCall {
    generation: String,
    instance: String,
    seq: u64,
    previous: u64,
    /// When its first sample was recorded, in Unix seconds.
    since: Option<i64>,
    version: u64,
    requests: u64,
    payload: Vec<u8>,
}

impl PackedCall {
    pub(super) fn new(call: &FencedBatch) -> Self {
        Self {
            generation: call.generation.clone(),
            instance: call.instance.clone(),
            seq: call.seq,
            previous: call.previous,
            since: call.batch.since,
            version: u64::from(entry::version(&call.batch)),
            requests: call.batch.requests(),
            payload: entry::pack(&call.batch),
        }
    }
}

impl<F: Fields> State<F> {
    /// Appends a call once, however often it is repeated.
    pub(super) fn append(&mut self, call: PackedCall, most_bytes: u64, now: i64) -> Appended {
        if call.generation != self.generation {
            return Appended::Reset;
        }
        let fence = self.fence(&call.instance);
        if fence >= call.seq {
            return Appended::Duplicate(self.journal.receipt());
        }
        if fence != call.previous {
            return Appended::Gap { fence };
        }
        let journal = &mut self.journal;
        if journal.head.offset - journal.low.offset > most_bytes {
            return Appended::Full;
        }
        let fence = Fence {
            seq: call.seq,
            at: now,
        };
        self.fences.insert(call.instance.clone(), fence);
        let since = call.since.filter(|since| COARSEST.cut_off(now) < *since);
        self.since = since.map_or(self.since, |since| since.min(self.since));
        journal.enter(call, now);
        Appended::Done(journal.receipt())
    }

    /// The number of the last call of an instance; 0 if it has none.
    pub(crate) fn fence(&self, instance: &str) -> u64 {
        self.fences.get(instance).map_or(0, |fence| fence.seq)
    }

    /// Whether a call can be read.
    pub(super) fn readable(
        &self,
        generation: &str,
        instance: &str,
        seq: u64,
        at: Position,
    ) -> Readable {
        let fence = self.fence(instance);
        if self.generation != generation || fence < seq {
            return Readable::Lost;
        }
        match self.journal.low.offset >= at.offset {
            true => Readable::Yes,
            false => Readable::NotYet,
        }
    }

    /// Acquires the right to fold, and sets a new version.
    pub(super) fn acquire(&mut self, version: String) -> Acquired {
        let journal = &mut self.journal;
        journal.version = version;
        Acquired::Mine(Progress {
            version: journal.version.clone(),
            low: journal.low,
            upto: journal.upto,
            done: journal.done,
            aside: journal.aside.clone(),
            rolled: self.rolled.clone(),
            stamp: journal.stamp,
            is_overdue: false,
        })
    }

    /// What is read under a version, or the version that holds instead.
    pub(super) fn under<T>(
        &self,
        version: &str,
        read: impl FnOnce(&Self) -> Result<T, StoreError>,
    ) -> Result<Step<T>, StoreError> {
        if self.journal.version == version {
            return read(self).map(Step::Done);
        }
        Ok(Step::Stale(self.journal.version.clone()))
    }

    /// Changes the journal under a version, which another one replaces.
    pub(super) fn amend(
        &mut self,
        version: &str,
        next: String,
        change: impl FnOnce(&mut Entered),
    ) -> Step<()> {
        let journal = &mut self.journal;
        if journal.version != version {
            return Step::Stale(journal.version.clone());
        }
        change(journal);
        journal.version = next;
        Step::Done(())
    }

    /// Applies a step, unless it gives another version.
    pub(super) fn step(&mut self, step: FoldStep, now: i64) -> Result<Step<()>, StoreError> {
        if self.journal.version != step.version {
            return Ok(Step::Stale(self.journal.version.clone()));
        }
        if let (None, Some(upto)) = (self.journal.upto, step.upto)
            && !self.journal.has(upto)
        {
            return Ok(Step::Absent);
        }
        self.add(&step.additions, step.stamp, now)?;
        for writes in &*step.fields {
            self.tables.write(writes, now)?;
        }
        self.rolled = step.rolled;
        let journal = &mut self.journal;
        journal.version = step.next;
        (journal.upto, journal.done) = (step.upto, step.done.unwrap_or_default());
        journal.stamp = Some(step.stamp);
        if let (Some(upto), None) = (step.upto, step.done) {
            journal.finish(upto);
            journal.hole_bytes += step.hole_bytes;
            self.tables.retain(&self.rolled, now)?;
        }
        Ok(Step::Done(()))
    }

    /// Removes the fences of instances that have not appended for a day, under a version.
    pub(super) fn remove_fences(&mut self, version: &str, now: i64) -> u64 {
        if self.journal.version != version {
            return 0;
        }
        let (oldest, before) = (now.saturating_sub(FENCE_TTL), self.fences.len());
        self.fences.retain(|_, fence| fence.at >= oldest);
        (before - self.fences.len()) as u64
    }
}

impl Entered {
    /// Whether all entries are folded.
    #[cfg(any(test, feature = "__test_store"))]
    pub(crate) fn is_folded(&self) -> bool {
        self.low == self.head
    }

    fn enter(&mut self, call: PackedCall, now: i64) {
        let before = self.head.chain.to_be_bytes();
        let id = before
            .into_iter()
            .chain(call.instance.bytes())
            .chain(call.seq.to_be_bytes());
        self.head = Position {
            offset: self.head.offset + call.payload.len() as u64 + 1,
            chain: fnv1a(id.chain(now.to_be_bytes())) >> (u64::BITS - CHAIN_BITS),
        };
        self.entries.push_back(Entry {
            position: self.head,
            stamp: now,
            version: call.version,
            requests: call.requests,
            payload: call.payload,
        });
    }

    /// No instance waits for a lease: each that has appended folds.
    fn receipt(&self) -> Receipt {
        Receipt {
            position: self.head,
            folded: self.low,
            is_attended: false,
        }
    }

    fn has(&self, position: Position) -> bool {
        position == self.head || self.entries.iter().any(|entry| entry.position == position)
    }

    /// Notes that all entries of the round are folded.
    pub(super) fn finish(&mut self, upto: Position) {
        (self.low, self.upto) = (upto, None);
        self.aside.clear();
        let folded = self
            .entries
            .partition_point(|entry| entry.position.offset <= upto.offset);
        self.entries.drain(..folded);
    }

    pub(super) fn after(&self, from: Position, bytes: u64) -> Vec<Entry> {
        let end = self.upto.unwrap_or(self.head);
        let entries = self.entries.iter();
        let entries = entries.skip_while(|entry| entry.position.offset <= from.offset);
        let entries = entries.take_while(|entry| entry.position.offset <= end.offset);
        let within = from.offset.saturating_add(bytes);
        let mut read = Vec::new();
        for entry in entries {
            if !read.is_empty() && entry.position.offset > within {
                break;
            }
            read.push(entry.clone());
        }
        read
    }
}
