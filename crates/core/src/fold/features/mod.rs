//! The features: what is recorded, each in a file of its own. [`Features`] lists them. A feature merges what a round
//! changes in its tables, and some look after them between rounds.

mod marks;
mod minute_reports;
#[cfg_attr(not(feature = "fold-rankings"), path = "no_rankings.rs")]
mod rankings;
mod records;
mod slow_requests;

use self::rankings::Rankings;
use self::records::RecordTables;
use super::ground::{Ground, Lease, Leased};
use super::plan::Plans;
use crate::store::table::FieldWrites;
use crate::task::BoxFuture;
use tower_pulse_model::round::Round;

/// What an instance that folds may remember and keep.
#[derive(Clone, Copy, Debug)]
pub struct FoldLimits {
    /// The most records that it remembers from one round to the next.
    pub records: usize,
    /// The most profiles in the store.
    pub profiles: usize,
    /// The days of history that it asks for, beside the tiers that every store has.
    pub history_days: Option<u32>,
    /// The most contexts that a step writes; `None` for as many as the store takes quickly.
    pub step_contexts: Option<usize>,
}

impl FoldLimits {
    /// Remembers so many records, without other limits.
    pub fn remembering(records: usize) -> Self {
        Self {
            records,
            profiles: usize::MAX,
            history_days: None,
            step_contexts: None,
        }
    }
}

/// The result of a part of the fold, boxed so that the future of a round is small.
type Folding<'a> = BoxFuture<'a, Leased<()>>;

/// All features. Some remember a part of the store, which is true as long as the lease holds.
///
/// The methods are called in this order, again and again: [`between_rounds`](Self::between_rounds); then
/// [`while_idle`](Self::while_idle) if there are no entries, or else [`before_round`](Self::before_round),
/// [`plan`](Self::plan), [`writes`](Self::writes) for each step, [`after_round`](Self::after_round) and
/// [`forget`](Self::forget). While a round that was begun is finished, the first three are left out.
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

    /// Takes out what has expired at `now`, in Unix seconds of the store, a bounded part at a time.
    pub(super) fn between_rounds<'a>(
        &'a mut self,
        ground: &'a mut Ground<'_>,
        now: i64,
    ) -> Folding<'a> {
        self.records.attend(now);
        Box::pin(self.rankings.expire(ground, now))
    }

    /// Does what is overdue at `now`, in Unix seconds, as no entry arrives.
    pub(super) fn while_idle<'a>(
        &'a mut self,
        ground: &'a mut Ground<'_>,
        now: i64,
    ) -> Folding<'a> {
        Box::pin(self.records.roll_up_overdue(ground, now))
    }

    /// Brings tables up to the time of a round that is about to begin.
    pub(super) fn before_round<'a>(&'a mut self, ground: &'a mut Ground<'_>) -> Folding<'a> {
        Box::pin(self.records.roll_up_and_apply(ground))
    }

    /// Adds to the plans what the round changes in the partitions that are not done: their costs, and the fields as
    /// they are after the round.
    pub(super) fn plan<'a>(
        &'a mut self,
        ground: &'a mut Ground<'_>,
        round: &'a Round,
        plans: &'a mut Plans,
    ) -> Folding<'a> {
        Box::pin(async move {
            slow_requests::merge(ground, round, plans).await?;
            self.rankings.merge(ground, round, plans).await?;
            minute_reports::merge(ground, round, plans).await?;
            marks::merge(ground, round, plans).await?;
            self.records.add_round(ground, round).await
        })
    }

    /// The fields that a step with some partitions writes beside those that were planned.
    pub(super) fn writes(&mut self, lease: &Lease, partitions: &[usize]) -> Vec<FieldWrites> {
        let mut writes = self.rankings.writes(partitions);
        writes.extend(self.records.writes(lease, partitions));
        writes
    }

    /// Keeps tables within their bounds after a round, a bounded part at a time.
    pub(super) fn after_round<'a>(&'a mut self, ground: &'a mut Ground<'_>) -> Folding<'a> {
        Box::pin(self.rankings.limit(ground))
    }

    /// Forgets what is unlikely to be needed for the next round.
    pub(super) fn forget(&mut self) {
        self.records.forget();
    }
}
