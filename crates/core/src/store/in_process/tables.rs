//! The tables of a store in one process: their sizes, when they expire, and which tables are removed to make room.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::fields::{Extent, Fields, Show};
use crate::error::Result;
use crate::store::table::{FieldWrites, Table};
use crate::store::table_reads::{Field, TablePage, number};
use tower_pulse_model::pack::{from_hex, to_hex};
use tower_pulse_model::sorted::Map;
use tower_pulse_model::tier::{FINEST, Revision, RolledUp, TierSlice};

const FIELDS_PER_PAGE: usize = 500;
/// A page ends after this number of bytes.
const BYTES_PER_PAGE: usize = 1024 * 1024;
/// Expired tables are removed at intervals of this number of seconds.
const EXPIRY_INTERVAL: i64 = 60;
/// The minute reports may take 1 / `REPORTS_PART` of the limit ([`Bound`]).
const REPORTS_PART: usize = 4;

/// All tables.
#[cfg_attr(any(test, feature = "__test_store"), derive(Clone))]
pub struct Tables {
    /// The fields.
    pub fields: Box<dyn Fields>,
    by_name: Map<Table, Extent>,
    /// The limit in bytes, and the tables to which the limit applies.
    pub bound: Bound,
    /// When expired tables were last removed, in Unix seconds.
    expired_at: i64,
    report_bytes: usize,
    record_bytes: usize,
    bytes: usize,
    /// The revision of each slice of the records: the value of `writes` when the slice was last written.
    revisions: HashMap<TierSlice, Revision>,
    /// The number of writes of slices.
    pub writes: Revision,
    /// The number of tables of records that were removed to make room.
    pub removed_for_room: u64,
}

/// The approximate limit in bytes, and the tables to which the limit applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The records and the minute reports.
    Records(usize),
    /// All tables.
    All(usize),
}

impl Tables {
    /// Without tables.
    pub fn new(fields: Box<dyn Fields>) -> Self {
        Self {
            fields,
            by_name: Map::default(),
            bound: Bound::Records(usize::MAX),
            expired_at: 0,
            report_bytes: 0,
            record_bytes: 0,
            bytes: 0,
            revisions: HashMap::new(),
            writes: 0,
            removed_for_room: 0,
        }
    }

    /// Tables that an earlier [`Tables`] has written. The slices get revisions above `earlier`, the last revision that
    /// the earlier [`Tables`] has used.
    pub fn reopened(
        fields: Box<dyn Fields>,
        by_name: Map<Table, Extent>,
        earlier: Revision,
    ) -> Self {
        let mut tables = Self {
            writes: earlier,
            ..Self::new(fields)
        };
        for (table, extent) in by_name {
            tables.account(&table, 0, extent.bytes as usize);
            if let Some(slice) = table.slice() {
                tables.writes += 1;
                tables.revisions.insert(slice, tables.writes);
            }
            tables.by_name.insert(table, extent);
        }
        tables
    }

    /// Sets and removes fields of a table, and sets when the table expires.
    pub fn write(&mut self, writes: &FieldWrites, now: i64) -> Result<()> {
        let table = &writes.table;
        if writes.is_ended {
            return self.remove(table);
        }
        let extent = self.by_name.get(table);
        if extent.is_some_and(|extent| extent.is_expired(now)) {
            self.remove(table)?;
        }
        let is_empty = writes.set.is_empty();
        let before = self.by_name.get(table).copied();
        if is_empty && before.is_none() {
            return Ok(());
        }
        let change = self.fields.write(table, &writes.removed, &writes.set)?;
        let mut extent = before.unwrap_or_default();
        extent.add(change, self.fields.bytes_per_field());
        if let Some(ttl) = writes.ttl {
            extent.expires_at = Some(now.saturating_add(ttl));
        }
        self.set_extent(table, extent)?;
        if let Some(slice) = table.slice().filter(|_| !is_empty) {
            self.writes += 1;
            self.revisions.insert(slice, self.writes);
        }
        match extent.fields {
            0 => self.remove(table),
            _ => Ok(()),
        }
    }

    /// Raises the values of fields of an ordered table. Ignores lower values.
    pub fn raise(&mut self, table: Table, values: Vec<(Vec<u8>, i64)>, now: i64) -> Result<()> {
        let names: Vec<_> = values.iter().map(|(name, _)| name.clone()).collect();
        let before = self.get(&table, &names, now)?;
        let mut highest = Map::<Vec<u8>, i64>::default();
        for ((name, value), before) in values.into_iter().zip(before) {
            if before.and_then(|before| number(&before)) < Some(value) {
                let raised = highest.or_insert_with(name, || value);
                *raised = value.max(*raised);
            }
        }
        let set = highest.into_iter();
        let set = set.map(|(name, value)| (name, value.to_string().into_bytes()));
        let writes = FieldWrites {
            set: set.collect(),
            ..FieldWrites::new(table, None)
        };
        self.write(&writes, now)
    }

