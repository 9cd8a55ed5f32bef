//! The scheduled rows of a row cache of this process.

use std::sync::Arc;

use serde::Serialize;

use super::{DEFAULT_ROWS, MAX_ROWS, check_limit};
use crate::query::error::QueryError;
use crate::query::source::Source;
use crate::row_lists::{FailedRow, ListedCache, RowInfo, RowSums};
use crate::store::rows::RowQuery;

/// The scheduled rows of a row cache: [`Reader::rows`](crate::query::Reader::rows).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rows {
    /// The names of the caches of this process; `""` is the unnamed one.
    pub caches: Vec<String>,
    /// The cache that the rows are of; `None` if there is none.
    pub name: Option<String>,
    /// Number of scheduled rows that match.
    pub total: usize,
    /// The rows: first those that fail, then the latest due.
    pub rows: Vec<RowInfo>,
    /// Rows without a schedule, or that have left it, whose last load in this process failed, newest first.
    pub failed: Vec<FailedRow>,
    /// What happened to all rows of the cache in this process; `None` without a cache.
    pub sums: Option<RowSums>,
}

/// Which rows are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowsQuery {
    /// The name of the cache; the unnamed one, or else the first by name, if there is none.
    pub name: Option<String>,
    /// Only rows whose id contains it.
    pub contains: String,
    /// The most rows that are answered, at most 1,000.
    pub limit: usize,
    /// How many are left out before.
    pub offset: usize,
}

impl Default for RowsQuery {
    fn default() -> Self {
        Self {
            name: None,
            contains: String::new(),
            limit: DEFAULT_ROWS,
            offset: 0,
        }
    }
}

pub(in crate::query) async fn rows(source: &Source, query: &RowsQuery) -> Result<Rows, QueryError> {
    check_limit(query.limit, MAX_ROWS)?;
    let stored = RowQuery {
        contains: query.contains.clone(),
        offset: query.offset,
        limit: query.limit,
    };
    let caches = source.row_caches();
    let name_of = |cache: &Arc<dyn ListedCache>| cache.name().to_owned();
    let mut rows = Rows {
        caches: caches.iter().map(name_of).collect(),
        name: None,
        total: 0,
        rows: Vec::new(),
        failed: Vec::new(),
        sums: None,
    };
    let cache = match &query.name {
        // The unnamed cache is the first.
        None => caches.first(),
        Some(name) => {
            let named = caches.iter().find(|cache| cache.name() == name);
            let unknown = QueryError::NotFound("this process has no row cache of this name");
            Some(named.ok_or(unknown)?)
        }
    };
    if let Some(cache) = cache {
        let page = source.reader.rows(&**cache, stored).await?;
        rows.name = Some(name_of(cache));
        (rows.total, rows.rows) = (page.total, page.rows.clone());
        (rows.failed, rows.sums) = (page.failed.clone(), Some(page.sums));
    }
    Ok(rows)
}
