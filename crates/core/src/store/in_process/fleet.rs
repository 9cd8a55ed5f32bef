//! What the fleet does.

use super::state::State;
use crate::error::StoreError;
use crate::store::read;
use crate::store::table::{CONTEXTS, Table};
use crate::store::{INSTANCE_TTL, RECENT_SLICES, StoreStatus};
use tower_pulse_model::context::Metric;
use tower_pulse_model::slice::{Precisions, SliceCount};
use tower_pulse_model::snapshot::{AliveInstance, FleetSnapshot};

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

    /// The status of the store and its fleet.
    pub(super) fn status(&self, now: i64) -> Result<StoreStatus, StoreError> {
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
            ranking_warnings: read::ranking_warnings(specs),
            silent: Vec::new(),
            gone: String::new(),
            journal: None,
            newer: None,
            time: None,
        })
    }
}
