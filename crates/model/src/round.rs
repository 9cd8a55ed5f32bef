//! The additions of one round, from several entries of the journal. The additions are merged, and skewed samples are
//! removed.

use super::sorted::Map;
use crate::order::InOrder;
use std::sync::Arc;

use super::aggregate::Aggregate;
use super::context::{ContextId, Kind, RecordId, fnv1a};
use super::context_delta::ContextDelta;
use super::entry::{EntryReader, Item, Undecodable};
use super::mark::Mark;
use super::minute_report::MinuteSums;
use super::ranking::RankingDelta;
use super::ranking::specs::CarriedSpecs;
use super::records::TierSlice;
use super::slice::{Precisions, latest_accepted};
use super::slices::{Slices, merge_all};
use super::tier::{FINEST, RolledUp};
use super::tiers::Tiers;

/// The approximate number of bytes of an entry that are added at once.
const PART_BYTES: usize = 32 * 1024;

/// The number of partitions of a round's names. A round folds each partition once.
pub const PARTITIONS: usize = 256;

/// The partition of a context or counter. All instances and versions must agree on it.
pub fn partition(name: &str) -> usize {
    (fnv1a(name.bytes()) % PARTITIONS as u64) as usize
}

/// The partition of an id of a ranking. All instances and versions must agree on it.
pub fn partition_of_id(ranking: &str, id: &str) -> usize {
    let bytes = ranking.bytes().chain([0]).chain(id.bytes());
    (fnv1a(bytes) % PARTITIONS as u64) as usize
}

/// The partition of a context of a minute report. All instances and versions must agree on it.
pub fn partition_of_record(id: RecordId) -> usize {
    (fnv1a(id.to_bytes()) % PARTITIONS as u64) as usize
}

/// The partition of all marks. All marks are in one partition, because a new mark may replace the oldest one.
pub const PARTITION_OF_MARKS: usize = 0;

/// Additions of several entries, by name.
#[derive(Default)]
pub struct Round {
    /// One group for each set of precisions among the entries. Nearly always, there is one group.
    pub groups: Vec<Group>,
    /// The rankings.
    pub rankings: Map<Arc<str>, RankingDelta>,
    /// For each ranking, the configurations with which instances have added to it.
    pub ranking_specs: Map<Arc<str>, CarriedSpecs>,
    /// The sums of the minute reports, by minute.
    pub reports: Map<i64, MinuteSums>,
    marks: Map<Arc<str>, Mark>,
    /// The samples that were late when they were flushed. They are folded with the partition of
    /// [`ALL`](super::context::ALL).
    pub late: u64,
    /// When the newest of all entries was appended, in Unix seconds.
    pub newest_at: i64,
}

/// Additions of the entries that have the same precisions.
pub struct Group {
    /// The precisions of the counters.
    pub precisions: Precisions,
    /// The contexts.
    pub contexts: Map<ContextId, AcceptedDelta>,
    /// The user's counters.
    pub counters: Map<Arc<str>, Vec<Slices<i64>>>,
    /// The names of each partition, so that a step finds its names without a search.
    names: Map<usize, Names>,
}

#[derive(Debug, Default)]
struct Names {
    contexts: Vec<ContextId>,
    counters: Vec<Arc<str>>,
}

/// Additions to a context, without skewed samples.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedDelta {
    /// The additions.
    pub delta: ContextDelta,
    /// The number of skewed samples that were refused.
    pub skewed: u64,
}

