//! Heartbeats: the store learns that this instance is alive, and which version of the application it runs; the instance
//! learns the fleet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Flusher;
use crate::error::StoreError;
use crate::model::mark::Mark;
use crate::model::fleet::Fleet;
use crate::store::Heartbeat;

impl Flusher {
    /// Sends a heartbeat, and asks how the fleet is doing.
    pub(crate) async fn beat(&self) -> Result<(), StoreError> {
        let now = self.clock().now_seconds();
        let marked = self.mark_version(now).await;
        // Until the version has its mark, it is not told: another instance that has it would make none.
        let version = self.recorder.limits.app_version.clone();
        let version = version.filter(|_| marked.is_ok());
        let fleet = self.send_heartbeat(now, version).await?;
        self.recorder.drain.set_fleet(fleet);
        self.refresh_fleet().await?;
        marked
    }

    async fn send_heartbeat(
        &self,
        now: i64,
        version: Option<Arc<str>>,
    ) -> Result<Fleet, StoreError> {
        let heartbeat = Heartbeat {
            instance: self.instance(),
            name: self.name.as_deref().map(Arc::from),
            at: now,
            in_flight: self.recorder.core.in_flight(),
            dropped: self.recorder.drain.drain_stats().dropped.requests,
            version,
        };
        self.store.heartbeat(&heartbeat).await
    }

    /// Makes a mark, once, if no living instance has the version of this one. So neither a restart in the middle of a
    /// deploy makes one, nor the second instance of a new version.
    async fn mark_version(&self, now: i64) -> Result<(), StoreError> {
        if self.is_version_marked.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(version) = &self.recorder.limits.app_version
            && let Some(changes) = self.store.changes()
        {
            // The first heartbeat is without the version, so that the answer has only those of others.
            let others = self.send_heartbeat(now, None).await?;
            if !others.versions.contains(version) {
                changes.add_mark(&Mark::of_version(now, version)).await?;
            }
        }
        self.is_version_marked.store(true, Ordering::Relaxed);
        Ok(())
    }
}
