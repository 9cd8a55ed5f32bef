//! Tests of a folder with a scripted journal, in paused time. tests/journal tests the data that a folder writes, on a
//! real server.

mod lease;
mod readable;
mod records;
mod round;
mod schedule;
mod steps;

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{FoldLimits, Folder, Leader};
use crate::clock::{Clock, ManualClock};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::additions::Additions;
use crate::store::journal::{
    Acquired, Amendment, Entries, Entry, FieldValues, FoldStep, Journal, Progress, Step,
};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::entry::{ENTRY_VERSION, pack as pack_batch};
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::tier::FINEST;

use crate::store::table::Table;
use crate::store::table_reads::{Answers, Purpose, TablePage, TableRead, TableReader};
use crate::store::{
    Append, Appended, AppendedCall, FencedBatch, Generation, Position, Readable, Store, StoreFuture,
};
use crate::task::{Stop, lock};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3_600);

const MIB: u64 = 1 << 20;

/// The time of the journal, in Unix seconds.
const NOW: i64 = 1_700_000_000;

/// How the journal answers.
#[derive(Clone, Copy, Debug, Default)]
enum Behaviour {
    /// The lease is free.
    #[default]
    Free,
    /// Another instance holds the lease.
    HeldByOther,
    /// The lease is lost as soon as it is acquired.
    Stolen,
    Failing(StoreErrorKind),
}

#[derive(Debug, PartialEq, Eq)]
enum Call {
    Acquire,
    Read,
    /// The number of records of the finest tier.
    Load(usize),
    /// The end of the round, and the size of the entries that are missing in the round.
    Fold(Option<u64>, u64),
    SetAside(u64),
    WaitForNewer(u64),
    CloseHole,
    RemoveFences,
    Release,
    Readable,
}

#[derive(Clone, Copy, Debug)]
enum Incident {
    /// The step takes effect, and its answer is lost.
    LostAnswer,
    /// Another instance has replaced the version of the journal's state.
    Takeover,
}

/// A journal, and the store that has it.
#[derive(Default)]
struct Scripted {
    precisions: Precisions,
    entries: Mutex<Vec<Entry>>,
    /// Entries of one read; `None` for all.
    entries_per_read: Option<usize>,
    /// Whether a context has records in every slice.
    has_records_everywhere: bool,
    /// The position of the newest entry that was ever appended, if the journal has lost this entry; otherwise `None`.
    head: Option<Position>,
    /// Seconds since `NOW`.
    since_now: Mutex<i64>,
    progress: Mutex<Progress>,
    /// The number of records of each step.
    records: Mutex<Vec<usize>>,
    /// Slices whose records may expire.
    may_expire: Mutex<Vec<i64>>,
    /// The additions of each step.
    additions: Mutex<Vec<Additions>>,
    /// The errors with which the next steps fail.
    failing_steps: Mutex<VecDeque<StoreErrorKind>>,
    /// An incident of the next step.
    incident: Mutex<Option<Incident>>,
    behaviour: Mutex<Behaviour>,
    /// The answers to the next calls of `readable`, the last answer first.
    readable: Mutex<Vec<Readable>>,
    calls: Mutex<Vec<(Instant, Call)>>,
}

fn at(offset: u64) -> Position {
    Position { offset, chain: 0 }
}

/// An entry that ends at `offset`, with a request of each of these contexts at this time.
fn entry(offset: u64, contexts: &[&str], appended_at: i64) -> Entry {
    let mut batch = Batch::new(Precisions::default());
    let mut request = Aggregate::default();
    request.times.record(1_000);
    for context in contexts {
        batch.add(&(*context).into(), Kind::Http, appended_at, &request);
    }
    Entry {
        position: at(offset),
        appended_at,
        version: u64::from(ENTRY_VERSION),
        requests: contexts.len() as u64,
        payload: pack_batch(&batch),
    }
}

/// An entry that ends at `offset`, with this batch.
fn entry_of(offset: u64, batch: &Batch) -> Entry {
    Entry {
        payload: pack_batch(batch),
        ..entry(offset, &[], NOW)
    }
}

