//! The daemon of recipe 2: about once a minute it asks the store to remove what is older than its
//! retention, until it is told to stop. Any number of instances may run one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::StoreError;
use crate::model::snapshot::Problem;
use crate::store::{Cleaned, Pass, Store};
use crate::task::Stopped;

/// Waits after a failed pass, doubled each time.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(60);

/// How long things are kept that are not slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    pub(crate) slowest_after: Duration,
    pub(crate) forget_after: Duration,
}

/// Cleans at intervals.
pub(crate) struct Cleaner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) interval: Duration,
    pub(crate) retention: Retention,
    pub(crate) instance: String,
    /// What the last pass of this instance could not understand.
    pub(crate) problems: Arc<Mutex<Vec<Problem>>>,
}

impl Cleaner {
    /// One pass. `None` when another instance does, or did, it.
    pub(crate) async fn pass(&self) -> Result<Option<Cleaned>, StoreError> {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let pass = Pass {
            instance: self.instance.clone(),
            now: self.clock.now_seconds(),
            interval: seconds(self.interval).max(1),
            slowest_after: seconds(self.retention.slowest_after),
            forget_after: seconds(self.retention.forget_after),
        };
        let cleaned = self.store.clean(&pass).await?;
        if let Some(cleaned) = &cleaned {
            let mut known = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
            for problem in cleaned.problems.iter().filter(|new| !known.contains(new)) {
                tracing::warn!(key = %problem.key.escape_default(), reason = %problem.reason, "cleaning skipped what it does not understand");
            }
            known.clone_from(&cleaned.problems);
        }
        Ok(cleaned)
    }

    /// A pass, then a sleep of what is left of the interval but at least a second, until it is told
    /// to stop. An error is followed by a longer sleep, never by the end.
    pub(crate) async fn clean_at_intervals(self, mut stopped: Stopped) {
        let least = Duration::from_secs(1);
        // The first passes of instances that start together fall apart.
        let mut wait = self.interval.mul_f64(fastrand::f64() / 2.0).max(least);
        let mut backoff = *BACKOFF.start();
        while stopped.or(self.clock.sleep(wait)).await.is_some() {
            let start = self.clock.tick();
            let Some(result) = stopped.or(self.pass()).await else {
                return;
            };
            (wait, backoff) = match result {
                Ok(_) => {
                    let rest = self.interval.saturating_sub(self.clock.since(start));
                    (rest.max(least), *BACKOFF.start())
                }
                Err(error) => {
                    tracing::debug!(%error, "a cleaning pass failed; the next one goes on");
                    (backoff, (backoff * 2).min(*BACKOFF.end()))
                }
            };
        }
    }
}
