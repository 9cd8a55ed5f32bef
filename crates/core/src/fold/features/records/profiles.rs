//! The hour-of-week profiles. Three minutes after an hour has ended, the hour is applied to the profile of each context
//! that has records in this hour. Each profile says which hours it has, so an instance that takes over can begin an
//! hour again without adding the hour twice.

use super::roll_up::{CONTEXTS_AT_ONCE, recorded};
use crate::fold::leased_store::{Leased, LeasedStore};
use crate::store::profiles::{self, RECORDED, tables_at};
use crate::store::table::{FieldWrites, Table};
use crate::store::table_reads::{Purpose, RecordState, TableRead};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::pack::{self, pack};
use tower_pulse_model::profile::Profile;
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::recorded_hours::RecordedHours;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slice::{HOUR, hour_of};
use tower_pulse_model::slices::Merge;

/// An hour is applied this many seconds after its end, because some instances flush only once a minute. Samples that
/// arrive later are in the records, but not in the profiles.
const APPLIED_AFTER: i64 = 180;
/// The most ended hours that are applied at once, because the records of half hours are kept for 49 hours.
const MOST_HOURS: i64 = 48;
/// The length, in seconds, of the slices that an hour is made from.
const HALF_HOUR: u32 = 1_800;
/// The most seconds by which applied hours may be ahead of ended hours, because the clock of an instance may be ahead.
/// Hours further ahead were applied under a wrong clock, and are taken back: otherwise no hour would be applied until
/// the clock reaches these hours.
const MOST_AHEAD: i64 = 26 * HOUR;
/// An instance counts as present between two reads of the journal that are at most this many seconds apart.
const MOST_APART: i64 = 60;

pub(super) struct Profiles {
    /// The most profiles that the store should have.
    most: usize,
    /// The hours that are applied; `None` until these hours are read. No other instance applies hours while the lease
    /// holds.
    applied: Option<RecordedHours>,
    pub(super) presence: Presence,
}

impl Profiles {
    pub(super) fn at_most(most: usize) -> Self {
        Self {
            most,
            applied: None,
            presence: Presence::default(),
        }
    }

    /// Applies the hours that have ended. Usually there is no such hour, and nothing is read.
    pub(super) async fn apply_due(&mut self, leased: &mut LeasedStore<'_>) -> Leased<()> {
        let rolled = &leased.lease.progress.rolled;
        if rolled.is_new() {
            return Ok(());
        }
        let end = hour_of(rolled.until().saturating_sub(APPLIED_AFTER));
        let applied = self.applied.as_ref().map(RecordedHours::until);
        if applied.is_some_and(|applied| (end..=end + MOST_AHEAD).contains(&applied)) {
            return Ok(());
        }
        let mut catch_up = self.catch_up(leased, end).await?;
        let first = catch_up.applied.until();
        for hour in (first..end).step_by(HOUR as usize) {
            catch_up.apply(leased, hour).await?;
        }
        if first < end {
            let writes = catch_up.last_writes(leased.lease.newest_at);
            leased.write(&writes).await?;
        }
        self.applied = Some(catch_up.applied);
        Ok(())
    }

    /// Reads the data that is needed to apply the hours before `end`.
    async fn catch_up<'a>(&'a mut self, leased: &LeasedStore<'_>, end: i64) -> Leased<CatchUp<'a>> {
        let (journal, now) = (leased.journal, leased.lease.newest_at);
        let stored = match self.applied.take() {
            Some(applied) => Some(applied),
            None => profiles::recorded_hours(journal, Purpose::Fold, now).await?,
        };
        let [newer, older] = tables_at(end);
        let reads = [
            TableRead::State,
            TableRead::Count(newer),
            TableRead::Count(older),
        ];
        let mut answers = journal.read_tables(Purpose::Fold, &reads).await?;
        let state = RecordState::new(answers.page());
        let profiles = answers.page().count + answers.page().count;
        let since = state.since.unwrap_or(i64::MIN);
        let first = hour_of(since).clamp(end - MOST_HOURS * HOUR, end);
        let mut applied = stored.unwrap_or_else(|| RecordedHours::beginning_at(first));
        if applied.until() > end + MOST_AHEAD {
            applied.take_back(end);
        }
        applied.skip_to(first);
        Ok(CatchUp {
            applied,
            end,
            // One of the counted fields is not a profile.
            room: self.most.saturating_add(1).saturating_sub(profiles),
            knows_gaps: state.gaps.is_some(),
            running: RecordedTime::new(since, state.gaps.unwrap_or_default()),
            presence: &self.presence,
        })
    }
}

/// Hours that are being applied.
struct CatchUp<'a> {
    /// The hours that are applied, and the hour that is being applied.
    applied: RecordedHours,
    /// The end of the last hour that is due, in Unix seconds.
    end: i64,
    /// The number of contexts without a profile that may get one.
    room: usize,
    /// When the service was running, according to the store.
    running: RecordedTime,
    /// Whether the store knows the gaps in which no instance was running. A store knows the gaps if all its instances
    /// are in one process.
    knows_gaps: bool,
    presence: &'a Presence,
}

