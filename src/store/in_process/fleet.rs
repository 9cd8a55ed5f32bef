//! Who is alive, and what the fleet does.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::fields::Fields;
use super::state::State;
use crate::error::StoreError;
use crate::model::context::Metric;
use crate::model::fleet::MAX_VERSIONS;
use crate::model::slice::{Precisions, SliceCount};
use crate::model::snapshot::{AliveInstance, FleetSnapshot};
use crate::store::read;
use crate::store::table::{CONTEXTS, Table};
use crate::store::{Fleet, Heartbeat, INSTANCE_TTL, RECENT_SLICES, StoreStatus};

/// The instances of this process and their versions, which end with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heartbeats {
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
        versions.sort_unstable();
        versions.truncate(MAX_VERSIONS);
        Fleet {
            instances: self.alive(since).count() as u64,
            versions,
        }
    }

    fn alive(&self, since: i64) -> impl Iterator<Item = &Heartbeat> {
        let instances = self.instances.values();
        instances.filter(move |heartbeat| heartbeat.at >= since)
    }

    /// Removes an instance that has ended.
    pub(super) fn remove(&mut self, instance: &str) {
        self.instances.remove(instance);
    }

    /// Removes the instances that are not alive any more. Returns their number.
    pub(super) fn clean(&mut self, now: i64) -> u64 {
        let before = self.instances.len();
        self.instances
            .retain(|_, heartbeat| heartbeat.at >= now - INSTANCE_TTL);
        (before - self.instances.len()) as u64
    }
}

impl<F: Fields> State<F> {
    pub(super) fn fleet(&self, precisions: &Precisions, now: i64) -> FleetSnapshot {
        let [pages, timers] = CONTEXTS.map(|(_, table)| self.tables.count(&table, now));
        let alive = self.heartbeats.alive(now - INSTANCE_TTL);
        let alive: Vec<_> = alive
            .map(|heartbeat| AliveInstance {
                instance: match &heartbeat.name {
                    Some(name) => name.clone(),
                    None => heartbeat.instance.as_str().into(),
                },
                last_seen: heartbeat.at,
                version: heartbeat.version.clone(),
                in_flight: Some(heartbeat.in_flight),
            })
            .collect();
        FleetSnapshot {
            taken_at: now,
            contexts: pages + timers,
            timers,
            recent: self.recent(precisions, now),
            instances: alive.len() as u64,
            in_flight: alive.iter().filter_map(|instance| instance.in_flight).sum(),
            alive: AliveInstance::by_name(alive),
            problems: Vec::new(),
        }
    }

    fn recent(&self, precisions: &Precisions, now: i64) -> Vec<SliceCount> {
        let Some(finest) = precisions.counters.first() else {
            return Vec::new();
        };
        let since = finest.slice(now) - RECENT_SLICES * i64::from(finest.seconds);
        let mut slices = self.counters.slices(Metric::Hits.as_str(), finest.seconds);
        slices.retain(|slice| slice.start > since);
        slices
    }

    /// The status of the store and its fleet.
    pub(super) fn status(&self, now: i64) -> Result<StoreStatus, StoreError> {
        let mut specs = Vec::new();
        self.tables
            .visit(&Table::RankingSpecs, None, now, &mut |ranking, spec| {
                specs.push((ranking.to_vec(), spec.to_vec()));
                ControlFlow::Continue(())
            })?;
        let specs = specs.iter();
        let specs = specs.map(|(ranking, spec)| (&**ranking, &**spec));
        let since = now.saturating_sub(INSTANCE_TTL);
        Ok(StoreStatus {
            as_of: now,
            created: Some(self.created),
            since: Some(self.since),
            gaps: self.gaps.clone(),
            instances: self.heartbeats.alive(since).count() as u64,
            exceptions: self.exceptions.clone(),
            ranking_warnings: read::ranking_warnings(specs),
            journal: None,
        })
    }
}
