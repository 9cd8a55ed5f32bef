//! Upkeep of a store in one process: heartbeats, the fleet, and the removal of data that is older than its retention.

use std::collections::HashMap;
use std::sync::Arc;

use super::state::State;
use super::{InProcessStore, StateAccess};
use crate::error::Result;
use crate::store::table::{CONTEXTS, FieldWrites, Table};
use crate::store::table_reads::number;
use crate::store::{
    Cleaned, Fleet, Heartbeat, INSTANCE_TTL, Pass, RECENT_SLICES, StoreFuture, StoreStatus, Upkeep,
};
use tower_pulse_model::context::Metric;
use tower_pulse_model::fleet::MAX_VERSIONS;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::ranking::specs::CarriedSpecs;
use tower_pulse_model::slice::{Precisions, SliceCount};
use tower_pulse_model::snapshot::{AliveInstance, FleetSnapshot};

impl Upkeep for InProcessStore {
    fn status(&self, now: i64) -> StoreFuture<'_, StoreStatus> {
        Box::pin(self.with(StateAccess::Read, move |state| state.status(now)))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> StoreFuture<'a, (Fleet, StoreStatus)> {
        let (heartbeat, now) = (heartbeat.clone(), heartbeat.at);
        Box::pin(self.with(StateAccess::Read, move |state| {
            Ok((state.heartbeats.beat(heartbeat), state.status(now)?))
        }))
    }

    fn deregister<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()> {
        let instance = instance.to_owned();
        Box::pin(self.with(StateAccess::Read, move |state| {
            state.heartbeats.instances.remove(&instance);
            Ok(())
        }))
    }

    fn clean<'a>(&'a self, pass: &'a Pass) -> StoreFuture<'a, Option<Cleaned>> {
        let (pass, precisions) = (pass.clone(), self.precisions.clone());
        Box::pin(self.with(StateAccess::Write, move |state| {
            let mut cleaned = Cleaned::default();
            state.counters.clean(&pass, &precisions, &mut cleaned);
            cleaned.contexts = state.forget_contexts(&pass)?;
            let alive = |_: &String, beat: &mut Heartbeat| beat.at >= pass.now - INSTANCE_TTL;
            state.heartbeats.instances.retain(alive);
            Ok(Some(cleaned))
        }))
    }
}

/// The instances of this process and the versions of the application, in memory only.
#[derive(Clone, Debug, Default)]
pub struct Heartbeats {
    instances: HashMap<String, Heartbeat>,
    /// When an instance of each version of the application was last alive.
    versions: HashMap<Arc<str>, i64>,
}

impl Heartbeats {
    /// Returns the fleet at the time of the heartbeat.
    fn beat(&mut self, heartbeat: Heartbeat) -> Fleet {
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

    fn alive(&self, since: i64) -> impl Iterator<Item = &Heartbeat> {
        let instances = self.instances.values();
        instances.filter(move |heartbeat| heartbeat.at >= since)
    }
}

impl State {
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
                paths: heartbeat.paths.clone(),
                skew: heartbeat.skew,
                cleaning: heartbeat.cleaning.clone(),
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

    fn status(&self, now: i64) -> Result<StoreStatus> {
        let specs = self.tables.all(&Table::RankingSpecs, now)?;
        let specs = specs.iter();
        let specs = specs.map(|(ranking, spec)| (&**ranking, &**spec));
        let since = now.saturating_sub(INSTANCE_TTL);
        Ok(StoreStatus {
            as_of: now,
            created: Some(self.kept.created),
            since: Some(self.kept.since),
            gaps: self.kept.gaps.clone(),
            instances: self.heartbeats.alive(since).count() as u64,
            exceptions: self.kept.exceptions.clone(),
            ranking_warnings: CarriedSpecs::warnings(specs),
            ..StoreStatus::default()
        })
    }

    /// Returns the number of forgotten contexts.
    fn forget_contexts(&mut self, pass: &Pass) -> Result<u64> {
        let oldest = pass.now - pass.context_retention;
        // An HTTP context and a timer of the same name share their counters, and are forgotten together.
        let mut last_seen = HashMap::new();
        for (_, table) in &CONTEXTS {
            for (name, at) in self.tables.all(table, pass.now)? {
                let newest = last_seen.entry(name).or_insert(i64::MIN);
                *newest = number(&at).unwrap_or(i64::MIN).max(*newest);
            }
        }
        let mut removed = Vec::new();
        for (name, last_seen) in last_seen {
            if last_seen > oldest {
                continue;
            }
            let context = String::from_utf8_lossy(&name);
            for metric in Metric::ALL {
                self.counters.remove(&metric.counter(&context));
            }
            removed.push(name);
        }
        for (_, table) in CONTEXTS {
            let writes = FieldWrites {
                removed: removed.clone(),
                ..FieldWrites::new(table, None)
            };
            self.tables.write(&writes, pass.now)?;
        }
        self.kept.ranked_since = pass.now - pass.ranking_retention;
        Ok(removed.len() as u64)
    }
}
