//! Reads the kinds of errors in the minutes that were judged, from any store.

use std::sync::Arc;

use super::table::Table;
use super::table_reads::{Purpose, TableRead, TableReader, read_table};
use crate::error::Result;
use tower_pulse_detect::errors::KnownErrors;
pub use tower_pulse_detect::errors::SeenError;

/// The kinds of errors in the minutes that were judged, and when each kind was seen, by name.
pub async fn read(reader: &dyn TableReader) -> Result<Vec<(Arc<str>, SeenError)>> {
    let page = read_table(reader, Purpose::Query, TableRead::All(Table::Errors)).await?;
    let kinds = page.fields.iter().map(|(kind, seen)| (&**kind, &**seen));
    Ok(KnownErrors::from_parts(kinds).kinds)
}
