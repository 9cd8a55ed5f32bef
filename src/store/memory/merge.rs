//! Taking calls in: fences, counters, hours, histograms, ranking.

use std::collections::BTreeMap;

use super::{Known, State};
use crate::model::access_time::{AccessTime, Durations};
use crate::model::batch::{ContextDelta, CounterDelta, Hits, Merge, Slices, Spread};
use crate::model::context::{Kind, Metric};
use crate::model::histogram::COARSE_SCALE;
use crate::model::slice::{HOUR, Precision, Precisions, hour_of};
use crate::model::slowest;
use crate::model::snapshot::Problem;
use crate::store::{Applied, Call, Merged, SKEW_ALLOWED};

impl State {
    pub(super) fn apply(&mut self, call: &Call, precisions: &Precisions, now: i64) -> Applied {
        match self.fences.get(&call.instance) {
            None if call.previous > 0 => return Applied::Reset,
            Some(fence) if *fence >= call.seq => return self.repeated(call, *fence),
            Some(fence) if *fence != call.previous => return Applied::Gap { fence: *fence },
            _ => {}
        }
        self.fences.insert(call.instance.clone(), call.seq);
        self.exceptions.remove(&call.instance);
        let mut merged = Merged::default();
        for (name, delta) in &call.batch.contexts {
            self.merge_counters(name, delta, precisions, now, &mut merged);
            self.merge_context(name, delta, precisions, now, &mut merged);
        }
        for (name, delta) in &call.batch.counters {
            self.merge_counter(name, delta, precisions, now, &mut merged);
        }
        self.cut_ranking();
        if merged.late > 0 || merged.skewed > 0 {
            let excepted = Merged {
                quarantined: Vec::new(),
                ..merged
            };
            self.exceptions.insert(call.instance.clone(), excepted);
        }
        Applied::Merged(merged)
    }

    /// The answer to a call that was merged before. The exceptions of the last one are told again:
    /// their answer may have been lost.
    fn repeated(&self, call: &Call, fence: u64) -> Applied {
        match self.exceptions.get(&call.instance) {
            Some(excepted) if fence == call.seq => Applied::Merged(excepted.clone()),
            _ => Applied::Duplicate,
        }
    }

    /// The counters of a context.
    fn merge_counters(
        &mut self,
        context: &str,
        delta: &ContextDelta,
        precisions: &Precisions,
        now: i64,
        merged: &mut Merged,
    ) {
        for (precision, slices) in precisions.counters.iter().zip(&delta.counters) {
            for metric in Metric::ALL {
                let name = metric.counter(context);
                for (slice, hits) in slices.iter() {
                    if let Some(n) = metric_of(metric, hits) {
                        self.count(&name, *precision, slice, n, now, merged);
                    }
                }
            }
        }
    }

    /// A counter of the user's.
    fn merge_counter(
        &mut self,
        name: &str,
        delta: &CounterDelta,
        precisions: &Precisions,
        now: i64,
        merged: &mut Merged,
    ) {
        for (precision, slices) in precisions.counters.iter().zip(delta) {
            for (slice, n) in slices.iter() {
                self.count(name, *precision, slice, i128::from(*n), now, merged);
            }
        }
    }

    fn count(
        &mut self,
        name: &str,
        precision: Precision,
        slice: i64,
        n: i128,
        now: i64,
        merged: &mut Merged,
    ) {
        if slice > now.saturating_add(SKEW_ALLOWED) {
            return;
        }
        let by_precision = match self.counters.get_mut(name) {
            Some(counter) => counter,
            None => self.counters.entry(name.to_owned()).or_default(),
        };
        let samples = by_precision.entry(precision.seconds).or_default();
        let old = samples.get(&slice).copied();
        match i64::try_from(i128::from(old.unwrap_or(0)) + n) {
            Ok(sum) => {
                samples.insert(slice, sum);
            }
            Err(_) => merged.quarantined.push(Problem {
                key: format!("count:{}:{name}", precision.seconds),
                reason: "increment or decrement would overflow".to_owned(),
            }),
        }
        if old.is_none() {
            push_out(samples, precision, slice);
        }
    }

