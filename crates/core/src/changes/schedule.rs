//! The times at which an instance judges.

use std::sync::Arc;
use std::time::Duration;

use super::{Judge, MINUTE};
use crate::error::Result;
use crate::store::judgement::read_judged;
use crate::task::{Admission, DENIED_WAIT};

/// A minute is judged this many seconds after its end, when nearly all instances have flushed it.
const GRACE: i64 = 15;

/// The longest random delay of a judgement, so that two instances with one store in memory rarely judge at once.
const SPREAD: Duration = Duration::from_secs(2);

/// A minute is overdue this many seconds after its end: the last folder must have ended. An instance then acquires the
/// lease if the lease is free, even if no entries wait.
const OVERDUE: i64 = 180;

/// The wait after a failure, and while samples of the minute are not folded.
const RETRY: Duration = Duration::from_secs(5);

impl Judge {
    /// Judges each minute after its end.
    pub async fn judge_at_intervals(self: Arc<Self>, mut admission: Admission) {
        loop {
            let wait = self.until_next() + SPREAD.mul_f64(fastrand::f64());
            self.clock.sleep(wait).await;
            self.judge_minute(&mut admission).await;
        }
    }

    /// The wait until the current minute is judged.
    fn until_next(&self) -> Duration {
        let since_due = (self.clock.now_seconds() - GRACE).rem_euclid(MINUTE);
        Duration::from_secs((MINUTE - since_due).unsigned_abs())
    }

    /// Judges the last minute that has ended, if this instance folds. Otherwise checks that other instances judge.
    /// Retries until the next minute ends.
    async fn judge_minute(&self, admission: &mut Admission) {
        let due = (self.clock.now_seconds() - GRACE).div_euclid(MINUTE) * MINUTE;
        let mut has_woken = false;
        loop {
            let is_mine = self.folder.folds_here();
            let until = if is_mine { due } else { due - OVERDUE };
            let looked = match is_mine {
                true => self.judge(until, false).await.map(drop),
                false => self.look().await,
            };
            if admission.denies(&looked) {
                admission.wait(|| self.clock.sleep(DENIED_WAIT)).await;
                continue;
            }
            let is_done = looked.is_ok() && self.has_judged(until);
            if is_done || self.clock.now_seconds() >= due + GRACE + MINUTE {
                return;
            }
            let is_overdue = looked.is_ok() && !is_mine;
            if is_overdue && !std::mem::replace(&mut has_woken, true) {
                // `hello` begins a journal if there is none. Without a journal, no instance can acquire the lease.
                if self.store.hello().await.is_ok() {
                    self.folder.wake();
                }
            }
            self.clock.sleep(RETRY).await;
        }
    }

    /// Reads the last judgement in the store, and notes the minute up to which instances have judged.
    async fn look(&self) -> Result<()> {
        let last = self.note(read_judged(self.store.journal()).await)?;
        self.remember(last.judged.until, last.judged.sight);
        Ok(())
    }

    fn has_judged(&self, until: i64) -> bool {
        self.status().until.is_some_and(|judged| judged >= until)
    }
}
