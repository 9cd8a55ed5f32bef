//! The journal, and the steps of folding. As all instances are in this process, they take turns to fold, and none has
//! to find out whether another one is alive.

use std::collections::VecDeque;

use tokio::sync::Mutex as AsyncMutex;

use super::{MemoryStore, State, ready};
use crate::error::StoreError;
use crate::model::context::fnv1a;
use crate::model::entry;
use crate::model::tier::COARSEST;
use crate::store::journal::{
    Acquired, Entries, Entry, FieldValues, FoldStep, Journal, Partitions, Progress, Step,
};
use crate::store::table::Table;
use crate::store::{Appended, FencedBatch, Position, Readable, Receipt};
use crate::task::BoxFuture;

/// The most bytes of entries that are not folded, unless a test sets others. A flush folds what it has appended, so that
/// there are no more than it had to append, and what flushes have left that were dropped half-way.
pub(super) const JOURNAL_BYTES: u64 = 64 * 1024 * 1024;
/// The bits of a position's chain, as in Redis.
const CHAIN_BITS: u32 = 52;

/// The entries, and how far they are folded.
#[derive(Clone, Debug, Default)]
pub(super) struct Entered {
    /// Entries that are not folded, oldest first.
    entries: VecDeque<Entry>,
    /// The position of the newest entry that was ever appended.
    head: Position,
    /// The position up to which all entries are folded.
    low: Position,
    /// The end of the round that was begun, if one was.
    upto: Option<Position>,
    /// The partitions of that round that are folded.
    done: Partitions,
    /// The newest stamp of that round.
    stamp: Option<i64>,
    /// The version, which each step must give and replaces.
    pub(super) version: String,
    /// Entries of that round, or the first one, that no instance can read.
    aside: Vec<Position>,
    /// Requests in all entries that were set aside.
    pub(super) set_aside: u64,
    /// Bytes of entries that were gone before they were folded.
    pub(super) hole_bytes: u64,
}

/// The number of the last call of an instance, and when it was appended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fence {
    seq: u64,
    at: i64,
}

/// Seconds after its last append at which the fence of an instance is removed.
const FENCE_TTL: i64 = 86_400;

impl State {
    /// Appends a call once, however often it is repeated.
    pub(super) fn append(&mut self, call: &FencedBatch, most_bytes: u64, now: i64) -> Appended {
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
        let since = call
            .batch
            .since
            .filter(|since| COARSEST.cut_off(now) < *since);
        self.since = since.map_or(self.since, |since| since.min(self.since));
        journal.enter(call, now);
        Appended::Done(journal.receipt())
    }

    /// The number of the last call of an instance; 0 if it has none.
    pub(super) fn fence(&self, instance: &str) -> u64 {
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

    /// Applies a step, unless it gives another version.
    fn step(&mut self, step: &FoldStep<'_>, record_bytes: usize, now: i64) -> Step<()> {
        if self.journal.version != step.version {
            return Step::Stale(self.journal.version.clone());
        }
        if let (None, Some(upto)) = (self.journal.upto, step.upto)
            && !self.journal.has(upto)
        {
            return Step::Absent;
        }
        self.add(step.additions, step.stamp);
        for writes in step.fields {
            self.tables.write(writes, now);
        }
        self.rolled.clone_from(step.rolled);
        let journal = &mut self.journal;
        journal.version = step.next.to_owned();
        (journal.upto, journal.done) = (step.upto, step.done.unwrap_or_default());
        journal.stamp = Some(step.stamp);
        if let (Some(upto), None) = (step.upto, step.done) {
            journal.finish(upto);
            journal.hole_bytes += step.hole_bytes;
            self.tables.retain(record_bytes, &self.rolled, now);
        }
        Step::Done(())
    }
}

impl Entered {
    /// Whether all entries are folded.
    #[cfg(any(test, feature = "__test_store"))]
    pub(super) fn is_folded(&self) -> bool {
        self.low == self.head
    }