    /// Statistics, histograms and rank of a context.
    fn merge_context(
        &mut self,
        name: &str,
        delta: &ContextDelta,
        precisions: &Precisions,
        now: i64,
        merged: &mut Merged,
    ) {
        let is_skewed = |start: i64| start > now.saturating_add(SKEW_ALLOWED);
        let skewed: u64 = delta
            .hours
            .iter()
            .filter(|(hour, _)| is_skewed(*hour))
            .map(|(_, times)| times.count)
            .sum();
        if delta.kind != Kind::All {
            merged.skewed += skewed;
        }
        let known = self
            .contexts
            .entry(name.to_owned())
            .or_insert_with(|| Known {
                kind: delta.kind,
                last_seen: i64::MIN,
                current: None,
                last: None,
                histograms: vec![BTreeMap::new(); precisions.histograms.len()],
            });
        known.kind = known.kind.max(delta.kind);
        known.last_seen = known.last_seen.max(delta.last_seen.min(now));

        let mut ranks = false;
        for (hour, times) in delta.hours.iter().filter(|(hour, _)| !is_skewed(*hour)) {
            match known.add(hour, times) {
                Hour::Current => ranks = true,
                Hour::Last => {}
                Hour::Late if delta.kind == Kind::All => {}
                Hour::Late => merged.late += times.count,
            }
        }
        for ((kept, precision), slices) in known
            .histograms
            .iter_mut()
            .zip(&precisions.histograms)
            .zip(&delta.histograms)
        {
            merge_histograms(kept, *precision, slices, now);
        }
        let mean = known.current.and_then(|(_, times)| times.mean());
        if let Some(mean) = mean.filter(|_| ranks && delta.kind != Kind::All) {
            self.slowest.insert(name.to_owned(), mean);
        }
    }

    fn cut_ranking(&mut self) {
        if self.slowest.len() > slowest::KEPT {
            let mut ranking: Vec<_> = self.slowest.drain().collect();
            slowest::sort(&mut ranking);
            ranking.truncate(slowest::KEPT);
            self.slowest.extend(ranking);
        }
    }
}

/// Where the statistics of an hour went.
enum Hour {
    Current,
    Last,
    Late,
}

impl Known {
    /// The rules of the hours: a later hour begins a new set, the hour before is kept as the last,
    /// what is older than that comes too late.
    fn add(&mut self, hour: i64, times: &Durations) -> Hour {
        let times = AccessTime::from(times);
        match (&mut self.current, &mut self.last) {
            (Some((start, current)), _) if hour == *start => current.merge(&times),
            (Some((start, _)), last) if hour > *start => {
                *last = self.current.replace((hour, times));
            }
            (_, Some((start, _))) if hour < *start => return Hour::Late,
            (_, Some((start, last))) if hour == *start => {
                last.merge(&times);
                return Hour::Last;
            }
            (current @ None, _) => *current = Some((hour, times)),
            (Some(_), last) => {
                *last = Some((hour, times));
                return Hour::Last;
            }
        }
        Hour::Current
    }
}

fn metric_of(metric: Metric, hits: &Hits) -> Option<i128> {
    match metric {
        Metric::Hits => Some(hits.hits.into()),
        Metric::Errors => (hits.errors > 0).then(|| hits.errors.into()),
        Metric::Micros => (hits.micros > 0).then(|| hits.micros.into()),
    }
}

/// Drops what a new slice leaves no room for.
fn push_out<V>(slices: &mut BTreeMap<i64, V>, precision: Precision, new: i64) {
    slices.remove(&precision.pushed_out_by(new));
    while slices.len() > precision.samples as usize {
        slices.pop_first();
    }
}

fn merge_histograms(
    kept: &mut BTreeMap<i64, Spread>,
    precision: Precision,
    delta: &Slices<Spread>,
    now: i64,
) {
    let hourly = i64::from(precision.seconds) == HOUR;
    let this_hour = hour_of(now);
    for (slice, spread) in delta.iter() {
        if slice > now.saturating_add(SKEW_ALLOWED) {
            continue;
        }
        let is_new = !kept.contains_key(&slice);
        let mine = kept.entry(slice).or_default();
        mine.merge(spread);
        if hourly && slice < this_hour {
            mine.histogram.coarsen(COARSE_SCALE);
        }
        if is_new {
            push_out(kept, precision, slice);
            if hourly {
                for (_, old) in kept.range_mut(..this_hour) {
                    old.histogram.coarsen(COARSE_SCALE);
                }
            }
        }
    }
}
