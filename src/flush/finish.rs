//! The last flush: a shutdown appends the calls that are left, and counts those that it has to give up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{BACKOFF, Flusher};
use crate::error::{StoreError, StoreErrorKind};
use crate::task::lock;

/// What a shutdown could not flush.
pub(crate) struct Unflushed {
    pub(crate) requests: u64,
    /// Ids of rankings that were added to.
    pub(crate) ranked_ids: usize,
    pub(crate) error: StoreError,
}

impl Flusher {
    /// Flushes everything that is pending, trying again until `within` has passed in real time, whatever the
    /// clock says. Requests that are recorded later are dropped. The error says what could not be flushed.
    pub(crate) async fn finish(&self, within: Duration) -> Result<(), Unflushed> {
        self.recorder.drain();
        self.recorder.core.close();
        self.finishing.store(true, Ordering::SeqCst);
        // A second shutdown waits for the first one, unless that is not polled any more.
        let _turn = tokio::time::timeout(2 * within, self.finish.lock()).await;
        let last_error = std::sync::Mutex::new(None);
        let trying = async {
            let mut sending = self.sending.lock().await;
            let mut backoff = *BACKOFF.start();
            loop {
                sending.sizer.use_max_size();
                let Err(error) = self.flush_with(&mut sending).await else {
                    break;
                };
                *lock(&last_error) = Some(error);
                tokio::time::sleep(backoff.mul_f64(fastrand::f64())).await;
                backoff = (backoff * 2).min(*BACKOFF.end());
            }
            // Only a courtesy: without it the fleet counts this instance for a minute more.
            let _ = self.store.deregister(&sending.instance).await;
        };
        if tokio::time::timeout(within, trying).await.is_ok() {
            self.restore_given_up();
            return Ok(());
        }
        let mut left = self.recorder.drain.take();
        let requests = match self.sending.try_lock() {
            Ok(mut sending) => {
                left.merge(sending.take_unsequenced());
                if let Some(call) = sending.in_doubt.take() {
                    left.merge(call.batch);
                }
                sending.in_doubt_since = None;
                self.publish(&sending);
                let requests = left.requests_and_late();
                self.lost(requests, 0);
                requests
            }
            // A caller holds a flush without polling it, and with it the requests that the flush has taken.
            Err(_) => {
                let held = lock(&self.state).requests;
                let requests = left.requests_and_late();
                self.lost(requests, held);
                requests + held
            }
        };
        let error = lock(&last_error).take().unwrap_or_else(|| {
            StoreError::new(StoreErrorKind::TimedOut, "the store did not answer in time")
        });
        let ranked_ids = left.ranked_ids();
        if requests == 0 && ranked_ids == 0 {
            return Ok(());
        }
        tracing::error!(
            requests,
            ranked_ids,
            %error,
            "these requests, and additions to so many ids of rankings, are lost, as they could not be flushed before the shutdown; raise \
             `shutdown_timeout` if the store is slow rather than away"
        );
        Err(Unflushed {
            requests,
            ranked_ids,
            error,
        })
    }

    /// Counts what an earlier shutdown gave up as sent after all.
    pub(super) fn restore_given_up(&self) {
        self.lost(0, 0);
    }

    /// Counts `requests` as lost, and `given_up` more for now, in place of those that an earlier shutdown gave
    /// up.
    fn lost(&self, requests: u64, given_up: u64) {
        let before = self.given_up.swap(given_up, Ordering::SeqCst);
        self.recorder.drain.counters(|counters| {
            counters.lost = (counters.lost + requests + given_up).saturating_sub(before);
        });
    }
}
