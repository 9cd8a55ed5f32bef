//! For this crate's own tests and benches only: no part of its public interface.

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::StoreError;
use crate::flush::{FlushOptions, Flusher};
use crate::fold::{Attendance, Folder};
use crate::model::batch::Batch;
use crate::model::slice::Precisions;
use crate::recorder::{Limits, Recorder};
use crate::store::{AppendedCall, Store};

/// An instance that only folds.
#[derive(Clone)]
pub struct TestFolder(Arc<Folder>);

impl std::fmt::Debug for TestFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestFolder")
    }
}

impl TestFolder {
    /// A folder of this name, which remembers up to `max_records` records.
    pub fn new(store: Arc<dyn Store>, clock: Clock, instance: &str, max_records: usize) -> Self {
        let unattended = Arc::default();
        let instance = instance.to_owned();
        Self(Arc::new(Folder::new(
            store,
            clock,
            instance,
            max_records,
            unattended,
        )))
    }

    /// Folds all that is in the journal. `false` when another instance does.
    ///
    /// # Errors
    /// The store failed.
    pub async fn fold(&self) -> Result<bool, StoreError> {
        Ok(self.0.fold().await? == Attendance::Mine)
    }

    /// What it cannot keep up although it folds.
    pub fn upkeep_failures(&self) -> Vec<String> {
        self.0.status().upkeep_failures
    }

    /// Lets another instance fold.
    ///
    /// # Errors
    /// The store failed.
    pub async fn release(&self) -> Result<(), StoreError> {
        self.0.release().await
    }
}

/// An instance that only appends, and only what it is given.
#[derive(Clone)]
pub struct TestFlusher {
    recorder: Arc<Recorder>,
    flusher: Arc<Flusher>,
}

impl std::fmt::Debug for TestFlusher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestFlusher")
    }
}

impl TestFlusher {
    /// A flusher that keeps up to `replay_bytes` of acknowledged calls.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        precisions: Precisions,
        replay_bytes: usize,
    ) -> Self {
        let limits = Limits::for_tests(1, 1);
        let recorder = Arc::new(Recorder::new(clock, precisions, limits));
        let options = FlushOptions {
            interval: Some(std::time::Duration::from_secs(1)),
            replay_bytes,
            name: None,
        };
        let flusher = Flusher::new(recorder.clone(), store, &options, Arc::default());
        Self {
            recorder,
            flusher: Arc::new(flusher),
        }
    }

    /// Adds to what is pending.
    pub fn add(&self, batch: Batch) {
        self.recorder.put_back(batch);
    }

    /// Appends all that is pending, or asks for the newest call where nothing is, without waiting
    /// until it can be read.
    ///
    /// # Errors
    /// The store failed.
    pub async fn flush(&self) -> Result<Option<AppendedCall>, StoreError> {
        let flushed = self.flusher.flush().await?;
        Ok(flushed.map(|flushed| flushed.call))
    }

    /// How many requests it says to be lost.
    pub fn lost(&self) -> u64 {
        self.recorder
            .drain
            .counters(|counters| counters.lost.requests)
    }

    /// How many calls it has replayed.
    pub fn replayed(&self) -> u64 {
        self.recorder.drain.counters(|counters| counters.replayed)
    }
}
