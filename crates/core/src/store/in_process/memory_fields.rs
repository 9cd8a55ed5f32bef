//! The fields of tables, in memory.

use std::collections::HashMap;

use super::fields::{FieldChange, Fields, Show};
use crate::error::Result;
use crate::store::table::Table;
use tower_pulse_model::sorted::Map;

/// The values of a table by the names of their fields.
type Values = Map<Box<[u8]>, Box<[u8]>>;

/// The fields of all tables.
#[derive(Clone, Debug, Default)]
pub struct MemoryFields(HashMap<Table, Values>);

impl Fields for MemoryFields {
    fn bytes_per_field(&self) -> usize {
        96
    }

    fn get(&self, table: &Table, fields: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let values = self.0.get(table);
        let value = |field: &Vec<u8>| Some(values?.get(&**field)?.to_vec());
        Ok(fields.iter().map(value).collect())
    }

    fn write(
        &mut self,
        table: &Table,
        removed: &[Vec<u8>],
        set: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<FieldChange> {
        let mut change = FieldChange::default();
        let values = self.0.entry(table.clone()).or_default();
        for field in removed {
            let before = values.remove(&**field);
            change.note(field, before.map(|before| before.len()), None);
        }
        for (field, value) in set {
            let before = values.insert(field.as_slice().into(), value.as_slice().into());
            change.note(field, before.map(|before| before.len()), Some(value.len()));
        }
        Ok(change)
    }

    fn clear(&mut self, table: &Table) -> Result<()> {
        self.0.remove(table);
        Ok(())
    }

    fn visit(&self, table: &Table, after: Option<&[u8]>, show: &mut Show<'_>) -> Result<()> {
        let values = self.0.get(table).into_iter();
        let mut values = values.flat_map(|values| values.after(after));
        let _ = values.try_for_each(|(field, value)| show(field, value));
        Ok(())
    }

    #[cfg(any(test, feature = "__test_store"))]
    fn copied(&self) -> Box<dyn Fields> {
        Box::new(self.clone())
    }
}
