//! Instances of which a test or a bench drives one part: the folder or the flusher.

use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Change, Clock, StoreError};
use tower_pulse_core::changes::{Findings, JudgementFields};
use tower_pulse_core::flush::{FlushOptions, Flusher};
use tower_pulse_core::fold::{FoldLimits, Folder, Leader};
use tower_pulse_core::recorder::{Limits, Recorder};
use tower_pulse_core::store::conditional_write::{ConditionalWrite, Written};
use tower_pulse_core::store::judgement::read_judgement;
use tower_pulse_core::store::{AppendedCall, Store};
use tower_pulse_detect::last_judgement::LastJudgement;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::slice::Precisions;

/// An instance that only folds.
#[derive(Clone)]
pub struct TestFolder {
    store: Arc<dyn Store>,
    folder: Arc<Folder>,
}

impl TestFolder {
    /// A folder of this name, which caches up to `max_records` records.
    pub fn new(store: Arc<dyn Store>, clock: Clock, instance: &str, max_records: usize) -> Self {
        Self::with_history(store, clock, instance, max_records, None)
    }

    /// A folder that asks for a history of `days` days, or for no history.
    pub fn with_history(
        store: Arc<dyn Store>,
        clock: Clock,
        instance: &str,
        max_records: usize,
        days: Option<u32>,
    ) -> Self {
        let leaderless = Arc::default();
        let instance = instance.to_owned();
        let limits = FoldLimits {
            records: max_records,
            profiles: usize::MAX,
            history_days: days,
            step_contexts: None,
        };
        let folder = Folder::new(store.clone(), clock, instance, limits, leaderless);
        Self {
            store,
            folder: Arc::new(folder),
        }
    }

    /// Folds all entries of the journal. Returns `false` if another instance folds.
    pub async fn fold(&self) -> Result<bool, StoreError> {
        Ok(self.folder.fold().await? == Leader::This)
    }

    /// The write of a judgement up to `until`, which adds `changes` and removes the changes with the ids in `removed`.
    pub async fn judgement(
        &self,
        until: i64,
        changes: &[Change],
        removed: &[&str],
    ) -> Result<ConditionalWrite, StoreError> {
        let judgement = read_judgement(self.store.journal()).await?;
        let (mut tables, detector, errors, _) = JudgementFields::new(judgement);
        Ok(tables.next(Findings {
            judged: LastJudgement {
                until,
                ..LastJudgement::default()
            },
            parts: detector.parts(),
            errors: errors.parts(),
            changes: changes.iter().collect(),
            removed: removed.iter().map(|id| Arc::from(*id)).collect(),
        }))
    }

    /// Writes unless another instance folds.
    pub async fn write(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        self.folder.write(write).await
    }

    /// Writes even if another instance folds.
    pub async fn write_by_hand(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        self.folder.write_by_hand(write).await
    }

    pub async fn release(&self) -> Result<(), StoreError> {
        self.folder.release().await
    }
}

/// An instance that only appends the batches that a test adds.
#[derive(Clone)]
pub struct TestFlusher {
    recorder: Arc<Recorder>,
    flusher: Arc<Flusher>,
}

impl TestFlusher {
    /// A flusher that keeps up to `replay_bytes` of acknowledged calls.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        precisions: Precisions,
        replay_bytes: usize,
    ) -> Self {
        let limits = Limits::new(1, 1);
        let recorder = Arc::new(Recorder::new(clock, precisions, limits));
        let options = FlushOptions {
            interval: Some(Duration::from_secs(1)),
            replay_bytes,
            name: None,
        };
        let flusher = Flusher::new(recorder.clone(), store, &options, Arc::default());
        Self {
            recorder,
            flusher: Arc::new(flusher),
        }
    }

    pub fn add(&self, batch: Batch) {
        self.recorder.put_back(batch);
    }

    /// Appends the pending batch. Returns the newest call that the store has of this instance, and does not wait until
    /// the call can be read.
    pub async fn flush(&self) -> Result<Option<AppendedCall>, StoreError> {
        let flushed = self.flusher.flush().await?;
        Ok(flushed.map(|flushed| flushed.call))
    }

    pub fn lost(&self) -> u64 {
        self.recorder
            .drain
            .counters(|counters| counters.lost.samples)
    }

    pub fn replayed(&self) -> u64 {
        self.recorder.drain.counters(|counters| counters.replayed)
    }
}
