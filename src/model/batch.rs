//! A batch: everything that was added to each name since the last flush. A store takes it.
//!
//! The number of names and the retention bound the size of a batch, however long it collects: slices that
//! no reader could see are dropped ([`Slices`]).

mod memory;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use self::split::REPORTED_CONTEXT_COST;
pub use self::split::{MAX_CALL_COST, MAX_ENTRY_BYTES};

use std::collections::BTreeMap;
use std::sync::Arc;

use super::access_time::DurationSums;
pub use super::aggregate::{Aggregate, RequestCounts};
use super::context::{ContextId, Kind};
pub use super::context_delta::ContextDelta;
pub(crate) use super::context_delta::{MAX_HOURS, merge_all};
use super::mark::{MAX_PENDING_MARKS, Mark, TooManyMarks};
use super::minute_report::{MAX_PENDING_REPORTS, MinuteReport};
use super::ranking::RankingDelta;
use super::slice::{Precisions, hour_of};
pub use super::slices::{Merge, Slices};
use super::slow_request::{SlowRequest, SlowRequests};

/// Additions to one of the user's counters, in the order of [`Precisions::counters`].
pub type CounterDelta = Vec<Slices<i64>>;

/// Additions by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The precisions of its counters. A store has precisions as well, and refuses a batch with others.
    precisions: Precisions,
    /// Contexts, with `<all>` among them.
    pub contexts: BTreeMap<ContextId, ContextDelta>,
    /// The user's counters.
    pub counters: BTreeMap<Arc<str>, CounterDelta>,
    /// Additions to rankings.
    pub rankings: BTreeMap<Arc<str>, RankingDelta>,
    /// Minute reports, oldest first.
    pub reports: Vec<MinuteReport>,
    /// Marks, by id.
    pub marks: BTreeMap<Arc<str>, Mark>,
    /// Samples whose hour was dropped from the statistics. The counters have them.
    pub late: u64,
}

impl Batch {
    /// An empty batch whose counters will have these precisions.
    pub fn new(precisions: Precisions) -> Self {
        Self {
            precisions,
            contexts: BTreeMap::new(),
            counters: BTreeMap::new(),
            rankings: BTreeMap::new(),
            reports: Vec::new(),
            marks: BTreeMap::new(),
            late: 0,
        }
    }

    /// The precisions of its counters.
    pub fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    /// Moves everything out.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(self.precisions.clone());
        std::mem::replace(self, empty)
    }

    /// Adds an aggregate of one second to a context. The caller adds that of all HTTP contexts to `<all>`.
    pub fn add(&mut self, name: &Arc<str>, kind: Kind, second: i64, aggregate: &Aggregate) {
        let delta = self.contexts.entry(ContextId::new(kind, name.clone()));
        let delta = delta.or_insert_with(|| ContextDelta::new(&self.precisions));
        let late = delta.add(&self.precisions, second, aggregate);
        if kind != Kind::All {
            self.late += late;
        }
    }

    /// Adds a request that ended within a second to the slowest and the failed ones of a context.
    pub fn add_slow(&mut self, context: ContextId, second: i64, request: SlowRequest) {
        let mut slowest = SlowRequests::of(context.kind);
        slowest.add(request);
        self.add_slowest(context, second, slowest);
    }

    /// Adds requests that ended within a second to the slowest and the failed ones of a context.
    pub fn add_slowest(&mut self, context: ContextId, second: i64, slowest: SlowRequests) {
        let delta = self.contexts.entry(context);
        let delta = delta.or_insert_with(|| ContextDelta::new(&self.precisions));
        delta.last_seen = delta.last_seen.max(second);
        delta.slowest.add(hour_of(second), slowest, MAX_HOURS);
    }

    /// Adds `n` to one of the user's counters.
    pub fn count(&mut self, counter: &Arc<str>, second: i64, n: i64) {
        let precisions = &self.precisions.counters;
        let delta = self.counters.entry(counter.clone());
        let delta = delta.or_insert_with(|| vec![Slices::default(); precisions.len()]);
        for (slices, precision) in delta.iter_mut().zip(precisions) {
            slices.add(precision.slice(second), n, precision.retained as usize);
        }
    }

    /// Adds all of `other`, which was collected later and has the same precisions. Slices that no reader could
    /// see are dropped.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!(self.precisions, other.precisions);
        self.late += other.late;
        for (context, theirs) in other.contexts {
            match self.contexts.get_mut(&context) {
                Some(mine) => {
                    let late = mine.merge(theirs, &self.precisions, MAX_HOURS);
                    if context.kind != Kind::All {
                        self.late += late;
                    }
                }
                None => {
                    self.contexts.insert(context, theirs);
                }
            }
        }
        for (counter, theirs) in other.counters {
            match self.counters.get_mut(&counter) {
                Some(mine) => merge_all(mine, theirs, &self.precisions.counters),
                None => {
                    self.counters.insert(counter, theirs);
                }
            }
        }
        for (ranking, theirs) in other.rankings {
            self.add_ranking(ranking, theirs);
        }
        for report in other.reports {
            self.add_report(report);
        }
        for (id, mark) in other.marks {
            self.marks.entry(id).or_insert(mark);
        }
    }

    /// Adds a mark, once.
    ///
    /// # Errors
    /// The batch has [`MAX_PENDING_MARKS`] others.
    pub fn add_mark(&mut self, mark: Mark) -> Result<(), TooManyMarks> {
        if self.marks.len() >= MAX_PENDING_MARKS && !self.marks.contains_key(&mark.id) {
            return Err(TooManyMarks);
        }
        self.marks.entry(mark.id.clone()).or_insert(mark);
        Ok(())
    }

    /// Adds a minute report. Of too many reports, the oldest are dropped.
    pub fn add_report(&mut self, report: MinuteReport) {
        if let Some(mine) = self
            .reports
            .iter_mut()
            .find(|mine| mine.is_of_same(&report))
        {
            return mine.merge(report);
        }
        let later = |mine: &MinuteReport| mine.minute <= report.minute;
        let at = self.reports.partition_point(later);
        self.reports.insert(at, report);
        if self.reports.len() > MAX_PENDING_REPORTS {
            self.reports.remove(0);
        }
    }

    /// Adds to a ranking what was collected later.
    pub fn add_ranking(&mut self, ranking: Arc<str>, delta: RankingDelta) {
        match self.rankings.get_mut(&ranking) {
            Some(mine) => {
                mine.merge(delta);
                mine.limit();
            }
            None => drop(self.rankings.insert(ranking, delta)),
        }
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of contexts, counters, rankings, reports and marks in it.
    pub fn len(&self) -> usize {
        let series = self.contexts.len() + self.counters.len() + self.rankings.len();
        series + self.reports.len() + self.marks.len()
    }

    /// Number of samples, each counted once.
    pub fn requests(&self) -> u64 {
        let contexts = self.contexts.iter();
        contexts
            .filter(|(context, _)| context.kind != Kind::All)
            .map(|(_, delta)| delta.requests())
            .sum()
    }

    /// Number of samples, with those whose hour was dropped. The counters still have these: they outlast
    /// any outage, unless only fine precisions are configured. If either the contexts or `<all>` have been
    /// split off already, the other gives the number.
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
