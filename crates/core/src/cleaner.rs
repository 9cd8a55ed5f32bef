//! The cleaning task. Once per `clean_interval`, the task asks the store to remove data that is older than its
//! retention. The task ends when the `Pulse` shuts down. Any number of instances may run the task.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::Result;
use crate::health::CleaningHealth;
use crate::store::{Pass, Store};
use crate::task::{Admission, DENIED_WAIT, lock};
use tower_pulse_model::snapshot::Problem;

/// The first and the longest wait after a failed pass. The wait doubles with each failure.
const BACKOFF: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(5);

/// Retention of the data that is not stored in slices.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long a context stays in the ranking of the slowest contexts after its last sample.
    pub ranking_retention: Duration,
    /// How long a context stays known after its last sample.
    pub context_retention: Duration,
}

/// Asks the store for a cleaning pass at intervals.
pub struct Cleaner {
    /// The store that is cleaned.
    pub store: Arc<dyn Store>,
    /// The time source.
    pub clock: Clock,
    /// The time between the beginnings of two passes.
    pub interval: Duration,
    /// The retention of data that is not stored in slices.
    pub retention: Retention,
    /// The unique name of this instance.
    pub instance: String,
    /// The state of cleaning.
    pub health: Arc<Mutex<CleaningHealth>>,
    /// The precision of the counter in the last skipped key, and the warning about this key.
    pub skipped: Option<(i64, String)>,
}

impl Cleaner {
    /// Runs one pass, unless another instance cleans.
    async fn pass(&mut self) -> Result<()> {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let pass = Pass {
            instance: self.instance.clone(),
            now: self.clock.now_seconds(),
            interval: seconds(self.interval).max(1),
            ranking_retention: seconds(self.retention.ranking_retention),
            context_retention: seconds(self.retention.context_retention),
        };
        let cleaned = self.store.upkeep().clean(&pass).await?;
        let mut health = lock(&self.health);
        self.skipped = cleaned.and_then(|cleaned| {
            health.passes += 1;
            health.last_pass_at = Some(self.clock.now_seconds());
            health.examined += cleaned.examined;
            health.slices += cleaned.slices;
            health.counters += cleaned.counters;
            health.contexts += cleaned.contexts;
            let skipped = cleaned.skipped.map(|Problem { key, reason, .. }| {
                let text = format!("cleaning skips {key}: {reason}. Repair or delete the key");
                (cleaned.skipped_precision, text)
            });
            // The warning about a key stays until a pass examines the key again.
            let before = self.skipped.take();
            skipped.or(before.filter(|(precision, _)| !pass.examines(*precision)))
        });
        health.last_error = self.skipped.as_ref().map(|(_, text)| text.clone());
        Ok(())
    }

    /// Runs passes forever. After a pass, sleeps for the rest of the interval, but at least one second. After a failed
    /// pass, sleeps for a backoff time instead or, if the server denied access, waits as [`Admission::wait`] describes.
    pub async fn clean_at_intervals(mut self, mut admission: Admission) {
        let min_wait = Duration::from_secs(1);
        // A random first wait spreads the passes of instances that start together.
        let mut wait = self.interval.mul_f64(fastrand::f64() / 2.0).max(min_wait);
        let mut backoff = *BACKOFF.start();
        loop {
            self.clock.sleep(wait).await;
            let start = self.clock.tick();
            let result = self.pass().await;
            let is_denied = admission.denies(&result);
            (wait, backoff) = match result {
                Ok(_) => {
                    let remainder = self.interval.saturating_sub(self.clock.since(start));
                    (remainder.max(min_wait), *BACKOFF.start())
                }
                Err(error) => {
                    let text = format!("cleaning fails, and is retried automatically: {error}");
                    lock(&self.health).last_error = Some(text);
                    match is_denied {
                        true => (Duration::ZERO, *BACKOFF.start()),
                        false => (backoff, (backoff * 2).min(*BACKOFF.end())),
                    }
                }
            };
            admission.wait(|| self.clock.sleep(DENIED_WAIT)).await;
        }
    }
}
