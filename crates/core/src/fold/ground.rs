//! The ground of the fold: reads and writes of the store that are valid under a lease.

use super::lease::Lease;
use crate::store::Store;
use crate::store::interrupted::Interrupted;
use crate::store::journal::{FieldValues, Journal};
use crate::store::table::Table;
use tower_pulse_model::round::PARTITIONS;

/// The store under a lease.
pub(super) struct Ground<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) journal: &'a dyn Journal,
    /// The name of this instance in the lease.
    pub(super) instance: &'a str,
    pub(super) lease: &'a mut Lease,
}

impl Ground<'_> {
    /// Reads fields of tables.
    pub(super) async fn load(
        &self,
        fields: &[(Table, Vec<Vec<u8>>)],
    ) -> Result<Vec<FieldValues>, Interrupted> {
        let version = &self.lease.progress.version;
        let step = self.journal.load_fields(self.instance, version, fields);
        step.await?.done()
    }

    /// Whether a partition of the round that was begun is still to be folded.
    pub(super) fn is_left(&self, partition: usize) -> bool {
        debug_assert!(partition < PARTITIONS);
        !self.lease.progress.done.contains(partition)
    }
}

/// Groups fields by their table, where those of a table are next to each other, as [`Ground::load`] takes them.
pub(super) fn fields_by_table(
    fields: impl Iterator<Item = (Table, Vec<u8>)>,
) -> Vec<(Table, Vec<Vec<u8>>)> {
    let mut tables: Vec<(Table, Vec<Vec<u8>>)> = Vec::new();
    for (table, field) in fields {
        match tables.last_mut() {
            Some((last, fields)) if *last == table => fields.push(field),
            _ => tables.push((table, vec![field])),
        }
    }
    tables
}
