//! When a folder acquires the lease, reads and gives up, with a scripted journal in paused time. What it writes
//! is tested on a real server, by tests/journal.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{Attendance, Folder};
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::model::batch::Aggregate;
use crate::model::records::{Record, RecordId, RecordKey};
use crate::model::snapshot::{ContextSnapshot, Snapshot};
use crate::model::tier::TierSlice;
use crate::store::journal::{Acquired, Entries, Entry, FoldStep, Journal, Progress, Step};
use crate::store::{
    Appended, CleanReport, FencedBatch, Generation, Heartbeat, Pass, PassRecord, Position,
    Readable, Store, StoreStatus,
};
use crate::task::{BoxFuture, Stop, lock};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// What the journal answers.
#[derive(Clone, Copy, Debug, Default)]
enum Behaviour {
    /// The lease is free, and the journal is empty.
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
    RemoveFences,
    Release,
    Readable,
}

/// An empty journal, and the store that has it.
#[derive(Default)]
struct Scripted {
    behaviour: Mutex<Behaviour>,
    /// What the next questions whether a call is readable are answered, last one first.
    readable: Mutex<Vec<Readable>>,
    calls: Mutex<Vec<(Instant, Call)>>,
    /// The version of the state.
    version: Mutex<String>,
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
        version.clone_into(&mut lock(&self.version));
        let acquired = match *lock(&self.behaviour) {
            Behaviour::Held => Acquired::Held,
            _ => Acquired::Mine(Progress {
                version: version.to_owned(),
                ..Progress::default()
            }),
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
        _: Position,
        _: u64,
    ) -> BoxFuture<'a, Result<Step<Entries>, StoreError>> {
        let step = match *lock(&self.behaviour) {
            Behaviour::Stolen => Step::Stale("another".to_owned()),
            _ => Step::Done(Entries {
                head: Position::default(),
                now: 0,
                entries: Vec::new(),
            }),
        };
        self.answer(Call::Read, step)
    }

    fn fold<'a>(&'a self, step: &'a FoldStep<'a>) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        assert_eq!(step.version, *lock(&self.version));
        step.next.clone_into(&mut lock(&self.version));
        Box::pin(std::future::ready(Ok(Step::Done(()))))
    }

    fn remove_fences<'a>(&'a self, version: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        assert_eq!(version, *lock(&self.version));
        self.answer(Call::RemoveFences, 0)
    }

    fn recorded<'a>(
        &'a self,
        _: &'a [TierSlice],
    ) -> BoxFuture<'a, Result<Vec<Vec<RecordId>>, StoreError>> {
        unreachable!("the journal is empty")
    }

    fn load<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a [RecordKey],
    ) -> BoxFuture<'a, Result<Step<Vec<Record>>, StoreError>> {
        unreachable!("the journal is empty")
    }

    fn set_aside<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a Entry,
    ) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        unreachable!("the journal is empty")
    }

    fn close_hole<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Step<()>, StoreError>> {
        unreachable!("the journal is empty")
    }
}

impl Store for Scripted {
    fn journal(&self) -> Option<&dyn Journal> {
        Some(self)
    }

    fn readable<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: u64,
        _: Position,
    ) -> BoxFuture<'a, Result<Readable, StoreError>> {
        let readable = lock(&self.readable).pop().expect("an answer is left");
        self.answer(Call::Readable, readable)
    }

    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn append<'a>(&'a self, _: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn status(&self, _: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn heartbeat<'a>(&'a self, _: &'a Heartbeat) -> BoxFuture<'a, Result<(), StoreError>> {
        unreachable!("a folder only folds")
    }

    fn deregister<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        unreachable!("a folder only folds")
    }

    fn snapshot(&self, _: i64) -> BoxFuture<'_, Result<Snapshot, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn context<'a>(
        &'a self,
        _: &'a str,
        _: i64,
    ) -> BoxFuture<'a, Result<Option<ContextSnapshot>, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn counter<'a>(
        &'a self,
        _: &'a str,
        _: u32,
    ) -> BoxFuture<'a, Result<Vec<(i64, i64)>, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn records<'a>(
        &'a self,
        _: &'a str,
        _: u32,
        _: i64,
    ) -> BoxFuture<'a, Result<Vec<(i64, Aggregate)>, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn slowest(&self) -> BoxFuture<'_, Result<Vec<(String, f64)>, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn clean<'a>(&'a self, _: &'a Pass) -> BoxFuture<'a, Result<Option<CleanReport>, StoreError>> {
        unreachable!("a folder only folds")
    }

    fn last_pass(&self) -> BoxFuture<'_, Result<Option<PassRecord>, StoreError>> {
        unreachable!("a folder only folds")
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
        let (clock, manual_clock) = Clock::manual(1_700_000_000);
        manual_clock.advance(150 * MS);
        let (journal, unattended) = (Arc::new(Scripted::default()), Arc::new(Notify::new()));
        journal.set(behaviour);
        let folder = Folder::new(
            journal.clone(),
            clock,
            "folder".to_owned(),
            100,
            unattended.clone(),
        );
        Self {
            journal,
            unattended,
            folder: Arc::new(folder),
        }
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
        let (clock, manual_clock) = Clock::manual(1_700_000_000);
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
    sleep(5 * HOUR / 2 + 100 * MS).await;
    let journal = &folding.journal;
    assert_eq!(journal.times(&Call::Acquire).len(), 1);
    assert!(journal.gaps(&Call::Read).iter().all(|gap| *gap == 500 * MS));
    assert_eq!(journal.times(&Call::Read).len(), 2 * 9_000 + 1);
    let removed = journal.times(&Call::RemoveFences);
    assert_eq!(removed.len(), 2);
    assert!(removed[0] - journal.times(&Call::Acquire)[0] >= HOUR);
    assert!(removed[1] - removed[0] >= HOUR);
    stop.stop();
    sleep(HOUR).await;
    assert_eq!(journal.times(&Call::Read).len(), 2 * 9_000 + 1);
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
        let position = Position {
            offset: 7,
            chain: 0,
        };
        let readable = folding.folder.until_readable("g", "i", 1, position).await;
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
