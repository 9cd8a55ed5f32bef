//! Giving snapshots out.

use super::{Known, State};
use crate::model::access_time::AccessTime;
use crate::model::batch::Spread;
use crate::model::context::{ALL, Kind, Metric};
use crate::model::slice::{HOUR, Precisions, hour_of};
use crate::model::snapshot::{ContextSnapshot, HourSnapshot, Snapshot};
use crate::store::{ALIVE_FOR, RECENT_SLICES};

impl State {
    pub(super) fn snapshot(&self, precisions: &Precisions, now: i64) -> Snapshot {
        let contexts = self.contexts.iter().filter(|(name, _)| *name != ALL);
        let alive = self.instances.values();
        let alive: Vec<_> = alive.filter(|beat| beat.at >= now - ALIVE_FOR).collect();
        Snapshot {
            taken_at: now,
            contexts: contexts
                .map(|(name, known)| known.snapshot(name, precisions, now))
                .collect(),
            all: self
                .context(precisions, ALL, now)
                .unwrap_or_else(|| ContextSnapshot {
                    context: ALL.to_owned(),
                    kind: Kind::All,
                    hour: None,
                    last_hour: None,
                }),
            recent: self.recent(precisions, now),
            instances: alive.len() as u64,
            in_flight: alive.iter().map(|beat| beat.in_flight).sum(),
            problems: Vec::new(),
        }
    }

    fn recent(&self, precisions: &Precisions, now: i64) -> Vec<(i64, i64)> {
        let Some(finest) = precisions.counters.first() else {
            return Vec::new();
        };
        let since = finest.slice(now) - RECENT_SLICES * i64::from(finest.seconds);
        let mut samples = self.counter(Metric::Hits.name(), finest.seconds);
        samples.retain(|(start, _)| *start > since);
        samples
    }

    pub(super) fn context(
        &self,
        precisions: &Precisions,
        context: &str,
        now: i64,
    ) -> Option<ContextSnapshot> {
        let known = self.contexts.get(context)?;
        // `<all>` is in no list: it is there once it has statistics.
        let has_statistics = known.current.is_some() || known.last.is_some();
        (known.kind != Kind::All || has_statistics)
            .then(|| known.snapshot(context, precisions, now))
    }

    pub(super) fn counter(&self, name: &str, precision: u32) -> Vec<(i64, i64)> {
        let counter = self.counters.get(name);
        let samples = counter.and_then(|by_precision| by_precision.get(&precision));
        samples.map_or_else(Vec::new, |samples| {
            samples.iter().map(|(start, n)| (*start, *n)).collect()
        })
    }

    pub(super) fn histograms(
        &self,
        precisions: &Precisions,
        context: &str,
        precision: u32,
    ) -> Vec<(i64, Spread)> {
        let mut all = precisions.histograms.iter();
        let at = all.position(|p| p.seconds == precision);
        match (at, self.contexts.get(context)) {
            (Some(at), Some(known)) => {
                let slices = known.histograms[at].iter();
                slices.map(|(start, s)| (*start, s.clone())).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Known {
    fn snapshot(&self, name: &str, precisions: &Precisions, now: i64) -> ContextSnapshot {
        let hour = hour_of(now);
        ContextSnapshot {
            context: name.to_owned(),
            kind: self.kind,
            hour: self.hour(precisions, hour),
            last_hour: self.hour(precisions, hour - HOUR),
        }
    }

    fn hour(&self, precisions: &Precisions, hour: i64) -> Option<HourSnapshot> {
        let mut sets = [self.current, self.last].into_iter().flatten();
        let (_, times): (i64, AccessTime) = sets.find(|(start, _)| *start == hour)?;
        let mut histograms = self.histograms.iter().zip(&precisions.histograms);
        let spread = histograms
            .find(|(_, precision)| i64::from(precision.seconds) == HOUR)
            .and_then(|(slices, _)| slices.get(&hour))
            .cloned()
            .unwrap_or_default();
        Some(HourSnapshot {
            start: hour,
            times,
            spread,
        })
    }
}
