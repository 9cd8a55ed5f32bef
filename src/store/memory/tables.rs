//! The tables: fields with packed values, as the fold reads and writes them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::model::tier::{FINEST, Revision, RolledUp, TierSlice};
use crate::store::table::{FieldWrites, Table};
use crate::store::table_reads::FieldPage;

/// Fields on one page.
const FIELDS_PER_PAGE: usize = 500;
/// Seconds between two times at which expired tables are removed.
const EXPIRY_INTERVAL: i64 = 60;
/// Bytes of a field in its table, without its name and its value.
const PER_FIELD: usize = 96;
/// The part of the bytes of the records that minute reports may take.
const REPORTS_PART: usize = 4;

/// All tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    by_name: BTreeMap<Table, Fields>,
    /// When expired tables were last removed.
    expired_at: i64,
    /// About how many bytes the minute reports take.
    report_bytes: usize,
    /// About how many bytes the records take.
    record_bytes: usize,
    /// Of each slice of the records, the number of writes of all slices when it was last written.
    revisions: HashMap<TierSlice, Revision>,
    /// The number of writes of slices.
    writes: Revision,
}

/// The fields of a table.
#[derive(Clone, Debug, Default)]
struct Fields {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// About how many bytes they take.
    bytes: usize,
    /// When the table expires; `None` for never.
    expires_at: Option<i64>,
}

impl Fields {
    fn is_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    fn set(&mut self, field: &[u8], value: &[u8]) {
        self.bytes += bytes_of(field, value);
        if let Some(before) = self.values.insert(field.into(), value.into()) {
            self.bytes -= bytes_of(field, &before);
        }
    }

    fn remove(&mut self, field: &[u8]) {
        if let Some(before) = self.values.remove(field) {
            self.bytes -= bytes_of(field, &before);
        }
    }
}

fn bytes_of(field: &[u8], value: &[u8]) -> usize {
    PER_FIELD + field.len() + value.len()
}

impl Tables {
    /// Replaces and removes fields, and sets when their table expires.
    pub(super) fn write(&mut self, writes: &FieldWrites, now: i64) {
        if writes.is_ended {
            self.remove(&writes.table);
            return;
        }
        if self
            .by_name
            .get(&writes.table)
            .is_some_and(|fields| fields.is_expired(now))
        {
            self.remove(&writes.table);
        }
        let is_empty = writes.set.is_empty();
        if is_empty && !self.by_name.contains_key(&writes.table) {
            return;
        }
        let fields = self.by_name.entry(writes.table.clone()).or_default();
        let before = fields.bytes;
        for field in &writes.removed {
            fields.remove(field);
        }
        for (field, value) in &writes.set {
            fields.set(field, value);
        }
        if let Some(ttl) = writes.ttl {
            fields.expires_at = Some(now.saturating_add(ttl));
        }
        let (after, is_left) = (fields.bytes, !fields.values.is_empty());
        if let Some(bytes) = self.bounded_bytes(&writes.table) {
            *bytes = *bytes + after - before;
        }
        if let Some(slice) = writes.table.slice().filter(|_| !is_empty) {
            self.writes += 1;
            self.revisions.insert(slice, self.writes);
        }
        if !is_left {
            self.remove(&writes.table);
        }
    }

    /// Raises the value of a field of an ordered table; a lower value changes nothing.
    pub(super) fn raise(&mut self, table: Table, field: &[u8], value: i64) {
        let fields = self.by_name.entry(table).or_default();
        let before = fields.values.get(field);
        let before = before.and_then(|before| number(before));
        if before.is_none_or(|before| value > before) {
            fields.set(field, value.to_string().as_bytes());
        }
    }

    fn remove(&mut self, table: &Table) {
        let Some(fields) = self.by_name.remove(table) else {
            return;
        };
        if let Some(bytes) = self.bounded_bytes(table) {
            *bytes -= fields.bytes;
        }
        if let Some(slice) = table.slice() {
            self.revisions.remove(&slice);
        }
    }

    /// The bytes of all tables of the same sort, if they are bounded together.
    fn bounded_bytes(&mut self, table: &Table) -> Option<&mut usize> {
        match table {
            Table::Records { .. } => Some(&mut self.record_bytes),
            Table::InstanceMinutes { .. } | Table::VersionMinutes { .. } => {
                Some(&mut self.report_bytes)
            }
            _ => None,
        }
    }

