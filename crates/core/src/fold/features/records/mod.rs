//! Folding records: adds the samples of a round to the records of their minutes. If a minute was rolled up already, its
//! samples are also added to the records of the coarser tiers. `roll_up` adds minutes that have ended to the coarser
//! tiers, and `profiles` makes the hour-of-week profiles.

mod history;
mod profiles;
mod roll_up;

use self::history::KeptHistory;
use self::profiles::Profiles;
use crate::fold::features::FoldLimits;
use crate::fold::leased_store::{Lease, Leased, LeasedStore};
use crate::fold::plan::NAMES_AT_ONCE;
use crate::store::table::{FieldWrites, Table};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::pack;
use tower_pulse_model::records::{RecordId, RecordKey, Records};
use tower_pulse_model::round::{self, Round, partition};
use tower_pulse_model::slice::Precision;
use tower_pulse_model::sorted::{self, Map};
use tower_pulse_model::tier::{COARSEST, FINEST, RolledUp, TierSlice};
use tower_pulse_model::tiers::Tiers;

const RECORDS_AT_ONCE: usize = 500;
/// The shortest time to live of the records of a slice, in seconds.
const LEAST_TTL: i64 = 60;
/// The number of slices of the finest tier whose records are remembered: the open slice, and the slice before, for
/// samples that arrive late.
const SLICES_REMEMBERED: usize = 2;

/// The records of all tiers, and the hour-of-week profiles.
pub(super) struct RecordTables {
    /// The remembered records, with the values that the store has.
    records: Records,
    max_records: usize,
    /// The records that the round changes, by partition.
    changed: Map<usize, Vec<RecordKey>>,
    /// The `newest_at` of the round that was added last.
    newest_at: i64,
    history: KeptHistory,
    profiles: Profiles,
}

impl RecordTables {
    pub(super) fn new(limits: FoldLimits) -> Self {
        Self {
            records: Records::default(),
            max_records: limits.records,
            changed: Map::default(),
            newest_at: 0,
            history: KeptHistory::asking_for(limits.history_days),
            profiles: Profiles::at_most(limits.profiles),
        }
    }

    /// Notes that this instance is present to fold at `now`, in Unix seconds.
    pub(super) fn note_presence(&mut self, now: i64) {
        self.profiles.presence.extend(now);
    }

    /// The writes of the records that a step changes.
    pub(super) fn writes(
        &mut self,
        lease: &Lease,
        partitions: &[usize],
    ) -> impl Iterator<Item = FieldWrites> {
        let keys = partitions.iter().filter_map(|at| self.changed.remove(at));
        let keys: Vec<_> = keys.flatten().collect();
        let (tiers, rolled) = (self.history.tiers(), &lease.progress.rolled);
        record_writes(&self.records, keys, tiers, rolled, self.newest_at)
    }

    pub(super) fn forget(&mut self) {
        self.records.retain_newest(SLICES_REMEMBERED);
        if self.records.len() > self.max_records {
            self.records.clear();
        }
    }

