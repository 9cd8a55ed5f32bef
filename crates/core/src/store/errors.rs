//! Reads the kinds of errors that judged minutes had, for all stores.

use std::sync::Arc;

use super::table::Table;
use super::table_reads::{Purpose, TableReader, borrowed, read_pages};
use crate::error::Result;
use crate::task::boxed;
use tower_pulse_detect::errors::KnownErrors;
pub use tower_pulse_detect::errors::SeenError;

/// The maximum number of pages that are read. A judgement leaves at most one page of kinds, but other programs may have
/// added fields.
const MAX_PAGES: usize = 16;

/// The kinds of errors that judged minutes had, and when they were seen, by name.
pub async fn read(reader: &dyn TableReader) -> Result<Vec<(Arc<str>, SeenError)>> {
    let fields = boxed(read_pages(
        reader,
        Purpose::Query,
        &Table::Errors,
        MAX_PAGES,
    ))
    .await?;
    Ok(KnownErrors::from_parts(borrowed(&fields)).kinds)
}
