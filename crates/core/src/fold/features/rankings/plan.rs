//! Merges the counts of each slice of a ranking, and their sums, with the values in the store.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::Rankings;
use super::known::KnownRanking;
use crate::error::StoreError;
use crate::fold::leased_store::{Leased, LeasedStore};
use crate::fold::plan::{Plan, Plans};
use crate::store::journal::{FieldValues, Journal};
use crate::store::table::{FieldWrites, Table};
use crate::store::table_reads::{Purpose, TableRead};
use tower_pulse_model::pack::pack;
use tower_pulse_model::ranking::specs::CarriedSpecs;
use tower_pulse_model::ranking::{IdDelta, RankingDelta, RankingSpec, RankingState};
use tower_pulse_model::round::{Round, partition, partition_of_id};
use tower_pulse_model::sorted;

/// The most ids that one step removes from a slice or a ranking. Planning yields to other tasks after this number of
/// ids.
pub(super) const IDS_AT_ONCE: usize = 200;
/// A ranking to which a round adds at most this number of ids has room for all these ids during the round.
const FEW_IDS: usize = 1_000;
/// The margin of each time to live, in seconds.
const SPARE_TIME: i64 = 7 * 86_400;

/// Time to live of the sums of a ranking after the last write, in seconds.
pub(super) fn ttl(spec: RankingSpec) -> i64 {
    spec.period().saturating_mul(2).saturating_add(SPARE_TIME)
}

/// Time to live of a slice, in seconds. The sums contain a slice until its counts are subtracted, so the slice must
/// outlive the sums. The sums may be written until the slice leaves the window, and live for [`ttl`] after that.
fn slice_ttl(spec: RankingSpec) -> i64 {
    ttl(spec)
        .saturating_add(spec.period())
        .saturating_add(SPARE_TIME)
}

pub(super) fn slice_of(ranking: &Arc<str>, start: i64) -> Table {
    let ranking = ranking.clone();
    Table::RankingSlice { ranking, start }
}

pub(super) fn totals_of(ranking: &Arc<str>) -> Table {
    let ranking = ranking.clone();
    Table::RankingTotals { ranking }
}

/// A count or a sum of the store. A value that is not a number counts as 0, and is replaced.
pub(super) fn number(value: Option<&Vec<u8>>) -> i64 {
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    let integer = |text: &str| text.parse::<i64>().ok();
    // Sums are scores, which are floats. A large score has an exponent.
    let float = |text: &str| Some(text.parse::<f64>().ok()? as i64);
    text.and_then(|text| integer(text).or_else(|| float(text)))
        .unwrap_or(0)
}

/// Sets the count or the sum of an id, or removes an id whose number is 0.
pub(super) fn set_number(write: &mut FieldWrites, id: &[u8], number: i64) {
    match number {
        0 => write.removed.push(id.to_vec()),
        _ => write
            .set
            .push((id.to_vec(), number.to_string().into_bytes())),
    }
}

