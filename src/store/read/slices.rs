//! The records of all contexts, slice by slice.

use super::{Field, unpacked};
use crate::error::StoreError;
use crate::model::pack;
use crate::model::records::{Record, RecordId};
use crate::model::tier::TierSlice;
use crate::store::table::Table;
use crate::store::table_reads::TableReader;

/// The records of all contexts in a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct SliceRecords {
    /// Each context's record, in no order.
    pub records: Vec<(RecordId, Record)>,
}

/// The records of some slices, in their order.
pub(in crate::store) async fn slice_records(
    reader: &dyn TableReader,
    slices: &[TierSlice],
) -> Result<Vec<SliceRecords>, StoreError> {
    let tables = slices.iter().map(|slice| Table::records(*slice));
    unpacked(reader, tables, records).await
}

fn records(fields: &[Field]) -> SliceRecords {
    let record =
        |(id, record): &Field| Some((RecordId::from_bytes(id)?, pack::read_record(record)?));
    SliceRecords {
        records: fields.iter().filter_map(record).collect(),
    }
}