impl Scripted {
    fn of(entries: Vec<Entry>) -> Self {
        Self {
            entries: Mutex::new(entries),
            ..Self::default()
        }
    }

    fn set(&self, behaviour: Behaviour) {
        *lock(&self.behaviour) = behaviour;
    }

    /// Records a call, and answers it unless all calls fail.
    fn answer<'a, T: Send + 'a>(&self, call: Call, value: T) -> StoreFuture<'a, T> {
        lock(&self.calls).push((Instant::now(), call));
        let answer = match *lock(&self.behaviour) {
            Behaviour::Failing(kind) => Err(StoreError::new(kind, "the journal fails")),
            _ => Ok(value),
        };
        Box::pin(ready(answer))
    }

    /// Takes the recorded calls, and returns those that change the journal, without their times.
    fn take_writes(&self) -> Vec<Call> {
        let mut calls = lock(&self.calls);
        let is_read = |call: &Call| matches!(call, Call::Acquire | Call::Read | Call::Load(_));
        let calls = calls.drain(..).map(|(_, call)| call);
        calls.filter(|call| !is_read(call)).collect()
    }

    /// The times of the calls that equal `wanted`.
    fn times(&self, wanted: &Call) -> Vec<Instant> {
        let calls = lock(&self.calls);
        let times = calls.iter().filter(|(_, call)| call == wanted);
        times.map(|(at, _)| *at).collect()
    }

    /// The number of calls that equal `wanted`.
    fn count(&self, wanted: &Call) -> usize {
        self.times(wanted).len()
    }

    /// The times between calls that equal `wanted`.
    fn gaps(&self, wanted: &Call) -> Vec<Duration> {
        let times = self.times(wanted);
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
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
        self.answer(Call::Acquire, acquired)
    }

    fn release<'a>(&'a self, _: &'a str) -> StoreFuture<'a, ()> {
        self.answer(Call::Release, ())
    }

    fn read<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        from: Position,
        bytes: u64,
    ) -> StoreFuture<'a, Step<Entries>> {
        // A longer read takes too long, and shorter ones are too many.
        let is_moderate = (MIB / 8..=MIB).contains(&bytes);
        assert!(is_moderate, "a read of {bytes} bytes");
        let entries = lock(&self.entries);
        let round_end = lock(&self.progress).round_end;
        let is_left = |at| at > from && round_end.is_none_or(|round_end| at <= round_end);
        let left = entries.iter().filter(|entry| is_left(entry.position));
        let most = self.entries_per_read.unwrap_or(usize::MAX);
        let newest = entries.last().map(|entry| entry.position);
        let step = match *lock(&self.behaviour) {
            Behaviour::Stolen => Step::Stale("another".to_owned()),
            _ => Step::Done(Entries {
                head: self.head.or(newest).unwrap_or_default(),
                now: NOW + *lock(&self.since_now),
                entries: left.take(most).cloned().collect(),
            }),
        };
        self.answer(Call::Read, step)
    }

    fn fold<'a>(&'a self, step: &'a FoldStep) -> StoreFuture<'a, Step<()>> {
        let incident = lock(&self.incident).take();
        let mut progress = lock(&self.progress);
        if let Some(Incident::Takeover) = incident {
            "of another".clone_into(&mut progress.version);
        }
        if step.version != progress.version {
            let step = Step::Stale(progress.version.clone());
            return Box::pin(ready(Ok(step)));
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
        self.answer(Call::Fold(offset, step.hole_bytes), Step::Done(()))
    }

    fn load_fields<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        fields: &'a [(Table, Vec<Vec<u8>>)],
    ) -> StoreFuture<'a, Step<Vec<FieldValues>>> {
        let missing = |(_, fields): &(Table, Vec<Vec<u8>>)| vec![None; fields.len()];
        let values = Step::Done(fields.iter().map(missing).collect());
        let slices = fields.iter();
        let slices = slices.filter_map(|(table, ids)| Some((table.slice()?, ids.len())));
        let slices: Vec<_> = slices.collect();
        if slices.is_empty() {
            return Box::pin(ready(Ok(values)));
        }
        let finest = slices.iter().filter(|(at, _)| at.0 == FINEST.seconds);
        self.answer(Call::Load(finest.map(|(_, ids)| ids).sum()), values)
    }

    fn amend<'a>(
        &'a self,
        _: &'a str,
        next: &'a str,
        amendment: Amendment<'a>,
    ) -> StoreFuture<'a, Step<()>> {
        let mut progress = lock(&self.progress);
        let call = match amendment {
            Amendment::SetAside(entry) => {
                progress.dead_letters.push(entry.position);
                Call::SetAside(entry.position.offset)
            }
            Amendment::WaitForNewer(entry) => {
                return self.answer(Call::WaitForNewer(entry.position.offset), Step::Done(()));
            }
            Amendment::CloseHole => {
                progress.committed = self.head.unwrap_or_default();
                Call::CloseHole
            }
        };
        next.clone_into(&mut progress.version);
        self.answer(call, Step::Done(()))
    }

    fn remove_fences<'a>(&'a self, version: &'a str) -> StoreFuture<'a, u64> {
        assert_eq!(version, lock(&self.progress).version);
        self.answer(Call::RemoveFences, 0)
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

impl Append for Scripted {
    fn hello(&self) -> StoreFuture<'_, Generation> {
        unreachable!("a folder only folds")
    }

    fn append<'a>(&'a self, _: &'a FencedBatch) -> StoreFuture<'a, Appended> {
        unreachable!("a folder only folds")
    }

    fn readable<'a>(&'a self, _: &'a AppendedCall) -> StoreFuture<'a, Readable> {
        let readable = lock(&self.readable).pop().expect("an answer is left");
        self.answer(Call::Readable, readable)
    }
}

