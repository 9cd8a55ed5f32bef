//! What the row caches of this process tell whoever looks at them from outside.

use std::sync::{Arc, Mutex, Weak};

use crate::error::StoreError;
use crate::store::rows::{RowQuery, RowState};
use crate::task::{BoxFuture, lock};

/// A scheduled row.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RowInfo {
    /// The id of the row.
    pub id: String,
    /// Seconds between two refreshes.
    pub every: f64,
    /// Seconds until it is due; negative for a row that is late.
    pub due_in: f64,
    /// Seconds since it was loaded; `None` if it is not cached.
    pub age: Option<f64>,
    /// Failures of its loader in a row, of all processes together.
    pub failures: u32,
    /// Why its loader failed last; `None` after a success.
    pub last_error: Option<String>,
    /// How often this process has read it from the cache.
    pub hits: u64,
    /// How often this process has looked for it in vain.
    pub misses: u64,
    /// How often this process has failed to load it.
    pub failed_loads: u64,
}

impl From<RowState> for RowInfo {
    /// A row that this process has not read.
    fn from(row: RowState) -> Self {
        Self {
            id: row.id,
            every: row.every,
            due_in: row.due_in,
            age: row.age,
            failures: row.failures,
            last_error: row.last_error,
            ..Self::default()
        }
    }
}

/// Some of the scheduled rows of a cache.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RowList {
    /// Number of all scheduled rows.
    pub total: usize,
    /// The rows: first those that fail, then the latest due.
    pub rows: Vec<RowInfo>,
    /// Rows whose last load in this process failed, and of which the schedule does not tell: rows without one, and rows
    /// that have left it. The last 100 of them, newest first.
    pub failed: Vec<FailedRow>,
    /// What happened to all rows of the cache in this process.
    pub sums: RowSums,
}

/// A row of which the schedule does not tell that it could not be loaded.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FailedRow {
    /// The id of the row.
    pub id: String,
    /// Failures in a row of its loader in this process.
    pub failures: u32,
    /// Why it failed last.
    pub last_error: String,
    /// Seconds since then.
    pub age: f64,
}

/// How often something has happened to the rows of a cache in this process, since the cache was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RowSums {
    /// Reads that were answered from the cache.
    pub hits: u64,
    /// Reads that found no row.
    pub misses: u64,
    /// Rows that were read while the store was away, as this process had last seen them.
    pub stale: u64,
    /// Loads that were written to the cache.
    pub refreshes: u64,
    /// Loads that failed, also of rows without a schedule, and of those that have left it.
    pub failures: u64,
}

/// A row cache of this process, as it is listed.
pub trait ListedCache: Send + Sync {
    /// Its name; `""` is the unnamed one.
    fn name(&self) -> &str;

    /// Some of its scheduled rows.
    fn list<'a>(&'a self, query: &'a RowQuery) -> BoxFuture<'a, Result<RowList, StoreError>>;
}

/// The row caches of an instance that are in use.
#[derive(Clone, Default)]
pub struct RowCaches(Arc<Mutex<Vec<Weak<dyn ListedCache>>>>);

impl RowCaches {
    /// Adds a cache. `false` if there is one of the same name.
    pub fn add(&self, cache: &Arc<dyn ListedCache>) -> bool {
        let mut caches = lock(&self.0);
        caches.retain(|other| other.strong_count() > 0);
        let mut others = caches.iter().filter_map(Weak::upgrade);
        let is_new = !others.any(|other| other.name() == cache.name());
        if is_new {
            caches.push(Arc::downgrade(cache));
        }
        is_new
    }

    /// All caches, by name.
    pub fn all(&self) -> Vec<Arc<dyn ListedCache>> {
        let mut caches: Vec<_> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        caches.sort_by(|a, b| a.name().cmp(b.name()));
        caches
    }
}
