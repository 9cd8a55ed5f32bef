//! Appending, and the steps of folding. All instances are in this process and fold one after another, so no instance
//! needs a lease.

use super::entry_queue::Fence;
use super::state::State;
use super::{InProcessStore, StateAccess};
use crate::store::journal::{
    Acquired, Amendment, Entries, Entry, FieldValues, FoldStep, Journal, Progress, VersionedResult,
};
use crate::store::table::Table;
use crate::store::{
    Append, Appended, AppendedCall, FencedBatch, Generation, Position, Readable, StoreFuture,
    check_precisions,
};
use tower_pulse_model::entry::{self, ENTRY_VERSION};
use tower_pulse_model::tier::COARSEST;

/// The fence of an instance is removed this number of seconds after the last append of the instance.
const FENCE_TTL: i64 = 86_400;

impl Append for InProcessStore {
    fn hello(&self) -> StoreFuture<'_, Generation> {
        let now = self.now();
        Box::pin(self.with(StateAccess::Read, move |state| {
            Ok(Generation {
                id: state.kept.generation.clone(),
                age: u64::try_from(now.saturating_sub(state.kept.created)).unwrap_or(0),
                is_fresh: true,
            })
        }))
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> StoreFuture<'a, Appended> {
        Box::pin(async move {
            check_precisions(&call.batch, &self.precisions)?;
            let (generation, instance) = (call.generation.clone(), call.instance.clone());
            let (seq, previous, since) = (call.seq, call.previous, call.batch.since);
            let (now, most_bytes) = (self.now(), self.journal_bytes);
            let entry = Entry {
                position: Position::default(),
                appended_at: now,
                version: u64::from(ENTRY_VERSION),
                requests: call.batch.requests(),
                payload: entry::pack(&call.batch),
            };
            let appended = self.with(StateAccess::Write, move |state| {
                let fence = state.fence(&instance);
                let kept = &mut state.kept;
                if kept.generation != generation {
                    return Ok(Appended::Reset);
                } else if fence >= seq {
                    return Ok(Appended::Duplicate(kept.journal.receipt()));
                } else if fence != previous {
                    return Ok(Appended::Gap { fence });
                } else if kept.journal.unfolded_bytes() > most_bytes {
                    return Ok(Appended::Full);
                }
                kept.journal.enter(&instance, seq, entry);
                kept.fences.insert(instance, Fence { seq, at: now });
                let oldest = now.saturating_sub(COARSEST.span());
                let since = since.filter(|since| oldest < *since);
                kept.since = kept.since.min(since.unwrap_or(i64::MAX));
                Ok(Appended::Done(kept.journal.receipt()))
            });
            appended.await
        })
    }

    fn readable<'a>(&'a self, call: &'a AppendedCall) -> StoreFuture<'a, Readable> {
        let call = call.clone();
        Box::pin(self.with(StateAccess::Read, move |state| {
            let has_it = state.fence(&call.instance) >= call.seq;
            Ok(if state.kept.generation != call.generation || !has_it {
                Readable::Lost
            } else if state.kept.journal.progress.committed.offset >= call.position.offset {
                Readable::Yes
            } else {
                Readable::NotYet
            })
        }))
    }
}

impl State {
    /// The number of the last call of an instance; 0 if it has appended no call.
    pub fn fence(&self, instance: &str) -> u64 {
        self.kept.fences.get(instance).map_or(0, |fence| fence.seq)
    }

    /// The answer to a call that does not give the current version; `None` if `version` is current.
    fn stale<T>(&self, version: &str) -> Option<VersionedResult<T>> {
        let held = &self.kept.journal.progress.version;
        (held != version).then(|| VersionedResult::Stale(held.clone()))
    }
}

impl Journal for InProcessStore {
    fn fold_mutex(&self) -> Option<&tokio::sync::Mutex<()>> {
        Some(&self.fold_mutex)
    }