impl Rankings {
    /// Merges the rankings of a round with the rankings in the store, and adds the writes to the plans of the round.
    pub(in crate::fold) async fn merge(
        &mut self,
        leased: &LeasedStore<'_>,
        round: &Round,
        plans: &mut Plans,
    ) -> Leased<()> {
        self.added_to.clear();
        if round.rankings.is_empty() {
            return Ok(());
        }
        self.load(leased, round.rankings.keys()).await?;
        let rankings = round.rankings.iter();
        let rankings = rankings.map(|(name, delta)| self.begin(leased, name, delta, round));
        let mut all: Vec<Added<'_>> = rankings.collect();
        self.set_room(leased.journal, &mut all).await?;
        let mut fields: Vec<(Table, Vec<Vec<u8>>)> = Vec::new();
        for added in &all {
            if added.may_drop() {
                let dropped = sorted::entry(&mut fields, Table::RankingsDropped, Vec::new);
                dropped.push(added.name.as_bytes().to_vec());
            }
            for (id, delta) in &added.ids {
                let field = || id.as_bytes().to_vec();
                sorted::entry(&mut fields, totals_of(added.name), Vec::new).push(field());
                for (start, _) in added.slices(delta) {
                    sorted::entry(&mut fields, slice_of(added.name, start), Vec::new).push(field());
                }
            }
        }
        let values = leased.load(&fields).await?;
        let mut stored = Stored::new(fields, values);
        for added in &all {
            let refused = self.refused_ids(added, &stored);
            let mut dropped: BTreeMap<usize, u64> = BTreeMap::new();
            if added.has_dropped {
                dropped.insert(partition(added.name), added.delta.dropped);
            }
            for (number, &(id, delta)) in added.ids.iter().enumerate() {
                let (partition, slices) = (partition_of_id(added.name, id), added.slices(delta));
                if refused.contains(&**id) {
                    let sum = added.skip_id(slices, &mut stored);
                    let dropped = dropped.entry(partition).or_default();
                    *dropped = dropped.saturating_add(sum.unsigned_abs());
                    continue;
                }
                added.plan_id(id, delta, slices, &mut stored, plans.of(partition));
                let names = self.added_to.entry(partition).or_default();
                names.insert(added.name.clone());
                if number % IDS_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
            if !added.may_drop() {
                continue;
            }
            // Partitions are written in this order. So each partition writes the sum of the additions that were dropped
            // in this partition and in the partitions before.
            let (before, mut sum) = (stored.next(&Table::RankingsDropped), 0u64);
            for (partition, more) in dropped {
                sum = sum.saturating_add(more);
                let write = dropped_write(added.name, before, sum);
                plans.of(partition).fields.push(write);
            }
        }
        Ok(())
    }

    /// Adds the slices of a delta to the state of its ranking, and returns the additions that are not folded yet.
    fn begin<'a>(
        &mut self,
        leased: &LeasedStore<'_>,
        name: &'a Arc<str>,
        delta: &'a RankingDelta,
        round: &Round,
    ) -> Added<'a> {
        let now = round.newest_at;
        let ids = delta.ids.iter();
        let ids: Vec<_> = ids
            .filter(|(id, _)| leased.is_left(partition_of_id(name, id)))
            .collect();
        let mut added = Added {
            name,
            delta,
            has_dropped: delta.dropped > 0 && leased.is_left(partition(name)),
            before: Vec::new(),
            spec: delta.spec,
            oldest: delta.spec.oldest(now),
            room: usize::MAX,
            ids,
        };
        if added.ids.is_empty() {
            return added;
        }
        let specs = round.ranking_specs.get(name);
        let newest = specs.and_then(CarriedSpecs::newest).unwrap_or(delta.spec);
        let ranking = self.known.entry(name.clone());
        let ranking = ranking.or_insert_with(|| KnownRanking {
            state: RankingState::new(newest),
            specs: CarriedSpecs::default(),
            ids: None,
        });
        let was_mixed = ranking.specs.is_mixed();
        let state = &mut ranking.state;
        if let Some(specs) = specs {
            state.spec = ranking.specs.merge(state.spec, specs, now);
        }
        (added.spec, added.oldest) = (state.spec, state.spec.oldest(now));
        added.before.extend(state.slices.iter());
        let starts = added.ids.iter().flat_map(|(_, delta)| added.slices(delta));
        let starts: Vec<i64> = starts.map(|(start, _)| start).collect();
        state.slices.extend(starts);
        if ranking.specs.is_mixed() && !was_mixed {
            tracing::warn!("{}", ranking.specs.warning(name));
        }
        self.limit_later(name);
        added
    }

    /// Sets the room of each ranking: the number of new ids that the ranking can take in this round.
    async fn set_room(
        &mut self,
        journal: &dyn Journal,
        all: &mut [Added<'_>],
    ) -> Result<(), StoreError> {
        // A ranking to which only a few ids are added needs no count: its surplus is removed after the round.
        let has_many = |added: &&mut Added<'_>| added.ids.len() > FEW_IDS;
        let mut counted: Vec<_> = all.iter_mut().filter(has_many).collect();
        let is_uncounted = |name: &str| self.known.get(name).is_some_and(|r| r.ids.is_none());
        let names = counted.iter().map(|added| added.name);
        let names: Vec<_> = names.filter(|name| is_uncounted(name)).collect();
        if !names.is_empty() {
            let reads = names.iter().map(|name| TableRead::Count(totals_of(name)));
            let reads: Vec<_> = reads.collect();
            let mut counts = journal.read_tables(Purpose::Fold, &reads).await?;
            for name in names {
                let count = counts.page().count;
                if let Some(ranking) = self.known.get_mut(name) {
                    ranking.ids = Some(count);
                }
            }
        }
        for added in &mut counted {
            let ids = self.known.get(added.name).and_then(|ranking| ranking.ids);
            added.room = added.spec.most_at_once().saturating_sub(ids.unwrap_or(0));
        }
        Ok(())
    }

    /// The new ids for which a ranking has no room. The ids whose last addition is oldest are refused first, and among
    /// these the ids with the smallest sums.
    fn refused_ids<'a>(&mut self, added: &Added<'a>, stored: &Stored) -> HashSet<&'a str> {
        let totals = stored.remaining(&totals_of(added.name));
        let new = added.ids.iter().zip(totals);
        let mut new: Vec<_> = new
            .filter(|((_, delta), total)| total.is_none() && !delta.is_removed)
            .filter_map(|(&(id, delta), _)| {
                let slices = added.slices(delta);
                let (newest, sum) = slices.fold((None, 0i64), |(_, sum), (start, n)| {
                    (Some(start), sum.saturating_add(n))
                });
                Some((newest?, sum, &**id))
            })
            .collect();
        let surplus = new.len().saturating_sub(added.room);
        if let Some(ranking) = self.known.get_mut(added.name) {
            ranking.ids = ranking.ids.map(|ids| ids + new.len() - surplus);
        }
        if surplus == 0 {
            return HashSet::new();
        }
        new.select_nth_unstable(surplus - 1);
        new.into_iter().take(surplus).map(|(_, _, id)| id).collect()
    }

    /// The writes of the states of some rankings. Each step that adds to a ranking also writes the ranking's state. So
    /// the state lists every slice that the sums contain.
    pub(super) fn state_writes(&self, names: &BTreeSet<Arc<str>>) -> Vec<FieldWrites> {
        let ranking = |name: &'_ Arc<str>| Some((name.clone(), self.known.get(name)?));
        let rankings = names.iter().filter_map(ranking);
        let writes = rankings.flat_map(|(name, ranking)| {
            let (name, state) = (&name, &ranking.state);
            let newest = state.slices.last();
            let newest = newest.map(|start| newest_write(name, state.spec, *start));
            let specs = (!ranking.specs.is_empty()).then(|| ranking.specs_write(name));
            [Some(state_write(name, Some(state))), newest, specs]
        });
        writes.flatten().collect()
    }
}

