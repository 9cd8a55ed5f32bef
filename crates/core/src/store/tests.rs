//! A store that answers as a test prescribes, for the unit tests of flushing and folding.

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::additions::Additions;
use super::journal::{
    Acquired, Amendment, Entries, Entry, FieldValues, FoldStep, Progress, VersionedResult,
};
use super::table::Table;
use super::table_reads::{Answers, Purpose, TablePage, TableRead, TableReader};
use super::*;
use crate::task::lock;
use tower_pulse_model::context::Kind;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::tier::FINEST;

pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) const MIB: u64 = 1 << 20;

/// The time of the store, in Unix seconds: a multiple of ten seconds.
pub(crate) const NOW: i64 = 1_700_000_000;

#[derive(Clone, Copy, Default)]
pub(crate) enum Behaviour {
    /// Each call takes effect, and the lease is free.
    #[default]
    Fine,
    /// Another instance holds the lease.
    HeldByOther,
    /// The lease is lost as soon as it is acquired.
    Stolen,
    Failing(StoreErrorKind),
    Hanging,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Acquire,
    Read,
    /// The number of records of the finest tier that are read.
    Load(usize),
    /// The offset of the end of the round, and the bytes of entries that are missing in the round.
    Fold(Option<u64>, u64),
    SetAside(u64),
    WaitForNewer(u64),
    CloseHole,
    RemoveFences,
    Release,
    Readable,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Incident {
    /// The step takes effect, and its answer is lost.
    LostAnswer,
    /// Another instance has replaced the version of the journal's state.
    Takeover,
}

/// A store without data. The store acknowledges each call, unless `behaviour` or `answers` say otherwise.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) precisions: Precisions,
    /// `None` for a store on a server.
    pub(crate) locality: Option<&'static Locality>,
    pub(crate) behaviour: Mutex<Behaviour>,
    pub(crate) instances: AtomicU64,
    /// The generation; `None` for a fresh generation of age 0.
    pub(crate) generation: Mutex<Option<Generation>>,
    /// The answers to the next appends. Later appends are acknowledged.
    pub(crate) answers: Mutex<VecDeque<Appended>>,
    pub(crate) appended: Mutex<Vec<(Instant, FencedBatch)>>,
    pub(crate) heartbeats: Mutex<Vec<(Instant, Heartbeat)>>,
    pub(crate) entries: Mutex<Vec<Entry>>,
    /// The most entries that one read returns.
    pub(crate) entries_per_read: Option<usize>,
    /// Whether a context has records in every slice.
    pub(crate) has_records_everywhere: bool,
    /// The position of the newest entry that was ever appended, if the journal has lost this entry; otherwise `None`.
    pub(crate) head: Option<Position>,
    /// The store's time, in seconds since `NOW`.
    pub(crate) since_now: Mutex<i64>,
    pub(crate) progress: Mutex<Progress>,
    /// The number of records that each step writes.
    pub(crate) records: Mutex<Vec<usize>>,
    /// The starts of slices whose records a step allows to expire.
    pub(crate) may_expire: Mutex<Vec<i64>>,
    pub(crate) additions: Mutex<Vec<Additions>>,
    pub(crate) failing_steps: Mutex<VecDeque<StoreErrorKind>>,
    pub(crate) incident: Mutex<Option<Incident>>,
    /// The answers to the next calls of `readable`, the last answer first.
    pub(crate) readable: Mutex<Vec<Readable>>,
    pub(crate) calls: Mutex<Vec<(Instant, Call)>>,
}

pub(crate) fn at(offset: u64) -> Position {
    Position { offset, chain: 0 }
}

pub(crate) fn generation_of(id: &str, age: u64, is_fresh: bool) -> Generation {
    Generation {
        id: id.to_owned(),
        age,
        is_fresh,
    }
}

impl Scripted {
    pub(crate) fn set(&self, behaviour: Behaviour) {
        *lock(&self.behaviour) = behaviour;
    }

