//! Who is alive.

use std::collections::HashMap;
use std::sync::Arc;
use tower_pulse_model::order::InOrder;

use crate::store::{Fleet, Heartbeat, INSTANCE_TTL};
use tower_pulse_model::fleet::MAX_VERSIONS;

/// The instances of this process and their versions, which end with it.
#[derive(Clone, Debug, Default)]
pub struct Heartbeats {
    instances: HashMap<String, Heartbeat>,
    /// When an instance of each version of the application was last alive.
    versions: HashMap<Arc<str>, i64>,
}

impl Heartbeats {
    /// Records that an instance is alive. Returns the fleet at that time.
    pub(super) fn beat(&mut self, heartbeat: Heartbeat) -> Fleet {
        if let Some(version) = &heartbeat.version {
            let at = self.versions.entry(version.clone()).or_insert(i64::MIN);
            *at = heartbeat.at.max(*at);
        }
        let since = heartbeat.at.saturating_sub(INSTANCE_TTL);
        self.instances.insert(heartbeat.instance.clone(), heartbeat);
        self.versions.retain(|_, at| *at >= since);
        let mut versions: Vec<Arc<str>> = self.versions.keys().cloned().collect();
        versions.order();
        versions.truncate(MAX_VERSIONS);
        Fleet {
            instances: self.alive(since).count() as u64,
            versions,
        }
    }

    pub(super) fn alive(&self, since: i64) -> impl Iterator<Item = &Heartbeat> {
        let instances = self.instances.values();
        instances.filter(move |heartbeat| heartbeat.at >= since)
    }

    /// Removes an instance that has ended.
    pub(super) fn remove(&mut self, instance: &str) {
        self.instances.remove(instance);
    }

    /// Removes the instances that are not alive any more.
    pub(super) fn clean(&mut self, now: i64) {
        self.instances
            .retain(|_, heartbeat| heartbeat.at >= now - INSTANCE_TTL);
    }
}
