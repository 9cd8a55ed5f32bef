//! The ledger of all served requests: their instances, the calls that contain them, and whether they may be missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::json;
use tower_pulse_core::store::FencedBatch;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, Kind, RecordId};
use tower_pulse_model::histogram::{SCALE, lower_bound};
use tower_pulse_model::minute_report::{MinuteReport, REPORTED_MINUTES};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::ranking::{RankingDelta, RankingSpec};
use tower_pulse_model::slice::{HOUR, hour_of};

use crate::journal::redis_under_test::precisions;
use crate::journal::tested_store::describe;
use crate::stores::fixture::aggregate_of;

pub const CONTEXTS: [&str; 3] = ["GET /a", "GET /b", "GET /c"];
/// The most requests of a run, because each request has its own bucket in the coarsest histogram.
pub const MAX_REQUESTS: usize = 120;
/// One of this many requests has a mark: few enough for the store to retain all marks.
const REQUESTS_PER_MARK: usize = 3;
/// The number of slices of a counter to which a *wide* request adds: enough for a separate step.
pub const WIDTH: i64 = 200;

/// The ranking to which every request is added at its time, with its own id.
pub const RANKING: &str = "r";
/// A ranking whose window is shorter than a run.
pub const SHORT_RANKING: &str = "short";

const VERSIONS: [&str; 2] = ["1", "2"];

/// The number of hours that an instance keeps separate in unsent data.
const HOURS_UNSENT: usize = 2;

/// A part of a batch to which a request adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Context,
    All,
    Counter,
    Ranked,
    Reported,
    Wide,
    Marked,
}

#[derive(Clone, Debug)]
pub struct Served {
    pub context: &'static str,
    pub instance: usize,
    pub is_wide: bool,
    pub is_marked: bool,
    /// The hours by which the recorded time is ahead of the clock; negative if the recorded time is in the past.
    pub hours_ahead: i64,
    hour: i64,
    /// The calls that contain each part.
    calls: BTreeMap<Part, BTreeSet<(String, u64)>>,
}

impl Served {
    /// Whether all parts of the request, except for its wide part, were sent in the same calls.
    pub fn is_whole(&self) -> bool {
        let parts = [Part::All, Part::Counter, Part::Ranked, Part::Reported];
        let marked = self.is_marked.then_some(Part::Marked);
        let mut parts = parts.into_iter().chain(marked);
        parts.all(|part| self.calls.get(&part) == self.calls.get(&Part::Context))
    }
}

#[derive(Default)]
pub struct Ledger {
    pub served: Vec<Served>,
    /// Requests that may be missing without being counted as lost.
    pub excused: BTreeSet<usize>,
    by_call: HashMap<(String, u64), BTreeSet<usize>>,
}

impl Ledger {
    /// Serves a request, and returns the batch that it adds.
    pub fn serve(
        &mut self,
        instance: usize,
        context: &'static str,
        now: i64,
        hours_ahead: i64,
        is_wide: bool,
    ) -> Batch {
        let id = self.served.len();
        // The time is the beginning of an hour, so the request is skewed in all precisions or in none.
        let mut second = hour_of(now) + HOUR * hours_ahead;
        let unsent = |served: &&Served| served.instance == instance && served.calls.is_empty();
        let unsent = self.served.iter().filter(unsent);
        let hours: BTreeSet<i64> = unsent.map(|served| served.hour).collect();
        if hours.len() >= HOURS_UNSENT && !hours.contains(&second) {
            second = *hours.last().unwrap();
        }
        let hours_ahead = (second - hour_of(now)) / HOUR;
        self.served.push(Served {
            context,
            instance,
            is_wide,
            is_marked: id.is_multiple_of(REQUESTS_PER_MARK),
            hours_ahead,
            hour: second,
            calls: BTreeMap::new(),
        });
        let bucket = 4 * id as u16 + 1;
        let nanos = (lower_bound(bucket, SCALE) * 1e9 * 1.02) as u64;
        let mut aggregate = aggregate_of(&[nanos], Outcome::Completed);
        describe(&mut aggregate, id, 1);
        let mut batch = Batch::new(precisions());
        batch.add(&Arc::from(context), Kind::Http, second, &aggregate);
        batch.add(&Arc::from(ALL), Kind::All, second, &aggregate);
        batch.add_report(MinuteReport {
            minute: REPORTED_MINUTES.slice(now),
            instance: format!("reporter {instance}").into(),
            version: Some(VERSIONS[instance % VERSIONS.len()].into()),
            max_contexts: CONTEXTS.len(),
            is_side_by_side: true,
            contexts: vec![(RecordId::new(Kind::Http, context), aggregate.clone())],
            machine: None,
        });
        batch.count(&Arc::from(format!("u{id}")), second, 1);
        if id.is_multiple_of(REQUESTS_PER_MARK) {
            let mark = json!({ "id": id.to_string(), "at": now, "text": "served" });
            let mark = serde_json::from_value(mark).unwrap();
            batch.add_mark(mark).unwrap();
        }
        for (ranking, interval, slices) in [(RANKING, 3_600, 1_000), (SHORT_RANKING, 60, 3)] {
            let mut delta = RankingDelta::new(RankingSpec {
                interval,
                slices,
                max_ids: 1_000,
            });
            let second = if ranking == RANKING { second } else { now };
            delta.add(&Arc::from(id.to_string()), second, 1);
            batch.rankings.insert(Arc::from(ranking), delta);
        }
        if is_wide {
            let wide = Arc::from(format!("w{id}"));
            for minute in 0..WIDTH {
                batch.count(&wide, hour_of(now) - 60 * minute, 1);
            }
        }
        batch
    }

