//! What the book's recipes keep: counters, the statistics of the current hour and the last one, and the slowest
//! contexts. A step adds a part of its round to them.

use std::collections::BTreeMap;

use super::{ContextState, State};
use crate::model::access_time::{AccessTimeStats, DurationSums};
use crate::model::batch::RequestCounts;
use crate::model::context::{ALL, ContextId, Kind, Metric};
use crate::model::round::{Judged, Round, SKEW_ALLOWED, partition};
use crate::model::slice::{Precision, Precisions};
use crate::model::slowest::{self, RankedContext};
use crate::model::snapshot::Problem;
use crate::model::sorted;

impl State {
    /// Adds some partitions of a round.
    pub(super) fn add_round(&mut self, round: &Round, partitions: &[usize]) {
        let now = round.stamp();
        for group in round.groups() {
            for (context, judged) in group.contexts_of(partitions) {
                self.add_to_counters(&context.name, judged, &group.precisions, now);
                self.exceptions.late += self.add_to_statistics(context, judged);
                self.exceptions.skewed += match context.kind {
                    Kind::All => 0,
                    _ => judged.skewed,
                };
            }
            for (name, series) in group.counters_of(partitions) {
                for (precision, slices) in group.precisions.counters.iter().zip(series) {
                    for (slice, n) in slices.iter() {
                        self.count(name, *precision, slice, i128::from(*n), now);
                    }
                }
            }
        }
        if partitions.contains(&partition(ALL)) {
            self.exceptions.late += round.late();
        }
        self.cut_ranking();
    }

    fn add_to_counters(
        &mut self,
        context: &str,
        judged: &Judged,
        precisions: &Precisions,
        now: i64,
    ) {
        for (precision, slices) in precisions.counters.iter().zip(&judged.delta.counters) {
            for metric in Metric::ALL {
                let name = metric.counter(context);
                for (slice, counts) in slices.iter() {
                    if let Some(n) = metric_of(metric, counts) {
                        self.count(&name, *precision, slice, n, now);
                    }
                }
            }
        }
    }

    fn count(&mut self, name: &str, precision: Precision, slice: i64, n: i128, now: i64) {
        debug_assert!(slice <= now.saturating_add(SKEW_ALLOWED));
        let by_precision = match self.counters.get_mut(name) {
            Some(counter) => counter,
            None => self.counters.entry(name.to_owned()).or_default(),
        };
        let slices = by_precision.entry(precision.seconds).or_default();
        let old = slices.get(&slice).copied();
        match i64::try_from(i128::from(old.unwrap_or(0)) + n) {
            Ok(sum) => {
                slices.insert(slice, sum);
            }
            Err(_) => self.exceptions.quarantine(Problem {
                key: format!("count:{}:{name}", precision.seconds),
                reason: "increment or decrement would overflow".to_owned(),
            }),
        }
        if old.is_none() {
            drop_pushed_out(slices, precision, slice);
        }
    }

    /// Adds to the statistics of a context, and updates its rank. Returns the number of late requests.
    fn add_to_statistics(&mut self, id: &ContextId, judged: &Judged) -> u64 {
        let (delta, name) = (&judged.delta, String::from(&*id.name));
        let context = self.contexts.entry(name.clone()).or_default();
        let last_seen = sorted::entry(&mut context.last_seen, id.kind, || i64::MIN);
        *last_seen = delta.last_seen.max(*last_seen);
        let (mut is_ranked, mut late) = (false, 0);
        for (hour, times) in delta.hours.iter() {
            match context.add(hour, times) {
                HourSet::Current => is_ranked = true,
                HourSet::Last => {}
                HourSet::Late if id.kind == Kind::All => {}
                HourSet::Late => late += times.count,
            }
        }
        let mean = context.current.and_then(|(_, times)| times.mean());
        if let Some(mean) = mean.filter(|_| is_ranked && id.kind != Kind::All) {
            self.slowest.insert(name, mean);
        }
        late
    }

    fn cut_ranking(&mut self) {
        if self.slowest.len() > slowest::RANKING_LEN {
            let ranking = self.slowest.drain();
            let ranking = ranking.map(|(name, mean)| RankedContext::new(name, mean));
            let mut ranking: Vec<_> = ranking.collect();
            slowest::sort(&mut ranking);
            ranking.truncate(slowest::RANKING_LEN);
            let ranking = ranking.into_iter();
            self.slowest
                .extend(ranking.map(|ranked| (ranked.context, ranked.mean)));
        }
    }
}

/// The set to which the statistics of an hour were added. `Late` for none.
enum HourSet {
    Current,
    Last,
    Late,
}

impl ContextState {
    /// Adds the sums of an hour. An hour after the current one begins a new set, and the current set becomes the
    /// last. Sums of an hour before the last one are late, and dropped.
    fn add(&mut self, hour: i64, times: &DurationSums) -> HourSet {
        let times = AccessTimeStats::from(times);
        match (&mut self.current, &mut self.last) {
            (Some((start, current)), _) if hour == *start => current.merge(&times),
            (Some((start, _)), last) if hour > *start => {
                *last = self.current.replace((hour, times));
            }
            (_, Some((start, _))) if hour < *start => return HourSet::Late,
            (_, Some((start, last))) if hour == *start => {
                last.merge(&times);
                return HourSet::Last;
            }
            (current @ None, _) => *current = Some((hour, times)),
            (Some(_), last) => {
                *last = Some((hour, times));
                return HourSet::Last;
            }
        }
        HourSet::Current
    }
}

fn metric_of(metric: Metric, counts: &RequestCounts) -> Option<i128> {
    match metric {
        Metric::Hits => Some(counts.hits.into()),
        Metric::Errors => (counts.errors > 0).then(|| counts.errors.into()),
        Metric::Micros => (counts.micros > 0).then(|| counts.micros.into()),
    }
}

/// Drops the slices for which a new slice leaves no room.
fn drop_pushed_out<V>(slices: &mut BTreeMap<i64, V>, precision: Precision, new: i64) {
    slices.remove(&precision.pushed_out_by(new));
    while slices.len() > precision.retained as usize {
        slices.pop_first();
    }
}
