//! The daemon of the recipe *cleaning counters*: about once a minute it asks the store to remove data that is
//! older than its retention, until it is told to stop. Any number of instances may run one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::StoreError;
use crate::model::snapshot::Problem;
use crate::store::{CleanReport, Pass, Store};
use crate::task::Stopped;

/// Waits after a failed pass, doubled each time.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(60);

/// How long things are kept that are not slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    pub(crate) ranking_retention: Duration,
    pub(crate) context_retention: Duration,
}

/// Cleans at intervals.
pub(crate) struct Cleaner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) interval: Duration,
    pub(crate) retention: Retention,
    pub(crate) instance: String,
    pub(crate) told: Arc<Mutex<CleanerStatus>>,
}

/// What health tells of the cleaning.
#[derive(Debug, Default)]
pub(crate) struct CleanerStatus {
    /// What the last passes could not understand, whoever did them.
    problems: Vec<Problem>,
    /// Why this instance's last pass failed.
    error: Option<String>,
}

impl CleanerStatus {
    /// For people.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let error = self.error.iter();
        let error = error.map(|error| format!("cleaning fails, and is tried again: {error}"));
        let problems = self.problems.iter();
        error.chain(problems.map(|p| format!("cleaning skips {}: {}", p.key, p.reason)))
    }
}

impl Cleaner {
    /// One pass. `None` when another instance does, or did, it.
    pub(crate) async fn pass(&self) -> Result<Option<CleanReport>, StoreError> {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let pass = Pass {
            instance: self.instance.clone(),
            now: self.clock.now_seconds(),
            interval: seconds(self.interval).max(1),
            ranking_retention: seconds(self.retention.ranking_retention),
            context_retention: seconds(self.retention.context_retention),
        };
        let cleaned = self.store.clean(&pass).await?;
        let problems = match &cleaned {
            Some(cleaned) => Some(cleaned.problems.clone()),
            None => self
                .store
                .last_pass()
                .await?
                .map(|last| last.cleaned.problems),
        };
        let mut told = self.status();
        for problem in problems.iter().flatten() {
            if !told.problems.contains(problem) {
                tracing::warn!(key = %problem.key, reason = %problem.reason, "cleaning skipped what it does not understand");
            }
        }
        told.problems = problems.unwrap_or_default();
        told.error = None;
        drop(told);
        Ok(cleaned)
    }

    fn status(&self) -> MutexGuard<'_, CleanerStatus> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
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
                    if self.status().error.replace(error.to_string()).is_none() {
                        tracing::warn!(%error, "a cleaning pass failed; the next one goes on");
                    }
                    (backoff, (backoff * 2).min(*BACKOFF.end()))
                }
            };
        }
    }
}