    fn enter(&mut self, call: &FencedBatch, now: i64) {
        let payload = entry::pack(&call.batch);
        let before = self.head.chain.to_be_bytes();
        let id = before
            .into_iter()
            .chain(call.instance.bytes())
            .chain(call.seq.to_be_bytes());
        self.head = Position {
            offset: self.head.offset + payload.len() as u64 + 1,
            chain: fnv1a(id.chain(now.to_be_bytes())) >> (u64::BITS - CHAIN_BITS),
        };
        self.entries.push_back(Entry {
            position: self.head,
            stamp: now,
            version: u64::from(entry::version(&call.batch)),
            requests: call.batch.requests(),
            payload,
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
    fn finish(&mut self, upto: Position) {
        (self.low, self.upto) = (upto, None);
        self.aside.clear();
        let folded = self
            .entries
            .partition_point(|entry| entry.position.offset <= upto.offset);
        self.entries.drain(..folded);
    }

    fn after(&self, from: Position, bytes: u64) -> Vec<Entry> {
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

impl MemoryStore {
    /// What is read under a version, or the version that holds instead.
    fn under<T>(&self, version: &str, read: impl FnOnce(&State) -> T) -> Step<T> {
        let state = self.state();
        match state.journal.version == version {
            true => Step::Done(read(&state)),
            false => Step::Stale(state.journal.version.clone()),
        }
    }

    /// Changes the journal under a version, which another one replaces.
    fn amend(&self, version: &str, next: &str, change: impl FnOnce(&mut Entered)) -> Step<()> {
        let journal = &mut self.state().journal;
        if journal.version != version {
            return Step::Stale(journal.version.clone());
        }
        change(journal);
        next.clone_into(&mut journal.version);
        Step::Done(())
    }
}

impl Journal for MemoryStore {
    fn turn(&self) -> Option<&AsyncMutex<()>> {
        Some(&self.turn)
    }

    fn acquire<'a>(
        &'a self,
        _: &'a str,
        version: &'a str,
    ) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(async move {
            let mut state = self.state();
            state.journal.version = version.to_owned();
            let journal = &state.journal;
            Ok(Acquired::Mine(Progress {
                version: version.to_owned(),
                low: journal.low,
                upto: journal.upto,
                done: journal.done,
                aside: journal.aside.clone(),
                rolled: state.rolled.clone(),
                stamp: journal.stamp,
                is_overdue: false,
            }))
        })
    }

    fn release<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(())
    }

    fn read<'a>(
        &'a self,
        _: &'a str,
        version: &'a str,
        from: Position,
        bytes: u64,
    ) -> BoxFuture<'a, Result<Step<Entries>, StoreError>> {
        let now = self.clock.now_seconds();
        ready(self.under(version, |state| Entries {
            head: state.journal.head,
            now,
            entries: state.journal.after(from, bytes),
        }))
    }

    fn load_fields<'a>(
        &'a self,
        _: &'a str,
        version: &'a str,
        fields: &'a [(Table, Vec<Vec<u8>>)],
    ) -> BoxFuture<'a, Result<Step<Vec<FieldValues>>, StoreError>> {
        let now = self.clock.now_seconds();
        ready(self.under(version, |state| {
            let values = |(table, fields): &(Table, Vec<Vec<u8>>)| {
                let value =
                    |field: &Vec<u8>| state.tables.get(table, field, now).map(<[u8]>::to_vec);
                fields.iter().map(value).collect()
            };
            fields.iter().map(values).collect()
        }))
    }

    fn fold<'a>(&'a self, step: &'a FoldStep<'a>) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        Box::pin(async move {
            let now = self.clock.now_seconds();
            Ok(self.state().step(step, self.record_bytes, now))
        })
    }

    fn set_aside<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
        entry: &'a Entry,
    ) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        Box::pin(async move {
            Ok(self.amend(version, next, |journal| {
                journal.aside.push(entry.position);
                journal.set_aside = journal.set_aside.saturating_add(entry.requests.max(1));
            }))
        })
    }

    fn wait_for_newer<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
        _: &'a Entry,
    ) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        // All entries are of this process.
        Box::pin(async move { Ok(self.amend(version, next, |_| ())) })
    }

    fn close_hole<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
    ) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        Box::pin(async move {
            Ok(self.amend(version, next, |journal| {
                let end = journal.upto.unwrap_or(journal.head);
                journal.hole_bytes += end.offset.saturating_sub(journal.low.offset);
                journal.finish(end);
            }))
        })
    }

    fn remove_fences<'a>(&'a self, version: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let oldest = self.clock.now_seconds().saturating_sub(FENCE_TTL);
            let mut state = self.state();
            if state.journal.version != version {
                return Ok(0);
            }
            let before = state.fences.len();
            state.fences.retain(|_, fence| fence.at >= oldest);
            Ok((before - state.fences.len()) as u64)
        })
    }
}
