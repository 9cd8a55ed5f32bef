//! When a folder acquires the lease, reads, ends a round and gives up, with a scripted journal in paused time. What
//! it writes is tested on a real server, by tests/journal.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{Attendance, Folder};
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::model::batch::{Aggregate, Batch};
use crate::model::context::{ALL, Kind};
use crate::model::pack::{self, ENTRY_VERSION};
use crate::model::records::{Record, RecordId, RecordKey};
use crate::model::round::partition;
use crate::model::slice::Precisions;
use crate::model::tier::{FINEST, TierSlice};
use crate::store::journal::{
    Acquired, Entries, Entry, FieldValues, Fields, FoldStep, Journal, Progress, Step,
};
use crate::store::table::Table;
use crate::store::{
    Append, Appended, AppendedCall, FencedBatch, Generation, NoQueries, NoUpkeep, Position,
    Readable, Sealed, Store,
};
use crate::task::{BoxFuture, Stop, lock};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const MIB: u64 = 1 << 20;
/// The time of the journal, in Unix seconds.
const NOW: i64 = 1_700_000_000;

/// What the journal answers.
#[derive(Clone, Copy, Debug, Default)]
enum Behaviour {
    /// The lease is free.
    #[default]
    Free,
    /// Another instance holds the lease.
    Held,
    /// The lease is lost as soon as it is acquired.
    Stolen,
    Failing(StoreErrorKind),
}

#[derive(Debug, PartialEq, Eq)]
enum Call {
    Acquire,
    Read,
    /// So many records of the finest tier.
    Load(usize),
    /// The end of the round, and the bytes that are missing in it.
    Fold(Option<u64>, u64),
    SetAside(u64),
    CloseHole,
    RemoveFences,
    Release,
    Readable,
}

#[derive(Clone, Copy, Debug)]
enum Incident {
    /// The step takes effect, and its answer is lost.
    LostAnswer,
    /// Another instance has replaced the version.
    Takeover,
}

/// A journal, and the store that has it.
#[derive(Default)]
struct Scripted {
    precisions: Precisions,
    entries: Mutex<Vec<Entry>>,
    /// Entries of one read; 0 for all.
    entries_per_read: usize,
    /// Whether a context has records in every slice.
    is_recorded: bool,
    /// The newest entry, if that is gone.
    head: Option<Position>,
    progress: Mutex<Progress>,
    /// The number of records of each step.
    records: Mutex<Vec<usize>>,
    /// Slices whose records may expire.
    released: Mutex<Vec<i64>>,
    /// The partitions of each step.
    partitions: Mutex<Vec<Vec<usize>>>,
    /// Steps that fail, and how.
    failing_steps: Mutex<VecDeque<StoreErrorKind>>,
    /// What happens to the next step.
    incident: Mutex<Option<Incident>>,
    behaviour: Mutex<Behaviour>,
    /// What the next questions whether a call is readable are answered, last one first.
    readable: Mutex<Vec<Readable>>,
    calls: Mutex<Vec<(Instant, Call)>>,
}

fn at(offset: u64) -> Position {
    Position { offset, chain: 0 }
}

/// A call that ends at `offset`.
fn call(offset: u64) -> AppendedCall {
    AppendedCall {
        generation: "generation".to_owned(),
        instance: "instance".to_owned(),
        seq: 1,
        position: at(offset),
    }
}

/// An entry that ends at `offset`, with a request of each of these contexts at this time.
fn entry(offset: u64, contexts: &[&str], stamp: i64) -> Entry {
    let mut batch = Batch::new(Precisions::default());
    let mut one = Aggregate::default();
    one.times.record(1_000);
    for context in contexts {
        batch.add(&(*context).into(), Kind::Http, stamp, &one);
    }
    Entry {
        position: at(offset),
        stamp,
        version: u64::from(ENTRY_VERSION),
        requests: contexts.len() as u64,
        payload: pack::entry(&batch),
    }
}

