//! The parts of the [`State`] that the file has besides the fields of tables: the journal, the counters, and single
//! values.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableTable, TableDefinition};

use super::fields::{Definition, EXTENTS, FileFields, fields_of, remove_range};
use tower_pulse_core::store::in_process::{Counters, Heartbeats, State, Tables};
use tower_pulse_model::pack::{self, Packed};
use tower_pulse_model::sorted::Map;
use tower_pulse_model::tier::Revision;

/// The table with the state, which is one value.
const STATE: Definition = TableDefinition::new("state");
const CURRENT: &[u8] = b"current";
/// The entries that are not folded. The key is the offset of an entry, as eight big-endian bytes.
const ENTRIES: Definition = TableDefinition::new("journal");
/// The slices of counters, by name and precision.
const COUNTERS: Definition = TableDefinition::new("counters");

/// Data that this process keeps in memory when it opens the same file again.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    pub(super) heartbeats: Heartbeats,
    /// The number of writes of slices.
    pub(super) writes: Revision,
}

/// A state, and when the state was written, in Unix seconds; `None` for a new state.
pub(super) type Loaded = (State, Option<i64>);

fn unpack<T: Packed>(bytes: &[u8]) -> Result<T, redb::Error> {
    pack::unpack(bytes).ok_or_else(unreadable)
}

fn unreadable() -> redb::Error {
    redb::Error::Corrupted("its state cannot be read".to_owned())
}

/// Begins a transaction, and loads the state. For a file without a state, creates a state of this `generation`, which
/// begins at `now`.
pub(super) fn load(
    path: &Arc<Path>,
    database: &Database,
    generation: String,
    now: i64,
    earlier: &Earlier,
) -> Result<Loaded, redb::Error> {
    let transaction = database.begin_write()?;
    let kept = {
        let stored = transaction.open_table(STATE)?;
        let kept = stored.get(CURRENT)?;
        kept.map(|kept| kept.value().to_vec())
    };
    let mut extents = Map::default();
    for extent in transaction.open_table(EXTENTS)?.iter()? {
        let (name, extent) = extent?;
        // A table that only a later version knows stays in the file, unread.
        if let Some(table) = pack::unpack(name.value()) {
            extents.insert(table, unpack(extent.value())?);
        }
    }
    let mut entries = VecDeque::new();
    for entry in transaction.open_table(ENTRIES)?.iter()? {
        entries.push_back(unpack(entry?.1.value())?);
    }
    let mut counters = Counters::default();
    for counter in transaction.open_table(COUNTERS)?.iter()? {
        let (key, slices) = counter?;
        let (name, precision): (String, u32) = unpack(key.value())?;
        counters.set(&name, precision, unpack(slices.value())?);
    }
    counters.changed = Some(Map::default());
    let fields = FileFields {
        path: path.clone(),
        transaction: Some(transaction),
        failure: RefCell::default(),
    };
    let mut state = State::new(generation, now, Box::new(fields));
    state.counters = counters;
    state.heartbeats = earlier.heartbeats.clone();
    let Some(kept) = kept else {
        let is_new = extents.is_empty();
        return is_new.then_some((state, None)).ok_or_else(unreadable);
    };
    state.kept = unpack(&kept)?;
    state.kept.journal.entries = entries;
    state.tables = Tables::reopened(state.tables.fields, extents, earlier.writes);
    let written_at = Some(state.kept.written_at);
    Ok((state, written_at))
}

/// Writes the changes of the state, and commits the transaction, which makes them durable.
pub(super) fn commit(state: &mut State, database: &Database, now: i64) -> Result<(), redb::Error> {
    state.kept.written_at = now;
    let kept = pack::pack(&state.kept);
    let transaction = fields_of(state)?.take()?;
    transaction.open_table(STATE)?.insert(CURRENT, &*kept)?;
    {
        let mut stored = transaction.open_table(ENTRIES)?;
        let oldest = state.kept.journal.entries.front();
        let oldest = oldest.map_or(u64::MAX, |entry| entry.position.offset);
        remove_range(&mut stored, &[], &oldest.to_be_bytes())?;
        for entry in &state.kept.journal.entries {
            stored.insert(
                &entry.position.offset.to_be_bytes()[..],
                &*pack::pack(entry),
            )?;
        }
        let mut stored = transaction.open_table(COUNTERS)?;
        let changed = state.counters.changed.replace(Map::default());
        for (counter, ()) in changed.unwrap_or_default() {
            let key = pack::pack(&counter);
            match state.counters.get(&counter.0, counter.1) {
                Some(slices) => stored.insert(&*key, &*pack::pack(slices))?,
                None => stored.remove(&*key)?,
            };
        }
    }
    transaction.commit()?;
    fields_of(state)?.transaction = Some(database.begin_write()?);
    Ok(())
}
