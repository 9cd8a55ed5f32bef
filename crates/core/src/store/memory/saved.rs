//! For this crate's own tests: data that is saved and restored, as a failover of a server does, and what no query tells.

use super::{MemoryStore, new_state};
use crate::store::in_process::State;
use tower_pulse_model::recorded::Gap;

/// The data of a store at a moment.
#[derive(Clone, Debug)]
pub struct Saved(State);

impl MemoryStore {
    /// Makes the journal full at fewer bytes.
    pub fn with_journal_bytes(mut self, bytes: u64) -> Self {
        self.store.journal_bytes = bytes;
        self
    }

    /// The data of now.
    pub fn save(&self) -> Saved {
        Saved(self.state().clone())
    }

    /// Replaces all data by that of an earlier moment.
    pub fn restore(&self, saved: &Saved) {
        *self.state() = saved.0.clone();
    }

    /// Removes all data: a new generation begins.
    pub fn reset(&self) {
        let mut state = self.state();
        let bound = state.tables.bound;
        *state = new_state(self.store.now());
        state.tables.bound = bound;
    }

    /// Says in which times no instance recorded, in Unix seconds: ascending and disjoint.
    pub fn set_gaps(&self, gaps: impl IntoIterator<Item = Gap>) {
        self.state().gaps = gaps.into_iter().collect();
    }
}
