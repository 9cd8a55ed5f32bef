//! Changes and marks.

use std::time::Duration;
use tower_pulse_model::order::InOrder;

use super::{Handle, not_readable};
use crate::callbacks::Callback;
use crate::error::{StoreError, StoreErrorKind};
use crate::random::short_random_name;
use crate::store::StoreFuture;
use crate::store::judgement::read_changes;
use crate::store::marks::{self, leave_out_removed};
use crate::task::boxed;
use tower_pulse_detect::change::Change;
use tower_pulse_model::mark::Mark;

/// The wait until a mark is flushed again after an error, doubled each time.
const MARK_RETRY: Duration = Duration::from_millis(100);

impl Handle {
    /// Adds a function that is called with a change when this instance finds that the change has begun or ended.
    pub fn on_change(&self, on_change: Callback<Change>) {
        self.0.stages.judge.on_change(on_change);
    }

    /// The changes of the fleet, most urgent first: ongoing changes, and then ended changes.
    ///
    /// # Errors
    /// The store failed.
    pub async fn changes(&self) -> Result<Vec<Change>, StoreError> {
        let journal = self.0.stages.store.journal();
        let mut changes = read_changes(journal).await?.changes;
        let marks = boxed(marks::read(journal)).await?.marks;
        for change in &mut changes {
            leave_out_removed(change, &marks);
        }
        changes.order_by(Change::by_urgency);
        Ok(changes)
    }

    /// Marks this moment, for the whole fleet.
    ///
    /// # Errors
    /// The text is not allowed; too many marks wait for the store; the instance is shut down; or the store has lost the
    /// mark. Any other error says that the mark may still appear.
    pub async fn mark(&self, text: &str) -> Result<Mark, StoreError> {
        let mark = Mark::of_text(
            short_random_name(),
            self.0.stages.options.clock.now_seconds(),
            text,
        );
        let mark = mark.map_err(|error| {
            StoreError::new(
                StoreErrorKind::Refused,
                format!("the text of a mark {error}"),
            )
        })?;
        self.add_mark(mark.clone()).await?;
        Ok(mark)
    }

    /// Adds a mark, and waits until the mark can be read.
    // Boxed, so that only this crate compiles the future: see `BoxFuture`.
    #[inline(never)]
    pub fn add_mark(&self, mark: Mark) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let stages = &self.0.stages;
            stages.recorder.add_mark(mark.clone())?;
            let unconfirmed = |error: StoreError| {
                let message = format!("the mark may still appear: {error}");
                StoreError::new(error.kind(), message).with_source(error)
            };
            self.flush_until_done().await.map_err(unconfirmed)?;
            let marks = boxed(marks::read(stages.store.journal()))
                .await
                .map_err(unconfirmed)?;
            if marks.marks.ignores(&mark) {
                return Ok(());
            }
            let message = "the mark is lost: the store was reset, or its key holds a foreign value; see \
                           `flush.lost_details` and `fold.quarantined_keys` in health";
            Err(StoreError::new(StoreErrorKind::Unexpected, message))
        })
    }

    /// Flushes. While a store in another process fails, tries again for 5 s.
    async fn flush_until_done(&self) -> Result<(), StoreError> {
        let Some(deadline) = self.0.stages.store.locality().deadline else {
            return self.flush().await;
        };
        let mut last_error = None;
        let flushing = async {
            let mut wait = MARK_RETRY;
            while let Err(error) = self.flush().await {
                last_error = Some(error);
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
        };
        let flushed = tokio::time::timeout(deadline, flushing).await;
        flushed.map_err(|_| last_error.unwrap_or_else(not_readable))
    }

    /// Judges the minutes that have ended, to find the pages that have changed. A background task judges 15 s after
    /// each minute. Callers that move the clock themselves call this method after a [`flush`](Self::flush). Returns the
    /// number of minutes that this instance has judged; other instances may have judged other minutes. If another
    /// instance folds, this call briefly interrupts the folding, because only the folder can write verdicts.
    ///
    /// # Errors
    /// The store failed. The next call judges the minutes that this call has not judged.
    ///
    /// # Panics
    /// Without a tokio runtime that has its timers enabled.
    ///
    /// # Cancel safety
    /// The next call continues from the last minute that was judged.
    pub fn judge(&self) -> StoreFuture<'_, usize> {
        let now = self.0.stages.options.clock.now_seconds();
        self.0.stages.judge.judge(now, true)
    }

    /// Sends a heartbeat, which shows that this instance is alive, and which version of the application it runs. The
    /// answer of the store has the number of instances and the versions of the fleet. A background task sends a
    /// heartbeat every 1 to 20 s. Callers that move the clock themselves, and run several instances, call this method
    /// at least once per minute of the clock.
    ///
    /// If no other instance runs this version, the next [`flush`](Self::flush) adds a [mark](Self::mark) of the
    /// version, unless the last mark of a version has this version too. Heartbeats announce the version once the mark
    /// can be read.
    ///
    /// # Errors
    /// The store failed.
    ///
    /// # Cancel safety
    /// After a drop of the future, the store may have received the heartbeat.
    pub fn heartbeat(&self) -> StoreFuture<'_, ()> {
        boxed(self.0.stages.flusher.beat())
    }
}
