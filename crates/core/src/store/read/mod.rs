//! Answers queries from the tables of a store, with the same code for every store. Fields that cannot be read are left
//! out.

#[cfg(feature = "query")]
mod contexts;
mod minute_reports;
#[cfg(any(feature = "rankings", feature = "__test_store"))]
mod rankings;
mod record_cache;
mod record_index;
mod recorded_counter;
mod records;
mod slices;
mod slow_requests;
mod slowest;

#[cfg(feature = "query")]
pub use self::contexts::BookStatistics;
#[cfg(feature = "query")]
pub(super) use self::contexts::{book_statistics, contexts};
pub use self::minute_reports::{InstanceReports, VersionRecords};
pub(super) use self::minute_reports::{minute_reports, version_records};
#[cfg(any(feature = "rankings", feature = "__test_store"))]
pub use self::rankings::{RankedId, RankingPage, RankingQuery};
#[cfg(any(feature = "rankings", feature = "__test_store"))]
pub(super) use self::rankings::{ranking_names, ranking_page};
pub use self::record_cache::RecordCache;
pub use self::record_index::RecordIndex;
pub(super) use self::record_index::record_index;
pub use self::recorded_counter::recorded_counter;
pub use self::records::RecordQuery;
pub(super) use self::records::records;
pub use self::slices::{PackedRecords, SliceRecords};
pub(super) use self::slices::{packed_records, slice_records};
pub use self::slow_requests::SlowRequestQuery;
pub(super) use self::slow_requests::slow_requests;
pub use self::slowest::slowest;

use super::table::Table;
use super::table_reads::{Field, Purpose, TableRead, TableReader};
use crate::error::Result;

/// The maximum number of whole tables that are read at once. The number bounds the memory for the tables.
const TABLES_AT_ONCE: usize = 4;

async fn unpacked<T>(
    reader: &dyn TableReader,
    tables: impl Iterator<Item = Table>,
    unpack: fn(&[Field]) -> T,
) -> Result<Vec<T>> {
    let reads: Vec<_> = tables.map(TableRead::All).collect();
    let mut read = Vec::with_capacity(reads.len());
    for part in reads.chunks(TABLES_AT_ONCE) {
        let mut answers = reader.read_tables(Purpose::Query, part).await?;
        for _ in part {
            read.push(unpack(&answers.page().fields));
            // Unpacking a table blocks the runtime for a while.
            tokio::task::yield_now().await;
        }
    }
    Ok(read)
}