    /// Answers a call with this value, unless all calls fail or hang.
    fn answer<'a, T: Send + 'a>(&self, value: T) -> StoreFuture<'a, T> {
        let answer = match *lock(&self.behaviour) {
            Behaviour::Failing(kind) => Err(StoreError::new(kind, "the store fails")),
            Behaviour::Hanging => return Box::pin(pending()),
            _ => Ok(value),
        };
        Box::pin(ready(answer))
    }

    fn answer_call<'a, T: Send + 'a>(&self, call: Call, value: T) -> StoreFuture<'a, T> {
        lock(&self.calls).push((Instant::now(), call));
        self.answer(value)
    }

    fn status_at(&self, now: i64) -> StoreStatus {
        StoreStatus {
            as_of: now,
            instances: self.instances.load(Ordering::Relaxed),
            ..StoreStatus::default()
        }
    }
}

impl Append for Scripted {
    fn hello(&self) -> StoreFuture<'_, Generation> {
        let generation = lock(&self.generation).clone();
        let generation = generation.unwrap_or_else(|| generation_of("first", 0, true));
        Box::pin(ready(Ok(generation)))
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> StoreFuture<'a, Appended> {
        lock(&self.appended).push((Instant::now(), call.clone()));
        let done = Appended::Done(Receipt {
            has_leader: true,
            ..Receipt::default()
        });
        let answer = lock(&self.answers).pop_front();
        self.answer(answer.unwrap_or(done))
    }

    fn readable<'a>(&'a self, _: &'a AppendedCall) -> StoreFuture<'a, Readable> {
        let readable = lock(&self.readable).pop().expect("an answer is left");
        self.answer_call(Call::Readable, readable)
    }
}

impl Journal for Scripted {
    fn acquire<'a>(&'a self, _: &'a str, version: &'a str) -> StoreFuture<'a, Acquired> {
        let mut progress = lock(&self.progress);
        version.clone_into(&mut progress.version);
        let acquired = match *lock(&self.behaviour) {
            Behaviour::HeldByOther => Acquired::HeldByOther,
            _ => Acquired::Mine(progress.clone()),
        };
        self.answer_call(Call::Acquire, acquired)
    }

    fn release<'a>(&'a self, _: &'a str) -> StoreFuture<'a, ()> {
        self.answer_call(Call::Release, ())
    }

    fn read<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        from: Position,
        bytes: u64,
    ) -> StoreFuture<'a, VersionedResult<Entries>> {
        // Larger reads would take too long, and smaller reads would be too many.
        let is_moderate = (MIB / 8..=MIB).contains(&bytes);
        assert!(is_moderate, "a read of {bytes} bytes");
        let entries = lock(&self.entries);
        let round_end = lock(&self.progress).round_end;
        let is_left = |at| at > from && round_end.is_none_or(|round_end| at <= round_end);
        let left = entries.iter().filter(|entry| is_left(entry.position));
        let most = self.entries_per_read.unwrap_or(usize::MAX);
        let newest = entries.last().map(|entry| entry.position);
        let result = match *lock(&self.behaviour) {
            Behaviour::Stolen => VersionedResult::Stale("another".to_owned()),
            _ => VersionedResult::Done(Entries {
                head: self.head.or(newest).unwrap_or_default(),
                now: NOW + *lock(&self.since_now),
                entries: left.take(most).cloned().collect(),
            }),
        };
        self.answer_call(Call::Read, result)
    }

    fn fold<'a>(&'a self, step: &'a FoldStep) -> StoreFuture<'a, VersionedResult<()>> {
        let incident = lock(&self.incident).take();
        let mut progress = lock(&self.progress);
        if let Some(Incident::Takeover) = incident {
            "of another".clone_into(&mut progress.version);
        }
        if step.version != progress.version {
            let result = VersionedResult::Stale(progress.version.clone());
            return Box::pin(ready(Ok(result)));
        }
        let offset = step.round_end.map(|round_end| round_end.offset);
        if let Some(kind) = lock(&self.failing_steps).pop_front() {
            lock(&self.calls).push((Instant::now(), Call::Fold(offset, step.hole_bytes)));
            let error = StoreError::new(kind, "the step fails");
            return Box::pin(ready(Err(error)));
        }
        lock(&self.additions).push((*step.additions).clone());
        let slices = step.fields.iter();
        let slices = slices.filter_map(|fields| Some((fields.table.slice()?, fields.set.len())));
        let (released, written): (Vec<_>, Vec<_>) = slices.partition(|(_, records)| *records == 0);
        lock(&self.records).push(written.iter().map(|(_, records)| records).sum());
        lock(&self.may_expire).extend(released.iter().map(|((_, start), _)| *start));
        step.next.clone_into(&mut progress.version);
        if let (Some(round_end), None) = (step.round_end, step.done) {
            (progress.committed, progress.round_end) = (round_end, None);
        }
        if let Some(Incident::LostAnswer) = incident {
            let error = StoreError::new(StoreErrorKind::TimedOut, "the answer is lost");
            return Box::pin(ready(Err(error)));
        }
        self.answer_call(
            Call::Fold(offset, step.hole_bytes),
            VersionedResult::Done(()),
        )
    }

    fn load_fields<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        fields: &'a [(Table, Vec<Vec<u8>>)],
    ) -> StoreFuture<'a, VersionedResult<Vec<FieldValues>>> {
        let missing = |(_, fields): &(Table, Vec<Vec<u8>>)| vec![None; fields.len()];
        let values = VersionedResult::Done(fields.iter().map(missing).collect());
        let is_finest = |table: &Table| table.slice().is_some_and(|at| at.0 == FINEST.seconds);
        let finest = fields.iter().filter(|(table, _)| is_finest(table));
        self.answer_call(Call::Load(finest.map(|(_, ids)| ids.len()).sum()), values)
    }

    fn amend<'a>(
        &'a self,
        _: &'a str,
        next: &'a str,
        amendment: Amendment<'a>,
    ) -> StoreFuture<'a, VersionedResult<()>> {
        let mut progress = lock(&self.progress);
        let call = match amendment {
            Amendment::SetAside(entry) => {
                progress.unreadable.push(entry.position);
                Call::SetAside(entry.position.offset)
            }
            Amendment::WaitForNewer(entry) => {
                return self.answer_call(
                    Call::WaitForNewer(entry.position.offset),
                    VersionedResult::Done(()),
                );
            }
            Amendment::CloseHole => {
                progress.committed = self.head.unwrap_or_default();
                Call::CloseHole
            }
        };
        next.clone_into(&mut progress.version);
        self.answer_call(call, VersionedResult::Done(()))
    }

    fn remove_fences<'a>(&'a self, version: &'a str) -> StoreFuture<'a, u64> {
        assert_eq!(version, lock(&self.progress).version);
        self.answer_call(Call::RemoveFences, 0)
    }
}

