//! The last flush: a shutdown appends the remaining calls. Calls that the shutdown cannot append in time count as lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{BACKOFF, Flusher};
use crate::error::{ShutdownError, StoreError, StoreErrorKind};
use crate::task::{boxed, lock};
use tower_pulse_model::amounts::Amounts;

impl Flusher {
    /// Flushes everything that is pending, with retries until `within` has passed. `within` is real time, even if the
    /// `Pulse` has a manual clock. Samples that are recorded later are dropped. The error says how much is lost.
    pub async fn finish(&self, within: Duration) -> Result<(), ShutdownError> {
        let lost_before = self.lost_for_good();
        self.recorder.drain();
        self.recorder.recording.close();
        self.is_finishing.store(true, Ordering::SeqCst);
        // A second shutdown waits for the first shutdown, but for a limited time: the future of the first may not be
        // polled any more.
        let _guard = tokio::time::timeout(2 * within, self.finish.lock()).await;
        let mut last_error = None;
        // Whether the store has data that it could not make durable.
        let mut was_volatile = false;
        let trying = async {
            let mut sending = self.sending.lock().await;
            let mut backoff = *BACKOFF.start();
            loop {
                sending.sizer.use_max_size();
                let mut flushed = boxed(self.flush_with(&mut sending)).await;
                // If this flush found that requests are lost, another flush reports them as missing.
                if flushed.is_ok() && self.recorder.drain.pending_series() > 0 {
                    flushed = boxed(self.flush_with(&mut sending)).await;
                }
                if flushed.is_ok() {
                    flushed = self.store.sync().await;
                    // After a failed sync, the next flush appends what the store has lost.
                    was_volatile = flushed.is_err();
                }
                let Err(error) = flushed else { break };
                last_error = Some(error);
                tokio::time::sleep(backoff.mul_f64(fastrand::f64())).await;
                backoff = (backoff * 2).min(*BACKOFF.end());
            }
            // A failure is harmless: the store then counts this instance as alive for another minute.
            let _ = self.store.upkeep().deregister(&sending.instance).await;
        };
        if tokio::time::timeout(within, trying).await.is_ok() {
            self.restore_given_up();
            let lost = self.lost_for_good().saturating_sub(lost_before);
            if lost.is_zero() {
                return Ok(());
            }
            // The loss is in the log already.
            let message = "the store had lost calls that cannot be sent again; the log says why";
            let error = StoreError::new(StoreErrorKind::Unexpected, message);
            return Err(ShutdownError { lost, error });
        }
        let mut left = self.recorder.drain.take();
        // Data that the store has, but could not make durable. A later flush may send it again.
        let mut volatile = Amounts::default();
        let lost = match self.sending.try_lock() {
            Ok(mut sending) => {
                left.merge(sending.take_unsequenced());
                if let Some(call) = sending.in_doubt.take() {
                    left.merge(call.batch);
                }
                sending.in_doubt_since = None;
                self.recorder.drain.note_all_sent();
                self.publish(&sending);
                if let Some(durable) = self.store.durable_seq(&sending.instance) {
                    volatile = sending.replay.amounts_beyond(durable);
                }
                let lost = left.amounts();
                self.note_lost(lost, volatile);
                lost + volatile
            }
            // A caller holds the future of a flush, but does not poll this future. That flush keeps the data that it
            // has taken.
            Err(_) => {
                let held = lock(&self.state).amounts;
                self.note_lost(left.amounts(), held);
                left.amounts() + held
            }
        };
        let error = last_error.unwrap_or_else(|| {
            StoreError::new(StoreErrorKind::TimedOut, "the store did not answer in time")
        });
        if lost.is_zero() && !was_volatile {
            return Ok(());
        }
        tracing::error!(
            requests = lost.samples,
            additions = lost.additions,
            details = lost.details,
            %error,
            "{lost} lost, because they could not be flushed before the shutdown; if the store was slow, \
             raise `shutdown_timeout`"
        );
        Err(ShutdownError { lost, error })
    }

    /// The amounts that are lost for good. Amounts that an earlier shutdown gave up are not included, because a flush
    /// may still send them.
    fn lost_for_good(&self) -> Amounts {
        let given_up = *lock(&self.given_up);
        let counted = self.recorder.drain.counters(|counters| counters.lost);
        counted.saturating_sub(given_up)
    }

    /// Notes that the data which an earlier shutdown gave up was sent after all.
    pub(super) fn restore_given_up(&self) {
        self.note_lost(Amounts::default(), Amounts::default());
    }

    /// Adds `lost` to the lost amounts. `given_up` replaces the amounts that an earlier shutdown gave up.
    fn note_lost(&self, lost: Amounts, given_up: Amounts) {
        let before = std::mem::replace(&mut *lock(&self.given_up), given_up);
        self.recorder.drain.counters(|counters| {
            counters.lost = (counters.lost + lost + given_up).saturating_sub(before);
        });
    }
}
