//! The field that says which days a store keeps, the same in each store.

use super::table::{FieldWrites, Table};
use super::table_reads::{Purpose, TableRead, TableReader};
use crate::error::StoreError;
use crate::model::tiers::History;

/// The field of [`Table::History`].
const KEPT: &[u8] = b"kept";

/// The history that a store keeps, if it does. What another program has written instead reads as none.
pub(crate) async fn read(reader: &dyn TableReader) -> Result<Option<History>, StoreError> {
    let field = TableRead::Values(Table::History, [KEPT.to_vec()].into());
    let mut answers = reader.read_tables(Purpose::Query, &[field]).await?;
    let packed = answers.values().pop().flatten();
    Ok(packed.and_then(|packed| History::unpack(&packed)))
}

/// The write of a history, or of its end.
pub(crate) fn write(history: Option<History>) -> FieldWrites {
    let mut write = FieldWrites::new(Table::History, None);
    match history {
        Some(history) => write.set.push((KEPT.to_vec(), history.pack())),
        None => write.removed.push(KEPT.to_vec()),
    }
    write
}
