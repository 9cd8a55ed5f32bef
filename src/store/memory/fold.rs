//! Folding: this store has no journal, so it folds each call at once, as a round of its own.

use std::collections::BTreeMap;

use super::{ContextState, State};
use crate::model::access_time::{AccessTimeStats, DurationSums};
use crate::model::batch::{Merge, RequestCounts};
use crate::model::context::{ContextId, Kind, Metric};
use crate::model::records::RecordId;
use crate::model::round::{self, Judged, Round, SKEW_ALLOWED};
use crate::model::slice::{HOUR, Precision, Precisions, hour_of};
use crate::model::slow_request::SlowRequests;
use crate::model::slowest::{self, RankedContext};
use crate::model::snapshot::Problem;
use crate::model::sorted;
use crate::model::tier::FINEST;
use crate::store::{Appended, FencedBatch, Receipt};

/// Contexts that one call rolls up.
const ROLLED_UP_AT_ONCE: usize = 32;
/// The part of the bytes of the records that minute reports may take.
const REPORTS_PART: usize = 4;

impl State {
    /// Folds a call once, however often it is appended.
    pub(super) fn append(&mut self, call: &FencedBatch, record_bytes: usize, now: i64) -> Appended {
        if call.generation != self.generation {
            return Appended::Reset;
        }
        let fence = self.fences.get(&call.instance).copied().unwrap_or(0);
        if fence >= call.seq {
            return Appended::Duplicate(Receipt::default());
        }
        if fence != call.previous {
            return Appended::Gap { fence };
        }
        self.fences.insert(call.instance.clone(), call.seq);
        let mut round = Round::default();
        round.add(call.batch.clone(), now);
        self.fold(&round, record_bytes);
        Appended::Done(Receipt::default())
    }

    /// Adds a round to the data of the store.
    fn fold(&mut self, round: &Round, record_bytes: usize) {
        let now = round.stamp();
        self.roll_up(now, record_bytes);
        let mut late = round.late();
        for group in round.groups() {
            for (context, judged) in &group.contexts {
                let ContextId { kind, name } = context;
                self.add_to_counters(name, judged, &group.precisions, now);
                late += self.add_to_statistics(context, judged);
                self.exceptions.skewed += match kind {
                    Kind::All => 0,
                    _ => judged.skewed,
                };
                self.add_to_records(RecordId::new(*kind, name), judged, now);
                self.add_slow_requests(context, judged, now);
            }
            for (name, series) in &group.counters {
                for (precision, slices) in group.precisions.counters.iter().zip(series) {
                    for (slice, n) in slices.iter() {
                        self.count(name, *precision, slice, i128::from(*n), now);
                    }
                }
            }
        }
        for (name, delta) in round.rankings() {
            self.add_to_ranking(name, round, delta);
        }
        self.expire_rankings(now);
        self.minute_reports.add(round.reports());
        self.minute_reports.retain(now, record_bytes / REPORTS_PART);
        self.exceptions.late += late;
        self.records.retain(now, &self.rolled);
        self.cut_ranking();
    }

    /// Rolls up some contexts, so that no call holds the runtime up for all of them at the end of a minute.
    /// Until their turn, readers add the slices that are pending.
    fn roll_up(&mut self, now: i64, record_bytes: usize) {
        self.rolled.limit(now);
        let until = self.rolled.until();
        self.rolled.advance(now);
        if self.rolled.until() > until {
            self.due = self.records.due(&self.rolled);
        }
        for _ in 0..ROLLED_UP_AT_ONCE {
            let Some((id, minutes)) = self.due.pop_first() else {
                break;
            };
            self.records.roll_up(id, &minutes, &self.rolled);
        }
        if self.due.is_empty() && self.rolled.due().next().is_some() {
            self.rolled.finish();
            let bytes = record_bytes.saturating_sub(self.minute_reports.bytes());
            self.records.retain_bytes(bytes, &self.rolled);
        }
    }

    fn add_to_records(&mut self, id: RecordId, judged: &Judged, now: i64) {
        // Once something is added to a coarser tier, the record says that all ended slices are part of it.
        if let Some(minutes) = self.due.remove(&id) {
            self.records.roll_up(id, &minutes, &self.rolled);
        }
        let (records, rolled) = (&mut self.records, &mut self.rolled);
        let mut begun = Vec::new();
        for (at, added) in round::records(&judged.delta, rolled, now) {
            records.add((at, id), added, rolled);
            if at.0 == FINEST.seconds {
                begun.push(at.1);
            }
        }
        begun.into_iter().for_each(|slice| rolled.add(slice));
    }

    /// Adds to the slowest and the failed requests of the current hour and the last one.
    fn add_slow_requests(&mut self, context: &ContextId, judged: &Judged, now: i64) {
        let oldest = hour_of(now) - HOUR;
        self.slow_requests.retain(|hour, _| *hour >= oldest);
        let retained = judged.delta.slowest.iter();
        for (hour, added) in retained.filter(|(hour, _)| *hour >= oldest) {
            let lists = self.slow_requests.entry(hour).or_default();
            let list = lists.entry(context.clone());
            list.or_insert_with(|| SlowRequests::of(context.kind))
                .merge(added);
        }
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
