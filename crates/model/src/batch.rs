//! A batch: all additions since the last flush, by name. A flush sends the batch to the store.
//!
//! The number of names and the retention bound the size of a batch: [`Slices`] drops slices beyond their retention.

mod memory;
mod split;
#[cfg(test)]
mod tests;

pub use self::split::MAX_CALL_COST;

use std::sync::Arc;

use super::aggregate::Aggregate;
use super::amounts::Amounts;
use super::context::{ContextId, Kind};
use super::context_delta::{ContextDelta, MAX_HOURS};
use super::counter::{self, CounterDelta};
use super::mark::{MAX_PENDING_MARKS, Mark, TooManyMarks};
use super::minute_report::{MAX_PENDING_REPORTS, MinuteReport};
use super::ranking::{self, RankingDelta};
use super::section::Section;
use super::slice::{Precisions, hour_of};
use super::slices::{Slices, merge_all};
use super::slow_request::SlowRequests;
use super::sorted::Map;

/// Additions by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The precisions of the counters. A store refuses a batch whose precisions differ from the store's.
    precisions: Precisions,
    /// The contexts, including `<all>`.
    pub contexts: Map<ContextId, ContextDelta>,
    /// The user's counters.
    pub counters: Map<Arc<str>, CounterDelta>,
    /// Additions to rankings.
    pub rankings: Map<Arc<str>, RankingDelta>,
    /// Minute reports, oldest first.
    pub reports: Vec<MinuteReport>,
    /// Marks, by id.
    pub marks: Map<Arc<str>, Mark>,
    /// The number of samples that are missing in the [statistics](ContextDelta::hours), because their hour was dropped.
    pub late: u64,
    /// The second of the oldest sample, in Unix seconds. An entry of the journal does not contain this field.
    pub since: Option<i64>,
}

impl Batch {
    /// An empty batch whose counters have these precisions.
    pub fn new(precisions: Precisions) -> Self {
        Self {
            precisions,
            ..Self::default()
        }
    }

