//! The task that refreshes due rows.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::shared::{Shared, new_token};
use crate::error::StoreError;
use crate::store::rows::{LeaseOf, LeasedRow};
use crate::task::Stopped;

/// The daemon looks for rows that other processes have scheduled at least this often.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The least time between two looks, so that rows whose turns are close together are leased together.
const MIN_WAIT: Duration = Duration::from_millis(5);

/// Refreshes due rows, several at once.
pub(super) struct Daemon {
    cache: Arc<Shared>,
    loading: JoinSet<()>,
    has_failed: bool,
}

impl Daemon {
    pub(super) fn new(cache: Arc<Shared>) -> Self {
        Self {
            cache,
            loading: JoinSet::new(),
            has_failed: false,
        }
    }

    /// Refreshes due rows until the `Pulse` shuts down. Rows that are being loaded then are finished.
    pub(super) async fn refresh_until(mut self, mut stopped: Stopped) {
        loop {
            let Some(wait) = stopped.or(self.lease()).await else {
                break;
            };
            let cache = self.cache.clone();
            let waiting = async {
                if self.is_full() {
                    // No row can be loaded before another one is.
                    self.loading.join_next().await;
                    return;
                }
                cache.clock.sleep(MIN_WAIT).await;
                tokio::select! {
                    () = cache.clock.sleep(wait.saturating_sub(MIN_WAIT)) => {}
                    () = cache.scheduled.notified() => {}
                }
            };
            if stopped.or(waiting).await.is_none() {
                break;
            }
            while self.loading.try_join_next().is_some() {}
        }
        while self.loading.join_next().await.is_some() {}
    }

    fn is_full(&self) -> bool {
        self.loading.len() >= self.cache.options.concurrency
    }

    /// Leases due rows and begins to load them. Returns how long to wait until the next look.
    async fn lease(&mut self) -> Duration {
        let free = (self.cache.options.concurrency).saturating_sub(self.loading.len());
        if free == 0 {
            return MAX_WAIT;
        }
        let token = new_token();
        let leased = self.cache.lease(&token, LeaseOf::Due(free)).await;
        let leased = match leased {
            Ok(leased) => leased,
            Err(error) => {
                self.failed(&error);
                return MAX_WAIT;
            }
        };
        self.has_failed = false;
        for (key, reason) in &leased.problems {
            tracing::warn!(%key, %reason, "an entry of the schedule is no row, and is skipped");
        }
        let is_full = leased.rows.len() >= free;
        for row in leased.rows {
            self.load(token.clone(), row);
        }
        match leased.next {
            _ if is_full => MAX_WAIT,
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .unwrap_or(MAX_WAIT)
                .clamp(MIN_WAIT, MAX_WAIT),
            None => MAX_WAIT,
        }
    }

    fn load(&mut self, token: String, row: LeasedRow) {
        let cache = self.cache.clone();
        self.loading.spawn(async move {
            let id = row.id.clone();
            if let Err(error) = cache.refresh(&token, row).await {
                tracing::debug!(%error, id, "a row was not refreshed");
            }
        });
    }

    fn failed(&mut self, error: &StoreError) {
        if !self.has_failed {
            tracing::warn!(%error, cache = self.cache.options.name, "rows are not refreshed until the store answers");
        }
        self.has_failed = true;
    }
}