    /// Removes the tables that have expired, and the oldest records and minute reports until the others take about
    /// `bytes`. Records of the finest tier go first, as the coarser tiers include them; those that are still to be
    /// rolled up stay.
    pub(super) fn retain(&mut self, bytes: usize, rolled: &RolledUp, now: i64) {
        if now.saturating_sub(self.expired_at) >= EXPIRY_INTERVAL || now < self.expired_at {
            self.expired_at = now;
            let expired = self.by_name.iter();
            let expired = expired.filter(|(_, fields)| fields.is_expired(now));
            let expired: Vec<Table> = expired.map(|(table, _)| table.clone()).collect();
            expired.iter().for_each(|table| self.remove(table));
        }
        while self.report_bytes > bytes / REPORTS_PART
            && let Some(minute) = self.oldest_report()
        {
            self.remove(&Table::InstanceMinutes { minute });
            self.remove(&Table::VersionMinutes { minute });
        }
        while self.record_bytes + self.report_bytes > bytes
            && let Some(table) = self.oldest_records(rolled)
        {
            self.remove(&table);
        }
    }

    /// The records that are dropped first.
    fn oldest_records(&self, rolled: &RolledUp) -> Option<Table> {
        let first = Table::records((0, i64::MIN));
        let tables = self.by_name.range(first..).map(|(table, _)| table);
        let mut slices = tables.map_while(|table| Some((table, table.slice()?)));
        let dropped = slices.find(|(_, (seconds, start))| {
            *seconds != FINEST.seconds || rolled.contains(*start) && !rolled.is_pending(*start)
        });
        dropped.map(|(table, _)| table.clone())
    }

    /// The oldest minute of which there are reports.
    fn oldest_report(&self) -> Option<i64> {
        let from = |table: Table| self.by_name.range(table..).next();
        let minute = i64::MIN;
        let oldest = [
            from(Table::InstanceMinutes { minute }),
            from(Table::VersionMinutes { minute }),
        ];
        let minutes = oldest
            .into_iter()
            .flatten()
            .filter_map(|(table, _)| match table {
                Table::InstanceMinutes { minute } | Table::VersionMinutes { minute } => {
                    Some(*minute)
                }
                _ => None,
            });
        minutes.min()
    }

    /// Which content each slice of the records has.
    pub(super) fn revisions(&self, now: i64) -> impl Iterator<Item = (TierSlice, Revision)> {
        let revisions = self.revisions.iter();
        let live = revisions.filter(move |(at, _)| self.count(&Table::records(**at), now) > 0);
        live.map(|(at, revision)| (*at, *revision))
    }

    /// The value of a field.
    pub(super) fn get(&self, table: &Table, field: &[u8], now: i64) -> Option<&[u8]> {
        let fields = self.live(table, now)?;
        fields.values.get(field).map(|value| &**value)
    }

    /// The fields of a table with their values, in the order of the fields.
    pub(super) fn fields(&self, table: &Table, now: i64) -> impl Iterator<Item = (&[u8], &[u8])> {
        let values = self.live(table, now).map(|fields| fields.values.iter());
        let values = values.into_iter().flatten();
        values.map(|(field, value)| (&**field, &**value))
    }

    /// The number of fields of a table.
    pub(super) fn count(&self, table: &Table, now: i64) -> usize {
        self.live(table, now)
            .map_or(0, |fields| fields.values.len())
    }

    /// Some fields of a table, from where the page before ended on.
    pub(super) fn page(&self, table: &Table, from: Option<&str>, now: i64) -> FieldPage {
        let Some(fields) = self.live(table, now) else {
            return FieldPage::default();
        };
        let after = from.map(field_in);
        let start = match &after {
            Some(last) => Bound::Excluded(&**last),
            None => Bound::Unbounded,
        };
        let values = fields.values.range::<[u8], _>((start, Bound::Unbounded));
        let page: Vec<_> = values
            .take(FIELDS_PER_PAGE)
            .map(|(field, value)| (field.to_vec(), value.to_vec()))
            .collect();
        FieldPage {
            next: match page.last() {
                Some((last, _)) if page.len() == FIELDS_PER_PAGE => Some(cursor_at(last)),
                _ => None,
            },
            fields: page,
        }
    }

    fn live(&self, table: &Table, now: i64) -> Option<&Fields> {
        self.by_name
            .get(table)
            .filter(|fields| !fields.is_expired(now))
    }
}