    /// The precisions of the counters.
    pub fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    /// Moves everything out, and leaves an empty batch.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(self.precisions.clone());
        std::mem::replace(self, empty)
    }

    /// Adds an aggregate of one second to a context. The caller also adds the sum of all HTTP contexts to `<all>`.
    pub fn add(&mut self, name: &Arc<str>, kind: Kind, second: i64, aggregate: &Aggregate) {
        let delta = (self.contexts).or_insert_with(ContextId::new(kind, name.clone()), || {
            ContextDelta::new(&self.precisions)
        });
        let late = delta.add(&self.precisions, second, aggregate);
        if kind != Kind::All {
            self.late += late;
        }
    }

    /// The second of the newest request in the records of `<all>`, and the number of requests, including missing ones.
    pub fn served(&self) -> (i64, u64) {
        let all = self.contexts.get(&ContextId::all());
        all.map_or((0, 0), |all| (all.last_seen, all.served()))
    }

    /// Adds requests, all of which ended in `second` (Unix time), to the slowest and the failed requests of a context.
    pub fn add_slowest(&mut self, context: ContextId, second: i64, slowest: SlowRequests) {
        let delta = self.seen(&context, second);
        delta.slowest.add(hour_of(second), slowest, MAX_HOURS);
    }

    /// Notes that a context had a sample, and returns the context's additions.
    pub fn seen(&mut self, context: &ContextId, second: i64) -> &mut ContextDelta {
        let delta =
            (self.contexts).or_insert_with(context.clone(), || ContextDelta::new(&self.precisions));
        delta.last_seen = delta.last_seen.max(second);
        delta
    }

    /// Adds `n` to one of the user's counters.
    pub fn count(&mut self, counter: &Arc<str>, second: i64, n: i64) {
        let precisions = &self.precisions.counters;
        let delta = (self.counters).or_insert_with(counter.clone(), || {
            vec![Slices::default(); precisions.len()]
        });
        for (slices, precision) in delta.iter_mut().zip(precisions) {
            slices.add(precision.slice(second), n, precision.retained as usize);
        }
    }

    /// Merges `other`, which was collected later and has the same precisions. Slices beyond their retention are
    /// dropped.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!(self.precisions, other.precisions);
        self.late += other.late;
        self.since = self.since.into_iter().chain(other.since).min();
        for (context, theirs) in other.contexts {
            let is_all = context.kind == Kind::All;
            self.contexts.merge(context, theirs, |mine, theirs| {
                let late = mine.merge(theirs, &self.precisions, MAX_HOURS);
                self.late += if is_all { 0 } else { late };
            });
        }
        for (counter, theirs) in other.counters {
            self.counters.merge(counter, theirs, |mine, theirs| {
                merge_all(mine, theirs, &self.precisions.counters);
            });
        }
        for (ranking, delta) in other.rankings {
            self.add_ranking(ranking, delta);
        }
        for report in other.reports {
            self.add_report(report);
        }
        for (id, mark) in other.marks {
            self.marks.or_insert_with(id, || mark);
        }
    }

    /// The sections after the contexts, in the order of an entry.
    pub(super) fn sections(&self) -> [&dyn Section; 4] {
        [&self.counters, &self.rankings, &self.reports, &self.marks]
    }

    /// Adds a mark. A mark that is already there is not added again.
    ///
    /// # Errors
    /// The batch has [`MAX_PENDING_MARKS`] other marks.
    pub fn add_mark(&mut self, mark: Mark) -> Result<(), TooManyMarks> {
        if self.marks.len() >= MAX_PENDING_MARKS && !self.marks.contains_key(&mark.id) {
            return Err(TooManyMarks);
        }
        self.marks.or_insert_with(mark.id.clone(), || mark);
        Ok(())
    }

    /// Adds a minute report. If the batch then has more than [`MAX_PENDING_REPORTS`] reports, the oldest one is
    /// dropped.
    pub fn add_report(&mut self, report: MinuteReport) {
        let reports = &mut self.reports;
        if let Some(mine) = reports.iter_mut().find(|mine| mine.is_same_report(&report)) {
            return mine.merge(report);
        }
        let at = reports.partition_point(|mine| mine.minute <= report.minute);
        reports.insert(at, report);
        if reports.len() > MAX_PENDING_REPORTS {
            reports.remove(0);
        }
    }

    /// Merges later additions to a ranking.
    pub fn add_ranking(&mut self, ranking: Arc<str>, delta: RankingDelta) {
        self.rankings.merge(ranking, delta, |mine, delta| {
            mine.merge(delta);
            mine.limit();
        });
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of contexts, counters, rankings, reports and marks.
    pub fn len(&self) -> usize {
        let details = self.reports.len() + self.marks.len();
        self.contexts.len() + self.counters.len() + self.rankings.len() + details
    }

    /// The amounts of all kinds.
    pub fn amounts(&self) -> Amounts {
        Amounts {
            samples: self.requests_and_late(),
            ..self.amounts_beside_samples()
        }
    }

    /// The amounts of all kinds except samples.
    pub fn amounts_beside_samples(&self) -> Amounts {
        let contexts = self.contexts.iter().filter(|(id, _)| id.kind != Kind::All);
        let listed = contexts.flat_map(|(_, delta)| delta.slowest.iter());
        let listed: usize = listed.map(|(_, list)| list.len()).sum();
        let of_counters = counter::additions(&self.counters);
        Amounts {
            samples: 0,
            additions: of_counters.saturating_add(ranking::additions(&self.rankings)),
            details: (listed + self.reports.len() + self.marks.len()) as u64,
        }
    }

    /// The number of samples in the statistics of all contexts but `<all>`.
    pub fn requests(&self) -> u64 {
        let contexts = self.contexts.iter();
        contexts
            .filter(|(context, _)| context.kind != Kind::All)
            .map(|(_, delta)| delta.requests())
            .sum()
    }

    /// The number of samples, including those whose hour was dropped. The counters still have these samples, unless the
    /// outage was long and only fine precisions are configured. If a split has already moved out `<all>` or the other
    /// contexts, the number comes from the contexts that are left.
    pub fn requests_and_late(&self) -> u64 {
        let counted = |all: bool| -> u64 {
            let contexts = self.contexts.iter();
            contexts
                .filter(|(context, _)| (context.kind == Kind::All) == all)
                .filter_map(|(_, delta)| delta.counters.last())
                .flat_map(Slices::iter)
                .map(|(_, hits)| hits.hits)
                .sum()
        };
        counted(false).max(counted(true)).max(self.requests())
    }
}
