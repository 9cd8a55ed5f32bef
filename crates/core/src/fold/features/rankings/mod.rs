//! Folding rankings: `plan` merges the counts of each slice, and their sums, with those of the store; `upkeep`
//! subtracts slices that have left the window, and drops ids for which there is no room. `known` is the state that the
//! folder remembers, and `list` reads it.

mod known;
mod list;
mod plan;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::known::KnownRankings;
use crate::store::table::FieldWrites;

/// The rankings.
#[derive(Default)]
pub(super) struct Rankings {
    known: KnownRankings,
    /// The rankings that the round adds to, by partition.
    added_to: BTreeMap<usize, BTreeSet<Arc<str>>>,
}

impl Rankings {
    /// The states of the rankings that a step adds to.
    pub(super) fn writes(&mut self, partitions: &[usize]) -> Vec<FieldWrites> {
        let names = partitions.iter().filter_map(|at| self.added_to.remove(at));
        let names: BTreeSet<_> = names.flatten().collect();
        self.state_writes(&names)
    }
}
