//! The state of the row caches of this process, for the admin router.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::store::StoreFuture;
use crate::task::lock;

/// Selects rows of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "query", derive(serde::Deserialize))]
#[cfg_attr(feature = "query", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct RowsQuery {
    /// The name of the cache. By default the unnamed cache or, if all caches have names, the first by name.
    pub name: Option<String>,
    /// Only rows whose id contains this text.
    #[cfg_attr(feature = "query", serde(rename = "q"))]
    pub contains: String,
    /// The maximum number of rows in the answer: 100 by default, at most 1,000.
    pub limit: Option<usize>,
    /// The number of rows to skip.
    pub offset: usize,
}

/// A scheduled row.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RowInfo {
    /// The id of the row.
    pub id: String,
    /// Seconds between two refreshes.
    pub every: f64,
    /// Seconds until the row is due; negative if the refresh is late.
    pub due_in: f64,
    /// Seconds since the row was loaded; `None` if the row is not cached.
    pub age: Option<f64>,
    /// Successive loads of the row that failed, in all processes.
    pub failures: u32,
    /// The error of the last failed load of the row; `None` after a success.
    pub last_error: Option<String>,
    /// Reads by this process from the cache.
    pub hits: u64,
    /// Reads by this process that found no row.
    pub misses: u64,
    /// Failed loads in this process.
    pub failed_loads: u64,
}

/// Some of the scheduled rows of a cache.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RowList {
    /// Number of all matching rows.
    pub total: usize,
    /// The rows. Failing rows come first, then the others by due time.
    pub rows: Vec<RowInfo>,
    /// The last 100 rows outside the schedule that this process could not load, newest first: rows without a schedule,
    /// and rows that have left the schedule.
    pub failed: Vec<FailedRow>,
    /// Counts for all rows of the cache in this process.
    pub sums: RowSums,
}

/// A row that could not be loaded and is not in the schedule.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FailedRow {
    /// The id of the row.
    pub id: String,
    /// Successive loads of the row that failed in this process.
    pub failures: u32,
    /// The error of the last failed load.
    pub last_error: String,
    /// Seconds since the last failed load.
    pub age: f64,
}

/// Counts of a cache in this process, since the cache was built.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RowSums {
    /// Reads that were answered from the cache.
    pub hits: u64,
    /// Reads that found no row.
    pub misses: u64,
    /// Reads that got the last known row while the store was unreachable.
    pub stale: u64,
    /// Loads that were written to the cache.
    pub refreshes: u64,
    /// Failed loads of rows with and without a schedule.
    pub failures: u64,
}

/// Lists some of the scheduled rows of a cache.
pub type ListRows = dyn Fn(RowsQuery) -> StoreFuture<'static, RowList> + Send + Sync;

/// The row caches of an instance, by name. The name of the unnamed cache is `""`.
#[derive(Clone, Default)]
pub struct RowCaches(Arc<Mutex<BTreeMap<String, Arc<ListRows>>>>);

impl RowCaches {
    /// Adds a cache. Returns `false` if a cache has this name already.
    pub fn add(&self, name: &str, list: Arc<ListRows>) -> bool {
        let mut caches = lock(&self.0);
        let is_free = !caches.contains_key(name);
        if is_free {
            caches.insert(name.to_owned(), list);
        }
        is_free
    }

    /// Removes a cache, and frees its name.
    pub fn remove(&self, name: &str) {
        lock(&self.0).remove(name);
    }

    /// All caches.
    pub fn all(&self) -> BTreeMap<String, Arc<ListRows>> {
        lock(&self.0).clone()
    }
}