/// An entry that no version can read.
fn garbled(offset: u64) -> Entry {
    Entry {
        payload: b"garbage".to_vec(),
        ..entry(offset, &[], NOW)
    }
}

impl Scripted {
    fn set(&self, behaviour: Behaviour) {
        *lock(&self.behaviour) = behaviour;
    }

    /// Notes a call, and answers it unless all calls fail.
    fn answer<'a, T: Send + 'a>(
        &self,
        call: Call,
        value: T,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        lock(&self.calls).push((Instant::now(), call));
        let answer = match *lock(&self.behaviour) {
            Behaviour::Failing(kind) => Err(StoreError::new(kind, "the journal fails")),
            _ => Ok(value),
        };
        Box::pin(std::future::ready(answer))
    }

    /// The calls that are no reads, without their times.
    fn changes(&self) -> Vec<Call> {
        let mut calls = lock(&self.calls);
        let calls = calls.drain(..).map(|(_, call)| call);
        calls
            .filter(|call| !matches!(call, Call::Acquire | Call::Read | Call::Load(_)))
            .collect()
    }

    /// The times of the calls of one sort.
    fn times(&self, of: &Call) -> Vec<Instant> {
        let calls = lock(&self.calls);
        let times = calls.iter().filter(|(_, call)| call == of);
        times.map(|(at, _)| *at).collect()
    }

    /// The times between the calls of one sort.
    fn gaps(&self, of: &Call) -> Vec<Duration> {
        let times = self.times(of);
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

impl Journal for Scripted {
    fn acquire<'a>(
        &'a self,
        _: &'a str,
        version: &'a str,
    ) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        let mut progress = lock(&self.progress);
        version.clone_into(&mut progress.version);
        let acquired = match *lock(&self.behaviour) {
            Behaviour::Held => Acquired::Held,
            _ => Acquired::Mine(progress.clone()),
        };
        self.answer(Call::Acquire, acquired)
    }

