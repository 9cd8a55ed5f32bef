//! Folding rankings: the counts of each slice, and their sums, are merged with those of the store.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::lease::Lease;
use super::plan::Plan;
use crate::error::StoreError;
use crate::model::ranking::{IdDelta, RankingDelta, RankingSpec, RankingState};
use crate::model::round::{Round, partition, partition_of_id};
use crate::model::sorted;
use crate::store::journal::{FieldValues, Journal, Step};
use crate::store::table::{FieldWrites, Table};

/// Ids that one step takes out, and ids that are planned before the task yields to others.
pub(super) const IDS_AT_ONCE: usize = 200;
/// Seconds for which the sums of a ranking outlive twice its window.
const SPARE_TIME: i64 = 7 * 86_400;

/// Time to live of the sums of a ranking after the last write, in seconds.
pub(super) fn ttl(spec: RankingSpec) -> i64 {
    2 * spec.period() + SPARE_TIME
}

/// Time to live of a slice. Sums are written last at the end of a slice's window, and must not outlive the slice:
/// nobody could take it out of them any more.
fn slice_ttl(spec: RankingSpec) -> i64 {
    ttl(spec) + spec.period() + SPARE_TIME
}

pub(super) fn slice_of(ranking: &Arc<str>, start: i64) -> Table {
    let ranking = ranking.clone();
    Table::RankingSlice { ranking, start }
}

pub(super) fn totals_of(ranking: &Arc<str>) -> Table {
    let ranking = ranking.clone();
    Table::RankingTotals { ranking }
}

/// A count or a sum of the store. A value that is not an integer counts as 0, and is replaced.
pub(super) fn number(value: Option<&Vec<u8>>) -> i64 {
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    let integer = |text: &str| text.parse::<i64>().ok();
    // Sums are scores, which are floats; a large one is written with an exponent.
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

impl Lease {
    /// The rankings of the store, which are read once.
    pub(super) async fn rankings(
        &mut self,
        journal: &dyn Journal,
    ) -> Result<&mut HashMap<Arc<str>, RankingState>, StoreError> {
        let rankings = match self.rankings.take() {
            Some(rankings) => rankings,
            None => {
                let fields = journal.list_fields(&Table::Rankings).await?;
                let ranking = |(name, state): (Vec<u8>, Vec<u8>)| {
                    let name = String::from_utf8(name).ok()?;
                    let state = RankingState::from_text(std::str::from_utf8(&state).ok()?)?;
                    Some((name.into(), state))
                };
                let rankings: HashMap<_, _> = fields.into_iter().filter_map(ranking).collect();
                // The folder before may have ended before it had limited them.
                self.touched_rankings.extend(rankings.keys().cloned());
                rankings
            }
        };
        Ok(self.rankings.insert(rankings))
    }

    /// Adds the rankings of a round to its plans, merged with the store's. `false` when the lease is lost.
    pub(super) async fn plan_rankings(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        round: &Round,
        plans: &mut Vec<(usize, Plan)>,
    ) -> Result<bool, StoreError> {
        if round.rankings().is_empty() {
            return Ok(true);
        }
        self.rankings(journal).await?;
        let mut added = Vec::new();
        let mut fields: Vec<(Table, Vec<Vec<u8>>)> = Vec::new();
        for (name, delta) in round.rankings() {
            let more = self.begin_ranking(name, delta, round.stamp());
            if more.counts_dropped {
                let dropped = sorted::entry(&mut fields, Table::RankingsDropped, Vec::new);
                dropped.push(name.as_bytes().to_vec());
            }
            for (id, _, slices) in more.ids() {
                let field = || id.as_bytes().to_vec();
                sorted::entry(&mut fields, totals_of(name), Vec::new).push(field());
                for (start, _) in slices {
                    sorted::entry(&mut fields, slice_of(name, start), Vec::new).push(field());
                }
            }
            added.push(more);
        }
        let version = &self.progress.version;
        let Step::Done(values) = journal.load_fields(instance, version, &fields).await? else {
            return Ok(false);
        };
        let mut stored = Stored::new(fields, values);
        for added in &added {
            if added.counts_dropped {
                let write = dropped_write(added.name, &mut stored, added.delta.dropped);
                let plan = sorted::entry(plans, partition(added.name), Plan::default);
                plan.fields.push(write);
            }
            for (number, (id, delta, slices)) in added.ids().enumerate() {
                let partition = partition_of_id(added.name, id);
                let plan = sorted::entry(plans, partition, Plan::default);
                added.plan_id(id, delta, slices, &mut stored, plan);
                if number % IDS_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(true)
    }

    /// Adds the slices of a delta to the state of its ranking.
    fn begin_ranking<'a>(
        &mut self,
        name: &'a Arc<str>,
        delta: &'a RankingDelta,
        now: i64,
    ) -> Added<'a> {
        let done = self.progress.done;
        let ids = delta.ids.iter();
        let ids: Vec<_> = ids
            .filter(|(id, _)| !done.contains(partition_of_id(name, id)))
            .collect();
        let mut added = Added {
            name,
            delta,
            counts_dropped: delta.dropped > 0 && !done.contains(partition(name)),
            before: Vec::new(),
            oldest: delta.spec.oldest(now),
            ids,
        };
        if added.ids.is_empty() {
            return added;
        }
        let rankings = self.rankings.get_or_insert_default();
        let state = rankings.entry(name.clone());
        let state = state.or_insert_with(|| RankingState::new(delta.spec));
        state.spec = delta.spec;
        added.before.extend(&state.slices);
        let starts = added.ids().flat_map(|(_, _, slices)| slices);
        let starts: Vec<i64> = starts.map(|(start, _)| start).collect();
        state.slices.extend(starts);
        self.touched_rankings.insert(name.clone());
        added
    }

    /// The writes of the states of some rankings. Each step that adds to a ranking has them, so that no sum
    /// includes a slice of which the ranking does not know.
    pub(super) fn state_writes(&self, names: &BTreeSet<Arc<str>>) -> Vec<FieldWrites> {
        let state = |name| Some((name, self.rankings.as_ref()?.get(name)?));
        let states = names.iter().filter_map(state);
        let writes = states.flat_map(|(name, state): (&Arc<str>, _)| {
            let newest = state.slices.last();
            let newest = newest.map(|start| newest_write(name, state.spec, *start));
            [Some(state_write(name, Some(state))), newest]
        });
        writes.flatten().collect()
    }
}

/// Additions to a ranking of the partitions that are not folded yet.
struct Added<'a> {
    name: &'a Arc<str>,
    delta: &'a RankingDelta,
    /// Whether additions without room are counted.
    counts_dropped: bool,
    /// The slices that a removed id may be part of.
    before: Vec<i64>,
    /// The start of the oldest slice of the window.
    oldest: i64,
    ids: Vec<(&'a Arc<str>, &'a IdDelta)>,
}