impl Store for Scripted {
    fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    fn journal(&self) -> &dyn Journal {
        self
    }

    fn query(&self) -> &dyn crate::store::Query {
        unreachable!("a folder only folds")
    }

    fn upkeep(&self) -> &dyn crate::store::Upkeep {
        unreachable!("a folder only folds")
    }

    fn describe(&self) -> String {
        "a scripted journal".to_owned()
    }
}

/// Limits of `records` remembered records, without other limits.
fn remembering(records: usize) -> FoldLimits {
    FoldLimits {
        records,
        profiles: usize::MAX,
        history_days: None,
        step_contexts: None,
    }
}

/// A folder of a scripted journal. The folder reads 150 ms after each half second. The wall clock always shows such a
/// moment, so each wait takes 500 ms.
struct Folding {
    journal: Arc<Scripted>,
    leaderless: Arc<Notify>,
    folder: Arc<Folder>,
    clock: ManualClock,
}

impl Folding {
    fn new(behaviour: Behaviour) -> Self {
        let folding = Self::of(Scripted::default(), 100);
        folding.journal.set(behaviour);
        folding
    }

    /// A folder of this journal, which remembers up to `max_records` records.
    fn of(journal: Scripted, max_records: usize) -> Self {
        let (clock, manual_clock) = Clock::manual(NOW);
        manual_clock.advance(150 * MS);
        let (journal, leaderless) = (Arc::new(journal), Arc::new(Notify::new()));
        let (name, limits) = ("folder".to_owned(), remembering(max_records));
        let folder = Folder::new(journal.clone(), clock, name, limits, leaderless.clone());
        Self {
            journal,
            leaderless,
            folder: Arc::new(folder),
            clock: manual_clock,
        }
    }

    /// A folder of a journal with these entries, of which each read returns one.
    fn one_by_one(entries: Vec<Entry>) -> Self {
        let journal = Scripted {
            entries_per_read: Some(1),
            ..Scripted::of(entries)
        };
        Self::of(journal, 100)
    }

    async fn fold(&self) -> Leader {
        self.folder.fold().await.expect("the journal answers")
    }

    /// Appends this entry and folds it.
    async fn fold_next(&self, entry: Entry) {
        lock(&self.journal.entries).push(entry);
        assert_eq!(self.fold().await, Leader::This);
    }

    /// Folds at intervals until the signal is sent.
    fn start(&self) -> Stop {
        let (stop, stopped) = Stop::new();
        let folding = self.folder.clone().fold_at_intervals(stopped.admission());
        tokio::spawn(stopped.run(Box::pin(folding)));
        stop
    }
}
