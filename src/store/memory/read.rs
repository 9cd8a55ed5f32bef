//! Queries: snapshots, counters and records.

use std::sync::Arc;

use super::{ContextState, State};
use crate::model::access_time::AccessTimeStats;
use crate::model::context::{ALL, ContextId, Kind, Metric, is_reserved};
use crate::model::fleet::MAX_VERSIONS;
use crate::model::pack;
use crate::model::records::{RecordId, SliceSums, combine};
use crate::model::slice::{HOUR, Precisions, SliceCount, hour_of};
use crate::model::snapshot::{
    AliveInstance, ContextSnapshot, FleetSnapshot, HourSnapshot, Snapshot,
};
use crate::model::tier::{FINEST, tier_for};
use crate::store::read;
use crate::store::table::Table;
use crate::store::{Fleet, Heartbeat, INSTANCE_TTL, MAX_COUNTER_NAMES, RECENT_SLICES, RecordIndex};

impl State {
    /// The contexts but `<all>`, by name.
    fn listed(&self) -> Vec<(&String, &ContextState)> {
        let contexts = self.contexts.iter().filter(|(name, _)| *name != ALL);
        let mut contexts: Vec<_> = contexts.collect();
        contexts.sort_unstable_by_key(|(name, _)| *name);
        contexts
    }

    pub(super) fn snapshot(&self, precisions: &Precisions, now: i64) -> Snapshot {
        let fleet = self.fleet(precisions, now);
        Snapshot {
            taken_at: now,
            contexts: (self.listed().into_iter())
                .flat_map(|(name, context)| self.snapshots(name, context, now))
                .collect(),
            all: self
                .context(ALL, now)
                .pop()
                .unwrap_or_else(|| ContextSnapshot {
                    context: ALL.to_owned(),
                    kind: Kind::All,
                    hour: None,
                    last_hour: None,
                }),
            recent: fleet.recent,
            instances: fleet.instances,
            in_flight: fleet.in_flight,
            problems: Vec::new(),
        }
    }

    pub(super) fn fleet(&self, precisions: &Precisions, now: i64) -> FleetSnapshot {
        let contexts = self.listed();
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
            contexts: (contexts.iter())
                .map(|(_, context)| context.last_seen.len())
                .sum(),
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

    /// The contexts of this name.
    pub(super) fn context(&self, name: &str, now: i64) -> Vec<ContextSnapshot> {
        match self.contexts.get(name) {
            // `<all>` is in no list of contexts: it exists once it has statistics.
            Some(all) if name == ALL && all.current.is_none() && all.last.is_none() => Vec::new(),
            Some(context) => self.snapshots(name, context, now).collect(),
            None => Vec::new(),
        }
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

    /// What the operator should know of rankings with several configurations.
    pub(super) fn ranking_warnings(&self, now: i64) -> Vec<String> {
        read::ranking_warnings(self.tables.fields(&Table::RankingSpecs, now))
    }

    pub(super) fn record_index(&self, now: i64) -> RecordIndex {
        let contexts = self.listed().into_iter().flat_map(|(name, context)| {
            let kinds = context.last_seen.iter();
            kinds.map(|(kind, _)| ContextId::new(*kind, name.as_str()))
        });
        RecordIndex {
            contexts: contexts.collect(),
            revisions: self.tables.revisions(now).collect(),
            rolled: self.rolled.clone(),
            created: self.created,
        }
    }

    /// The records of a context in slices of `width` seconds.
    pub(super) fn records(&self, context: &ContextId, width: u32, now: i64) -> Vec<SliceSums> {
        match tier_for(width) {
            Some(tier) => {
                let id = RecordId::new(context.kind, &context.name);
                self.records_within(id, width, tier.cut_off(now) + 1..i64::MAX)
            }
            None => Vec::new(),
        }
    }

    /// The records of a context whose slices of the tier begin within `starts`, in slices of `width` seconds.
    fn records_within(
        &self,
        id: RecordId,
        width: u32,
        starts: std::ops::Range<i64>,
    ) -> Vec<SliceSums> {
        let Some(tier) = tier_for(width) else {
            return Vec::new();
        };
        let id = id.to_bytes();
        let read = |(start, packed): (i64, &[u8])| Some((start, pack::read_record(packed)?));
        let records = self.tables.records_of(tier.seconds, starts.clone(), &id);
        let records = records.filter_map(read);
        let pending = self.rolled.pending();
        let pending = pending.filter(|minute| starts.contains(&tier.slice(*minute)));
        let pending = pending.filter_map(|minute| {
            let minutes = minute..minute.saturating_add(1);
            let record = self.tables.records_of(FINEST.seconds, minutes, &id).next();
            record.and_then(read)
        });
        combine(width, tier, records, pending)
    }

    /// The contexts of one name, one for each kind.
    fn snapshots(
        &self,
        name: &str,
        context: &ContextState,
        now: i64,
    ) -> impl Iterator<Item = ContextSnapshot> {
        let hour = hour_of(now);
        context
            .last_seen
            .iter()
            .map(move |(kind, _)| ContextSnapshot {
                context: name.to_owned(),
                kind: *kind,
                hour: self.hour(name, *kind, context, hour),
                last_hour: self.hour(name, *kind, context, hour - HOUR),
            })
    }

    fn hour(
        &self,
        name: &str,
        kind: Kind,
        context: &ContextState,
        hour: i64,
    ) -> Option<HourSnapshot> {
        let id = RecordId::new(kind, name);
        let records = self
            .records_within(id, HOUR as u32, hour..hour + HOUR)
            .pop();
        let sums = records.map(|slice| slice.sums);
        let mut sets = [context.current, context.last].into_iter().flatten();
        let times = match context.last_seen.len() {
            ..=1 => sets.find(|(start, _)| *start == hour)?.1,
            // The statistics are those of all contexts of this name, so that they tell nothing of one.
            _ => AccessTimeStats::from(&sums.as_ref()?.times),
        };
        Some(HourSnapshot {
            start: hour,
            times,
            aggregate: sums.unwrap_or_default(),
        })
    }
}
