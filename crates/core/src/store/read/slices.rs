//! The records of all contexts, slice by slice.

use std::sync::Arc;

use super::{Field, unpacked};
use crate::store::StoreFuture;
use crate::store::table::Table;
use crate::store::table_reads::{Purpose, TableRead, TableReader};
use tower_pulse_model::pack;
use tower_pulse_model::records::{Record, RecordId};
use tower_pulse_model::tier::TierSlice;

/// The maximum number of fields that one read of packed records asks for. During a read, a server serves no other
/// client.
const FIELDS_AT_ONCE: usize = 500;

/// The records of all contexts in a slice, unordered.
pub type SliceRecords = Vec<(RecordId, Record)>;

/// The packed records of contexts in a slice; `None` for a context without a record.
pub type PackedRecords = Vec<Option<Vec<u8>>>;

pub(in crate::store) fn slice_records<'a>(
    reader: &'a dyn TableReader,
    slices: &'a [TierSlice],
) -> StoreFuture<'a, Vec<SliceRecords>> {
    let tables = slices.iter().map(|slice| Table::records(*slice));
    Box::pin(unpacked(reader, tables, records))
}

pub(in crate::store) fn packed_records<'a>(
    reader: &'a dyn TableReader,
    slices: &'a [TierSlice],
    contexts: &'a [RecordId],
) -> StoreFuture<'a, Vec<PackedRecords>> {
    Box::pin(async move {
        let parts = contexts.chunks(FIELDS_AT_ONCE);
        let parts = parts.map(|part| part.iter().map(|id| id.to_bytes().to_vec()).collect());
        let parts: Vec<Arc<[Vec<u8>]>> = parts.collect();
        let reads = slices.iter().flat_map(|slice| {
            let fields = parts.iter().cloned();
            fields.map(|fields| TableRead::Values(Table::records(*slice), fields))
        });
        let reads: Vec<_> = reads.collect();
        let mut answers = reader.read_tables(Purpose::Query, &reads).await?;
        let mut records = Vec::with_capacity(slices.len());
        for _ in slices {
            let mut of_slice = Vec::with_capacity(contexts.len());
            for _ in &parts {
                of_slice.append(&mut answers.page().values);
            }
            records.push(of_slice);
        }
        Ok(records)
    })
}

fn records(fields: &[Field]) -> SliceRecords {
    let record =
        |(id, record): &Field| Some((RecordId::from_bytes(id)?, pack::read_record(record)?));
    fields.iter().filter_map(record).collect()
}
