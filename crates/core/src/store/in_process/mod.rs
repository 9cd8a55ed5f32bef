//! Stores whose instances are all in one process: in memory, or in a file. Both have a [`State`], but each stores the
//! fields of tables in its own way. [`InProcessStore`] implements the traits of a store.
//!
//! `journal` takes calls and applies the steps of folding to the `tables` and the `counters`; `table_reads` reads the
//! tables; `upkeep` tracks the living instances and removes old data.

mod counters;
mod entry_queue;
pub mod fields;
mod journal;
mod memory_fields;
mod state;
mod store;
mod table_reads;
mod tables;
mod upkeep;

use std::any::Any;
use std::sync::Arc;

use tokio::sync::{Mutex as AsyncMutex, oneshot};

pub use self::counters::Counters;
pub use self::entry_queue::{EntryQueue, Fence};
pub use self::fields::{Extent, FieldChange, Fields, Show};
pub use self::memory_fields::MemoryFields;
pub use self::state::{State, StoredState};
pub use self::tables::{Bound, Tables};
pub use self::upkeep::Heartbeats;
use crate::clock::Clock;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::task::boxed;
use tower_pulse_model::slice::Precisions;

/// The maximum bytes of entries that are not folded. Tests may set another maximum. The journal has few entries,
/// because each flush folds all entries. A flush whose future was dropped may leave entries to the next flush.
const JOURNAL_BYTES: u64 = 64 * 1024 * 1024;

/// How a piece of work accesses the state. A store in a file makes changes durable according to this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateAccess {
    /// Reads the state, or changes only the part that is lost at the end of the process.
    Read,
    /// Changes the part that a file stores.
    Write,
    /// Begins once all earlier work is durable.
    Durable,
}

/// The result of work on a state.
pub type WorkResult = Result<Box<dyn Any + Send>>;

/// A function that gets the state, or the error that made the state unavailable.
pub type Work = Box<dyn FnOnce(Result<&mut State>) + Send>;

/// Runs work on the state of a store, in memory or in a file.
pub trait Executor: Send + Sync {
    /// A description in a few words.
    fn describe(&self) -> String;

    /// Starts work with exclusive access to the state.
    ///
    /// # Errors
    /// The work is not done, because it cannot begin.
    fn begin(&self, access: StateAccess, work: Work) -> Result<()>;

    /// The number of an instance's last durable call, if calls become durable some time after they are appended.
    fn durable_seq(&self, _instance: &str) -> Option<u64> {
        None
    }

    /// Warnings for the operator.
    fn trouble(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The common part of all stores in one process. All answers come from the state.
pub struct InProcessStore {
    precisions: Precisions,
    clock: Clock,
    executor: Arc<dyn Executor>,
    /// The maximum bytes of the journal.
    pub journal_bytes: u64,
    /// Whether each context has counters of its own.
    pub has_context_counters: bool,
    /// Locked by the instance that folds.
    fold_mutex: AsyncMutex<()>,
}

impl InProcessStore {
    /// A store whose work `executor` runs.
    pub fn on_executor(precisions: Precisions, clock: Clock, executor: Arc<dyn Executor>) -> Self {
        Self {
            precisions,
            executor,
            journal_bytes: JOURNAL_BYTES,
            has_context_counters: true,
            fold_mutex: AsyncMutex::default(),
            clock,
        }
    }

    /// The clock's time, in Unix seconds.
    pub fn now(&self) -> i64 {
        self.clock.now_seconds()
    }

    /// Works on the state with exclusive access to it.
    ///
    /// # Cancel safety
    /// The work may be done even if the future is dropped.
    pub async fn with<R: Send + 'static>(
        &self,
        access: StateAccess,
        work: impl FnOnce(&mut State) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let work = |state: &mut State| Ok(Box::new(work(state)?) as Box<dyn Any + Send>);
        let found = boxed(self.run(access, Box::new(work))).await?.downcast();
        // The downcast succeeds, because the answer has the type of the work's result.
        found.map(|found| *found).map_err(|_| self.panicked_error())
    }

    async fn run(
        &self,
        access: StateAccess,
        work: Box<dyn FnOnce(&mut State) -> WorkResult + Send>,
    ) -> WorkResult {
        let (answer, answered) = oneshot::channel();
        let work = move |state: Result<&mut State>| {
            // If the caller has dropped the future before, the work is skipped.
            if !answer.is_closed() {
                let _ = answer.send(state.and_then(work));
            }
        };
        self.executor.begin(access, Box::new(work))?;
        answered
            .await
            .unwrap_or_else(|_| Err(self.panicked_error()))
    }

    /// The error of work that gave no result, because it panicked.
    fn panicked_error(&self) -> StoreError {
        let message = format!(
            "the store in the {} failed by a bug; the log says where",
            self.executor.describe()
        );
        StoreError::new(StoreErrorKind::Unreachable, message)
    }
}
