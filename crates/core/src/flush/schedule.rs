//! The times of flushes and heartbeats.

use std::sync::Arc;
use std::time::Duration;

use super::{BACKOFF, Flusher};
use crate::task::{Admission, DENIED_WAIT, Stopped, lock};

/// The longest time that the last flush may take if no caller waits for this flush.
const LAST_FLUSH: Duration = Duration::from_secs(1);

impl Flusher {
    /// Flushes at every interval until the shutdown. Flushes earlier when a ranking of the pending batch has many ids.
    /// When every `Pulse` is dropped without a shutdown, flushes the pending batch.
    pub fn flush_at_intervals(
        self: Arc<Self>,
        stopped: Stopped,
    ) -> impl Future<Output = ()> + Send {
        let unfinished = Unfinished {
            flusher: self.clone(),
            stopped: stopped.clone(),
        };
        async move {
            let flushing = Box::pin(self.flush_repeatedly(stopped.admission()));
            stopped.clone().run(flushing).await;
            if !stopped.is_set() {
                let _ = self.finish(LAST_FLUSH).await;
            }
            drop(unfinished);
        }
    }

    async fn flush_repeatedly(&self, mut admission: Admission) {
        let clock = self.clock().clone();
        let mut backoff = *BACKOFF.start();
        let mut wait = self.until_next();
        let mut last_flush = clock.tick();
        loop {
            let pressed = self.recorder.drain.pressure.notified();
            let is_early = tokio::select! {
                () = clock.sleep(wait) => false,
                () = pressed, if backoff == *BACKOFF.start() => true,
            };
            // The last flush may have taken the ids that caused the notification.
            if is_early && !self.recorder.drain.is_crowded() {
                wait = self.until_next();
                continue;
            }
            let since = clock.since(std::mem::replace(&mut last_flush, clock.tick()));
            *lock(&self.early_after) = is_early.then_some(since);
            let result = self.flush().await;
            let is_denied = admission.denies(&result);
            (wait, backoff) = match result {
                Ok(_) => (self.until_next(), *BACKOFF.start()),
                Err(_) => {
                    let wait = match is_denied {
                        true => Duration::ZERO,
                        false => backoff.mul_f64(fastrand::f64()),
                    };
                    (wait, (backoff * 2).min(*BACKOFF.end()))
                }
            };
            admission.wait(|| clock.sleep(DENIED_WAIT)).await;
        }
    }

    /// The time until the next flush. A flush comes just after a multiple of the interval, when the drain at the start
    /// of the second is done. Each instance of a fleet adds its own delay, so that the flushes are spread.
    pub(super) fn until_next(&self) -> Duration {
        let interval = self.interval();
        let nanos = interval.as_nanos().max(1);
        let now = u128::from(self.clock().now_nanos().unsigned_abs());
        // A fleet whose interval has grown spreads its flushes over the whole interval.
        let is_large = self.is_interval_free && interval > Duration::from_secs(1);
        let spread = match is_large {
            true => interval,
            false => (interval / 10).min(Duration::from_millis(100)),
        };
        let offset = spread.mul_f64(self.phase).as_nanos();
        let elapsed = (now + nanos - offset) % nanos;
        Duration::from_nanos(u64::try_from(nanos - elapsed).unwrap_or(u64::MAX))
    }

    pub(super) fn heartbeat_period(&self) -> Duration {
        (self.interval()).clamp(Duration::from_secs(1), Duration::from_secs(20))
    }

    /// Sends heartbeats to the store. While there is nothing to flush, the answers show that the store is alive.
    pub async fn heartbeat_at_intervals(self: Arc<Self>, mut admission: Admission) {
        let drain = &self.recorder.drain;
        loop {
            let result = self.beat().await;
            let is_denied = admission.denies(&result);
            match &result {
                // While flushes fail, a heartbeat that succeeds must not end the error.
                Ok(()) if lock(&self.state).failed.is_some() => {}
                Ok(()) => {
                    self.note_contact();
                    drain.counters(|counters| counters.last_error = None);
                }
                Err(error) => drain.counters(|counters| {
                    (counters.last_error).get_or_insert_with(|| error.to_string());
                }),
            }
            *lock(&self.heartbeat_error) = result.err();
            match is_denied {
                true => admission.wait(|| self.clock().sleep(DENIED_WAIT)).await,
                false => self.clock().sleep(self.heartbeat_period()).await,
            }
        }
    }
}

/// When dropped, logs a warning about data that is lost because the runtime has ended without a shutdown.
struct Unfinished {
    flusher: Arc<Flusher>,
    stopped: Stopped,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let recorder = &self.flusher.recorder;
        if self.stopped.is_set() || recorder.recording.is_closed() {
            return;
        }
        recorder.drain();
        let lost = self.flusher.unsent_amounts();
        if !lost.is_zero() {
            tracing::warn!(
                requests = lost.samples,
                additions = lost.additions,
                details = lost.details,
                "the runtime ended without `pulse.shutdown().await`, so data that was not flushed is lost: {lost}"
            );
        }
    }
}