    fn release<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.answer(Call::Release, ())
    }

    fn read<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        from: Position,
        bytes: u64,
    ) -> BoxFuture<'a, Result<Step<Entries>, StoreError>> {
        assert!(
            (MIB / 8..=MIB).contains(&bytes),
            "{bytes} bytes take a server too long, or too many reads"
        );
        let entries = lock(&self.entries);
        let upto = lock(&self.progress).upto;
        let left = entries.iter().filter(|entry| {
            entry.position > from && upto.is_none_or(|upto| entry.position <= upto)
        });
        let most = match self.entries_per_read {
            0 => usize::MAX,
            entries => entries,
        };
        let newest = entries.last().map(|entry| entry.position);
        let step = match *lock(&self.behaviour) {
            Behaviour::Stolen => Step::Stale("another".to_owned()),
            _ => Step::Done(Entries {
                head: self.head.or(newest).unwrap_or_default(),
                now: NOW,
                entries: left.take(most).cloned().collect(),
            }),
        };
        self.answer(Call::Read, step)
    }

    fn fold<'a>(&'a self, step: &'a FoldStep<'a>) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        let incident = lock(&self.incident).take();
        let mut progress = lock(&self.progress);
        if let Some(Incident::Takeover) = incident {
            "of another".clone_into(&mut progress.version);
        }
        if step.version != progress.version {
            let step = Step::Stale(progress.version.clone());
            return Box::pin(std::future::ready(Ok(step)));
        }
        let offset = step.upto.map(|upto| upto.offset);
        if let Some(kind) = lock(&self.failing_steps).pop_front() {
            lock(&self.calls).push((Instant::now(), Call::Fold(offset, step.hole_bytes)));
            let error = StoreError::new(kind, "the step fails");
            return Box::pin(std::future::ready(Err(error)));
        }
        lock(&self.partitions).push(step.partitions.to_vec());
        lock(&self.records).push(step.records.len());
        let mut released = lock(&self.released);
        released.extend(step.released.iter().map(|(_, start)| *start));
        drop(released);
        step.next.clone_into(&mut progress.version);
        if let (Some(upto), None) = (step.upto, step.done) {
            (progress.low, progress.upto) = (upto, None);
        }
        if let Some(Incident::LostAnswer) = incident {
            let error = StoreError::new(StoreErrorKind::TimedOut, "the answer is lost");
            return Box::pin(std::future::ready(Err(error)));
        }
        self.answer(Call::Fold(offset, step.hole_bytes), Step::Done(()))
    }

    fn recorded<'a>(
        &'a self,
        slices: &'a [TierSlice],
    ) -> BoxFuture<'a, Result<Vec<Vec<RecordId>>, StoreError>> {
        let ids: Vec<_> = (self.is_recorded.then(|| RecordId::new(Kind::Http, "GET /")))
            .into_iter()
            .collect();
        Box::pin(std::future::ready(Ok(vec![ids; slices.len()])))
    }

    fn load<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        keys: &'a [RecordKey],
    ) -> BoxFuture<'a, Result<Step<Vec<Record>>, StoreError>> {
        let empty = vec![Record::default(); keys.len()];
        let finest = keys.iter().filter(|(at, _)| at.0 == FINEST.seconds);
        self.answer(Call::Load(finest.count()), Step::Done(empty))
    }

    fn load_fields<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        fields: &'a [(Table, Vec<Vec<u8>>)],
    ) -> BoxFuture<'a, Result<Step<Vec<FieldValues>>, StoreError>> {
        let missing = |(_, fields): &(Table, Vec<Vec<u8>>)| vec![None; fields.len()];
        let values = fields.iter().map(missing).collect();
        Box::pin(std::future::ready(Ok(Step::Done(values))))
    }

    fn list_fields<'a>(&'a self, _: &'a Table) -> BoxFuture<'a, Result<Fields, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn count_fields<'a>(&'a self, _: &'a Table) -> BoxFuture<'a, Result<usize, StoreError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn set_aside<'a>(
        &'a self,
        _: &'a str,
        next: &'a str,
        entry: &'a Entry,
    ) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        let mut progress = lock(&self.progress);
        next.clone_into(&mut progress.version);
        progress.aside.push(entry.position);
        self.answer(Call::SetAside(entry.position.offset), Step::Done(()))
    }

    fn close_hole<'a>(
        &'a self,
        _: &'a str,
        next: &'a str,
    ) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        let mut progress = lock(&self.progress);
        next.clone_into(&mut progress.version);
        progress.low = self.head.unwrap_or_default();
        self.answer(Call::CloseHole, Step::Done(()))
    }

    fn remove_fences<'a>(&'a self, version: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        assert_eq!(version, lock(&self.progress).version);
        self.answer(Call::RemoveFences, 0)
    }
}

impl Sealed for Scripted {}

impl Append for Scripted {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn append<'a>(&'a self, _: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn readable<'a>(&'a self, _: &'a AppendedCall) -> BoxFuture<'a, Result<Readable, StoreError>> {
        let readable = lock(&self.readable).pop().expect("an answer is left");
        self.answer(Call::Readable, readable)
    }
}

impl NoUpkeep for Scripted {}

impl NoQueries for Scripted {}

impl Store for Scripted {
    fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    fn journal(&self) -> Option<&dyn Journal> {
        Some(self)
    }

    #[cfg(feature = "row-cache")]
    fn rows(&self) -> &dyn crate::store::rows::Rows {
        unreachable!("this store has no rows")
    }

    fn describe(&self) -> String {
        "a scripted journal".to_owned()
    }
}

/// A folder whose wall clock stands 150 ms after the turn of a second, so that it waits 500 ms between reads.
struct Folding {
    journal: Arc<Scripted>,
    unattended: Arc<Notify>,
    folder: Arc<Folder>,
}

