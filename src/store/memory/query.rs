//! Queries: counters, and what the fleet does.

use std::sync::Arc;

use super::State;
use crate::model::context::{Metric, is_reserved};
use crate::model::fleet::MAX_VERSIONS;
use crate::model::slice::{Precisions, SliceCount};
use crate::model::snapshot::{AliveInstance, FleetSnapshot};
use crate::store::read;
use crate::store::table::{CONTEXTS, Table};
use crate::store::{Fleet, Heartbeat, INSTANCE_TTL, MAX_COUNTER_NAMES, RECENT_SLICES, StoreStatus};

impl State {
    pub(super) fn fleet(&self, precisions: &Precisions, now: i64) -> FleetSnapshot {
        let [pages, timers] = CONTEXTS.map(|(_, table)| self.tables.count(&table, now));
        let alive = self.instances.values();
        let alive = alive.filter(|heartbeat| heartbeat.at >= now - INSTANCE_TTL);
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

    /// Records that an instance is alive. Returns the fleet at that time.
    pub(super) fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Fleet {
        let name = heartbeat.instance.clone();
        self.instances.insert(name, heartbeat.clone());
        if let Some(version) = &heartbeat.version {
            let at = self.versions.entry(version.clone()).or_insert(i64::MIN);
            *at = heartbeat.at.max(*at);
        }
        let since = heartbeat.at.saturating_sub(INSTANCE_TTL);
        self.versions.retain(|_, at| *at >= since);
        let mut versions: Vec<Arc<str>> = self.versions.keys().cloned().collect();
        versions.sort_unstable();
        versions.truncate(MAX_VERSIONS);
        let instances = self.instances.values();
        Fleet {
            instances: instances.filter(|other| other.at >= since).count() as u64,
            versions,
        }
    }

    fn recent(&self, precisions: &Precisions, now: i64) -> Vec<SliceCount> {
        let Some(finest) = precisions.counters.first() else {
            return Vec::new();
        };
        let since = finest.slice(now) - RECENT_SLICES * i64::from(finest.seconds);
        let mut slices = self.counter(Metric::Hits.as_str(), finest.seconds);
        slices.retain(|slice| slice.start > since);
        slices
    }

    pub(super) fn counter(&self, name: &str, precision: u32) -> Vec<SliceCount> {
        let counter = self.counters.get(name);
        let slices = counter.and_then(|by_precision| by_precision.get(&precision));
        slices.map_or_else(Vec::new, |slices| {
            let slices = slices.iter();
            slices
                .map(|(start, n)| SliceCount::new(*start, *n))
                .collect()
        })
    }

    /// The names of the user's counters that have slices at any of the precisions.
    pub(super) fn counter_names(&self, precisions: &[u32]) -> Vec<String> {
        let counters = self.counters.iter().filter(|(name, by_precision)| {
            !is_reserved(name) && precisions.iter().any(|p| by_precision.contains_key(p))
        });
        let mut names: Vec<_> = counters.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names.truncate(MAX_COUNTER_NAMES);
        names
    }

    /// The status of the store and its fleet.
    pub(super) fn status(&self, now: i64) -> StoreStatus {
        let since = now.saturating_sub(INSTANCE_TTL);
        let instances = self.instances.values();
        StoreStatus {
            as_of: now,
            created: Some(self.created),
            since: Some(self.since),
            gaps: self.gaps.clone(),
            instances: instances.filter(|other| other.at >= since).count() as u64,
            exceptions: self.exceptions.clone(),
            ranking_warnings: read::ranking_warnings(self.tables.fields(&Table::RankingSpecs, now)),
            journal: None,
        }
    }
}