/// The value of a field of an ordered table.
pub(super) fn number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The cursor behind a field: its name in hexadecimal.
fn cursor_at(field: &[u8]) -> String {
    field.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The field before a cursor.
fn field_in(cursor: &str) -> Vec<u8> {
    let digits = cursor.as_bytes().chunks(2);
    let bytes = digits.map(|digits| {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        u8::from_str_radix(digits, 16).unwrap_or(0)
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    /// A write of one field of ten bytes that expires after a thousand seconds.
    fn write(table: Table) -> FieldWrites {
        let mut write = FieldWrites::new(table, Some(1_000));
        write.set.push((vec![1; 8], vec![2; 2]));
        write
    }

    fn slices(tables: &Tables) -> Vec<TierSlice> {
        tables.by_name.keys().filter_map(Table::slice).collect()
    }

    #[test]
    fn the_oldest_records_are_dropped_by_size_and_pending_ones_stay() {
        let (mut tables, rolled) = (Tables::default(), RolledUp::from_text("59940"));
        let coarse = [(1_800, 57_600), (1_800, 59_400), (21_600, 43_200)];
        let minutes = (990..1_001).map(|minute| (60, 60 * minute));
        for at in minutes.chain(coarse) {
            // Twice, so that one replaces the other.
            tables.write(&write(Table::records(at)), NOW);
            tables.write(&write(Table::records(at)), NOW);
        }
        let one = bytes_of(&[1; 8], &[2; 2]);
        assert_eq!(tables.record_bytes, 14 * one);
        assert_eq!(tables.revisions(NOW).count(), 14);
        tables.retain(14 * one, &rolled, NOW);
        assert_eq!(slices(&tables).len(), 14);
        tables.retain(13 * one, &rolled, NOW);
        assert_eq!(slices(&tables)[0], (60, 60 * 991), "the oldest minute");
        // Minutes 999 and 1,000 are not rolled up.
        tables.retain(5 * one - 1, &rolled, NOW);
        let pending = [(60, 60 * 999), (60, 60 * 1_000)];
        assert_eq!(slices(&tables), [&pending[..], &coarse[1..]].concat());
        tables.retain(0, &rolled, NOW);
        assert_eq!(slices(&tables), pending);
        assert_eq!(
            (tables.record_bytes, tables.revisions(NOW).count()),
            (2 * one, 2)
        );
    }

    #[test]
    fn the_oldest_reports_are_dropped_beyond_their_part() {
        let (mut tables, rolled) = (Tables::default(), RolledUp::default());
        for minute in [NOW, NOW + 60, NOW + 120] {
            tables.write(&write(Table::InstanceMinutes { minute }), NOW);
            tables.write(&write(Table::VersionMinutes { minute }), NOW);
        }
        let one = bytes_of(&[1; 8], &[2; 2]);
        tables.retain(REPORTS_PART * 6 * one, &rolled, NOW);
        assert_eq!(tables.by_name.len(), 6);
        tables.retain(REPORTS_PART * (6 * one - 1), &rolled, NOW);
        assert_eq!((tables.by_name.len(), tables.report_bytes), (4, 4 * one));
        assert_eq!(tables.oldest_report(), Some(NOW + 60));
    }

    #[test]
    fn a_table_expires_unless_it_is_written_again_and_begins_empty() {
        let (mut tables, rolled) = (Tables::default(), RolledUp::default());
        let (at, other) = (Table::records((60, 60)), Table::Rankings);
        for table in [&at, &other] {
            tables.write(&write(table.clone()), NOW);
        }
        tables.write(&FieldWrites::expire(other.clone(), 2_000), NOW);
        assert_eq!(tables.count(&at, NOW + 999), 1);
        assert_eq!(tables.revisions(NOW + 999).count(), 1);
        assert_eq!(tables.count(&at, NOW + 1_000), 0);
        assert_eq!(tables.revisions(NOW + 1_000).count(), 0);
        let mut removal = FieldWrites::new(at.clone(), Some(1_000));
        removal.removed.push(vec![9]);
        tables.write(&removal, NOW + 1_000);
        tables.write(&FieldWrites::expire(at.clone(), 1_000), NOW + 1_000);
        assert_eq!(
            tables.count(&at, NOW + 1_000),
            0,
            "only fields make a table"
        );
        tables.retain(usize::MAX, &rolled, NOW + 1_000);
        assert!(tables.by_name.keys().eq([&other]));
        assert_eq!((tables.record_bytes, tables.revisions(NOW).count()), (0, 0));
        tables.write(&FieldWrites::end(other), NOW);
        assert!(tables.by_name.is_empty());
    }

    #[test]
    fn pages_have_each_field_once() {
        let mut tables = Tables::default();
        let mut write = FieldWrites::new(Table::Rankings, None);
        let fields = (0..2 * FIELDS_PER_PAGE + 1).map(|n| n.to_string().into_bytes());
        write.set.extend(fields.map(|field| (field, vec![1])));
        tables.write(&write, NOW);
        let (mut listed, mut from) = (Vec::new(), None);
        loop {
            let page = tables.page(&Table::Rankings, from.as_deref(), NOW);
            listed.extend(page.fields);
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        write.set.sort_unstable();
        assert_eq!(listed, write.set);
    }
}
