//! What the fold knows of a feature: how a round changes its tables, and what happens to them between rounds.

use super::ground::Ground;
use super::lease::Lease;
use super::plan::Plans;
use crate::store::interrupted::Interrupted;
use crate::store::table::FieldWrites;
use crate::task::BoxFuture;
use tower_pulse_model::round::Round;

/// The result of a part of the fold.
pub(super) type Folding<'a> = BoxFuture<'a, Result<(), Interrupted>>;

/// A feature under a lease. What it remembers of the store is true as long as the lease holds.
///
/// The methods are called in this order, again and again: [`between_rounds`](Self::between_rounds); then
/// [`while_idle`](Self::while_idle) if there are no entries, or else [`before_round`](Self::before_round),
/// [`plan`](Self::plan), [`writes`](Self::writes) for each step, and [`after_round`](Self::after_round). While a round that was begun is finished, the first three are left out.
pub(super) trait Feature: Send {
    /// Takes out what has expired at `now`, in Unix seconds of the store, a bounded part at a time. Called also if
    /// there are no entries.
    fn between_rounds<'a>(&'a mut self, _: &'a mut Ground<'_>, _now: i64) -> Folding<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Does what is overdue at `now`, in Unix seconds, as no entry arrives.
    fn while_idle<'a>(&'a mut self, _: &'a mut Ground<'_>, _now: i64) -> Folding<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Brings tables up to the time of a round that is about to begin.
    fn before_round<'a>(&'a mut self, _: &'a mut Ground<'_>) -> Folding<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Adds to the plans what the round changes in the partitions that are not done: their costs, and the fields as
    /// they are after the round.
    fn plan<'a>(
        &'a mut self,
        ground: &'a mut Ground<'_>,
        round: &'a Round,
        plans: &'a mut Plans,
    ) -> Folding<'a>;

    /// The fields that a step with some partitions writes beside those that were planned.
    fn writes(&mut self, _: &Lease, _partitions: &[usize]) -> Vec<FieldWrites> {
        Vec::new()
    }

    /// Keeps tables within their bounds after a round, a bounded part at a time.
    fn after_round<'a>(&'a mut self, _: &'a mut Ground<'_>) -> Folding<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Forgets what is unlikely to be needed for the next round.
    fn forget(&mut self) {}
}

/// How a feature plans a round that remembers nothing and has nothing to do between rounds.
type PlanRound = for<'a> fn(&'a Ground<'_>, &'a Round, &'a mut Plans) -> Folding<'a>;

/// Such a feature.
pub(super) struct PlanOnly(pub(super) PlanRound);

impl Feature for PlanOnly {
    fn plan<'a>(
        &'a mut self,
        ground: &'a mut Ground<'_>,
        round: &'a Round,
        plans: &'a mut Plans,
    ) -> Folding<'a> {
        (self.0)(ground, round, plans)
    }
}
