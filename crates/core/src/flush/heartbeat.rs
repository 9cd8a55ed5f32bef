//! Heartbeats: the store learns that this instance is alive, and which version of the application it runs; the instance
//! learns the fleet.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Flusher;
use crate::error::Result;
use crate::store::{Heartbeat, marks};
use crate::task::{boxed, lock};
use tower_pulse_model::fleet::Fleet;
use tower_pulse_model::mark::Mark;

/// Time after which the mark of a version that cannot be read is added again.
const MARK_AGAIN: Duration = Duration::from_secs(60);

impl Flusher {
    /// Sends a heartbeat, and asks how the fleet is doing.
    pub async fn beat(&self) -> Result<()> {
        let mut marked = Ok(());
        let mut unmarked = None;
        if !self.is_version_marked.load(Ordering::Relaxed) {
            // Without the version, so that the answer has only those of others. Until the version has its mark, it is
            // not told: another instance that has it would make none.
            let others = self.send_heartbeat(None).await?;
            match self.mark_version(&others).await {
                Ok(true) => self.is_version_marked.store(true, Ordering::Relaxed),
                waits => {
                    marked = waits.map(drop);
                    unmarked = Some(others);
                }
            }
        }
        let version = self.recorder.limits.app_version.clone();
        let fleet = match unmarked {
            Some(fleet) => fleet,
            None => self.send_heartbeat(version).await?,
        };
        self.recorder.drain.set_fleet(fleet);
        marked
    }

    async fn send_heartbeat(&self, version: Option<Arc<str>>) -> Result<Fleet> {
        let heartbeat = Heartbeat {
            instance: self.instance(),
            name: self.name.as_deref().map(Arc::from),
            at: self.skew.now_seconds(self.clock()),
            every: self.heartbeat_period().as_secs(),
            in_flight: self.recorder.recording.in_flight(),
            dropped: self.recorder.drain.drain_stats().dropped.requests,
            version,
            skew: self.skew.seconds(),
            cleaning: lock(&self.cleaning).last_error.clone(),
        };
        let sent = self.clock().wall_nanos();
        let (fleet, status) = self.store.upkeep().heartbeat(&heartbeat).await?;
        let turn = self.skew.note(self.clock(), sent, status.time);
        self.set_status(status);
        if let Some(origin) = turn {
            self.turn_clock(origin).await?;
        }
        Ok(fleet)
    }

    /// Goes on by another time. What was recorded before is closed: merged with what comes, its slices could push those
    /// out.
    async fn turn_clock(&self, origin: Option<i64>) -> Result<()> {
        let mut sending = self.sending.lock().await;
        if self.finishing.load(Ordering::SeqCst) {
            return Ok(());
        }
        boxed(self.flush_with(&mut sending)).await?;
        let clock = match origin {
            Some(_) => "the store's time, as the clock of this instance is wrong: set it (NTP)",
            None => "the clock of this instance again",
        };
        tracing::warn!("going on by {clock}");
        sending.unsequenced = self.recorder.turn_clock(origin);
        sending.unsequenced_amounts = sending.unsequenced.amounts();
        sending.is_closed = true;
        boxed(self.flush_with(&mut sending)).await
    }

    /// Makes a mark, unless a living instance has the version of this one or the mark would repeat it. So neither a
    /// restart in the middle of a deploy makes one, nor the second instance of a new version. Returns whether the mark
    /// can be read, or is not needed.
    async fn mark_version(&self, others: &Fleet) -> Result<bool> {
        let Some(version) = &self.recorder.limits.app_version else {
            return Ok(true);
        };
        if others.versions.contains(version) {
            return Ok(true);
        }
        let mark = {
            let mut mark = lock(&self.version_mark);
            let now = self.skew.now_seconds(self.clock());
            let new = || (Mark::of_version(now, version), None);
            mark.get_or_insert_with(new).0.clone()
        };
        if boxed(marks::read(self.store.journal()))
            .await?
            .marks
            .settles(&mark)
        {
            *lock(&self.version_mark) = None;
            return Ok(true);
        }
        let mut waiting = lock(&self.version_mark);
        if let Some((_, added)) = waiting.as_mut() {
            // What was lost is added again. Of a mark that waits this makes no second one.
            let is_due = added.is_none_or(|at| self.clock().since(at) >= MARK_AGAIN);
            if is_due && self.recorder.add_mark(mark).is_ok() {
                *added = Some(self.clock().tick());
            }
        }
        Ok(false)
    }
}
