//! Folding rankings: `plan` merges the counts of each slice, and their sums, with those of the store; `upkeep` takes
//! slices out that have left the window, and drops ids for which there is no room. `known` is what the folder remembers
//! of the store's rankings, and `list` reads it.

mod known;
mod list;
mod plan;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::known::KnownRankings;
use crate::fold::feature::{Feature, Folding};
use crate::fold::ground::Ground;
use crate::fold::lease::Lease;
use crate::fold::plan::Plans;
use crate::store::table::FieldWrites;
use tower_pulse_model::round::Round;

/// The rankings.
#[derive(Default)]
pub(super) struct Rankings {
    known: KnownRankings,
    /// The rankings that the round adds to, by partition.
    added_to: BTreeMap<usize, BTreeSet<Arc<str>>>,
}

impl Feature for Rankings {
    fn between_rounds<'a>(&'a mut self, ground: &'a mut Ground<'_>, now: i64) -> Folding<'a> {
        Box::pin(self.expire(ground, now))
    }

    fn plan<'a>(
        &'a mut self,
        ground: &'a mut Ground<'_>,
        round: &'a Round,
        plans: &'a mut Plans,
    ) -> Folding<'a> {
        Box::pin(self.merge(ground, round, plans))
    }

    fn writes(&mut self, _: &Lease, partitions: &[usize]) -> Vec<FieldWrites> {
        let names = partitions.iter().filter_map(|at| self.added_to.remove(at));
        let names: BTreeSet<_> = names.flatten().collect();
        self.state_writes(&names)
    }

    fn after_round<'a>(&'a mut self, ground: &'a mut Ground<'_>) -> Folding<'a> {
        Box::pin(self.limit(ground))
    }
}
