//! What the book's recipes keep: counters, the statistics of the current hour and the last one, and the slowest
//! contexts. Steps add to them.

use std::collections::BTreeMap;

use super::{ContextState, State};
use crate::model::access_time::AccessTimeStats;
use crate::model::context::Kind;
use crate::model::slice::{Precision, SKEW_ALLOWED};
use crate::model::slowest::{self, RankedContext};
use crate::model::snapshot::Problem;
use crate::model::sorted;
use crate::store::additions::{Additions, StatisticsAdditions};

impl State {
    /// Adds what a step adds. `now` is the time of its round.
    pub(super) fn add(&mut self, additions: &Additions, now: i64) {
        for slice in &additions.counters {
            for (name, n) in &slice.added {
                self.count(name, slice.precision, slice.slice, *n, now);
            }
        }
        for added in &additions.statistics {
            self.exceptions.late += self.add_to_statistics(added);
        }
        self.exceptions.late += additions.late;
        self.exceptions.skewed += additions.skewed;
        self.cut_ranking();
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
    fn add_to_statistics(&mut self, added: &StatisticsAdditions) -> u64 {
        let (id, name) = (&added.context, String::from(&*added.context.name));
        let context = self.contexts.entry(name.clone()).or_default();
        let last_seen = sorted::entry(&mut context.last_seen, id.kind, || i64::MIN);
        *last_seen = added.last_seen.max(*last_seen);
        let (mut is_ranked, mut late) = (false, 0);
        for (hour, times) in &added.hours {
            match context.add(*hour, times) {
                HourSet::Current => is_ranked = true,
                HourSet::Last => {}
                HourSet::Late if id.kind == Kind::All => {}
                HourSet::Late => late += times.count as u64,
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
    fn add(&mut self, hour: i64, times: &AccessTimeStats) -> HourSet {
        match (&mut self.current, &mut self.last) {
            (Some((start, current)), _) if hour == *start => current.merge(times),
            (Some((start, _)), last) if hour > *start => {
                *last = self.current.replace((hour, *times));
            }
            (_, Some((start, _))) if hour < *start => return HourSet::Late,
            (_, Some((start, last))) if hour == *start => {
                last.merge(times);
                return HourSet::Last;
            }
            (current @ None, _) => *current = Some((hour, *times)),
            (Some(_), last) => {
                *last = Some((hour, *times));
                return HourSet::Last;
            }
        }
        HourSet::Current
    }
}

/// Drops the slices for which a new slice leaves no room.
fn drop_pushed_out<V>(slices: &mut BTreeMap<i64, V>, precision: Precision, new: i64) {
    slices.remove(&precision.pushed_out_by(new));
    while slices.len() > precision.retained as usize {
        slices.pop_first();
    }
}
