//! The field with the number of days of history that a store keeps. All stores use this field.

use super::table::{FieldWrites, Table};
use super::table_reads::{Purpose, TableReader, read_value};
use crate::error::Result;
use tower_pulse_model::pack::{pack, unpack};
use tower_pulse_model::tiers::History;

const KEPT: &[u8] = b"kept";

/// The history that a store keeps; `None` if the store keeps no history, or if another program has overwritten the
/// field.
pub async fn read(reader: &dyn TableReader, purpose: Purpose) -> Result<Option<History>> {
    let packed = read_value(reader, purpose, Table::History, KEPT).await?;
    Ok(packed.and_then(|packed| unpack(&packed)))
}

/// The write that begins or changes the history, or ends the history if `history` is `None`.
pub fn write(history: Option<History>) -> FieldWrites {
    FieldWrites::of(
        Table::History,
        None,
        KEPT,
        history.map(|history| pack(&history)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_packed_history_is_read_back() {
        let history = |days, since| History {
            days,
            since,
            renewed_at: 1_700_000_000,
        };
        for history in [history(15, i64::MIN), history(400, -1)] {
            assert_eq!(unpack(&pack(&history)), Some(history));
        }
        for days in [0, 14, 401, u32::MAX] {
            assert_eq!(unpack::<History>(&pack(&history(days, 0))), None);
        }
        assert_eq!(unpack::<History>(b""), None);
        assert_eq!(unpack::<History>(&[15, 0]), None);
    }
}
