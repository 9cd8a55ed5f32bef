//! The store with all data in the memory of this process. All other stores behave like this store.

use std::sync::{Arc, Mutex};

use super::in_process::{Bound, Executor, InProcessStore, MemoryFields, State, StateAccess, Work};
use crate::clock::Clock;
use crate::error::Result;
use crate::random::short_random_name;
use crate::task::lock;
use tower_pulse_model::slice::Precisions;

/// A store in the memory of this process. The data is lost when the process ends.
pub type MemoryStore = InProcessStore;

struct Memory(Mutex<State>);

impl Executor for Memory {
    fn describe(&self) -> String {
        "memory of this process".to_owned()
    }

    fn begin(&self, _: StateAccess, work: Work) -> Result<()> {
        // After a panic, `lock` still gives access: the state is consistent before each statement that could panic.
        work(Ok(&mut lock(&self.0)));
        Ok(())
    }
}

/// The bytes that all records may take by default, approximately.
pub const RECORD_BYTES: usize = 256 * 1024 * 1024;

impl InProcessStore {
    /// An empty store in memory. `clock` is the store's time: a sample that is more than an hour ahead of this time is
    /// skewed.
    pub fn new(precisions: Precisions, clock: Clock) -> Self {
        Self::in_memory(precisions, clock, RECORD_BYTES)
    }

    /// An empty store in memory whose records take about `bytes` at most. Above this limit, the oldest minutes are
    /// removed first, then the oldest half hours.
    pub fn in_memory(precisions: Precisions, clock: Clock, bytes: usize) -> Self {
        let generation = format!("memory-{}", short_random_name());
        let mut state = State::new(
            generation,
            clock.now_seconds(),
            Box::new(MemoryFields::default()),
        );
        state.tables.bound = Bound::Records(bytes);
        Self::on_executor(precisions, clock, Arc::new(Memory(Mutex::new(state))))
    }
}
