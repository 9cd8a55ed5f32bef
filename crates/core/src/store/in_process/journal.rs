//! Appending, and the steps of folding. As all instances are in this process, they take turns to fold, and none has to
//! find out whether another one is alive.

use super::entered::{Entered, Fence, PackedCall};
use super::state::State;
use crate::error::StoreError;
use crate::store::journal::{Acquired, FoldStep, Progress, Step};
use crate::store::{Appended, Position, Readable};
use tower_pulse_model::tier::COARSEST;

/// Seconds after its last append at which the fence of an instance is removed.
const FENCE_TTL: i64 = 86_400;

impl State {
    /// Appends a call once, however often it is repeated.
    pub(super) fn append(&mut self, call: PackedCall, most_bytes: u64, now: i64) -> Appended {
        if call.generation != self.kept.generation {
            return Appended::Reset;
        }
        let fence = self.fence(&call.instance);
        if fence >= call.seq {
            return Appended::Duplicate(self.kept.journal.receipt());
        }
        if fence != call.previous {
            return Appended::Gap { fence };
        }
        let journal = &mut self.kept.journal;
        if journal.head.offset - journal.low.offset > most_bytes {
            return Appended::Full;
        }
        let fence = Fence {
            seq: call.seq,
            at: now,
        };
        self.kept.fences.insert(call.instance.clone(), fence);
        let oldest = now.saturating_sub(COARSEST.span());
        let since = call.since.filter(|since| oldest < *since);
        self.kept.since = since.map_or(self.kept.since, |since| since.min(self.kept.since));
        journal.enter(call, now);
        Appended::Done(journal.receipt())
    }

    /// The number of the last call of an instance; 0 if it has none.
    pub fn fence(&self, instance: &str) -> u64 {
        self.kept.fences.get(instance).map_or(0, |fence| fence.seq)
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
        if self.kept.generation != generation || fence < seq {
            return Readable::Lost;
        }
        match self.kept.journal.low.offset >= at.offset {
            true => Readable::Yes,
            false => Readable::NotYet,
        }
    }

    /// Acquires the right to fold, and sets a new version.
    pub(super) fn acquire(&mut self, version: String) -> Acquired {
        let journal = &mut self.kept.journal;
        journal.version = version;
        Acquired::Mine(Progress {
            version: journal.version.clone(),
            low: journal.low,
            upto: journal.upto,
            done: journal.done,
            aside: journal.aside.clone(),
            rolled: self.kept.rolled.clone(),
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
        if self.kept.journal.version == version {
            return read(self).map(Step::Done);
        }
        Ok(Step::Stale(self.kept.journal.version.clone()))
    }

    /// Changes the journal under a version, which another one replaces.
    pub(super) fn amend(
        &mut self,
        version: &str,
        next: String,
        change: impl FnOnce(&mut Entered),
    ) -> Step<()> {
        let journal = &mut self.kept.journal;
        if journal.version != version {
            return Step::Stale(journal.version.clone());
        }
        change(journal);
        journal.version = next;
        Step::Done(())
    }

    /// Applies a step, unless it gives another version.
    pub(super) fn step(&mut self, step: FoldStep, now: i64) -> Result<Step<()>, StoreError> {
        if self.kept.journal.version != step.version {
            return Ok(Step::Stale(self.kept.journal.version.clone()));
        }
        if let (None, Some(upto)) = (self.kept.journal.upto, step.upto)
            && !self.kept.journal.has(upto)
        {
            return Ok(Step::Absent);
        }
        self.add(&step.additions, step.stamp, now)?;
        for writes in &*step.fields {
            self.tables.write(writes, now)?;
        }
        self.kept.rolled = step.rolled;
        let journal = &mut self.kept.journal;
        journal.version = step.next;
        (journal.upto, journal.done) = (step.upto, step.done.unwrap_or_default());
        journal.stamp = Some(step.stamp);
        if let (Some(upto), None) = (step.upto, step.done) {
            journal.finish(upto);
            journal.hole_bytes += step.hole_bytes;
            self.tables.retain(&self.kept.rolled, now)?;
        }
        Ok(Step::Done(()))
    }

    /// Removes the fences of instances that have not appended for a day, under a version.
    pub(super) fn remove_fences(&mut self, version: &str, now: i64) -> u64 {
        if self.kept.journal.version != version {
            return 0;
        }
        let (oldest, before) = (now.saturating_sub(FENCE_TTL), self.kept.fences.len());
        self.kept.fences.retain(|_, fence| fence.at >= oldest);
        (before - self.kept.fences.len()) as u64
    }
}
