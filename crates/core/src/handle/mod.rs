//! The handle of an instance: its recorder, flusher, folder and judge over one store, and the tasks that drive them.

mod amend;
mod changes;
mod conditions;
mod health;
mod options;
#[cfg(feature = "query")]
mod query;
#[cfg(feature = "rankings")]
mod ranking;
mod shared_flush;
mod tasks;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

pub use self::options::HandleOptions;
#[cfg(feature = "rankings")]
pub use self::ranking::{Ranking, RankingBuilder, RankingError};
use self::shared_flush::SharedFlush;
use crate::changes::Judge;
use crate::clock::Clock;
pub use crate::error::ShutdownError;
use crate::error::{StoreError, StoreErrorKind};
use crate::flush::{Flushed, Flusher};
use crate::fold::Folder;
use crate::health::Health;
use crate::recorder::Recorder;
use crate::store::{Store, StoreFuture, refusals};
use crate::task::{BoxFuture, Stop, Stopped, lock};
use tower_pulse_model::snapshot::Problem;

/// The deadline that errors name for a store on a server. The deadline that applies is `Locality::deadline`.
const STATED_DEADLINE: Duration = Duration::from_secs(5);
/// The second wait between two attempts of a flush. The first wait is 0. Later waits double, up to 20 times this wait.
const RETRY_WAIT: Duration = Duration::from_millis(10);
/// How long a shutdown may take to release the fold lease.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(50);

/// An instance. Cheap to clone; all clones are the same instance.
#[derive(Clone)]
pub struct Handle(Arc<Inner>);

struct Inner {
    stages: Arc<Stages>,
    stop: Stop,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    flushes: SharedFlush,
    #[cfg(feature = "query")]
    query: std::sync::OnceLock<crate::query::Reader>,
}

/// The stages of an instance, from recording to judging.
struct Stages {
    recorder: Arc<Recorder>,
    flusher: Arc<Flusher>,
    folder: Arc<Folder>,
    store: Arc<dyn Store>,
    judge: Arc<Judge>,
    options: HandleOptions,
    /// The nanoseconds that all tasks together have spent within their polls.
    busy: Arc<std::sync::atomic::AtomicU64>,
    watch: conditions::Watch,
    queue_since: health::QueueSince,
    #[cfg(feature = "row-cache")]
    row_caches: crate::row_lists::RowCaches,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("store", &self.0.stages.store.describe())
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// Makes the shutdown wait for these tasks.
    pub fn join_later(&self, tasks: impl Iterator<Item = JoinHandle<()>>) {
        lock(&self.0.tasks).extend(tasks);
    }

    /// The recorder of samples.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.0.stages.recorder
    }

    /// The store of this instance.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.stages.store
    }

    /// The time source.
    pub fn clock(&self) -> &Clock {
        &self.0.stages.options.clock
    }

    /// The configuration.
    pub fn options(&self) -> &HandleOptions {
        &self.0.stages.options
    }

    /// The signal of the shutdown, for another task.
    pub fn stopped(&self) -> Stopped {
        self.0.stop.stopped()
    }

    /// The row caches of this instance.
    #[cfg(feature = "row-cache")]
    pub fn row_caches(&self) -> &crate::row_lists::RowCaches {
        &self.0.stages.row_caches
    }

    /// Sends all recorded data to the store, and returns when the data can be read.
    ///
    /// # Errors
    /// The store failed, or no instance has folded the data within 5 s: nothing is lost, and the next flush tries
    /// again. Or data was refused during the flush, because its key holds a foreign value.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing and counts nothing twice.
    // Boxed, so that only this crate compiles the future: see `BoxFuture`.
    #[inline(never)]
    pub fn flush(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            let refused = self.flush_all().await?;
            match refused.is_empty() {
                true => Ok(()),
                false => Err(refusal(&refused)),
            }
        })
    }

    /// Flushes, and returns the keys whose data was refused during the flush.
    #[inline(never)]
    fn flush_all(&self) -> StoreFuture<'_, Vec<Problem>> {
        Box::pin(async {
            let stages = &self.0.stages;
            let flushing = Box::pin(async {
                // A flush in progress may already send data of the caller. So the number of refusals is read before
                // this call waits for that flush.
                let before = stages.flusher.known_quarantined().await;
                self.0.flushes.run(stages.flush()).await?;
                Ok(stages.flusher.quarantined_since(before))
            });
            let flushed = stages.in_time(flushing).await;
            flushed.unwrap_or_else(|| Err(not_readable()))
        })
    }

    /// The state of recording and flushing.
    pub fn health(&self) -> Health {
        self.0.stages.health()
    }

    /// Stops the background tasks and waits for their end, and then flushes the remaining data.
    ///
    /// # Errors
    /// The store did not acknowledge all data within the timeout of a shutdown, or has lost acknowledged data.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: call this method again.
    #[inline(never)]
    pub fn shutdown(&self) -> BoxFuture<'_, Result<(), ShutdownError>> {
        Box::pin(async {
            let stages = &self.0.stages;
            self.0.stop.stop();
            let tasks = std::mem::take(&mut *lock(&self.0.tasks));
            for task in tasks {
                // A task that was aborted with its runtime has nothing left to do.
                let _ = task.await;
            }
            let (start, timeout) = (std::time::Instant::now(), stages.options.shutdown_timeout);
            let result = stages.flusher.finish(timeout).await;
            // The flushed data is safe in the journal. Folding now makes the data readable sooner.
            let left = timeout.saturating_sub(start.elapsed());
            let fold = async {
                let _ = stages.folder.fold().await;
                let _ = stages.store.sync().await;
            };
            let _ = tokio::time::timeout(left, fold).await;
            let _ = tokio::time::timeout(RELEASE_TIMEOUT, stages.folder.release()).await;
            result
        })
    }
}

fn refusal(refused: &[Problem]) -> StoreError {
    StoreError::new(StoreErrorKind::Unexpected, refusals(refused).join("; "))
}

fn not_readable() -> StoreError {
    let message = format!(
        "the data was not readable within {STATED_DEADLINE:?}: no instance has folded it; see `fold.journal` in health"
    );
    StoreError::new(StoreErrorKind::TimedOut, message)
}

impl Stages {
    async fn flush(&self) -> Result<(), StoreError> {
        // The loop repeats if the store has lost acknowledged data, or if calls were sent again and may have another
        // position.
        let mut wait = Duration::ZERO;
        while let Some(newest) = self.append_all().await? {
            let readable = self.folder.until_readable(&newest.call);
            if readable.await? && self.flusher.replays() == newest.replays {
                break;
            }
            // A store may lose acknowledged data again and again, so the waits between attempts grow.
            tokio::time::sleep(wait).await;
            wait = (2 * wait).clamp(RETRY_WAIT, 20 * RETRY_WAIT);
        }
        // So health shows at once which samples folding could not use, and not only after the next heartbeat.
        let _ = self.flusher.refresh_fleet().await;
        Ok(())
    }

    /// Appends all recorded data. While the journal is full, folds the journal and tries again, as long as each attempt
    /// appends a call.
    async fn append_all(&self) -> Result<Option<Flushed>, StoreError> {
        let mut last_call = None;
        loop {
            let flushed = self.flusher.flush().await;
            let appended = Some(self.flusher.last_call());
            let is_refused =
                matches!(&flushed, Err(error) if error.kind() == StoreErrorKind::Refused);
            if !is_refused || last_call == appended {
                return flushed;
            }
            last_call = appended;
            self.folder.fold().await?;
        }
    }
}
