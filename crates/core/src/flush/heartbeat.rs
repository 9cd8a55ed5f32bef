//! Heartbeats: they show that this instance is alive, and which version of the application it runs. The answers contain
//! the state of the fleet.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Flusher;
use crate::error::Result;
use crate::store::{Heartbeat, marks};
use crate::task::{boxed, lock};
use tower_pulse_model::fleet::Fleet;
use tower_pulse_model::mark::Mark;

/// The time after which the mark of a version is added again, if readers cannot see the mark yet.
const MARK_AGAIN: Duration = Duration::from_secs(60);

impl Flusher {
    /// Sends a heartbeat, and updates the state of the fleet.
    pub async fn beat(&self) -> Result<()> {
        let version = self.recorder.limits.app_version.clone();
        if let Some(version) = &version
            && !self.is_version_marked.load(Ordering::Relaxed)
        {
            // This heartbeat has no version, so that the answer has only the versions of other instances. The version
            // is announced only after its mark is stored, because no instance marks a version that another instance has
            // announced.
            let others = self.send_heartbeat(None).await?;
            let marked = self.mark_version(version, &others).await;
            if !matches!(marked, Ok(true)) {
                self.recorder.drain.set_fleet(others);
                return marked.map(drop);
            }
            self.is_version_marked.store(true, Ordering::Relaxed);
        }
        let fleet = self.send_heartbeat(version).await?;
        self.recorder.drain.set_fleet(fleet);
        Ok(())
    }

    async fn send_heartbeat(&self, version: Option<Arc<str>>) -> Result<Fleet> {
        let drain = &self.recorder.drain;
        let heartbeat = Heartbeat {
            instance: self.instance(),
            name: self.name.as_deref().map(Arc::from),
            at: self.skew.now_seconds(self.clock()),
            every: self.heartbeat_period().as_secs(),
            in_flight: self.recorder.recording.in_flight(),
            paths: self.recorder.paths_in_flight(self.clock().now_seconds()),
            dropped: drain.counters(|counters| counters.dropped.samples),
            version,
            skew: self.skew.seconds(),
            cleaning: lock(&self.cleaning).last_error.clone(),
        };
        let sent = self.clock().wall_nanos();
        let (fleet, status) = self.store.upkeep().heartbeat(&heartbeat).await?;
        let follow = self.skew.note(self.clock(), sent, status.time);
        self.set_status(status);
        if let Some(origin) = follow {
            self.follow_time(origin).await?;
        }
        Ok(fleet)
    }

    /// Lets the clock follow the store's time (`origin`: see `Clock::origin`) or, if `None`, this instance's own clock
    /// again. Samples from before and after the switch are sent in separate calls, because their times may be far
    /// apart: in one batch, the newer slices could push out the older slices.
    async fn follow_time(&self, origin: Option<i64>) -> Result<()> {
        let mut sending = self.sending.lock().await;
        if self.is_finishing.load(Ordering::SeqCst) {
            return Ok(());
        }
        boxed(self.flush_with(&mut sending)).await?;
        let clock = match origin {
            Some(_) => "the store's time: the clock of this instance is wrong, set it (NTP)",
            None => "the clock of this instance again",
        };
        tracing::warn!("recording now uses {clock}");
        sending.unsequenced = self.recorder.drain_and_follow(origin);
        sending.unsequenced_amounts = sending.unsequenced.amounts();
        sending.is_closed = true;
        boxed(self.flush_with(&mut sending)).await
    }

    /// Makes the mark of a version, unless a living instance has the same version, or a neighbouring mark has the same
    /// version. So a restart in the middle of a deploy makes no mark. The second instance of a new version makes no
    /// mark either. Returns whether the mark can be read or is not needed.
    async fn mark_version(&self, version: &Arc<str>, others: &Fleet) -> Result<bool> {
        if others.versions.contains(version) {
            return Ok(true);
        }
        let mark = {
            let mut mark = lock(&self.version_mark);
            let now = self.skew.now_seconds(self.clock());
            let new = || (Mark::of_version(now, version), None);
            mark.get_or_insert_with(new).0.clone()
        };
        let stored = boxed(marks::read(self.store.journal())).await?;
        if stored.marks.ignores(&mark) {
            return Ok(true);
        }
        let mut waiting = lock(&self.version_mark);
        if let Some((_, added)) = waiting.as_mut() {
            // A mark that may be lost is added again. If the first mark is only late, the fold ignores the second mark.
            let is_due = added.is_none_or(|at| self.clock().since(at) >= MARK_AGAIN);
            if is_due && self.recorder.add_mark(mark).is_ok() {
                *added = Some(self.clock().tick());
            }
        }
        Ok(false)
    }
}