impl TableReader for Scripted {
    fn read_tables<'a>(&'a self, _: Purpose, reads: &'a [TableRead]) -> StoreFuture<'a, Answers> {
        let answer = |read: &TableRead| match read {
            TableRead::Page(table, _) => {
                let is_recorded = self.has_records_everywhere && table.slice().is_some();
                let id = RecordId::new(Kind::Http, "GET /").to_bytes().to_vec();
                let fields = is_recorded.then(|| (id, Vec::new())).into_iter().collect();
                TablePage::of_fields(fields)
            }
            TableRead::Count(_) => TablePage::of_count(0),
            TableRead::Values(_, fields) => TablePage::of_values(vec![None; fields.len()]),
            TableRead::State => {
                let since = Some(NOW.to_string().into_bytes());
                TablePage::of_values(vec![None, None, None, since])
            }
            _ => unreachable!("a folder reads pages, counts, values and the state"),
        };
        let answers = Answers::new(reads.iter().map(answer).collect());
        Box::pin(ready(Ok(answers)))
    }
}

impl Upkeep for Scripted {
    fn status(&self, now: i64) -> StoreFuture<'_, StoreStatus> {
        self.answer(self.status_at(now))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> StoreFuture<'a, (Fleet, StoreStatus)> {
        lock(&self.heartbeats).push((Instant::now(), heartbeat.clone()));
        self.answer((Fleet::default(), self.status_at(heartbeat.at)))
    }

    fn deregister<'a>(&'a self, _: &'a str) -> StoreFuture<'a, ()> {
        self.answer(())
    }

    fn clean<'a>(&'a self, _: &'a Pass) -> StoreFuture<'a, Option<Cleaned>> {
        unreachable!("no test cleans")
    }
}

impl Store for Scripted {
    fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    fn journal(&self) -> &dyn Journal {
        self
    }

    fn query(&self) -> &dyn Query {
        unreachable!("no test queries")
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }

    fn locality(&self) -> &'static Locality {
        self.locality.unwrap_or(&ON_SERVER)
    }

    fn describe(&self) -> String {
        "a scripted store".to_owned()
    }
}