/// Additions to a ranking in the partitions that are not folded yet.
struct Added<'a> {
    name: &'a Arc<str>,
    delta: &'a RankingDelta,
    /// Whether `delta.dropped` must be added to the store's count of dropped additions.
    has_dropped: bool,
    /// The slices of the ranking before this round. If an id is removed, these slices may contain the id.
    before: Vec<i64>,
    spec: RankingSpec,
    /// The start of the oldest slice of the window.
    oldest: i64,
    room: usize,
    ids: Vec<(&'a Arc<str>, &'a IdDelta)>,
}

impl<'a> Added<'a> {
    /// Whether this round may change the number of dropped additions.
    fn may_drop(&self) -> bool {
        self.has_dropped || self.ids.len() > self.room
    }

    /// Skips the stored numbers of an id for which there is no room. Returns the sum of its additions.
    fn skip_id(&self, slices: impl Iterator<Item = (i64, i64)>, stored: &mut Stored) -> i64 {
        stored.next(&totals_of(self.name));
        slices.fold(0, |sum, (start, n)| {
            stored.next(&slice_of(self.name, start));
            sum.saturating_add(n)
        })
    }

    /// The additions to an id within the window.
    fn slices(&self, delta: &'a IdDelta) -> impl Iterator<Item = (i64, i64)> + use<'a> {
        let oldest = self.oldest;
        let slices = delta.slices.iter().map(|(start, n)| (start, *n));
        slices.filter(move |(start, _)| *start >= oldest)
    }

    /// Merges the additions to an id with the numbers in the store.
    fn plan_id(
        &self,
        id: &str,
        delta: &IdDelta,
        slices: impl Iterator<Item = (i64, i64)>,
        stored: &mut Stored,
        plan: &mut Plan,
    ) {
        let (name, spec) = (self.name, self.spec);
        let mut total = stored.next(&totals_of(name));
        plan.cost += 1;
        if delta.is_removed {
            total = 0;
            plan.cost += self.before.len();
            for start in &self.before {
                let slice = slice_of(name, *start);
                (plan.fields).push(FieldWrites::of(slice, None, id.as_bytes(), None));
            }
        }
        for (start, n) in slices {
            let table = slice_of(name, start);
            let count = match (stored.next(&table), delta.is_removed) {
                (_, true) => n,
                (count, false) => count.saturating_add(n),
            };
            let mut write = FieldWrites::new(table, Some(slice_ttl(spec)));
            set_number(&mut write, id.as_bytes(), count);
            plan.fields.push(write);
            plan.cost += 2;
            total = total.saturating_add(n);
        }
        let mut totals = FieldWrites::new(totals_of(name), Some(ttl(spec)));
        set_number(&mut totals, id.as_bytes(), total);
        plan.fields.push(totals);
    }
}

/// The values that the store returned, by table. The values of a table are in the order of the request.
pub(super) struct Stored(HashMap<Table, std::vec::IntoIter<Option<Vec<u8>>>>);

impl Stored {
    pub(super) fn new(fields: Vec<(Table, Vec<Vec<u8>>)>, values: Vec<FieldValues>) -> Self {
        let tables = fields.into_iter().map(|(table, _)| table);
        Self(tables.zip(values.into_iter().map(Vec::into_iter)).collect())
    }