    fn acquire<'a>(&'a self, _: &'a str, version: &'a str) -> StoreFuture<'a, Acquired> {
        let version = version.to_owned();
        Box::pin(self.with(StateAccess::Write, |state| {
            let progress = &mut state.kept.journal.progress;
            progress.version = version;
            Ok(Acquired::Mine(Progress {
                rolled: state.kept.rolled.clone(),
                ..progress.clone()
            }))
        }))
    }

    fn release<'a>(&'a self, _: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn read<'a>(
        &'a self,
        _: &'a str,
        version: &'a str,
        from: Position,
        bytes: u64,
    ) -> StoreFuture<'a, VersionedResult<Entries>> {
        let (version, now) = (version.to_owned(), self.now());
        Box::pin(self.with(StateAccess::Read, move |state| {
            let journal = &state.kept.journal;
            let entries = || Entries {
                head: journal.head,
                now,
                entries: journal.after(from, bytes),
            };
            Ok(state
                .stale(&version)
                .unwrap_or_else(|| VersionedResult::Done(entries())))
        }))
    }

    fn load_fields<'a>(
        &'a self,
        _: &'a str,
        version: &'a str,
        fields: &'a [(Table, Vec<Vec<u8>>)],
    ) -> StoreFuture<'a, VersionedResult<Vec<FieldValues>>> {
        let (version, fields) = (version.to_owned(), fields.to_vec());
        let now = self.now();
        Box::pin(self.with(StateAccess::Read, move |state| {
            if let Some(stale) = state.stale(&version) {
                return Ok(stale);
            }
            let values = fields.iter();
            let values = values.map(|(table, fields)| state.tables.get(table, fields, now));
            values.collect::<Result<_, _>>().map(VersionedResult::Done)
        }))
    }

    fn fold<'a>(&'a self, step: &'a FoldStep) -> StoreFuture<'a, VersionedResult<()>> {
        let (step, now) = (step.clone(), self.now());
        Box::pin(self.with(StateAccess::Write, move |state| {
            if let Some(stale) = state.stale(&step.version) {
                return Ok(stale);
            }
            let begun = state.kept.journal.progress.round_end;
            if let (None, Some(round_end)) = (begun, step.round_end)
                && !state.kept.journal.has(round_end)
            {
                return Ok(VersionedResult::Absent);
            }
            state.add(&step.additions, step.newest_at, now)?;
            for writes in &*step.fields {
                state.tables.write(writes, now)?;
            }
            state.kept.rolled = step.rolled;
            let journal = &mut state.kept.journal;
            let progress = &mut journal.progress;
            progress.version = step.next;
            (progress.round_end, progress.done) = (step.round_end, step.done.unwrap_or_default());
            progress.newest_at = Some(step.newest_at);
            if let (Some(round_end), None) = (step.round_end, step.done) {
                journal.finish(round_end);
                journal.hole_bytes += step.hole_bytes;
                state.tables.retain(&state.kept.rolled, now)?;
            }
            Ok(VersionedResult::Done(()))
        }))
    }

    fn amend<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
        amendment: Amendment<'a>,
    ) -> StoreFuture<'a, VersionedResult<()>> {
        let (version, next) = (version.to_owned(), next.to_owned());
        let set_aside = match amendment {
            Amendment::SetAside(entry) => Some((entry.position, entry.requests.max(1))),
            _ => None,
        };
        let is_hole = matches!(amendment, Amendment::CloseHole);
        // `WaitForNewer` needs no action: a file of a newer format is refused, so no entry is newer.
        Box::pin(self.with(StateAccess::Write, move |state| {
            if let Some(stale) = state.stale(&version) {
                return Ok(stale);
            }
            let journal = &mut state.kept.journal;
            journal.progress.version = next;
            if let Some((position, requests)) = set_aside {
                journal.progress.unreadable.push(position);
                journal.set_aside = journal.set_aside.saturating_add(requests);
            } else if is_hole {
                let (end, committed) = (journal.end(), journal.progress.committed);
                journal.hole_bytes += end.offset.saturating_sub(committed.offset);
                journal.finish(end);
            }
            Ok(VersionedResult::Done(()))
        }))
    }

    fn remove_fences<'a>(&'a self, version: &'a str) -> StoreFuture<'a, u64> {
        let (version, oldest) = (version.to_owned(), self.now().saturating_sub(FENCE_TTL));
        Box::pin(self.with(StateAccess::Write, move |state| {
            let is_stale = state.stale::<()>(&version).is_some();
            let fences = &mut state.kept.fences;
            let before = fences.len();
            fences.retain(|_, fence| is_stale || fence.at >= oldest);
            Ok((before - fences.len()) as u64)
        }))
    }
}