    fn remove(&mut self, table: &Table) -> Result<()> {
        let Some(extent) = self.by_name.remove(table) else {
            return Ok(());
        };
        self.account(table, extent.bytes as usize, 0);
        if let Some(slice) = table.slice() {
            self.revisions.remove(&slice);
        }
        self.fields.clear(table)?;
        self.fields.note_extent(table, None)
    }

    fn set_extent(&mut self, table: &Table, extent: Extent) -> Result<()> {
        let before = self.by_name.insert(table.clone(), extent);
        if before == Some(extent) {
            return Ok(());
        }
        let before = before.map_or(0, |before| before.bytes as usize);
        self.account(table, before, extent.bytes as usize);
        self.fields.note_extent(table, Some(&extent))
    }

    fn account(&mut self, table: &Table, before: usize, after: usize) {
        self.bytes = self.bytes + after - before;
        let bounded = match table {
            Table::Records { .. } => &mut self.record_bytes,
            Table::InstanceMinutes { .. } | Table::VersionMinutes { .. } => &mut self.report_bytes,
            _ => return,
        };
        *bounded = *bounded + after - before;
    }

    /// Once a minute, removes the tables that have expired. Then removes the oldest minute reports that exceed their
    /// part of the limit. Last, removes the oldest records until the limit is met: first records of the finest tier,
    /// because coarser tiers include these records. Records that must still be rolled up stay.
    pub fn retain(&mut self, rolled: &RolledUp, now: i64) -> Result<()> {
        if now.saturating_sub(self.expired_at) >= EXPIRY_INTERVAL || now < self.expired_at {
            self.expired_at = now;
            let expired = self.by_name.iter();
            let expired = expired.filter(|(_, extent)| extent.is_expired(now));
            let expired: Vec<Table> = expired.map(|(table, _)| table.clone()).collect();
            for table in &expired {
                self.remove(table)?;
            }
        }
        while self.report_bytes > self.bytes_and_limit().1 / REPORTS_PART
            && let Some(minute) = self.oldest_report()
        {
            self.remove(&Table::InstanceMinutes { minute })?;
            self.remove(&Table::VersionMinutes { minute })?;
        }
        loop {
            let (bytes, most) = self.bytes_and_limit();
            let oldest = (bytes > most).then(|| self.oldest_records(rolled));
            let Some(Some(table)) = oldest else {
                return Ok(());
            };
            self.removed_for_room += 1;
            self.remove(&table)?;
        }
    }

    fn bytes_and_limit(&self) -> (usize, usize) {
        match self.bound {
            Bound::Records(most) => (self.record_bytes + self.report_bytes, most),
            Bound::All(most) => (self.bytes, most),
        }
    }

    /// The records to remove first: the oldest of the finest tier that has any records to remove.
    fn oldest_records(&self, rolled: &RolledUp) -> Option<Table> {
        let first = Table::records((0, i64::MIN));
        let tables = self.by_name.after(Some(&first));
        let mut slices = tables.map_while(|(table, _)| Some((table, table.slice()?)));
        let oldest = slices.find(|(_, (seconds, start))| {
            *seconds != FINEST.seconds || rolled.contains(*start) && !rolled.is_pending(*start)
        });
        oldest.map(|(table, _)| table.clone())
    }

    fn oldest_report(&self) -> Option<i64> {
        let minute = |table: &Table| match table {
            Table::InstanceMinutes { minute } | Table::VersionMinutes { minute } => Some(*minute),
            _ => None,
        };
        self.by_name.keys().filter_map(minute).min()
    }

    /// The revision of each slice of the records.
    pub fn revisions(&self, now: i64) -> impl Iterator<Item = (TierSlice, Revision)> {
        let revisions = self.revisions.iter();
        let live = revisions.filter(move |(at, _)| self.count(&Table::records(**at), now) > 0);
        live.map(|(at, revision)| (*at, *revision))
    }

    /// The values of fields, in the order of `fields`.
    pub fn get(&self, table: &Table, fields: &[Vec<u8>], now: i64) -> Result<Vec<Option<Vec<u8>>>> {
        match self.count(table, now) {
            0 => Ok(vec![None; fields.len()]),
            _ => self.fields.get(table, fields),
        }
    }

    /// Visits the fields of a table whose names come after `after`, sorted by name: calls `show` with each name and its
    /// value, until `show` breaks.
    pub fn visit(
        &self,
        table: &Table,
        after: Option<&[u8]>,
        now: i64,
        show: &mut Show<'_>,
    ) -> Result<()> {
        match self.count(table, now) {
            0 => Ok(()),
            _ => self.fields.visit(table, after, show),
        }
    }

