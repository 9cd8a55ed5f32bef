//! Storage of aggregates: the trait [`Store`], and [`memory`], the store in the memory of this process. Other crates
//! have the stores in a file and in Redis, which behave like the store in memory.

// All instances append to the `journal`, and one instance at a time folds it into tables. Read this file, then
// `append`, `journal`, `table`, `table_reads`, `query` with `read/` and `upkeep`. Then read `in_process/` with
// `memory`, which is the shortest store, and the crates of the other stores.

pub mod acknowledgements;
pub mod additions;
mod append;
pub mod conditional_write;
pub mod errors;
pub mod exports;
pub mod history;
pub mod in_process;
pub mod journal;
pub mod judgement;
pub mod locality;
pub mod marks;
pub mod memory;
pub mod pace;
pub mod profiles;
mod query;
pub mod read;
mod status_health;
pub mod table;
pub mod table_reads;
#[cfg(test)]
pub(crate) mod tests;
mod upkeep;

pub use self::append::{
    Append, Appended, AppendedCall, FencedBatch, Generation, Position, Readable, Receipt,
};
use self::journal::Journal;
use self::locality::{Locality, ON_SERVER};
pub use self::query::{CounterQuery, CounterSeries, MAX_COUNTER_NAMES, Query, RECENT_SLICES};
#[cfg(feature = "query")]
pub use self::read::BookStatistics;
pub use self::read::{
    InstanceReports, PackedRecords, RecordCache, RecordIndex, RecordQuery, SliceRecords,
    SlowRequestQuery, VersionRecords,
};
#[cfg(any(feature = "rankings", feature = "__test_store"))]
pub use self::read::{RankingPage, RankingQuery};
pub(crate) use self::status_health::refusals;
pub use self::table_reads::RankingPlace;
pub use self::upkeep::{
    Cleaned, Exceptions, Heartbeat, INSTANCE_TTL, MAX_QUARANTINED_KEYS, NewerEntry, Pass,
    SilentInstance, StoreStatus, Upkeep,
};
use std::any::Any;

use crate::condition::{Warning, texts};
use crate::error::{Result, StoreError, StoreErrorKind};
pub use crate::task::BoxFuture;
use tower_pulse_model::batch::Batch;
pub use tower_pulse_model::fleet::Fleet;
pub use tower_pulse_model::slice::{Precision, Precisions, SliceCount};
pub use tower_pulse_model::slowest::RankedContext;

#[cfg(any(test, feature = "__test_store"))]
pub use tower_pulse_model::snapshot::FleetSnapshot;

/// The future of a call of a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T>>;

/// A store of aggregates. Every method may be called at any time, from any number of tasks.
/// [`InProcessStore`](in_process::InProcessStore), in memory and in a file, and `RedisStore` implement this trait. The
/// public crate has one type for all stores, and hides the traits of a store, because these traits will get more
/// methods.
pub trait Store: Append + Any {
    /// The precisions of the counters.
    fn precisions(&self) -> &Precisions;

    /// The journal, for the instance that folds.
    fn journal(&self) -> &dyn Journal;

    /// The queries of readers.
    fn query(&self) -> &dyn Query;

    /// Heartbeats, the status, and cleaning.
    fn upkeep(&self) -> &dyn Upkeep;

    /// Limits and intervals that depend on where the store is: in this process, or on a server.
    fn locality(&self) -> &'static Locality {
        &ON_SERVER
    }

    /// The kind and the address of the store in a few words, without passwords.
    fn describe(&self) -> String;

    /// The advice after a reset. `None` if one of the store's [`conditions`](Self::conditions) explains the reset.
    fn reset_remedy(&self) -> Option<&'static str> {
        Some("look for the program that deleted its data")
    }

    /// Whether one of the store's [`conditions`](Self::conditions) explains why a call fails.
    fn explains_failures(&self) -> bool {
        false
    }

    /// Whether the counters of a context can be read at all precisions, not only at the precisions of the records.
    fn has_context_counters(&self) -> bool {
        true
    }

    /// Makes folded data durable at once, in a store that otherwise does so at intervals.
    fn sync(&self) -> StoreFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The number of the instance's last durable call, in a store that makes calls durable some time after they are
    /// appended.
    fn durable_seq(&self, _instance: &str) -> Option<u64> {
        None
    }

    /// Warnings for the operator, for example about an old server or its eviction policy.
    fn conditions(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// The texts of the [`conditions`](Self::conditions).
    fn warnings(&self) -> Vec<String> {
        texts(self.conditions())
    }
}

/// Refuses a batch that has other precisions than the store, because the batch's counters would not fit the store's
/// slices.
pub fn check_precisions(batch: &Batch, store: &Precisions) -> Result<()> {
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
