//! The features of the fold, each in a separate file. A feature merges the changes of a round into its tables, and some
//! features maintain their tables between rounds.

mod marks;
mod minute_reports;
#[cfg_attr(not(feature = "fold-rankings"), path = "no_rankings.rs")]
mod rankings;
mod records;
mod slow_requests;

use self::rankings::Rankings;
use self::records::RecordTables;
use super::leased_store::{Lease, Leased, LeasedStore};
use super::plan::Plans;
use crate::store::table::FieldWrites;
use crate::task::BoxFuture;
use tower_pulse_model::round::Round;

/// The limits of an instance that folds.
#[derive(Clone, Copy, Debug)]
pub struct FoldLimits {
    /// The most records that the instance remembers from one round to the next.
    pub records: usize,
    /// The most profiles in the store.
    pub profiles: usize,
    /// The days of history that the instance asks for, in addition to the tiers that every store has.
    pub history_days: Option<u32>,
    /// The most contexts that a step writes; `None` for as many as the store can take quickly.
    pub step_contexts: Option<usize>,
}

/// The future of a part of the fold, boxed so that the future of a round is small.
type Folding<'a> = BoxFuture<'a, Leased<()>>;

/// All features. Some features remember a part of the store's data, which is valid as long as the lease holds.
///
/// The methods are called in this order, again and again: [`between_rounds`](Self::between_rounds); then
/// [`while_idle`](Self::while_idle) if there are no entries, or else [`before_round`](Self::before_round),
/// [`plan`](Self::plan), [`writes`](Self::writes) for each step, and [`after_round`](Self::after_round); then
/// [`forget`](Self::forget). A folder that finishes an earlier round skips the first three methods.
pub(super) struct Features {
    rankings: Rankings,
    records: RecordTables,
}

impl Features {
    pub(super) fn new(limits: FoldLimits) -> Self {
        Self {
            rankings: Rankings::default(),
            records: RecordTables::new(limits),
        }
    }

    /// Notes that this instance is present, and removes data that has expired, a bounded part at a time. `now` is the
    /// time of the store, in Unix seconds.
    pub(super) fn between_rounds<'a>(
        &'a mut self,
        leased: &'a mut LeasedStore<'_>,
        now: i64,
    ) -> Folding<'a> {
        self.records.note_presence(now);
        Box::pin(self.rankings.expire(leased, now))
    }

    /// Rolls up overdue minutes, and adds ended hours to the profiles, while no entry arrives. `now` is in Unix
    /// seconds.
    pub(super) fn while_idle<'a>(
        &'a mut self,
        leased: &'a mut LeasedStore<'_>,
        now: i64,
    ) -> Folding<'a> {
        Box::pin(self.records.roll_up_overdue(leased, now))
    }

    /// Rolls up ended minutes, and adds ended hours to the profiles, before a round begins.
    pub(super) fn before_round<'a>(&'a mut self, leased: &'a mut LeasedStore<'_>) -> Folding<'a> {
        Box::pin(self.records.roll_up_and_apply(leased))
    }

    /// Adds the changes of the round to the plans of partitions that are not done yet. A plan gets the cost of the
    /// writes, and the fields with their values after the round.
    pub(super) fn plan<'a>(
        &'a mut self,
        leased: &'a mut LeasedStore<'_>,
        round: &'a Round,
        plans: &'a mut Plans,
    ) -> Folding<'a> {
        Box::pin(async move {
            slow_requests::merge(leased, round, plans).await?;
            self.rankings.merge(leased, round, plans).await?;
            minute_reports::merge(leased, round, plans).await?;
            marks::merge(leased, round, plans).await?;
            self.records.add_round(leased, round).await
        })
    }

    /// The fields that a step with these partitions writes in addition to the planned fields.
    pub(super) fn writes(&mut self, lease: &Lease, partitions: &[usize]) -> Vec<FieldWrites> {
        let mut writes = self.rankings.writes(partitions);
        writes.extend(self.records.writes(lease, partitions));
        writes
    }

    /// Keeps tables within their bounds after a round, a bounded part at a time.
    pub(super) fn after_round<'a>(&'a mut self, leased: &'a mut LeasedStore<'_>) -> Folding<'a> {
        Box::pin(self.rankings.limit(leased))
    }

    /// Forgets data that the next round is unlikely to need.
    pub(super) fn forget(&mut self) {
        self.records.forget();
    }
}