    /// All fields of a table with their values, sorted by field.
    pub fn all(&self, table: &Table, now: i64) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        self.visit(table, None, now, &mut |field, value| {
            fields.push((field.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(fields)
    }

    /// The number of fields of a table; 0 if the table does not exist or has expired.
    pub fn count(&self, table: &Table, now: i64) -> usize {
        let extent = self.by_name.get(table);
        let live = extent.filter(|extent| !extent.is_expired(now));
        live.map_or(0, |extent| extent.fields as usize)
    }

    /// A page of the fields of a table. `from` is the cursor of the page before.
    pub fn page(&self, table: &Table, from: Option<&str>, now: i64) -> Result<TablePage> {
        let after: Option<Vec<u8>> = from.and_then(from_hex);
        let (mut page, mut bytes) = (TablePage::default(), 0);
        self.visit(table, after.as_deref(), now, &mut |field, value| {
            if page.fields.len() == FIELDS_PER_PAGE || bytes >= BYTES_PER_PAGE {
                page.next = page.fields.last().map(|(last, _)| to_hex(last));
                return ControlFlow::Break(());
            }
            bytes += field.len() + value.len();
            page.fields.push((field.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(page)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::store::in_process::memory_fields::MemoryFields;
    use tower_pulse_model::pack::{pack, unpack};

    const NOW: i64 = 1_700_000_000;

    /// Writes one field of ten bytes that expires after a thousand seconds.
    fn write(tables: &mut Tables, table: Table) {
        let mut write = FieldWrites::new(table, Some(1_000));
        write.set.push((vec![1; 8], vec![2; 2]));
        tables.write(&write, NOW).unwrap();
    }

    fn empty() -> Tables {
        Tables::new(Box::new(MemoryFields::default()))
    }

    fn retain(tables: &mut Tables, bytes: usize, rolled: &RolledUp) {
        tables.bound = Bound::Records(bytes);
        tables.retain(rolled, NOW).unwrap();
    }

    fn slices(tables: &Tables) -> Vec<TierSlice> {
        tables.by_name.keys().filter_map(Table::slice).collect()
    }

    #[test]
    fn the_oldest_records_are_removed_by_size_and_pending_ones_stay() {
        let rolled = unpack(&pack(&(59_940i64, Vec::<i64>::new()))).unwrap();
        let mut tables = empty();
        let coarse = [(1_800, 57_600), (1_800, 59_400), (21_600, 43_200)];
        let minutes = (990..1_001).map(|minute| (60, 60 * minute));
        for at in minutes.chain(coarse) {
            write(&mut tables, Table::records(at));
            write(&mut tables, Table::records(at));
        }
        let one = MemoryFields::default().bytes_per_field() + 10;
        assert_eq!(tables.record_bytes, 14 * one);
        assert_eq!(tables.revisions(NOW).count(), 14);
        retain(&mut tables, 14 * one, &rolled);
        assert_eq!(slices(&tables).len(), 14);
        retain(&mut tables, 13 * one, &rolled);
        assert_eq!(slices(&tables)[0], (60, 60 * 991), "the oldest minute");
        // Minutes 999 and 1,000 are not rolled up.
        retain(&mut tables, 5 * one - 1, &rolled);
        let pending = [(60, 60 * 999), (60, 60 * 1_000)];
        assert_eq!(slices(&tables), [&pending[..], &coarse[1..]].concat());
        retain(&mut tables, 0, &rolled);
        assert_eq!(slices(&tables), pending);
        assert_eq!(tables.record_bytes, 2 * one);
        assert_eq!(tables.revisions(NOW).count(), 2);
    }

    #[test]
    fn the_oldest_reports_are_removed_beyond_their_part() {
        let (mut tables, rolled) = (empty(), RolledUp::default());
        for minute in [NOW, NOW + 60, NOW + 120] {
            write(&mut tables, Table::InstanceMinutes { minute });
            write(&mut tables, Table::VersionMinutes { minute });
        }
        let one = MemoryFields::default().bytes_per_field() + 10;
        retain(&mut tables, REPORTS_PART * 6 * one, &rolled);
        assert_eq!(tables.by_name.len(), 6);
        retain(&mut tables, REPORTS_PART * (6 * one - 1), &rolled);
        assert_eq!((tables.by_name.len(), tables.report_bytes), (4, 4 * one));
        assert_eq!(tables.oldest_report(), Some(NOW + 60));
    }

    #[test]
    fn a_table_expires_unless_it_is_written_again_and_begins_empty() {
        let (mut tables, rolled) = (empty(), RolledUp::default());
        let (at, other) = (Table::records((60, 60)), Table::Rankings);
        for table in [&at, &other] {
            write(&mut tables, table.clone());
        }
        let later = FieldWrites::new(other.clone(), Some(2_000));
        tables.write(&later, NOW).unwrap();
        for (now, count) in [(NOW + 999, 1), (NOW + 1_000, 0)] {
            assert_eq!(tables.count(&at, now), count);
            assert_eq!(tables.revisions(now).count(), count);
        }
        let mut removal = FieldWrites::new(at.clone(), Some(1_000));
        removal.removed.push(vec![9]);
        for write in [removal, FieldWrites::new(at.clone(), Some(1_000))] {
            tables.write(&write, NOW + 1_000).unwrap();
        }
        let count = tables.count(&at, NOW + 1_000);
        assert_eq!(count, 0, "a table without fields does not exist");
        tables.retain(&rolled, NOW + 1_000).unwrap();
        assert!(tables.by_name.keys().eq([&other]));
        assert_eq!((tables.record_bytes, tables.revisions(NOW).count()), (0, 0));
        tables.write(&FieldWrites::end(other), NOW).unwrap();
        assert!(tables.by_name.is_empty());
    }
}