    pub fn note_sent(&mut self, call: &FencedBatch) {
        let key = (call.instance.clone(), call.seq);
        let mut parts = Vec::new();
        for (context, delta) in call.batch.contexts.iter() {
            let part = match context.kind {
                Kind::All => Part::All,
                _ => Part::Context,
            };
            for (_, record) in delta.records[1].iter() {
                let shift = record.histogram.scale() - 2;
                let buckets = record.histogram.buckets().iter();
                parts.extend(buckets.map(|(bucket, _)| (part, usize::from(*bucket >> shift))));
            }
        }
        for name in call.batch.counters.keys() {
            let part = match name.starts_with('w') {
                true => Part::Wide,
                false => Part::Counter,
            };
            parts.push((part, name[1..].parse().unwrap()));
        }
        if let Some(delta) = call.batch.rankings.get(RANKING) {
            let ids = delta.ids.keys();
            parts.extend(ids.map(|id| (Part::Ranked, id.parse().unwrap())));
        }
        let reports = call.batch.reports.iter();
        for (_, aggregate) in reports.flat_map(|report| &report.contexts) {
            let buckets = aggregate.histogram.buckets().iter();
            parts.extend(buckets.map(|(bucket, _)| (Part::Reported, usize::from(*bucket >> 2))));
        }
        let marked = call.batch.marks.keys();
        parts.extend(marked.map(|id| (Part::Marked, id.parse().unwrap())));
        for (part, id) in parts {
            let calls = self.served[id].calls.entry(part).or_default();
            calls.insert(key.clone());
            self.by_call.entry(key.clone()).or_default().insert(id);
        }
    }

    pub fn requests_of_call(&self, instance: &str, seq: u64) -> BTreeSet<usize> {
        let key = (instance.to_owned(), seq);
        self.by_call.get(&key).cloned().unwrap_or_default()
    }

    fn excuse_if(&mut self, test: impl Fn(&Served) -> bool) {
        let served = self.served.iter().enumerate();
        let excused = served.filter(|(_, served)| test(served));
        self.excused.extend(excused.map(|(id, _)| id));
    }

    /// Excuses all requests after a reset, except the requests that living instances have not sent yet.
    pub fn excuse_sent(&mut self, is_alive: impl Fn(usize) -> bool) {
        self.excuse_if(|served| !is_alive(served.instance) || !served.calls.is_empty());
    }

    /// Excuses the requests of dead instances, which no instance can replay after a failover.
    pub fn excuse_dead(&mut self, is_alive: impl Fn(usize) -> bool) {
        self.excuse_if(|served| !is_alive(served.instance));
    }

    /// Excuses the requests of a killed instance that the store does not have. `fence` returns the fence of an instance
    /// by its name.
    pub fn excuse_killed(&mut self, killed: usize, fence: impl Fn(&str) -> u64) {
        self.excuse_if(|served| {
            let mut calls = served.calls.values().flatten();
            let is_missing = |(instance, seq): &(String, u64)| fence(instance) < *seq;
            served.instance == killed && (served.calls.is_empty() || calls.any(is_missing))
        });
    }
}
