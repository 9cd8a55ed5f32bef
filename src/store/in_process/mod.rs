//! Stores whose instances are all in one process: in memory, or in a file. [`State`] is what both know, over the
//! fields of their tables, which each keeps in its own way. [`InProcess`] makes a store of it.
//!
//! `journal` takes calls in and applies the steps of folding to the `tables` and the `counters`; `table_reads` reads the
//! tables, `fleet` tells who is alive, `clean` removes old data. `rows` are cached rows, which stay in memory.

mod clean;
mod counters;
mod entered;
pub(crate) mod fields;
mod fleet;
mod heartbeats;
#[cfg(any(test, feature = "__test_store"))]
mod inspected;
mod journal;
mod memory_fields;
#[cfg(feature = "row-cache")]
pub(crate) mod rows;
mod state;
mod store;
mod table_reads;
mod tables;

use std::future::Future;

use tokio::sync::Mutex as AsyncMutex;

#[cfg(feature = "file")]
pub(crate) use self::counters::Counters;
#[cfg(feature = "file")]
pub(crate) use self::entered::{Entered, Fence};
pub(crate) use self::fields::Fields;
#[cfg(feature = "file")]
pub(crate) use self::fields::{Extent, FieldChange, Show};
#[cfg(feature = "file")]
pub(crate) use self::heartbeats::Heartbeats;
#[cfg(any(test, feature = "__test_store"))]
pub use self::inspected::{Inspect, Inspected};
pub(crate) use self::memory_fields::MemoryFields;
#[cfg(feature = "row-cache")]
use self::rows::RowCaches;
pub use self::state::State;
pub(crate) use self::tables::Bound;
#[cfg(feature = "file")]
pub(crate) use self::tables::Tables;
use super::sealed::Sealed;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::model::slice::Precisions;

/// The most bytes of entries that are not folded, unless a test sets others. A flush folds what it has appended, so that
/// there are no more than it had to append, and what flushes have left that were dropped half-way.
const JOURNAL_BYTES: u64 = 64 * 1024 * 1024;

/// What a store in one process is given when it is opened.
#[derive(Debug)]
pub struct Setup {
    pub(crate) precisions: Precisions,
    pub(crate) clock: Clock,
    /// The most bytes of the journal.
    pub(crate) journal_bytes: u64,
    /// Whether each context has counters of its own.
    pub(crate) has_context_counters: bool,
    /// Held by the instance that folds.
    turn: AsyncMutex<()>,
    #[cfg(feature = "row-cache")]
    rows: RowCaches,
}

impl Setup {
    pub(crate) fn new(precisions: Precisions, clock: Clock) -> Self {
        Self {
            precisions,
            journal_bytes: JOURNAL_BYTES,
            has_context_counters: true,
            turn: AsyncMutex::default(),
            #[cfg(feature = "row-cache")]
            rows: RowCaches::new(clock.clone()),
            clock,
        }
    }
}

/// What work does to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it, or changes only what ends with the process.
    Read,
    /// Changes what a file keeps.
    Write,
}

/// A store in one process. All that a store answers is made of its state.
pub trait InProcess: Sealed + Send + Sync + 'static {
    /// The fields of its tables.
    type Fields: Fields;

    /// What it was opened with.
    fn setup(&self) -> &Setup;

    /// Its kind and its place in a few words.
    fn place(&self) -> String;

    /// Works on the state, alone.
    ///
    /// # Cancel safety
    /// The work of a future that is dropped may be done.
    fn with<R: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut State<Self::Fields>) -> Result<R, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<R, StoreError>> + Send;

    /// Makes durable what was done before.
    fn make_durable(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Warnings for the operator.
    fn trouble(&self) -> Vec<String> {
        Vec::new()
    }
}
