//! Lengthening and renewing the history. The folder decides how many days the store keeps. So an instance that asks for
//! more days becomes the folder. A folder that asks for fewer days shortens the history a week after its last renewal.
//! So an instance that asks for as many days becomes the folder when the last renewal was an hour ago.

use std::sync::Arc;
use std::time::Duration;

use super::conditional::TAKEOVERS;
use super::{Folder, Leader};
use crate::error::StoreError;
use crate::store::history;
use crate::store::table_reads::Purpose;
use crate::task::lock;

/// The longest time between two checks of the days that the store keeps, unless a check has ended the lease of another
/// instance.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Each check that ends the lease of another instance doubles the time until the next check, up to this time.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

impl Folder {
    /// Takes over folding while the store keeps fewer days than this instance asks for, or when the history is due for
    /// renewal.
    pub async fn ask_for_history(self: Arc<Self>) {
        // If all instances are in one process, each instance folds, and needs no takeover.
        let (Some(days), Some(_)) = (self.limits.history_days, self.store.locality().read_every)
        else {
            return;
        };
        let mut wait = CHECK_EVERY;
        loop {
            // A random wait, so that instances that start together check one after the other.
            let pause = wait.mul_f64(0.5 + fastrand::f64() / 2.0);
            self.clock.sleep(pause).await;
            wait = match self.check_history(days).await {
                Ok(true) => (2 * wait).min(LONGEST_WAIT),
                // Other tasks, which use the store more often, report errors.
                _ => CHECK_EVERY,
            };
        }
    }

    /// Returns whether this check has ended the lease of another instance.
    async fn check_history(&self, days: u32) -> Result<bool, StoreError> {
        let kept = history::read(self.store.journal(), Purpose::Fold).await?;
        let now = self.clock.now_seconds();
        let longer = kept.filter(|kept| kept.outdoes(days, now));
        let warning = longer.map(|kept| {
            format!(
                "this instance asks for a history of {days} days, but the store keeps {} days for another \
                 instance: set `history` alike in all instances",
                kept.days
            )
        });
        let is_leader = {
            let mut status = lock(&self.status);
            status.history = warning;
            status.is_leader
        };
        if is_leader || kept.is_some_and(|kept| !kept.lacks(days, now)) {
            return Ok(false);
        }
        // The other instance may acquire the lease again first.
        for _ in 0..TAKEOVERS {
            let has_ended = self.end_lease_of_another().await?;
            if self.fold().await? == Leader::This {
                self.leaderless.notify_one();
                return Ok(has_ended);
            }
        }
        Ok(true)
    }
}
