//! The last flush: what a shutdown still takes to the store, and what it has to give up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{BACKOFF, Flusher};
use crate::error::{StoreError, StoreErrorKind};
use crate::task::lock;

impl Flusher {
    /// Flushes what is left, trying again until `within` has passed in real time, whatever the
    /// clock says. What is recorded later is dropped. Returns how many requests could not be
    /// flushed.
    pub(crate) async fn finish(&self, within: Duration) -> Result<(), (u64, StoreError)> {
        self.recorder.drain();
        self.recorder.core.close();
        self.finishing.store(true, Ordering::SeqCst);
        // A second one waits for the first, unless that is not polled any more.
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
            let instance = lock(&self.published).instance.clone();
            // Only a courtesy: it would be noticed within a minute.
            let _ = self.store.deregister(&instance).await;
        };
        if tokio::time::timeout(within, trying).await.is_ok() {
            self.lost(0, 0);
            return Ok(());
        }
        let mut left = self.recorder.drain.take();
        let requests = match self.sending.try_lock() {
            Ok(mut sending) => {
                left.merge(
                    std::mem::take(&mut sending.unsequenced),
                    &self.recorder.precisions,
                );
                if let Some(call) = sending.in_doubt.take() {
                    left.merge(call.batch, &self.recorder.precisions);
                }
                let mut published = lock(&self.published);
                (published.in_doubt_since, published.in_doubt) = (None, 0);
                published.unsequenced = 0;
                drop(published);
                let requests = left.requests_and_late();
                self.lost(requests, 0);
                requests
            }
            // Somebody holds a flush that he does not poll, and with it what it has taken.
            Err(_) => {
                let held = lock(&self.published).unsent;
                let requests = left.requests_and_late();
                self.lost(requests, held);
                requests + held
            }
        };
        let error = lock(&last_error).take().unwrap_or_else(|| {
            StoreError::new(StoreErrorKind::TimedOut, "the store did not answer in time")
        });
        if requests == 0 {
            return Ok(());
        }
        tracing::error!(
            requests,
            %error,
            "these requests are lost, as they could not be flushed before the shutdown; raise \
             `shutdown_timeout` if the store is slow rather than away"
        );
        Err((requests, error))
    }

    /// So many of the requests that were taken to be sent are lost, and so many more are given up
    /// for now, instead of those that were before.
    fn lost(&self, requests: u64, given_up: u64) {
        let before = std::mem::replace(&mut lock(&self.published).given_up, given_up);
        self.recorder.drain.counters(|figures| {
            figures.lost = (figures.lost + requests + given_up).saturating_sub(before);
        });
    }
}