impl Folding {
    fn new(behaviour: Behaviour) -> Self {
        let folding = Self::of(Scripted::default(), 100);
        folding.journal.set(behaviour);
        folding
    }

    /// Folds this journal and remembers up to `max_records` records.
    fn of(journal: Scripted, max_records: usize) -> Self {
        let (clock, manual_clock) = Clock::manual(NOW);
        manual_clock.advance(150 * MS);
        let (journal, unattended) = (Arc::new(journal), Arc::new(Notify::new()));
        let folder = Folder::new(
            journal.clone(),
            clock,
            "folder".to_owned(),
            max_records,
            unattended.clone(),
        );
        Self {
            journal,
            unattended,
            folder: Arc::new(folder),
        }
    }

    /// Folds these entries, read one by one.
    fn one_by_one(entries: Vec<Entry>) -> Self {
        let journal = Scripted {
            entries: Mutex::new(entries),
            entries_per_read: 1,
            ..Scripted::default()
        };
        Self::of(journal, 100)
    }

    async fn fold(&self) -> Attendance {
        self.folder.fold().await.expect("the journal answers")
    }

    /// Folds at intervals until the signal is sent.
    fn start(&self) -> Stop {
        let (stop, stopped) = Stop::new();
        tokio::spawn(self.folder.clone().fold_at_intervals(stopped));
        stop
    }
}

