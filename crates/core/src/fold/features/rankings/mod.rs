//! Folding rankings. `plan` merges the counts of each slice, and their sums, with the values in the store. `upkeep`
//! subtracts slices that have left the window, and removes ids for which there is no room. `known` is a ranking as the
//! folder remembers it, and `list` reads rankings from the store.

mod known;
mod list;
mod plan;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use self::known::KnownRanking;
use crate::store::table::FieldWrites;

#[derive(Default)]
pub(super) struct Rankings {
    known: BTreeMap<Arc<str>, KnownRanking>,
    /// Whether all rankings of the store are known.
    is_listed: bool,
    /// Rankings that may have surplus ids. The ranking that has waited longest comes first.
    to_limit: VecDeque<Arc<str>>,
    /// The rankings that the round adds to, by partition.
    added_to: BTreeMap<usize, BTreeSet<Arc<str>>>,
}

impl Rankings {
    /// The writes of the states of the rankings that a step adds to.
    pub(super) fn writes(&mut self, partitions: &[usize]) -> Vec<FieldWrites> {
        let names = partitions.iter().filter_map(|at| self.added_to.remove(at));
        let names: BTreeSet<_> = names.flatten().collect();
        self.state_writes(&names)
    }

    /// Notes that the surplus ids of a ranking must be removed after the round.
    fn limit_later(&mut self, name: &Arc<str>) {
        if !self.to_limit.contains(name) {
            self.to_limit.push_back(name.clone());
        }
    }
}
