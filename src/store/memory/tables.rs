//! The tables: fields with packed values, as the fold reads and writes them.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::store::journal::FieldPage;
use crate::store::table::{FieldWrites, Table};

/// Fields on one page.
const FIELDS_PER_PAGE: usize = 500;
/// Seconds between two times at which expired tables are removed.
const EXPIRY_INTERVAL: i64 = 60;
/// Bytes of a field in its table, without its name and its value.
const PER_FIELD: usize = 64;

/// All tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    by_name: BTreeMap<Table, Fields>,
    /// When expired tables were last removed.
    expired_at: i64,
    /// About how many bytes the minute reports take.
    report_bytes: usize,
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

fn is_report(table: &Table) -> bool {
    matches!(
        table,
        Table::InstanceMinutes { .. } | Table::VersionMinutes { .. }
    )
}

impl Tables {
    /// Replaces and removes fields.
    pub(super) fn write(&mut self, writes: &FieldWrites, now: i64) {
        if writes.is_ended {
            self.remove(&writes.table);
            return;
        }
        let fields = self.by_name.entry(writes.table.clone()).or_default();
        if fields.is_expired(now) {
            if is_report(&writes.table) {
                self.report_bytes -= fields.bytes;
            }
            *fields = Fields::default();
        }
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
        if is_report(&writes.table) {
            self.report_bytes = self.report_bytes + fields.bytes - before;
        }
        if fields.values.is_empty() {
            self.by_name.remove(&writes.table);
        }
    }

    fn remove(&mut self, table: &Table) {
        if let Some(fields) = self.by_name.remove(table)
            && is_report(table)
        {
            self.report_bytes -= fields.bytes;
        }
    }

    /// Removes the tables that have expired at `now`, and the minute reports of the oldest minutes until the others
    /// take about `report_bytes`.
    pub(super) fn expire(&mut self, now: i64, report_bytes: usize) {
        if now.saturating_sub(self.expired_at) >= EXPIRY_INTERVAL || now < self.expired_at {
            self.expired_at = now;
            let expired = self.by_name.iter();
            let expired = expired.filter(|(_, fields)| fields.is_expired(now));
            let expired: Vec<Table> = expired.map(|(table, _)| table.clone()).collect();
            expired.iter().for_each(|table| self.remove(table));
        }
        while self.report_bytes > report_bytes
            && let Some(minute) = self.oldest_report()
        {
            self.remove(&Table::InstanceMinutes { minute });
            self.remove(&Table::VersionMinutes { minute });
        }
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

    /// About how many bytes the minute reports take.
    pub(super) fn report_bytes(&self) -> usize {
        self.report_bytes
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
