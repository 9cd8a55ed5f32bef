//! For this crate's own tests: what no query answers, of any store in one process.

use std::collections::HashMap;

use super::{Access, InProcess, State};
use crate::error::StoreError;
use crate::task::BoxFuture;

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
        let fences = state.fences.keys();
        Self {
            generation: (state.generation.clone(), state.created),
            version: state.journal.version.clone(),
            is_folded: state.journal.is_folded(),
            fences: fences
                .map(|instance| (instance.clone(), state.fence(instance)))
                .collect(),
            set_aside: state.journal.set_aside,
            hole_bytes: state.journal.hole_bytes,
        }
    }
}

/// A store into which a test looks.
pub trait Inspect {
    /// Looks at everything at once.
    fn inspect(&self) -> BoxFuture<'_, Result<Inspected, StoreError>>;

    /// Removes all fences, as an eviction does.
    fn remove_all_fences(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

impl<S: InProcess> Inspect for S {
    fn inspect(&self) -> BoxFuture<'_, Result<Inspected, StoreError>> {
        Box::pin(
            self.in_process()
                .with(Access::Read, |state| Ok(Inspected::new(state))),
        )
    }

    fn remove_all_fences(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.in_process().with(Access::Write, |state| {
            state.fences.clear();
            Ok(())
        }))
    }
}
