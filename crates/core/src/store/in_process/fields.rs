//! The fields of tables in a store in one process.

use std::any::Any;
use std::ops::ControlFlow;

use crate::error::Result;
use crate::store::table::Table;
use tower_pulse_model::pack::packed;

/// The change of a table's size by a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldChange {
    /// The number of new fields, minus the number of removed fields.
    pub fields: i64,
    /// Bytes of names and values that were added, minus the bytes that were removed.
    pub bytes: i64,
}

impl FieldChange {
    /// Notes a write of a field: the bytes of the value before and after; `None` if the field is missing.
    pub fn note(&mut self, field: &[u8], before: Option<usize>, after: Option<usize>) {
        let size = |value: usize| (field.len() + value) as i64;
        self.fields += i64::from(after.is_some()) - i64::from(before.is_some());
        self.bytes += after.map_or(0, size) - before.map_or(0, size);
    }
}

packed! {
    /// The size of a table, and when it expires.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Extent {
        /// The number of fields.
        pub fields: u64,
        /// The approximate bytes of the fields.
        pub bytes: u64,
        /// When the table expires, in Unix seconds; `None` for never.
        pub expires_at: Option<i64>,
    }
}

impl Extent {
    pub(super) fn is_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Each field takes `bytes_per_field` in addition to its name and its value.
    pub(super) fn add(&mut self, change: FieldChange, bytes_per_field: usize) {
        let bytes = change.bytes + change.fields * bytes_per_field as i64;
        self.fields = self.fields.saturating_add_signed(change.fields);
        self.bytes = self.bytes.saturating_add_signed(bytes);
    }
}

/// A function that is called with each field and its value until it returns `Break`.
pub type Show<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The fields of all tables. A table without fields does not exist.
pub trait Fields: Any + Send {
    /// Bytes that a field takes in addition to its name and its value.
    fn bytes_per_field(&self) -> usize;

    /// The values of fields of a table, in the order of `fields`.
    fn get(&self, table: &Table, fields: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Removes fields of a table, and sets others.
    fn write(
        &mut self,
        table: &Table,
        removed: &[Vec<u8>],
        set: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<FieldChange>;

    /// Removes a table.
    fn clear(&mut self, table: &Table) -> Result<()>;

    /// Visits the fields of a table whose names come after `after`, sorted by name: calls `show` with each name and its
    /// value, until `show` breaks.
    fn visit(&self, table: &Table, after: Option<&[u8]>, show: &mut Show<'_>) -> Result<()>;

    /// Notes the size of a table, and when it expires; `None` for a removed table.
    fn note_extent(&mut self, _: &Table, _: Option<&Extent>) -> Result<()> {
        Ok(())
    }

    /// A copy, for tests that restore an earlier state of a store in memory.
    #[cfg(any(test, feature = "__test_store"))]
    fn copied(&self) -> Box<dyn Fields> {
        panic!("these fields have no copies: a test copies their file")
    }
}

#[cfg(any(test, feature = "__test_store"))]
impl Clone for Box<dyn Fields> {
    fn clone(&self) -> Self {
        self.as_ref().copied()
    }
}
