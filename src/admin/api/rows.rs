//! `api/rows`: the scheduled rows of a row cache of this process.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::{limit, offset};
use crate::row_cache::{FailedRow, RowInfo, RowSums, Shared};
use crate::store::rows::RowQuery;

#[derive(Serialize)]
pub(in crate::admin) struct Rows {
    /// The names of the caches of this process; `""` is the unnamed one.
    caches: Vec<String>,
    /// The cache that the rows are of; `null` if there is none.
    name: Option<String>,
    /// Number of scheduled rows that match.
    total: usize,
    rows: Vec<RowInfo>,
    /// Rows without a schedule, or that have left it, whose last load in this process failed, newest first.
    failed: Vec<FailedRow>,
    /// What happened to all rows of the cache in this process; `null` without a cache.
    sums: Option<RowSums>,
}

pub(in crate::admin) async fn rows(admin: &Admin, params: &Params) -> Result<Rows, ApiError> {
    let query = RowQuery {
        contains: params.text("q")?.to_owned(),
        offset: offset(params)?,
        limit: limit(params)?,
    };
    let caches = admin.source.row_caches.all();
    let name_of = |cache: &Arc<Shared>| cache.options.name.clone();
    let mut rows = Rows {
        caches: caches.iter().map(name_of).collect(),
        name: None,
        total: 0,
        rows: Vec::new(),
        failed: Vec::new(),
        sums: None,
    };
    let cache = match params.name("name")? {
        // The unnamed cache is the first.
        None => caches.first(),
        Some(name) => {
            let named = caches.iter().find(|cache| cache.options.name == name);
            Some(named.ok_or_else(|| {
                let message = "this process has no row cache of this name";
                ApiError::new(StatusCode::NOT_FOUND, message)
            })?)
        }
    };
    if let Some(cache) = cache {
        let page = admin.reader.rows(cache, query).await?;
        rows.name = Some(name_of(cache));
        (rows.total, rows.rows) = (page.total, page.rows.clone());
        (rows.failed, rows.sums) = (page.failed.clone(), Some(page.sums));
    }
    Ok(rows)
}
