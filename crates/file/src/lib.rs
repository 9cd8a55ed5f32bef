//! The store in one file of this machine: recorded data survives a restart, without a server. This crate uses redb and
//! the store's traits in `tower-pulse-core`, but neither Redis nor the recorder, the API or the dashboard.
//!
//! This crate is internal to tower-pulse and changes without notice: depend on `tower-pulse`.
//!
//! Disks can be slow, so a separate thread works on the file (`worker`). The thread commits its one open transaction
//! from time to time, which makes all changes so far durable. After a failure, the thread opens the file again in the
//! state of the last commit. The instances then send all calls since this commit again, as after a failover of a
//! server. The thread also checks whether the file is still at its path (`worker::path`).

// `disk` is the file, `fields` its tables, and `kept` the other data. `trouble` says why a file cannot be used.

mod disk;
mod fields;
mod kept;
mod options;
mod trouble;
mod worker;

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

pub use self::disk::FileIo;
pub use self::options::{DURABLE_EVERY, FILE_BYTES, FileOptions};
use self::worker::Worker;
use tower_pulse_core::error::{BuildError, Result, StoreError, StoreErrorKind};
use tower_pulse_core::store::in_process::{Executor, InProcessStore, StateAccess, Work};
use tower_pulse_core::task::lock;

/// The most calls that wait for the file's thread.
const MAX_WAITING: usize = 1_000;

/// Opens stores in a file, which only one process can hold at a time.
///
/// Dropping the store makes the file durable and closes it a moment later. `Pulse::shutdown` waits until the file is
/// durable.
#[non_exhaustive]
pub struct FileStore;

/// A handle to the file's thread, which ends when the last handle is dropped.
struct Thread {
    path: Arc<Path>,
    requests: Sender<(StateAccess, Work)>,
    /// Each waiting call holds a clone.
    waiting: Arc<()>,
    report: Arc<Report>,
}

/// The status of the file, as the thread reports it.
#[derive(Default)]
struct Report {
    /// Why the file cannot be written at present.
    trouble: Mutex<Option<String>>,
    /// A message about a store that moved, or must move, to another file.
    moved: Mutex<Option<String>>,
    /// Messages for the operator about a file that can be used.
    notes: Mutex<Vec<String>>,
    /// The number of the last durable call of each instance.
    durable: Mutex<HashMap<String, u64>>,
}

impl FileStore {
    /// Opens a file. If the file cannot be opened yet, recorded data waits in memory, and each call fails with the
    /// reason. The store tries again: each second while another process holds the file, else after 1, 2, 4 and 8 s,
    /// then every 16 s.
    ///
    /// # Errors
    /// The system cannot start a thread for the file.
    pub fn open(options: FileOptions) -> Result<InProcessStore, BuildError> {
        let (requests, receiver) = channel();
        let report = Arc::<Report>::default();
        let (precisions, clock) = (options.precisions.clone(), options.clock.clone());
        let path = options.path.clone();
        let worker = Worker::new(options, receiver, report.clone());
        let thread = std::thread::Builder::new().name("tower-pulse-file".to_owned());
        if let Err(error) = thread.spawn(move || worker.run()) {
            let allowed = format!("a file needs a thread, and the system has none: {error}");
            return Err(BuildError::new("file", path.display(), allowed).with_source(error));
        }
        let thread = Arc::new(Thread {
            path,
            requests,
            waiting: Arc::default(),
            report,
        });
        let mut store = InProcessStore::on_executor(precisions, clock, thread);
        store.has_context_counters = false;
        Ok(store)
    }
}

impl Executor for Thread {
    fn describe(&self) -> String {
        format!("file {}", self.path.display())
    }

    /// Sends work to the thread. Fails if too many calls wait, including this call.
    fn begin(&self, access: StateAccess, work: Work) -> Result<()> {
        let waiting = self.waiting.clone();
        if Arc::strong_count(&waiting) > 1 + MAX_WAITING {
            let message = format!("{} does not answer: its disk is slow", self.path.display());
            return Err(StoreError::new(StoreErrorKind::TimedOut, message));
        }
        let work: Work = Box::new(move |state| {
            drop(waiting);
            work(state);
        });
        // The thread runs until the store is dropped. If the thread has ended, the caller gets no answer.
        let _ = self.requests.send((access, work));
        Ok(())
    }

    fn durable_seq(&self, instance: &str) -> Option<u64> {
        let durable = lock(&self.report.durable);
        Some(durable.get(instance).copied().unwrap_or(0))
    }

    fn trouble(&self) -> Vec<String> {
        let trouble = lock(&self.report.trouble).clone();
        let moved = lock(&self.report.moved).clone();
        let notes = lock(&self.report.notes).clone();
        trouble.into_iter().chain(moved).chain(notes).collect()
    }
}
