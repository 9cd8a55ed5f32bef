//! Storage of aggregates: the trait [`Store`], and three stores that behave alike. [`memory`] is the embedded
//! default; the store in `file` survives a restart; the store in `redis` is shared by a fleet.
//!
//! [`Builder`](crate::Builder) opens the store that it is configured for. Open one here to share it among
//! several of them by [`Builder::store`](crate::Builder::store), or to read it without recording anything.

// All instances append to the `journal`, and one of them at a time folds it into tables. `memory` is the shortest store.
// Read this file, then `append`, `journal`, `table`, `table_reads`, `query` with `read/` and `upkeep`, then `in_process/`
// with `memory` and `file/`, and `redis/`.

#[doc(hidden)]
pub mod additions;
mod answer;
mod append;
#[doc(hidden)]
pub mod conditional_write;
#[doc(hidden)]
pub mod exports;
#[cfg(feature = "file")]
pub mod file;
pub(crate) mod history;
#[doc(hidden)]
pub mod in_process;
pub(crate) mod interrupted;
#[doc(hidden)]
pub mod journal;
#[doc(hidden)]
pub mod judgement;
#[doc(hidden)]
pub mod marks;
pub mod memory;
pub(crate) mod pace;
pub(crate) mod profiles;
mod query;
mod read;
#[cfg(feature = "redis")]
pub mod redis;
pub(crate) mod retry;
#[cfg(feature = "row-cache")]
#[doc(hidden)]
pub mod rows;
mod status_health;
#[doc(hidden)]
pub mod table;
#[doc(hidden)]
pub mod table_reads;
#[cfg(any(test, feature = "__test_store"))]
mod unused;
mod upkeep;

pub use self::append::Append;
#[doc(hidden)]
pub use self::append::{
    Appended, AppendedCall, FencedBatch, Generation, Position, Readable, Receipt,
};
use self::journal::Journal;
pub use self::query::{CounterQuery, CounterSeries, Query, SlowestQuery};
#[doc(hidden)]
pub use self::query::{MAX_COUNTER_NAMES, RECENT_SLICES};
pub use self::read::RankedId;
#[doc(hidden)]
pub use self::read::{
    BookStatistics, ContextQuery, ContextRecords, InstanceMinuteRecords, PackedRecords,
    RankingPage, RankingQuery, RecordCache, RecordIndex, RecordQuery, SliceRecords,
    SlowRequestQuery, VersionRecords,
};
#[doc(hidden)]
pub use self::table_reads::RankingPlace;
#[cfg(feature = "redis")]
pub(crate) use self::upkeep::MAX_QUARANTINED_KEYS;
pub use self::upkeep::Upkeep;
#[doc(hidden)]
pub use self::upkeep::{
    CleanReport, Exceptions, Heartbeat, INSTANCE_TTL, JournalStatus, NewerEntry, Pass, PassRecord,
    StoreStatus,
};
use crate::error::{StoreError, StoreErrorKind};
pub use crate::task::BoxFuture;
use tower_pulse_model::batch::Batch;
#[doc(hidden)]
pub use tower_pulse_model::fleet::Fleet;
pub use tower_pulse_model::slice::{Precision, Precisions, SliceCount};
pub use tower_pulse_model::slowest::RankedContext;

mod sealed {
    /// Keeps the traits of a store from being implemented elsewhere, as they will grow.
    pub trait Sealed {}
}

#[cfg(any(test, feature = "__test_store"))]
#[doc(hidden)]
pub use self::unused::{no_queries, no_upkeep};
#[cfg(any(test, feature = "__test_store"))]
#[doc(hidden)]
pub use tower_pulse_model::snapshot::FleetSnapshot;

/// For the tests of this crate, which implement a store that fails.
#[cfg(any(test, feature = "__test_store"))]
#[doc(hidden)]
pub use self::sealed::Sealed;

/// A store of aggregates. Every method may be called at any time, from any number of tasks.
///
/// Implemented by [`MemoryStore`](memory::MemoryStore), `FileStore` and `RedisStore`, and sealed: it cannot be implemented
/// elsewhere. [`Query`] is the part for applications. The other methods that are not shown change without
/// notice.
pub trait Store: Append + Query + Upkeep + 'static {
    /// The precisions of the counters.
    fn precisions(&self) -> &Precisions;

    /// The journal, as the instance that folds uses it. `None` only for stores of tests that have nothing to fold.
    #[doc(hidden)]
    fn journal(&self) -> Option<&dyn Journal> {
        None
    }

    /// Whether all instances that share the store are in this process.
    #[doc(hidden)]
    fn is_in_process(&self) -> bool {
        self.journal()
            .is_none_or(|journal| journal.turn().is_some())
    }

    /// The cached rows.
    #[cfg(feature = "row-cache")]
    #[doc(hidden)]
    fn rows(&self) -> &dyn rows::Rows;

    /// The kind and the address of the store in a few words, without passwords.
    fn describe(&self) -> String;

    /// Whether what a context has counted can be read at all precisions of the counters, and not only where there
    /// are records.
    #[doc(hidden)]
    fn has_context_counters(&self) -> bool {
        true
    }

    /// Makes durable what was folded before, where the store does so from time to time only.
    #[doc(hidden)]
    fn sync(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The number of the last call of an instance that is durable, where a store makes calls durable some time after it
    /// has taken them in.
    #[doc(hidden)]
    fn durable_seq(&self, _instance: &str) -> Option<u64> {
        None
    }

    /// Warnings for the operator about the store: an old version, an eviction policy, …
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Refuses a batch that has other precisions than the store: its counters would not fit the store's slices.
pub(crate) fn check_precisions(batch: &Batch, store: &Precisions) -> Result<(), StoreError> {
    let theirs = batch.precisions();
    if theirs == store {
        return Ok(());
    }
    let message = format!(
        "the batch has counters at the precisions {theirs}, but the store was opened with {store}: \
         give both the same `precisions` and `retained_slices`"
    );
    Err(StoreError::new(StoreErrorKind::Refused, message))
}