    fn remaining(&self, table: &Table) -> &[Option<Vec<u8>>] {
        self.0.get(table).map_or(&[], std::vec::IntoIter::as_slice)
    }

    pub(super) fn next(&mut self, table: &Table) -> i64 {
        let value = self.0.get_mut(table).and_then(Iterator::next);
        number(value.flatten().as_ref())
    }
}

/// The write of the sum of a ranking's dropped additions: the number in the store, `before`, plus `more`.
pub(super) fn dropped_write(name: &Arc<str>, before: i64, more: u64) -> FieldWrites {
    let dropped = before.saturating_add_unsigned(more);
    let dropped = dropped.to_string().into_bytes();
    FieldWrites::of(Table::RankingsDropped, None, name.as_bytes(), Some(dropped))
}

/// The write of a ranking's state, or of its removal.
pub(super) fn state_write(name: &Arc<str>, state: Option<&RankingState>) -> FieldWrites {
    FieldWrites::of(Table::Rankings, None, name.as_bytes(), state.map(pack))
}

fn newest_write(name: &Arc<str>, spec: RankingSpec, newest: i64) -> FieldWrites {
    let table = Table::RankingNewest {
        ranking: name.clone(),
    };
    let newest = newest.to_string().into_bytes();
    FieldWrites::of(table, Some(ttl(spec)), &[], Some(newest))
}