impl<'a> Added<'a> {
    /// The ids with their additions within the window.
    fn ids(
        &self,
    ) -> impl Iterator<
        Item = (
            &'a str,
            &'a IdDelta,
            impl Iterator<Item = (i64, i64)> + use<'a>,
        ),
    > {
        let oldest = self.oldest;
        self.ids.iter().map(move |(id, delta)| {
            let slices = delta.slices.iter().map(|(start, n)| (start, *n));
            (
                &***id,
                *delta,
                slices.filter(move |(start, _)| *start >= oldest),
            )
        })
    }

    /// Merges the additions to an id with the store's.
    fn plan_id(
        &self,
        id: &str,
        delta: &IdDelta,
        slices: impl Iterator<Item = (i64, i64)>,
        stored: &mut Stored,
        plan: &mut Plan,
    ) {
        let (name, spec) = (self.name, self.delta.spec);
        let mut total = stored.next(&totals_of(name));
        plan.cost += 1;
        if delta.is_removed {
            total = 0;
            plan.cost += self.before.len();
            for start in &self.before {
                let mut write = FieldWrites::new(slice_of(name, *start), None);
                write.removed.push(id.into());
                plan.fields.push(write);
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
        plan.rankings.insert(name.clone());
    }
}

/// Values of the store by table, in the order in which they were asked for.
pub(super) struct Stored(HashMap<Table, std::vec::IntoIter<Option<Vec<u8>>>>);

impl Stored {
    pub(super) fn new(fields: Vec<(Table, Vec<Vec<u8>>)>, values: Vec<FieldValues>) -> Self {
        let tables = fields.into_iter().map(|(table, _)| table);
        Self(tables.zip(values.into_iter().map(Vec::into_iter)).collect())
    }

    /// The next number of a table.
    fn next(&mut self, table: &Table) -> i64 {
        let value = self.0.get_mut(table).and_then(Iterator::next);
        number(value.flatten().as_ref())
    }
}

/// The write that adds to the additions for which there was no room.
pub(super) fn dropped_write(name: &Arc<str>, stored: &mut Stored, more: u64) -> FieldWrites {
    let before = stored.next(&Table::RankingsDropped);
    let dropped = before.saturating_add(i64::try_from(more).unwrap_or(i64::MAX));
    let mut write = FieldWrites::new(Table::RankingsDropped, None);
    let field = name.as_bytes().to_vec();
    write.set.push((field, dropped.to_string().into_bytes()));
    write
}

/// The write of a ranking's state, or of its removal.
pub(super) fn state_write(name: &Arc<str>, state: Option<&RankingState>) -> FieldWrites {
    let mut write = FieldWrites::new(Table::Rankings, None);
    let field = name.as_bytes().to_vec();
    match state {
        Some(state) => write.set.push((field, state.to_string().into_bytes())),
        None => write.removed.push(field),
    }
    write
}

fn newest_write(name: &Arc<str>, spec: RankingSpec, newest: i64) -> FieldWrites {
    let ranking = name.clone();
    let mut write = FieldWrites::new(Table::RankingNewest { ranking }, Some(ttl(spec)));
    write
        .set
        .push((Vec::new(), newest.to_string().into_bytes()));
    write
}