    /// Adds a round to the records. Records that are not remembered are read first.
    pub(super) async fn add_round(
        &mut self,
        leased: &mut LeasedStore<'_>,
        round: &Round,
    ) -> Leased<()> {
        self.history.read(leased).await?;
        let (tiers, now) = (self.history.tiers(), round.newest_at);
        let rolled = leased.lease.progress.rolled.clone();
        let mut seen = 0;
        self.changed.clear();
        self.newest_at = now;
        for group in &round.groups {
            for (context, accepted) in group.contexts.iter() {
                if !leased.is_left(partition(&context.name)) {
                    continue;
                }
                let changed = (self.changed).or_insert_with(partition(&context.name), Vec::new);
                let id = RecordId::new(context.kind, &context.name);
                for (at, _) in round::records(&accepted.delta, tiers, &rolled, now) {
                    changed.push((at, id));
                    if at.0 == FINEST.seconds {
                        leased.lease.progress.rolled.add(at.1);
                    }
                }
                seen += 1;
                if seen % NAMES_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        let mut missing: Vec<RecordKey> = Vec::new();
        for keys in self.changed.values_mut() {
            keys.order();
            keys.dedup();
            let keys = keys.iter().copied();
            missing.extend(keys.filter(|key| self.records.get(*key).is_none()));
            tokio::task::yield_now().await;
        }
        self.load(leased, &missing).await?;
        for group in &round.groups {
            let all = group.contexts.iter();
            for (context, accepted) in all.filter(|(c, _)| leased.is_left(partition(&c.name))) {
                let id = RecordId::new(context.kind, &context.name);
                for (at, added) in round::records(&accepted.delta, tiers, &rolled, now) {
                    self.records.add((at, id), added, &rolled);
                }
                seen += 1;
                if seen % NAMES_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(())
    }

    /// Reads records from the store. A missing record, or a field that holds no record, reads as empty.
    async fn load(&mut self, leased: &LeasedStore<'_>, keys: &[RecordKey]) -> Leased<()> {
        for part in keys.chunks(RECORDS_AT_ONCE) {
            let mut ids: Vec<(TierSlice, Vec<RecordId>)> = Vec::new();
            for (at, id) in part {
                sorted::entry(&mut ids, *at, Vec::new).push(*id);
            }
            let fields = ids.iter().map(|(at, ids)| {
                let ids = ids.iter().map(|id| id.to_bytes().to_vec());
                (Table::records(*at), ids.collect())
            });
            let fields: Vec<_> = fields.collect();
            let values = leased.load(&fields).await?;
            for ((at, ids), values) in ids.into_iter().zip(values) {
                for (id, value) in ids.into_iter().zip(values) {
                    let record = value.and_then(|value| pack::read_record(&value));
                    self.records.load((at, id), record.unwrap_or_default());
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

fn record_writes(
    records: &Records,
    keys: Vec<RecordKey>,
    tiers: Tiers,
    rolled: &RolledUp,
    now: i64,
) -> impl Iterator<Item = FieldWrites> {
    keys.into_iter().filter_map(move |(at, id)| {
        let record = records.get((at, id))?;
        let (table, ttl) = (Table::records(at), ttl(at, tiers, rolled, now));
        let record = pack::record(record);
        Some(FieldWrites::of(
            table,
            Some(ttl),
            &id.to_bytes(),
            Some(record),
        ))
    })
}

/// The time to live of the records of a slice, in seconds. If the slice begins after `now`, because the clock of an
/// instance is ahead, the time is longer by the difference.
fn ttl(at: TierSlice, tiers: Tiers, rolled: &RolledUp, now: i64) -> i64 {
    // A slice that is not rolled up yet must outlive an interruption of the whole service.
    let is_pending = at.0 == FINEST.seconds && !rolled.contains(at.1);
    let tier = match is_pending {
        true => Some(COARSEST),
        false => tiers.get(at.0),
    };
    let ttl = tier.map_or(i64::from(at.0), Precision::key_ttl) + at.1.saturating_sub(now).max(0);
    if at.0 == FINEST.seconds {
        return ttl;
    }
    // A slice of the past has already lived for a part of its time.
    let ended = at.1.saturating_add(i64::from(at.0));
    let age = now.saturating_sub(ended).max(0);
    ttl.saturating_sub(age).max(LEAST_TTL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_past_slice_expires_at_the_end_of_its_retention() {
        const NOW: i64 = 1_700_000_000;
        let mut rolled = RolledUp::default();
        rolled.advance(NOW);
        let ttl = |seconds, ago| {
            let start = Precision::new(seconds, 1).slice(NOW - ago);
            (ttl((seconds, start), Tiers::default(), &rolled, NOW), start)
        };
        let (fresh, _) = ttl(21_600, 0);
        assert_eq!(fresh, COARSEST.key_ttl());
        let (older, start) = ttl(21_600, 5 * 86_400);
        assert_eq!(older, fresh - (NOW - start - 21_600));
        assert_eq!(ttl(21_600, 90 * 86_400).0, LEAST_TTL);
        // The age of a minute does not shorten its time to live, because minutes may wait a long time to be rolled up.
        assert_eq!(ttl(60, 5 * 86_400).0, FINEST.key_ttl());
    }
}