#[test]
fn the_journal_is_read_150_ms_after_each_turn_of_a_half_second() {
    for (now, wait) in [(0, 150), (149, 1), (150, 500), (400, 250), (700, 450)] {
        let (clock, manual_clock) = Clock::manual(NOW);
        manual_clock.advance(now * MS);
        let journal = Arc::new(Scripted::default());
        let folder = Folder::new(journal, clock, "folder".to_owned(), 1, Arc::default());
        assert_eq!(folder.until_next(), wait * MS, "at {now} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn the_folder_reads_at_intervals_and_removes_fences_every_hour() {
    let folding = Folding::new(Behaviour::Free);
    let stop = folding.start();
    // From now on no read is a multiple of the interval after the start.
    sleep(333 * MS).await;
    folding.unattended.notify_one();
    sleep(5 * HOUR / 2).await;
    let journal = &folding.journal;
    assert_eq!(journal.times(&Call::Acquire).len(), 1);
    let gaps = journal.gaps(&Call::Read);
    assert!(gaps.len() >= 2 * 9_000, "{}", gaps.len());
    assert!(gaps[1..].iter().all(|gap| *gap == 500 * MS));
    let removed = journal.times(&Call::RemoveFences);
    assert_eq!(removed.len(), 2);
    assert!(removed[0] - journal.times(&Call::Acquire)[0] >= HOUR);
    assert!(removed[1] - removed[0] >= HOUR);
    let reads = journal.times(&Call::Read).len();
    stop.stop();
    sleep(HOUR).await;
    assert_eq!(journal.times(&Call::Read).len(), reads);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_does_not_fold_tries_again_when_entries_wait() {
    let folding = Folding::new(Behaviour::Held);
    let _stop = folding.start();
    sleep(HOUR).await;
    assert_eq!(folding.journal.times(&Call::Acquire).len(), 1);
    folding.unattended.notify_one();
    sleep(HOUR).await;
    assert_eq!(folding.journal.times(&Call::Acquire).len(), 2);
    assert_eq!(folding.journal.times(&Call::Read).len(), 0);
    folding.journal.set(Behaviour::Free);
    folding.unattended.notify_one();
    sleep(600 * MS).await;
    assert_eq!(folding.journal.times(&Call::Read).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_denied_folder_tries_again_every_30_seconds() {
    let folding = Folding::new(Behaviour::Failing(StoreErrorKind::Forbidden));
    let _stop = folding.start();
    sleep(Duration::from_secs(100)).await;
    let gaps = folding.journal.gaps(&Call::Acquire);
    assert_eq!(gaps, [Duration::from_secs(30); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_folder_waits_longer_after_each_error_up_to_two_seconds() {
    let folding = Folding::new(Behaviour::Failing(StoreErrorKind::Unreachable));
    let _stop = folding.start();
    // Entries that wait do not make it any faster.
    for _ in 0..200 {
        folding.unattended.notify_one();
        sleep(500 * MS).await;
    }
    let gaps = folding.journal.gaps(&Call::Acquire);
    assert!(gaps.len() >= 50, "{}", gaps.len());
    for (number, gap) in gaps.into_iter().enumerate() {
        let longest = (200 * MS * 2u32.pow(number.min(8) as u32)).min(2_000 * MS);
        // Timers have a resolution of a millisecond.
        assert!(
            gap >= longest / 2 && gap <= longest + MS,
            "{gap:?} is the gap {number}"
        );
    }
    assert!(folding.folder.status().last_error.is_some());
    folding.journal.set(Behaviour::Free);
    sleep(2_001 * MS).await;
    assert_eq!(folding.folder.status().last_error, None);
    assert!(folding.folder.status().is_folder);
}

#[tokio::test]
async fn a_folder_gives_up_when_it_loses_the_lease_three_times() {
    let folding = Folding::new(Behaviour::Stolen);
    assert_eq!(folding.folder.fold().await.ok(), Some(Attendance::Others));
    assert_eq!(folding.journal.times(&Call::Acquire).len(), 3);
    assert!(!folding.folder.status().is_folder);
}

#[tokio::test]
async fn the_lease_is_released_once() {
    let folding = Folding::new(Behaviour::Free);
    folding
        .folder
        .release()
        .await
        .expect("there is nothing to release");
    assert_eq!(folding.journal.times(&Call::Release).len(), 0);
    assert_eq!(folding.folder.fold().await.ok(), Some(Attendance::Mine));
    for _ in 0..2 {
        folding.folder.release().await.expect("the journal answers");
        assert_eq!(folding.journal.times(&Call::Release).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_waited_for_until_it_can_be_read_or_is_lost() {
    let folding = Folding::new(Behaviour::Held);
    for (last, is_readable) in [(Readable::Yes, true), (Readable::Lost, false)] {
        let mut answers = vec![last];
        answers.extend([Readable::NotYet; 7]);
        *lock(&folding.journal.readable) = answers;
        lock(&folding.journal.calls).clear();
        let readable = folding.folder.until_readable(&call(7)).await;
        assert_eq!(readable.ok(), Some(is_readable));
        let gaps = folding.journal.gaps(&Call::Readable);
        assert_eq!(
            gaps,
            [5, 10, 20, 40, 80, 100, 100].map(|millis| millis * MS)
        );
        // It would fold, if no other instance did.
        assert_eq!(folding.journal.times(&Call::Acquire).len(), 8);
    }
}

#[tokio::test]
async fn a_round_has_all_entries_that_there_are() {
    let entries = [1_000, 2_000, 3_000].map(|offset| entry(offset, &["GET /"], NOW));
    let missing = |entries: &[Entry]| {
        3_000
            - entries
                .iter()
                .map(|e| e.payload.len() as u64 + 1)
                .sum::<u64>()
    };
    for entries_per_read in [0, 1] {
        let journal = Scripted {
            entries: Mutex::new(entries.to_vec()),
            entries_per_read,
            ..Scripted::default()
        };
        let folding = Folding::of(journal, 100);
        assert_eq!(folding.fold().await, Attendance::Mine);
        let reads = folding.journal.times(&Call::Read).len();
        assert_eq!(reads, if entries_per_read == 0 { 1 } else { 3 });
        assert_eq!(
            folding.journal.changes(),
            [Call::Fold(Some(3_000), missing(&entries))]
        );
    }
}

#[tokio::test]
async fn a_round_ends_at_32_mib() {
    let offsets = [10, 26, 42, 43].map(|mib| mib * MIB);
    let folding = Folding::one_by_one(offsets.map(|offset| entry(offset, &["GET /"], NOW)).into());
    lock(&folding.journal.progress).low = at(10 * MIB);
    assert_eq!(folding.fold().await, Attendance::Mine);
    let rounds = folding
        .journal
        .changes()
        .into_iter()
        .map(|call| match call {
            Call::Fold(upto, _) => upto,
            other => panic!("{other:?}"),
        });
    assert!(rounds.eq([Some(42 * MIB), Some(43 * MIB)]));
}

#[tokio::test]
async fn bytes_that_are_missing_before_and_after_an_entry_are_counted() {
    let only = entry(600, &["GET /"], NOW);
    let length = only.payload.len() as u64 + 1;
    let folding = Folding::one_by_one(vec![only]);
    lock(&folding.journal.progress).upto = Some(at(1_000));
    assert_eq!(folding.fold().await, Attendance::Mine);
    assert_eq!(
        folding.journal.changes()[0],
        Call::Fold(Some(1_000), 1_000 - length)
    );
}

#[tokio::test]
async fn a_journal_whose_last_entries_are_gone_goes_on_behind_them() {
    let journal = Scripted {
        head: Some(at(500)),
        ..Scripted::default()
    };
    let folding = Folding::of(journal, 100);
    assert_eq!(folding.fold().await, Attendance::Mine);
    assert_eq!(
        folding.journal.changes(),
        [Call::CloseHole, Call::Fold(None, 0)]
    );
    assert_eq!(lock(&folding.journal.progress).low, at(500));
}

#[tokio::test]
async fn entries_before_a_garbled_one_are_folded_first() {
    let (first, last) = (entry(100, &["GET /"], NOW), entry(300, &["GET /"], NOW));
    let folding = Folding::one_by_one(vec![first.clone(), garbled(200), last.clone()]);
    assert_eq!(folding.fold().await, Attendance::Mine);
    let changes = folding.journal.changes();
    let order: Vec<_> = changes
        .iter()
        .map(|call| match call {
            Call::Fold(upto, _) => *upto,
            Call::SetAside(offset) => Some(*offset),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(order, [Some(100), Some(200), Some(300)]);
    assert_eq!(changes[1], Call::SetAside(200));

    // A round that was begun has them together.
    let folding = Folding::one_by_one(vec![first, garbled(200), last]);
    lock(&folding.journal.progress).upto = Some(at(300));
    assert_eq!(folding.fold().await, Attendance::Mine);
    assert_eq!(folding.journal.changes()[0], Call::SetAside(200));
}

#[tokio::test]
async fn an_entry_of_a_newer_version_waits_behind_those_that_can_be_folded() {
    let newer = |stamp| Entry {
        version: u64::from(ENTRY_VERSION) + 1,
        ..entry(200, &["GET /"], stamp)
    };
    let first = entry(100, &["GET /"], NOW);
    let folding = Folding::one_by_one(vec![first.clone(), newer(NOW - 599)]);
    assert_eq!(folding.fold().await, Attendance::Others);
    assert_eq!(folding.journal.times(&Call::Read).len(), 3);
    let changes = folding.journal.changes();
    assert!(
        matches!(changes[..], [Call::Fold(Some(100), _), Call::Release]),
        "{changes:?}"
    );

    let folding = Folding::one_by_one(vec![first, newer(NOW - 600)]);
    assert_eq!(folding.fold().await, Attendance::Mine);
    let changes = folding.journal.changes();
    assert!(
        matches!(
            changes[..],
            [
                Call::Fold(Some(100), _),
                Call::SetAside(200),
                Call::Fold(Some(200), _)
            ]
        ),
        "{changes:?}"
    );
}

#[tokio::test]
async fn late_samples_are_added_once_with_the_partition_of_all() {
    let mut late = entry(100, &[], NOW);
    let mut batch = Batch::new(Precisions::new([60], 120));
    batch.late = 3;
    late.payload = pack::entry(&batch);
    let (one, all) = (partition("GET /"), partition(ALL));
    for (entries, is_all_done, partitions) in [
        (vec![late.clone()], false, vec![all]),
        (vec![late], true, vec![]),
        (vec![entry(100, &["GET /"], NOW)], false, vec![one]),
    ] {
        let folding = Folding::one_by_one(entries);
        if is_all_done {
            let mut progress = lock(&folding.journal.progress);
            progress.upto = Some(at(100));
            progress.done.insert(all);
        }
        assert_eq!(folding.fold().await, Attendance::Mine);
        assert_eq!(lock(&folding.journal.partitions)[0], partitions);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_without_an_answer_is_sent_three_times() {
    use StoreErrorKind::{Refused, TimedOut, Unreachable};
    for (failures, sent, result) in [
        (vec![TimedOut, Unreachable], 3, None),
        (vec![TimedOut; 3], 3, Some(TimedOut)),
        (vec![Refused], 1, Some(Refused)),
    ] {
        let folding = Folding::one_by_one(vec![entry(100, &["GET /"], NOW)]);
        *lock(&folding.journal.failing_steps) = failures.into();
        let error = folding.folder.fold().await.err().map(|error| error.kind());
        assert_eq!(error, result);
        assert_eq!(folding.journal.changes().len(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn the_version_tells_whether_a_step_without_an_answer_took_effect() {
    for (incident, acquisitions) in [(Incident::LostAnswer, 1), (Incident::Takeover, 2)] {
        let folding = Folding::one_by_one(vec![entry(100, &["GET /"], NOW)]);
        *lock(&folding.journal.incident) = Some(incident);
        assert_eq!(folding.fold().await, Attendance::Mine);
        assert_eq!(folding.journal.times(&Call::Acquire).len(), acquisitions);
        assert_eq!(lock(&folding.journal.progress).low, at(100));

        // The next step only trims.
        let folding = Folding::one_by_one(vec![entry(100, &["GET /"], NOW)]);
        assert_eq!(folding.fold().await, Attendance::Mine);
        *lock(&folding.journal.incident) = Some(incident);
        assert_eq!(folding.fold().await, Attendance::Mine);
        assert_eq!(folding.journal.times(&Call::Acquire).len(), acquisitions);
    }
}

#[tokio::test]
async fn a_round_leaves_up_to_64_entries_to_be_trimmed_later() {
    for (entries, trims) in [(128, 0), (129, 1), (193, 2)] {
        let entries = (1..=entries).map(|number| entry(1_000 * number, &["GET /"], NOW));
        let journal = Scripted {
            entries: Mutex::new(entries.collect()),
            ..Scripted::default()
        };
        let folding = Folding::of(journal, 100);
        assert_eq!(folding.fold().await, Attendance::Mine);
        assert_eq!(folding.journal.times(&Call::Acquire).len(), 1);
        assert_eq!(folding.journal.times(&Call::Fold(None, 0)).len(), trims);
    }
}

#[tokio::test]
async fn counters_are_folded_in_steps_too() {
    let mut batch = Batch::new(Precisions::default());
    for number in 0..1_000 {
        let name = format!("counter {number}").into();
        batch.count(&name, NOW, 1);
    }
    let mut counters = entry(10_000, &[], NOW);
    counters.payload = pack::entry(&batch);
    let folding = Folding::one_by_one(vec![counters]);
    assert_eq!(folding.fold().await, Attendance::Mine);
    let steps = lock(&folding.journal.partitions).len();
    // Seven slices each.
    assert!((15..30).contains(&steps), "{steps}");
}

#[tokio::test]
async fn only_slices_that_are_rolled_up_may_expire() {
    let journal = Scripted {
        is_recorded: true,
        ..Scripted::default()
    };
    lock(&journal.entries).push(entry(100, &["GET /"], NOW));
    let folding = Folding::of(journal, 100);
    assert_eq!(folding.fold().await, Attendance::Mine);
    let released = lock(&folding.journal.released);
    assert_eq!(released.len(), 129);
    // Clocks may be ahead, so there may be later slices too.
    let newest = released.iter().max();
    assert_eq!(newest, Some(&(FINEST.slice(NOW) - 60)));
}

#[tokio::test]
async fn records_of_the_newest_minutes_are_remembered_unless_there_are_too_many() {
    for (max_records, loaded) in [(1, 2), (2, 0)] {
        let folding = Folding::of(Scripted::default(), max_records);
        for (offset, loaded) in [(1_000, 2), (2_000, loaded)] {
            let entry = entry(offset, &["GET /", "GET /a"], NOW);
            lock(&folding.journal.entries).push(entry);
            assert_eq!(folding.fold().await, Attendance::Mine);
            let loads = folding.journal.times(&Call::Load(2)).len();
            assert_eq!(2 * loads, loaded, "{max_records} records");
            folding.journal.changes();
        }
    }
    let folding = Folding::of(Scripted::default(), 100);
    // The first minute is forgotten when the third one comes.
    for (number, (minute, loads)) in (1..).zip([(0, 1), (1, 1), (0, 0), (2, 1), (1, 0), (0, 1)]) {
        let entry = entry(1_000 * number, &["GET /"], NOW + 60 * minute);
        lock(&folding.journal.entries).push(entry);
        assert_eq!(folding.fold().await, Attendance::Mine);
        assert_eq!(
            folding.journal.times(&Call::Load(1)).len(),
            loads,
            "entry {number}"
        );
        folding.journal.changes();
    }
}

#[tokio::test]
async fn an_instance_that_waits_for_its_call_folds_it() {
    let folding = Folding::one_by_one(vec![entry(100, &["GET /"], NOW)]);
    let readable = async |position| {
        lock(&folding.journal.readable).push(Readable::Yes);
        let readable = folding.folder.until_readable(&call(position)).await;
        assert_eq!(readable.ok(), Some(true));
        folding.journal.times(&Call::Read).len()
    };
    assert_eq!(readable(100).await, 1);
    assert_eq!(lock(&folding.journal.progress).low, at(100));
    assert_eq!(readable(100).await, 1, "it is folded already");
    lock(&folding.journal.entries).push(entry(200, &["GET /"], NOW));
    assert_eq!(readable(200).await, 2);
}

#[tokio::test]
async fn steps_cover_a_few_contexts_and_grow_while_the_server_is_fast() {
    let names: Vec<_> = (0..1_000).map(|number| format!("GET /{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    // The contexts of each step of the first round, and of the last one.
    let contexts_of_steps = async |step| {
        let journal = Arc::new(Scripted::default());
        let (clock, _) = Clock::manual(NOW);
        let instance = "folder".to_owned();
        let folder = Folder::new(journal.clone(), clock, instance, 1, Arc::default());
        let folder = folder.with_step(step);
        let mut rounds = Vec::new();
        for number in 1..=4 {
            lock(&journal.entries).push(entry(100_000 * number, &names, NOW));
            assert!(folder.fold().await.is_ok());
            rounds.push(std::mem::take(&mut *lock(&journal.records)));
        }
        (rounds.swap_remove(0), rounds.pop().unwrap_or_default())
    };
    let (first, last) = contexts_of_steps(None).await;
    assert!((16..=24).contains(&first[0]), "{first:?}");
    assert!(first.len() > 1_000 / 24, "{first:?}");
    let largest = last.into_iter().max();
    let largest = largest.filter(|contexts| (32..=160).contains(contexts));
    assert!(largest.is_some(), "{largest:?}");
    let (first, last) = contexts_of_steps(Some(8)).await;
    assert!(first.len() < 200, "{first:?}");
    // About four contexts share a partition, which is not divided.
    for contexts in first.into_iter().chain(last) {
        assert!((1..=16).contains(&contexts), "{contexts}");
    }
}
