//! Reads the tables of the hour-of-week profiles, from any store. Each table covers five weeks. A profile is in the
//! table of the five weeks in which its context last had a sample. After the last sample, the profile is kept for five
//! to ten weeks.

use super::table::Table;
use super::table_reads::{Purpose, TableRead, TableReader};
use crate::error::Result;
use tower_pulse_model::pack::unpack;
use tower_pulse_model::profile::Profile;
use tower_pulse_model::recorded_hours::RecordedHours;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slice::HOUR;

/// The period of a table, in seconds.
const FIVE_WEEKS: i64 = 5 * 7 * 24 * HOUR;

/// The field with the recorded part of each hour. No other field has this name, because the other fields are ids of
/// eight bytes.
pub const RECORDED: &[u8] = b"hours";

/// The start of the five weeks that contain a moment.
pub fn start_of(at: i64) -> i64 {
    at.div_euclid(FIVE_WEEKS).saturating_mul(FIVE_WEEKS)
}

/// The two tables that have profiles at a moment: the table of the five weeks that contain the moment, and the table of
/// the five weeks before.
pub fn tables_at(at: i64) -> [Table; 2] {
    let start = start_of(at);
    [start, start.saturating_sub(FIVE_WEEKS)].map(|start| Table::Profiles { start })
}

/// The seconds from `now` for which the table of `at` lives: to the end of the next table's five weeks, but at least
/// five weeks.
pub fn ttl(at: i64, now: i64) -> i64 {
    let end = start_of(at).saturating_add(2 * FIVE_WEEKS);
    // A clock that is ahead must not shorten the life of new profiles.
    end.saturating_sub(now).max(FIVE_WEEKS)
}

/// How much of each hour was recorded. `None` if this was never written, or another program has overwritten the field.
pub async fn recorded_hours(
    reader: &dyn TableReader,
    purpose: Purpose,
    now: i64,
) -> Result<Option<RecordedHours>> {
    let fields = fields(reader, purpose, now, &[RECORDED.to_vec()]).await?;
    let hours = fields.into_iter().flatten();
    Ok(hours
        .filter_map(|hours| unpack::<RecordedHours>(&hours))
        .max_by_key(RecordedHours::until))
}

/// The profile of a context, updated to the last recorded hour; `None` if the context has no profile.
pub async fn profile(reader: &dyn TableReader, id: RecordId, now: i64) -> Result<Option<Profile>> {
    let names = [id.to_bytes().to_vec(), RECORDED.to_vec()];
    let fields = fields(reader, Purpose::Query, now, &names).await?;
    let [profiles, hours]: [Vec<_>; 2] = [0, 1].map(|at| {
        let of_tables = fields.chunks(names.len());
        of_tables
            .filter_map(|fields| fields[at].as_deref())
            .collect()
    });
    let recorded = hours.into_iter().filter_map(unpack::<RecordedHours>);
    let recorded = recorded.max_by_key(RecordedHours::until);
    let mut profile = newest(profiles.into_iter());
    if let (Some(profile), Some(recorded)) = (&mut profile, recorded) {
        profile.apply_idle(recorded.until(), &recorded);
    }
    Ok(profile)
}

/// The newest of the packed profiles of a context.
pub fn newest<'a>(packed: impl Iterator<Item = &'a [u8]>) -> Option<Profile> {
    packed
        .filter_map(unpack::<Profile>)
        .max_by_key(Profile::until)
}

/// Fields of both tables. The newer table comes first.
async fn fields(
    reader: &dyn TableReader,
    purpose: Purpose,
    now: i64,
    names: &[Vec<u8>],
) -> Result<Vec<Option<Vec<u8>>>> {
    let reads = tables_at(now).map(|table| TableRead::Values(table, names.into()));
    let mut answers = reader.read_tables(purpose, &reads).await?;
    let mut fields = answers.page().values;
    fields.append(&mut answers.page().values);
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_lives_for_five_to_ten_weeks() {
        let start = 560 * FIVE_WEEKS;
        let [now, before] = tables_at(start + 7);
        assert_eq!(now, Table::Profiles { start });
        let start = start - FIVE_WEEKS;
        assert_eq!(before, Table::Profiles { start });
        for at in [start, start + 1, start + FIVE_WEEKS - 1] {
            assert_eq!(at + ttl(at, at), start + 2 * FIVE_WEEKS);
        }
        assert_eq!(ttl(start, start + 9 * FIVE_WEEKS), FIVE_WEEKS);
    }
}
