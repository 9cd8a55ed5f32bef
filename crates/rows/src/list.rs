//! The list of a cache's rows, for those who look at the cache from outside.

use super::cache::Cache;
use tower_pulse_core::error::StoreError;
use tower_pulse_core::row_lists::{ListedCache, RowInfo, RowList};
use tower_pulse_core::store::rows::RowQuery;
use tower_pulse_core::task::BoxFuture;

impl ListedCache for Cache {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn list<'a>(&'a self, query: &'a RowQuery) -> BoxFuture<'a, Result<RowList, StoreError>> {
        Box::pin(async move {
            let rows = self.store.rows();
            let page = rows.list_rows(&self.options.name, query).await?;
            let mut list = RowList::default();
            list.total = page.total;
            list.failed = self.local.failed();
            list.sums = self.events.sums();
            let rows = page.rows.into_iter().map(|row| {
                let counts = self.local.counts(&row.id);
                let mut info = RowInfo::from(row);
                info.hits = counts.hits;
                info.misses = counts.misses;
                info.failed_loads = counts.failures;
                info
            });
            list.rows.extend(rows);
            Ok(list)
        })
    }
}
