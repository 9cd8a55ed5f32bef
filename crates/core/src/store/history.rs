//! The field that says which days a store keeps, the same in each store.

use super::table::{FieldWrites, Table};
use super::table_reads::{Purpose, TableRead, TableReader};
use crate::error::StoreError;
use tower_pulse_model::pack::{Reader, Writer};
use tower_pulse_model::tiers::{History, LEAST_DAYS, MOST_DAYS};

/// The field of [`Table::History`].
const KEPT: &[u8] = b"kept";

/// The history that a store keeps, if it does. What another program has written instead reads as none.
pub async fn read(
    reader: &dyn TableReader,
    purpose: Purpose,
) -> Result<Option<History>, StoreError> {
    let field = TableRead::Values(Table::History, [KEPT.to_vec()].into());
    let mut answers = reader.read_tables(purpose, &[field]).await?;
    let packed = answers.values().pop().flatten();
    Ok(packed.and_then(|packed| unpack(&packed)))
}

/// The write of a history, or of its end.
pub fn write(history: Option<History>) -> FieldWrites {
    let mut write = FieldWrites::new(Table::History, None);
    match history {
        Some(history) => write.set.push((KEPT.to_vec(), pack(&history))),
        None => write.removed.push(KEPT.to_vec()),
    }
    write
}

fn pack(history: &History) -> Vec<u8> {
    let mut out = Writer::default();
    out.uint(u64::from(history.days));
    out.int(history.since);
    out.int(history.asked_at);
    out.0
}

/// Unpacks a history; `None` if the bytes are none that this version allows.
fn unpack(bytes: &[u8]) -> Option<History> {
    let mut reader = Reader(bytes);
    let days = u32::try_from(reader.uint()?).ok();
    Some(History {
        days: days.filter(|days| (LEAST_DAYS..=MOST_DAYS).contains(days))?,
        since: reader.int()?,
        asked_at: reader.int()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_history_is_read_back_and_nothing_else_is() {
        let history = |days, since| History {
            days,
            since,
            asked_at: 1_700_000_000,
        };
        for history in [history(15, i64::MIN), history(400, -1)] {
            assert_eq!(unpack(&pack(&history)), Some(history));
        }
        for days in [0, 14, 401, u32::MAX] {
            assert_eq!(unpack(&pack(&history(days, 0))), None);
        }
        assert_eq!(unpack(b""), None);
        assert_eq!(unpack(&[15, 0]), None);
    }
}
