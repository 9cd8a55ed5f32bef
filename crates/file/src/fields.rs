//! The fields of tables in the database. All work between two commits is one transaction.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use redb::{ReadableTable, Table as StoredTable, TableDefinition, WriteTransaction};

use super::trouble::Trouble;
use tower_pulse_core::error::Result;
use tower_pulse_core::store::in_process::{Extent, FieldChange, Fields, Show, State};
use tower_pulse_core::store::table::Table;
use tower_pulse_model::pack;

/// A table of the database. All tables have bytes as keys and values, because the database's code is compiled once for
/// each pair of types.
pub(super) type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// The fields of all tables, by the names of table and field.
const FIELDS: Definition = TableDefinition::new("fields");
/// The extent of each table (its size, and when it expires), by table name.
pub(super) const EXTENTS: Definition = TableDefinition::new("tables");

/// The fields of all tables. After an error the transaction is incomplete, and must be abandoned.
pub(super) struct FileFields {
    pub(super) path: Arc<Path>,
    /// The open transaction; `None` while it is replaced, and after a failed commit.
    pub(super) transaction: Option<WriteTransaction>,
    pub(super) failure: RefCell<Option<Trouble>>,
}

pub(super) fn fields_of(state: &mut State) -> Result<&mut FileFields, redb::Error> {
    let fields: &mut dyn Any = &mut *state.tables.fields;
    // The state of a file always has fields of this type.
    fields.downcast_mut().ok_or(redb::Error::DatabaseClosed)
}

/// Takes the error of the last failed operation, if there is one.
pub(super) fn take_failure(state: &mut State) -> Option<Trouble> {
    fields_of(state).ok()?.failure.take()
}

impl FileFields {
    pub(super) fn transaction(&self) -> Result<&WriteTransaction, redb::Error> {
        self.transaction.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    pub(super) fn take(&mut self) -> Result<WriteTransaction, redb::Error> {
        self.transaction.take().ok_or(redb::Error::DatabaseClosed)
    }

    /// Works on a table within the open transaction. Keeps an error for [`take_failure`].
    fn on_table<R>(
        &self,
        table: Definition,
        work: impl FnOnce(&mut StoredTable<'_, &'static [u8], &'static [u8]>) -> Result<R, redb::Error>,
    ) -> Result<R> {
        let work = || work(&mut self.transaction()?.open_table(table)?);
        work().map_err(|error| {
            let trouble = Trouble::from(error);
            let error = trouble.to_error(&self.path);
            self.failure.replace(Some(trouble));
            error
        })
    }
}

/// Removes the keys from `from` on that are below `to`.
pub(super) fn remove_range(
    stored: &mut StoredTable<'_, &'static [u8], &'static [u8]>,
    from: &[u8],
    to: &[u8],
) -> Result<(), redb::Error> {
    stored.retain_in::<&[u8], _>(from..to, |_, _| false)?;
    Ok(())
}

/// The first key after all keys that begin with a name.
pub(super) fn after_prefix(name: &[u8]) -> Vec<u8> {
    let mut end = name.to_vec();
    // The first byte of a name is below 255, so the loop ends before `end` is empty.
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

impl Fields for FileFields {
    fn bytes_per_field(&self) -> usize {
        32
    }

    fn get(&self, table: &Table, fields: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let name = pack::pack(table);
        self.on_table(FIELDS, |stored| {
            let values = fields.iter().map(|field| {
                let value = stored.get(&*[&*name, field].concat())?;
                Ok(value.map(|value| value.value().to_vec()))
            });
            values.collect()
        })
    }

    fn write(
        &mut self,
        table: &Table,
        removed: &[Vec<u8>],
        set: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<FieldChange> {
        let (name, mut change) = (pack::pack(table), FieldChange::default());
        self.on_table(FIELDS, |stored| {
            for field in removed {
                let before = stored.remove(&*[&*name, field].concat())?;
                change.note(field, before.map(|before| before.value().len()), None);
            }
            for (field, value) in set {
                let before = stored.insert(&*[&*name, field].concat(), &**value)?;
                let before = before.map(|before| before.value().len());
                change.note(field, before, Some(value.len()));
            }
            Ok(change)
        })
    }

    fn clear(&mut self, table: &Table) -> Result<()> {
        let start = pack::pack(table);
        self.on_table(FIELDS, |stored| {
            remove_range(stored, &start, &after_prefix(&start))
        })
    }

    fn visit(&self, table: &Table, after: Option<&[u8]>, show: &mut Show<'_>) -> Result<()> {
        let name = pack::pack(table);
        let (end, start) = (
            after_prefix(&name),
            [&name, after.unwrap_or_default()].concat(),
        );
        let from = match after {
            Some(_) => Bound::Excluded(&*start),
            None => Bound::Included(&*start),
        };
        self.on_table(FIELDS, |stored| {
            for field in stored.range::<&[u8]>((from, Bound::Excluded(&*end)))? {
                let (key, value) = field?;
                let field = key.value().get(name.len()..).unwrap_or_default();
                if show(field, value.value()).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    fn note_extent(&mut self, table: &Table, extent: Option<&Extent>) -> Result<()> {
        let name = pack::pack(table);
        self.on_table(EXTENTS, |stored| {
            match extent {
                Some(extent) => stored.insert(&*name, &*pack::pack(extent))?,
                None => stored.remove(&*name)?,
            };
            Ok(())
        })
    }
}
