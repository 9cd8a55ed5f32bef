//! The times at which an instance judges.

use std::sync::Arc;
use std::time::Duration;

use super::{Judge, MINUTE};
use crate::error::Result;
use crate::store::judgement::read_judged;
use crate::task::{Admission, DENIED_WAIT};

/// A minute is due for judgement this many seconds after its end, when nearly all instances have flushed it.
const GRACE: i64 = 15;

/// The longest random delay of a judgement. If all instances are in one process, each of them judges. With random
/// delays, two of them rarely judge at the same time.
const SPREAD: Duration = Duration::from_secs(2);

/// A minute that is not judged this many seconds after it was due is overdue: probably no instance folds. Each instance
/// then tries to acquire the lease, even if no entries wait.
const OVERDUE: i64 = 180;

/// The wait before the next attempt to judge a minute.
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

    /// The wait until the next minute is due.
    fn until_next(&self) -> Duration {
        let since_due = (self.clock.now_seconds() - GRACE).rem_euclid(MINUTE);
        Duration::from_secs((MINUTE - since_due).unsigned_abs())
    }

    /// Judges the minutes that are due, if this instance folds. Otherwise checks that no minute is overdue. After an
    /// error or if a minute is not judged, tries again until the next minute is due.
    async fn judge_minute(&self, admission: &mut Admission) {
        let due = (self.clock.now_seconds() - GRACE).div_euclid(MINUTE) * MINUTE;
        let mut has_woken = false;
        loop {
            let folds_here = self.folder.folds_here();
            let until = if folds_here { due } else { due - OVERDUE };
            let result = match folds_here {
                true => self.judge(until, false).await.map(drop),
                false => self.note_progress().await,
            };
            if admission.denies(&result) {
                admission.wait(|| self.clock.sleep(DENIED_WAIT)).await;
                continue;
            }
            let is_done = result.is_ok() && self.has_judged(until);
            if is_done || self.clock.now_seconds() >= due + GRACE + MINUTE {
                return;
            }
            let is_overdue = result.is_ok() && !folds_here;
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
    async fn note_progress(&self) -> Result<()> {
        let last = self.note(read_judged(self.store.journal()).await)?;
        self.remember(last.judged.until, last.judged.coverage);
        Ok(())
    }

    fn has_judged(&self, until: i64) -> bool {
        self.status().until.is_some_and(|judged| judged >= until)
    }
}
