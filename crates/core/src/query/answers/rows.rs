//! The scheduled rows of this process's row caches.

use std::sync::Arc;

use serde::Serialize;

use super::{MAX_ROWS, check_limit};
use crate::query::{QueryError, Source};
use crate::row_lists::{FailedRow, RowInfo, RowList, RowSums, RowsQuery};

/// The scheduled rows of a row cache.
///
/// The answer to [`RowsQuery`](crate::row_lists::RowsQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Rows {
    /// The names of the caches of this process. The name of an unnamed cache is `""`.
    pub caches: Vec<String>,
    /// The name of the cache that has the rows; `None` without a cache.
    pub name: Option<String>,
    /// Number of scheduled rows that match.
    pub total: usize,
    /// The rows. Failing rows come first, then the others by due time.
    pub rows: Vec<RowInfo>,
    /// Rows without a schedule whose last load in this process failed, newest first.
    pub failed: Vec<FailedRow>,
    /// The sums over all rows of the cache in this process; `None` without a cache.
    pub sums: Option<RowSums>,
}

pub(in crate::query) async fn rows(source: &Source, query: &RowsQuery) -> Result<Rows, QueryError> {
    let limit = check_limit(query.limit, MAX_ROWS)?;
    let caches = source.process.as_ref();
    let caches = caches.map_or_else(Default::default, |process| process.row_caches().all());
    // Without a name in the question, the first cache answers. The unnamed cache comes first.
    let name = (query.name.clone()).or_else(|| caches.keys().next().cloned());
    let list = match &name {
        None => None,
        Some(known) => {
            let unknown = QueryError::NotFound("this process has no row cache of this name");
            let (list, mut query) = (caches.get(known).ok_or(unknown)?, query.clone());
            (query.name, query.limit) = (name.clone(), Some(limit));
            Some(source.rows(&**list, query).await?)
        }
    };
    let sums = list.as_ref().map(|list| list.sums);
    let list = list.map_or_else(RowList::default, Arc::unwrap_or_clone);
    Ok(Rows {
        caches: caches.into_keys().collect(),
        name,
        total: list.total,
        rows: list.rows,
        failed: list.failed,
        sums,
    })
}
