//! The list of a cache's rows, for those who look at the cache from outside.

use super::events::RowSums;
use super::local::FailedRow;
use super::shared::Shared;
use crate::error::StoreError;
use crate::store::rows::RowQuery;

/// A scheduled row.
#[derive(Clone, Debug, PartialEq)]
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

impl Shared {
    /// Lists some of the scheduled rows.
    pub(crate) async fn list(&self, query: &RowQuery) -> Result<RowList, StoreError> {
        let rows = self.store.rows();
        let page = rows.list_rows(&self.options.name, query).await?;
        let rows = page.rows.into_iter().map(|row| {
            let counts = self.local.counts(&row.id);
            RowInfo {
                every: row.every,
                due_in: row.due_in,
                age: row.age,
                failures: row.failures,
                last_error: row.last_error,
                hits: counts.hits,
                misses: counts.misses,
                failed_loads: counts.failures,
                id: row.id,
            }
        });
        Ok(RowList {
            total: page.total,
            rows: rows.collect(),
            failed: self.local.failed(),
            sums: self.events.sums(),
        })
    }
}
