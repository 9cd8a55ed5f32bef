//! For this crate's own tests: what no query answers, of any store in one process.

use std::collections::HashMap;

use super::{Access, InProcessStore, State};
use crate::error::StoreError;

/// What a test wants to know about a store.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The name of the generation, and its beginning in Unix seconds.
    pub generation: (String, i64),
    /// The version of the journal.
    pub version: String,
    /// Whether all entries of the journal are folded.
    pub is_folded: bool,
    /// The number of the last call of each instance.
    pub fences: HashMap<String, u64>,
    /// Requests in entries that were set aside.
    pub set_aside: u64,
    /// Bytes of entries that were gone.
    pub hole_bytes: u64,
}

impl Inspected {
    fn new(state: &State) -> Self {
        let fences = state.kept.fences.keys();
        Self {
            generation: (state.kept.generation.clone(), state.kept.created),
            version: state.kept.journal.version.clone(),
            is_folded: state.kept.journal.is_folded(),
            fences: fences
                .map(|instance| (instance.clone(), state.fence(instance)))
                .collect(),
            set_aside: state.kept.journal.set_aside,
            hole_bytes: state.kept.journal.hole_bytes,
        }
    }
}

impl InProcessStore {
    /// Looks at everything at once.
    pub async fn inspect(&self) -> Result<Inspected, StoreError> {
        let looked = self.with(Access::Read, |state| Ok(Inspected::new(state)));
        looked.await
    }

    /// Removes all fences, as an eviction does.
    pub async fn remove_all_fences(&self) -> Result<(), StoreError> {
        let cleared = self.with(Access::Write, |state| {
            state.kept.fences.clear();
            Ok(())
        });
        cleared.await
    }
}
