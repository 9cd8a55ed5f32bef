//! The embedded store: all data is in this process. It is the reference for the behaviour of every store.

#[cfg(any(test, feature = "__test_store"))]
mod saved;

use std::sync::{Arc, Mutex, MutexGuard};

#[cfg(any(test, feature = "__test_store"))]
pub use self::saved::Saved;
use super::in_process::{
    Access, Bound, Found, InProcess, InProcessStore, MemoryFields, Place, State, Work,
};
use crate::clock::Clock;
use crate::random::short_random_name;
use crate::task::{BoxFuture, lock};
use tower_pulse_model::slice::Precisions;

/// A store in the memory of this process. Its data ends with the process.
#[derive(Debug)]
pub struct MemoryStore {
    store: InProcessStore,
    memory: Arc<Memory>,
}

/// A state in memory.
#[derive(Debug)]
struct Memory(Mutex<State>);

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete between two statements that could panic.
        lock(&self.0)
    }
}

impl Place for Memory {
    fn describe(&self) -> String {
        "memory of this process".to_owned()
    }

    fn work(&self, _: Access, work: Work) -> BoxFuture<'_, Found> {
        Box::pin(async move { work(&mut self.state()) })
    }
}

/// The approximate limit of the records unless configured otherwise, in bytes.
pub const RECORD_BYTES: usize = 256 * 1024 * 1024;

/// No data, in a new generation.
fn new_state(created: i64) -> State {
    let generation = format!("memory-{}", short_random_name());
    let mut state = State::new(generation, created, Box::new(MemoryFields::default()));
    state.tables.bound = Bound::Records(RECORD_BYTES);
    state
}

impl MemoryStore {
    /// An empty store. `clock` is the store's time, against which samples are judged as skewed.
    pub fn new(precisions: Precisions, clock: Clock) -> Self {
        let memory = Arc::new(Memory(Mutex::new(new_state(clock.now_seconds()))));
        Self {
            store: InProcessStore::new(precisions, clock, memory.clone()),
            memory,
        }
    }

    /// Limits the records to about `bytes`, 256 MiB by default. Above the limit, the oldest minutes are removed
    /// first, then the oldest half hours.
    pub fn with_record_bytes(self, bytes: usize) -> Self {
        self.state().tables.bound = Bound::Records(bytes);
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.memory.state()
    }
}

impl InProcess for MemoryStore {
    fn in_process(&self) -> &InProcessStore {
        &self.store
    }
}