impl CatchUp<'_> {
    /// Applies an hour to the profiles of the contexts that have records in this hour.
    async fn apply(&mut self, leased: &mut LeasedStore<'_>, hour: i64) -> Leased<()> {
        let ids = recorded(leased.journal, &halves(hour)).await?;
        let seconds = halves(hour).into_iter().zip(&ids);
        let seconds: i64 = seconds
            .map(|((_, start), ids)| self.recorded_seconds(start, !ids.is_empty()))
            .sum();
        self.applied.push(hour, ((seconds + 59) / 60) as u8);
        let mut contexts: Vec<RecordId> = ids.into_iter().flatten().collect();
        contexts.order();
        contexts.dedup();
        for part in contexts.chunks(CONTEXTS_AT_ONCE) {
            let writes = self.writes(leased, hour, part).await?;
            if !writes.is_empty() {
                leased.write(&writes).await?;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The number of recorded seconds in a half hour, without the gaps that the store knows. If the store does not know
    /// its gaps, a half hour without records counts as recorded only while this instance was present.
    fn recorded_seconds(&self, start: i64, has_records: bool) -> i64 {
        let end = start + i64::from(HALF_HOUR);
        match self.knows_gaps || has_records {
            true => self.running.seconds(start, end),
            false => self.presence.seconds(start, end),
        }
    }

    /// The writes that add an hour to the profiles of some contexts, unless a profile has the hour already.
    async fn writes(
        &mut self,
        leased: &LeasedStore<'_>,
        hour: i64,
        contexts: &[RecordId],
    ) -> Leased<Vec<FieldWrites>> {
        let [newer, older] = tables_at(hour);
        let names: Vec<_> = contexts.iter().map(|id| id.to_bytes().to_vec()).collect();
        let [first, second] = halves(hour).map(Table::records);
        let tables = [newer.clone(), older.clone(), first, second];
        let fields = tables.map(|table| (table, names.clone()));
        let mut values = leased.load(&fields).await?.into_iter();
        let mut next = || values.next().unwrap_or_default().into_iter();
        let (newer_values, older_values, first, second) = (next(), next(), next(), next());
        let ttl = profiles::ttl(hour, leased.lease.newest_at);
        let mut write = FieldWrites::new(newer, Some(ttl));
        let mut moved = FieldWrites::new(older, None);
        let halves = first.zip(second).map(|(first, second)| [first, second]);
        let stored = newer_values.zip(older_values);
        for ((name, (newer, older)), halves) in names.into_iter().zip(stored).zip(halves) {
            let is_new = newer.is_none() && older.is_none();
            if is_new && self.room == 0 {
                continue;
            }
            let is_older = older.is_some();
            let packed = [&newer, &older].into_iter().flatten();
            let profile = profiles::newest(packed.map(Vec::as_slice));
            let mut profile = profile.unwrap_or_else(|| Profile::beginning_at(hour));
            if profile.until() > self.end + MOST_AHEAD {
                profile.reopen_from(hour);
            }
            if profile.apply(hour, &merged(halves), &self.applied) {
                self.room -= usize::from(is_new);
                write.set.push((name.clone(), pack(&profile)));
                moved.removed.extend(is_older.then_some(name));
            }
        }
        let writes = [write, moved].into_iter();
        Ok(writes
            .filter(|write| !write.set.is_empty() || !write.removed.is_empty())
            .collect())
    }

    fn last_writes(&self, now: i64) -> [FieldWrites; 2] {
        // The list of applied hours moves to the newer table, as the profiles do.
        let last = self.applied.until() - HOUR;
        let [newer, older] = tables_at(last);
        let (ttl, hours) = (profiles::ttl(last, now), pack(&self.applied));
        [
            FieldWrites::of(newer, Some(ttl), RECORDED, Some(hours)),
            FieldWrites::of(older, None, RECORDED, None),
        ]
    }
}

fn halves(hour: i64) -> [(u32, i64); 2] {
    [hour, hour + i64::from(HALF_HOUR)].map(|start| (HALF_HOUR, start))
}

fn merged(records: [Option<Vec<u8>>; 2]) -> Aggregate {
    let mut merged = Aggregate::default();
    let records = records.into_iter().flatten();
    for record in records.filter_map(|record| pack::read_record(&record)) {
        merged.merge(&record.sums);
    }
    merged
}

/// The time, in Unix seconds, in which this instance was present. An instance is present while it reads the journal,
/// even if there are no entries.
#[derive(Debug, Default)]
pub(super) struct Presence {
    since: i64,
    until: i64,
}

impl Presence {
    pub(super) fn extend(&mut self, now: i64) {
        if !(self.until..=self.until + MOST_APART).contains(&now) {
            self.since = now;
        }
        self.until = now;
    }

    /// The number of seconds between two moments in which the instance was present.
    fn seconds(&self, from: i64, to: i64) -> i64 {
        (to.min(self.until) - from.max(self.since)).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_starts_again_after_an_absence() {
        let mut presence = Presence::default();
        for now in [1_000, 1_060, 1_060, 1_090] {
            presence.extend(now);
        }
        assert_eq!(presence.seconds(0, 2_000), 90);
        assert_eq!(presence.seconds(1_080, 1_085), 5);
        for now in [1_200, 1_230] {
            presence.extend(now);
        }
        assert_eq!(presence.seconds(0, 2_000), 30);
        // The clock went back.
        presence.extend(1_100);
        assert_eq!(presence.seconds(0, 2_000), 0);
    }
}
