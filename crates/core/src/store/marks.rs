//! Reads the marks, from any store.

use super::Store;
use super::table::Table;
use super::table_reads::{Purpose, TableReader, read_pages};
use crate::error::Result;
use crate::task::boxed;
use tower_pulse_detect::change::{Change, Suspect};
use tower_pulse_model::mark::{Mark, Marks, StoredMark};
use tower_pulse_model::sorted::Map;

/// The maximum number of pages that are read. The fold leaves at most one page of marks, but other programs may have
/// added fields.
const MAX_PAGES: usize = 16;

/// The fields of the table of marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredMarks {
    /// The marks, including removed marks.
    pub marks: Marks,
    /// Fields without a readable mark, or with a mark that is no longer retained.
    pub surplus: Vec<Vec<u8>>,
}

/// The retained marks that were not removed, oldest first.
pub async fn list(store: &dyn Store) -> Result<Vec<Mark>> {
    let stored = boxed(read(store.journal())).await?;
    Ok(stored.marks.shown().cloned().collect())
}

/// Reads the table of marks. The result stays valid until the version of the journal's state changes, because only
/// steps of folding change the table.
pub async fn read(reader: &dyn TableReader) -> Result<StoredMarks> {
    // Not `Purpose::Fold`: a table that another program has made too large must not stop the fold.
    let fields = boxed(read_pages(reader, Purpose::Query, &Table::Marks, MAX_PAGES)).await?;
    let marks = fields.into_iter().map(|(id, packed)| {
        let mark = StoredMark::unpack(&id, &packed);
        (id, mark)
    });
    let mut marks: Map<Vec<u8>, Option<StoredMark>> = marks.collect();
    let retained = Marks::new(marks.values().flatten().cloned());
    for stored in retained.as_slice() {
        marks.remove(stored.mark.id.as_bytes());
    }
    Ok(StoredMarks {
        marks: retained,
        surplus: marks.into_iter().map(|(id, _)| id).collect(),
    })
}

/// Removes suspects whose mark was removed after the change was judged.
pub fn leave_out_removed(change: &mut Change, marks: &Marks) {
    let is_removed = |suspect: &Suspect| matches!(suspect, Suspect::Deploy { mark, .. } if marks.has_removed(mark));
    change.suspects.retain(|suspect| !is_removed(suspect));
}
