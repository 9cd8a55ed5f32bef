//! The state of a store in one process.

use super::counters::Counters;
use super::entry_queue::{EntryQueue, Fence};
use super::fields::Fields;
use super::tables::Tables;
use super::upkeep::Heartbeats;
use crate::error::Result;
use crate::store::Exceptions;
use crate::store::additions::Additions;
use crate::store::table::CONTEXTS;
use tower_pulse_model::pack::packed;
use tower_pulse_model::recorded::Gap;
use tower_pulse_model::sorted::Map;
use tower_pulse_model::tier::RolledUp;

packed! {
    /// The part of the state that a file stores as one value. The entries of the journal are stored one by one.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StoredState {
        /// The name of the store's generation.
        pub generation: String,
        /// When the generation began, in Unix seconds.
        pub created: i64,
        /// The earlier of the time of the first sample and the time at which the generation began, in Unix seconds.
        pub since: i64,
        /// When this value was last written to a file, in Unix seconds.
        pub written_at: i64,
        /// The fence of each instance.
        pub fences: Map<String, Fence>,
        /// The entries of the journal, and how far the journal is folded.
        pub journal: EntryQueue,
        /// The samples and writes that folding omitted.
        pub exceptions: Exceptions,
        /// The ranking of the slowest contexts contains only contexts with a sample after this time, in Unix seconds.
        pub ranked_since: i64,
        /// Which slices were added to coarser tiers.
        pub rolled: RolledUp,
        /// The times in which no instance recorded. In a store in memory, which ends with its process, only tests set
        /// gaps.
        pub gaps: Vec<Gap>,
    }
}

/// The data of a store in one process.
#[cfg_attr(any(test, feature = "__test_store"), derive(Clone))]
pub struct State {
    /// The part that a file stores as one value.
    pub kept: StoredState,
    /// The slices of counters.
    pub counters: Counters,
    /// The tables.
    pub tables: Tables,
    /// The heartbeats of the instances.
    pub heartbeats: Heartbeats,
}

impl State {
    /// A state without data, in a new generation.
    pub fn new(generation: String, created: i64, fields: Box<dyn Fields>) -> Self {
        Self {
            kept: StoredState {
                generation,
                created,
                since: created,
                ranked_since: i64::MIN,
                ..StoredState::default()
            },
            counters: Counters::default(),
            tables: Tables::new(fields),
            heartbeats: Heartbeats::default(),
        }
    }

    /// Applies the additions of a step. `newest_at` is the time of the round's newest entry, and `now` the store's
    /// time. Ignores the exported statistics, because no other program can read this store.
    pub(super) fn add(&mut self, additions: &Additions, newest_at: i64, now: i64) -> Result<()> {
        for ((precision, slice), added) in additions.counters.iter() {
            for (name, n) in added {
                let counters = &mut self.counters;
                if let Err(problem) = counters.add(name, *precision, *slice, *n, newest_at) {
                    self.kept.exceptions.quarantine(problem);
                }
            }
        }
        for (kind, table) in CONTEXTS {
            let seen = additions.statistics.iter();
            let seen = seen.filter(|added| added.context.kind == kind);
            let seen: Vec<_> = seen
                .map(|added| (added.context.name.as_bytes().to_vec(), added.last_seen))
                .collect();
            self.tables.raise(table, seen, now)?;
        }
        self.kept.exceptions.late += additions.late;
        self.kept.exceptions.skewed += additions.skewed;
        Ok(())
    }
}
