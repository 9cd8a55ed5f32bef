//! Tests of a folder with a scripted journal. tests/journal tests the data that a folder writes, on a real server.

mod readable;
mod records;
mod round;
mod schedule;
mod steps;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{FoldLimits, Folder, Leader};
use crate::clock::{Clock, ManualClock};
use crate::store::journal::Entry;
use crate::store::tests::{Behaviour, Call, Incident, MIB, MS, NOW, Scripted, at};
use crate::task::{Stop, lock};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::entry::{ENTRY_VERSION, pack as pack_batch};

const HOUR: Duration = Duration::from_secs(3_600);

/// An entry that ends at `offset`, with a request of each context at `appended_at`.
fn entry(offset: u64, contexts: &[&str], appended_at: i64) -> Entry {
    let mut batch = Batch::default();
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

    /// Takes the recorded calls, and returns those that change the journal, without their times.
    fn take_writes(&self) -> Vec<Call> {
        let mut calls = lock(&self.calls);
        let is_read = |call: &Call| matches!(call, Call::Acquire | Call::Read | Call::Load(_));
        let calls = calls.drain(..).map(|(_, call)| call);
        calls.filter(|call| !is_read(call)).collect()
    }

    fn times(&self, wanted: &Call) -> Vec<Instant> {
        let calls = lock(&self.calls);
        let times = calls.iter().filter(|(_, call)| call == wanted);
        times.map(|(at, _)| *at).collect()
    }

    fn count(&self, wanted: &Call) -> usize {
        self.times(wanted).len()
    }

    fn gaps(&self, wanted: &Call) -> Vec<Duration> {
        let times = self.times(wanted);
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

/// No limits, except of the remembered records.
fn remembering(records: usize) -> FoldLimits {
    FoldLimits {
        records,
        profiles: usize::MAX,
        history_days: None,
        step_contexts: None,
    }
}

/// A folder of a scripted journal. The folder reads 150 ms after each half second of its clock. The manual clock begins
/// at such a moment and stands still, so each wait takes 500 ms.
struct Folding {
    journal: Arc<Scripted>,
    leaderless: Arc<Notify>,
    folder: Arc<Folder>,
    clock: ManualClock,
}

impl Folding {
    fn new(behaviour: Behaviour) -> Self {
        let folding = Self::of(Scripted::default(), remembering(100));
        folding.journal.set(behaviour);
        folding
    }

    fn of(journal: Scripted, limits: FoldLimits) -> Self {
        let (clock, manual_clock) = Clock::manual(NOW);
        manual_clock.advance(150 * MS);
        let (journal, leaderless) = (Arc::new(journal), Arc::new(Notify::new()));
        let (store, name) = (journal.clone(), "folder".to_owned());
        let folder = Folder::new(store, clock, name, limits, leaderless.clone());
        Self {
            journal,
            leaderless,
            folder: Arc::new(folder),
            clock: manual_clock,
        }
    }

    fn one_by_one(entries: Vec<Entry>) -> Self {
        let journal = Scripted {
            entries_per_read: Some(1),
            ..Scripted::of(entries)
        };
        Self::of(journal, remembering(100))
    }

    async fn fold(&self) -> Leader {
        self.folder.fold().await.expect("the journal answers")
    }

    async fn fold_next(&self, entry: Entry) {
        lock(&self.journal.entries).push(entry);
        assert_eq!(self.fold().await, Leader::This);
    }

    fn start(&self) -> Stop {
        let (stop, stopped) = Stop::new();
        let folding = self.folder.clone().fold_at_intervals(stopped.admission());
        tokio::spawn(stopped.run(Box::pin(folding)));
        stop
    }
}
