//! The task that refreshes due rows.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::cache::Cache;
use super::permits::Permit;
use tower_pulse_core::condition::Condition;
use tower_pulse_core::error::{Result, StoreError, StoreErrorKind};
use tower_pulse_core::handle::Handle;
use tower_pulse_core::health::Notices;
use tower_pulse_core::random::short_random_name;
use tower_pulse_core::row_lists::RowCaches;
use tower_pulse_core::task::{DENIED_WAIT, Stopped};
use tower_pulse_redis::rows::{LeaseOf, LeasedRow};

/// The longest time between two checks for due rows, because other processes may schedule rows.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The shortest time between two checks, so that rows due close together are leased together.
const MIN_WAIT: Duration = Duration::from_millis(5);

/// Refreshes due rows, several at once. `caches` lists the cache while the daemon lives.
pub(super) struct Daemon {
    cache: Arc<Cache>,
    caches: RowCaches,
    loading: JoinSet<LoadEnd>,
    /// At the end of the task, the longest wait for rows that are being loaded.
    end_timeout: Duration,
    is_answered: bool,
    notices: Notices,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.caches.remove(&self.cache.options.name);
    }
}

/// The result of a refresh: the seconds until the row is due again.
type LoadEnd = Result<Option<f64>>;

impl Daemon {
    pub(super) fn new(cache: Arc<Cache>, handle: &Handle) -> Self {
        Self {
            cache,
            caches: handle.row_caches().clone(),
            loading: JoinSet::new(),
            end_timeout: handle.options().shutdown_timeout / 2,
            is_answered: true,
            notices: handle.options().notices.clone(),
        }
    }

    /// Refreshes due rows until the `Pulse` shuts down. Then waits at most `end_timeout` for loads in progress. If a
    /// load takes longer, another daemon refreshes its row after the lease.
    pub(super) async fn refresh_until(mut self, mut stopped: Stopped) {
        let (cache, mut admission) = (self.cache.clone(), stopped.admission());
        while !stopped.is_set() {
            let end_timeout = self.end_timeout;
            // While the store does not answer, callers may use all permits but one.
            let most = match self.is_answered {
                true => cache.options.concurrency,
                false => 1,
            };
            let Some(permits) = stopped.or(Box::pin(cache.permits.for_daemon(most))).await else {
                break;
            };
            let next = {
                let lease = self.lease(permits);
                tokio::pin!(lease);
                let Some(next) = stopped.or(Box::pin(&mut lease)).await else {
                    // Waits for the end of the call: a dropped call could lease rows that no task then loads.
                    let _ = tokio::time::timeout(end_timeout, lease).await;
                    break;
                };
                next
            };
            let is_denied = admission.denies(&next);
            let waiting = async {
                match is_denied {
                    true => admission.wait(|| cache.clock.sleep(DENIED_WAIT)).await,
                    false => self.wait(next.unwrap_or(MAX_WAIT)).await,
                }
            };
            if stopped.or(Box::pin(waiting)).await.is_none() {
                break;
            }
        }
        let loaded = async { while self.loading.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.end_timeout, loaded).await;
    }

    /// Waits until a row is due, or a row was scheduled.
    async fn wait(&mut self, mut wait: Duration) {
        let cache = self.cache.clone();
        let start = cache.clock.tick();
        // While a permit is free, waits at least for the shortest time. Otherwise, the next free permit is used at
        // once.
        if cache.permits.is_free() {
            cache.clock.sleep(MIN_WAIT).await;
        }
        loop {
            let left = wait.saturating_sub(cache.clock.since(start));
            tokio::select! {
                () = cache.clock.sleep(left) => break,
                () = cache.scheduled.notified() => break,
                Some(loaded) = self.loading.join_next() => {
                    if let Ok(loaded) = loaded && let Some(next) = self.until_due(loaded) {
                        wait = wait.min(cache.clock.since(start).saturating_add(next));
                    }
                }
            }
        }
        // The leases of these rows have ended, so the next check finds out when the rows are due.
        while let Some(loaded) = self.loading.try_join_next() {
            let _ = loaded.map(|loaded| self.until_due(loaded));
        }
    }

    /// The time from the end of a load until its row is due. Warns of an error of the store.
    fn until_due(&self, loaded: LoadEnd) -> Option<Duration> {
        if let Err(error) = &loaded {
            self.warn_of_store(error);
        }
        Duration::try_from_secs_f64(loaded.ok()??.max(0.0)).ok()
    }

    /// Leases as many due rows as there are permits, and begins to load them. Returns the wait until the next check.
    /// Warns of an error of the store.
    async fn lease(&mut self, mut permits: Vec<Permit>) -> Result<Duration> {
        let token = short_random_name();
        let most = permits.len();
        let leased = self.cache.lease(&token, LeaseOf::Due(most)).await;
        self.is_answered = leased.is_ok();
        let leased = leased.inspect_err(|error| self.warn_of_store(error))?;
        self.warn_of_entries(&leased.problems);
        let is_full = leased.rows.len() >= most;
        for row in leased.rows {
            // The store leases no more rows than asked for.
            let Some(permit) = permits.pop() else { break };
            self.load(token.clone(), row, permit);
        }
        Ok(match leased.next {
            // More rows may be due: check again once a permit is free.
            _ if is_full => Duration::ZERO,
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .unwrap_or(MAX_WAIT)
                .clamp(MIN_WAIT, MAX_WAIT),
            None => MAX_WAIT,
        })
    }

    fn load(&mut self, token: String, row: LeasedRow, permit: Permit) {
        let cache = self.cache.clone();
        self.loading.spawn(async move {
            let refreshed = cache.refresh(&token, row, permit).await;
            if let Err(error) = &refreshed.row {
                tracing::debug!("a row was not refreshed: {error}");
            }
            Ok(refreshed.finished?.next)
        });
    }

    fn warn_of_store(&self, error: &StoreError) {
        use StoreErrorKind::{TimedOut, Unreachable};
        let name = &self.cache.options.name;
        // Other warnings report an unreachable store.
        if !matches!(error.kind(), Unreachable | TimedOut) {
            self.warn(format!(
                "rows of the cache {name:?} are not refreshed, and the refresh is retried automatically: {error}"
            ));
        }
    }

    fn warn_of_entries(&self, problems: &[(String, String)]) {
        if let Some((entry, reason)) = problems.first() {
            let name = &self.cache.options.name;
            self.warn(format!(
                "{} entries in the schedule of the cache {name:?} are skipped, such as {entry} ({reason}): delete them with ZREM",
                problems.len()
            ));
        }
    }

    fn warn(&self, text: String) {
        let warning = Condition::RowRefresh.warning(text);
        self.notices.add_failure(&self.cache.clock, warning);
    }
}