impl Round {
    /// Adds the next names of an entry: up to `names`, but fewer if their data is large. Returns whether the entry may
    /// have more names.
    ///
    /// # Errors
    /// The entry cannot be decoded. Set it aside, and make the round again without it.
    pub fn add_part(
        &mut self,
        entry: &mut EntryReader<'_>,
        appended_at: i64,
        names: usize,
    ) -> Result<bool, Undecodable> {
        self.late = self.late.saturating_add(std::mem::take(&mut entry.late));
        self.newest_at = self.newest_at.max(appended_at);
        let at = self.group_at(entry.precisions());
        let end = entry.bytes_left().saturating_sub(PART_BYTES);
        for _ in 0..names {
            if entry.bytes_left() < end {
                break;
            }
            let group = &mut self.groups[at];
            match entry.next()? {
                Some(Item::Context(id, delta)) => group.add_context(id, delta, appended_at),
                Some(Item::Counter(name, series)) => group.add_counter(name, series, appended_at),
                Some(Item::Ranking(name, delta)) => self.add_ranking(name, delta, appended_at),
                Some(Item::Report(report)) if report.is_retained(appended_at) => {
                    let minute = report.minute;
                    let sums = self.reports.or_insert_with(minute, MinuteSums::default);
                    sums.add(report);
                }
                Some(Item::Report(_)) => {}
                Some(Item::Mark(mark)) => {
                    self.marks.or_insert_with(mark.id.clone(), || mark);
                }
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Adds the requests of an entry that was set aside. The requests count as missing at `appended_at`.
    pub fn add_missing(&mut self, requests: u64, appended_at: i64) {
        if requests > 0 {
            let precisions = self.groups.first().map(|group| group.precisions.clone());
            let at = self.group_at(&precisions.unwrap_or_default());
            let group = &mut self.groups[at];
            let mut all = ContextDelta::new(&group.precisions);
            all.add_missing(appended_at, requests);
            group.add_context(ContextId::all(), all, appended_at);
            self.newest_at = self.newest_at.max(appended_at);
        }
    }

    fn add_ranking(&mut self, name: Arc<str>, mut delta: RankingDelta, appended_at: i64) {
        delta.drop_future(latest_accepted(appended_at));
        let specs = (self.ranking_specs).or_insert_with(name.clone(), CarriedSpecs::default);
        specs.carry(delta.spec, appended_at);
        self.rankings.merge(name, delta, |mine, delta| {
            mine.merge(delta);
            mine.bound();
        });
    }

    fn group_at(&mut self, precisions: &Precisions) -> usize {
        let at = self.groups.iter().position(|g| g.precisions == *precisions);
        at.unwrap_or_else(|| {
            self.groups.push(Group {
                precisions: precisions.clone(),
                contexts: Map::default(),
                counters: Map::default(),
                names: Map::default(),
            });
            self.groups.len() - 1
        })
    }

    /// The marks, oldest first.
    pub fn marks(&self) -> Vec<&Mark> {
        let mut marks: Vec<_> = self.marks.values().collect();
        marks.order_by_key(|mark| mark.at);
        marks
    }

    /// The number of contexts, counters and marks, and of ids of rankings.
    pub fn names(&self) -> usize {
        let groups = self.groups.iter();
        let series = groups.map(|group| group.contexts.len() + group.counters.len());
        let ids = self.rankings.values().map(|delta| delta.ids.len());
        series.chain(ids).sum::<usize>() + self.marks.len()
    }
}

impl Group {
    /// The contexts of some partitions.
    pub fn contexts_of(
        &self,
        partitions: &[usize],
    ) -> impl Iterator<Item = (&ContextId, &AcceptedDelta)> {
        let names = partitions.iter().filter_map(|at| self.names.get(at));
        let names = names.flat_map(|names| &names.contexts);
        names.filter_map(|context| Some((context, self.contexts.get(context)?)))
    }

    /// The user's counters of some partitions.
    pub fn counters_of(
        &self,
        partitions: &[usize],
    ) -> impl Iterator<Item = (&Arc<str>, &Vec<Slices<i64>>)> {
        let names = partitions.iter().filter_map(|at| self.names.get(at));
        let names = names.flat_map(|names| &names.counters);
        names.filter_map(|name| Some((name, self.counters.get(name)?)))
    }

    fn add_context(&mut self, context: ContextId, mut delta: ContextDelta, appended_at: i64) {
        let served = delta.served();
        let skewed = delta.drop_future(latest_accepted(appended_at));
        delta.last_seen = delta.last_seen.min(appended_at);
        if context.kind == Kind::All {
            delta.add_missing(appended_at, served.saturating_sub(delta.served()));
        }
        match self.contexts.get_mut(&context) {
            Some(mine) => {
                mine.skewed = mine.skewed.saturating_add(skewed);
                // No hour is dropped here, because the store decides which hours are late.
                mine.delta.merge(delta, &self.precisions, usize::MAX);
            }
            None => {
                let names = (self.names).or_insert_with(partition(&context.name), Names::default);
                names.contexts.push(context.clone());
                self.contexts
                    .insert(context, AcceptedDelta { delta, skewed });
            }
        }
    }

    fn add_counter(&mut self, name: Arc<str>, mut series: Vec<Slices<i64>>, appended_at: i64) {
        for slices in &mut series {
            drop(slices.drop_after(latest_accepted(appended_at)));
        }
        match self.counters.get_mut(&name) {
            Some(mine) => merge_all(mine, series, &self.precisions.counters),
            None => {
                let names = (self.names).or_insert_with(partition(&name), Names::default);
                names.counters.push(name.clone());
                self.counters.insert(name, series);
            }
        }
    }
}

/// The records to which a context's delta is added, if they are retained at `now`. Slices that are already rolled up
/// are also added to the coarser tiers.
pub fn records<'a>(
    delta: &'a ContextDelta,
    tiers: Tiers,
    rolled: &'a RolledUp,
    now: i64,
) -> impl Iterator<Item = (TierSlice, &'a Aggregate)> {
    let records = delta.records.iter().enumerate();
    records.flat_map(move |(from, slices)| {
        slices.iter().flat_map(move |(start, added)| {
            let is_rolled = from > 0 || rolled.contains(start);
            let tiers = tiers.iter().skip(from);
            let tiers = tiers.filter(move |tier| is_rolled || *tier == FINEST);
            let slices = tiers.map(move |tier| (tier, tier.slice(start)));
            let retained = slices.filter(move |(tier, start)| *start > tier.cutoff(now));
            retained.map(move |(tier, start)| ((tier.seconds, start), added))
        })
    })
}

#[cfg(test)]
mod tests;
