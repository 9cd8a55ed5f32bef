//! Queries: snapshots, counters and records.

use super::{ContextState, State};
use crate::model::access_time::AccessTimeStats;
use crate::model::batch::Aggregate;
use crate::model::context::{ALL, Kind, Metric};
use crate::model::records::{RecordId, combine};
use crate::model::slice::{HOUR, Precisions, hour_of};
use crate::model::snapshot::{ContextSnapshot, HourSnapshot, Snapshot};
use crate::model::tier::{FINEST, tier_for};
use crate::store::{INSTANCE_TTL, RECENT_SLICES};

impl State {
    pub(super) fn snapshot(&self, precisions: &Precisions, now: i64) -> Snapshot {
        let contexts = self.contexts.iter().filter(|(name, _)| *name != ALL);
        let alive = self.instances.values();
        let alive: Vec<_> = alive
            .filter(|heartbeat| heartbeat.at >= now - INSTANCE_TTL)
            .collect();
        Snapshot {
            taken_at: now,
            contexts: contexts
                .map(|(name, context)| self.context_snapshot(name, context, now))
                .collect(),
            all: self.context(ALL, now).unwrap_or_else(|| ContextSnapshot {
                context: ALL.to_owned(),
                kind: Kind::All,
                hour: None,
                last_hour: None,
            }),
            recent: self.recent(precisions, now),
            instances: alive.len() as u64,
            in_flight: alive.iter().map(|heartbeat| heartbeat.in_flight).sum(),
            problems: Vec::new(),
        }
    }

    fn recent(&self, precisions: &Precisions, now: i64) -> Vec<(i64, i64)> {
        let Some(finest) = precisions.counters.first() else {
            return Vec::new();
        };
        let since = finest.slice(now) - RECENT_SLICES * i64::from(finest.seconds);
        let mut slices = self.counter(Metric::Hits.as_str(), finest.seconds);
        slices.retain(|(start, _)| *start > since);
        slices
    }

    pub(super) fn context(&self, name: &str, now: i64) -> Option<ContextSnapshot> {
        let context = self.contexts.get(name)?;
        // `<all>` is in no list of contexts: it exists once it has statistics.
        let has_statistics = context.current.is_some() || context.last.is_some();
        (context.kind != Kind::All || has_statistics)
            .then(|| self.context_snapshot(name, context, now))
    }

    pub(super) fn counter(&self, name: &str, precision: u32) -> Vec<(i64, i64)> {
        let counter = self.counters.get(name);
        let slices = counter.and_then(|by_precision| by_precision.get(&precision));
        slices.map_or_else(Vec::new, |slices| {
            slices.iter().map(|(start, n)| (*start, *n)).collect()
        })
    }

    /// The records of a context in slices of `width` seconds.
    pub(super) fn records(&self, context: &str, width: u32, now: i64) -> Vec<(i64, Aggregate)> {
        match tier_for(width) {
            Some(tier) => self.records_within(context, width, tier.cut_off(now) + 1..i64::MAX),
            None => Vec::new(),
        }
    }

    /// The records of a context whose slices of the tier begin within `starts`, in slices of `width` seconds.
    fn records_within(
        &self,
        context: &str,
        width: u32,
        starts: std::ops::Range<i64>,
    ) -> Vec<(i64, Aggregate)> {
        let Some(tier) = tier_for(width) else {
            return Vec::new();
        };
        let id = RecordId::new(context);
        let records = self.records.of(tier.seconds, starts.clone(), id);
        let pending = self.rolled.pending();
        let pending = pending.filter(|minute| starts.contains(&tier.slice(*minute)));
        let pending = pending.filter_map(|minute| {
            let record = self.records.get(((FINEST.seconds, minute), id))?;
            Some((minute, record))
        });
        combine(width, tier, records, pending)
    }

    fn context_snapshot(&self, name: &str, context: &ContextState, now: i64) -> ContextSnapshot {
        let hour = hour_of(now);
        ContextSnapshot {
            context: name.to_owned(),
            kind: context.kind,
            hour: self.hour(name, context, hour),
            last_hour: self.hour(name, context, hour - HOUR),
        }
    }

    fn hour(&self, name: &str, context: &ContextState, hour: i64) -> Option<HourSnapshot> {
        let mut sets = [context.current, context.last].into_iter().flatten();
        let (_, times): (i64, AccessTimeStats) = sets.find(|(start, _)| *start == hour)?;
        let mut records = self.records_within(name, HOUR as u32, hour..hour + HOUR);
        Some(HourSnapshot {
            start: hour,
            times,
            aggregate: records
                .pop()
                .map_or_else(Aggregate::default, |(_, sums)| sums),
        })
    }
}
