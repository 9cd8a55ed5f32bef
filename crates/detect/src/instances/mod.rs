//! Instances that are out of line with the others on the same context: slower, or failing more often.
//!
//! An instance is compared with all others in the same minutes, so that effects on the whole fleet cancel out. Times
//! are compared by the means of their logarithms: the difference is the logarithm of a ratio. The test is Student's,
//! with one variance for both sides and all minutes. This variance is multiplied by the dispersion between minutes, as
//! in quasi-likelihood (McCullagh and Nelder, 1989, chapter 9). Shares of errors are compared as two proportions with
//! the same correction. The next slowest instance must be closer to the others: if half of the fleet is slow, one
//! instance is not the cause. With only two instances, a comparison cannot tell which of them is out of line, so the
//! instance must differ from its own past too.
//!
//! An instance that is out of line on many contexts gets one verdict, about `<all>`.

mod compare;
mod stored;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use self::compare::{
    MIN_ERROR_SHARE, MIN_SAMPLES, Measure, Moments, Sides, compare, is_large, total, turning_point,
};
use super::history::{Tick, tick};
use super::minute::{InstanceMinute, Verdict, all_id};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::pack::packed;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::sorted::Map;

#[cfg(test)]
pub(crate) use self::tests::frozen_state;

/// The number of minutes that are remembered.
const STORED: Tick = 30;

/// The comparisons: their length in minutes, the fewest minutes with requests of both sides, and the standard
/// deviations that a difference needs. Three minutes need more, because they tell little about how minutes vary.
const WINDOWS: [(Tick, usize, f64); 4] = [(3, 3, 9.0), (5, 4, BAR), (10, 4, BAR), (15, 4, BAR)];

/// To count for [`MANY_SHARE`], a context of an instance needs [`MIN_SAMPLES`] requests within this many minutes.
const ACTIVE: Tick = 10;

/// The number of last minutes that decide whether a difference still exists.
const RECENT: Tick = 5;

/// Minutes without a request after which an instance is gone.
const GONE: Tick = 3;

/// Minutes for which a verdict about an instance on one context waits, because the instance may soon be out of line on
/// many contexts.
const SETTLING: Tick = 2;

/// Standard deviations that a difference needs.
const BAR: f64 = 6.0;

/// The smallest ratio of an instance's times to those of the next slowest instance.
const MIN_GAP: f64 = 1.15;

/// The smallest [`part`](Distance::part) of an instance that is out of line.
const ALONE: f64 = 0.5;

/// A difference has ended once it is smaller than this part of its first size.
const OVER: f64 = 0.45;

/// The part of a slowdown that an instance must account for to explain the slowdown.
const EXPLAINS: f64 = 0.6;

/// Minutes for which a verdict about a page waits if one instance causes most of the slowdown, but is not out of line
/// yet.
const YOUNG: Tick = 6;

/// An instance is out of line on `<all>` if it is out of line on this number and this share of its contexts.
const MANY: usize = 3;
const MANY_SHARE: f64 = 0.5;

packed! {
    /// An instance that is out of line on a context.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OutOfLine {
        instance: Arc<str>,
        context: RecordId,
        measure: Measure,
        since: Tick,
        detected: Tick,
        /// The difference of the logarithm of the times, or of the share of errors, in millionths.
        effect: i64,
        /// Standard deviations, in hundredths.
        strength: u32,
    }
}

/// The state from which another detector of instances can resume, once it has recalled the last minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceState {
    pub(super) ongoing: Vec<OutOfLine>,
    /// Instances that are out of line on many contexts, and the minute of the detection.
    pub(super) on_many: Vec<(Arc<str>, Tick)>,
}

#[derive(Debug, Default)]
struct Reported {
    all: Moments,
    instances: HashMap<Arc<str>, Moments>,
}

/// Finds instances that are out of line.
#[derive(Debug, Default)]
pub struct InstanceDetector {
    minutes: VecDeque<(Tick, HashMap<RecordId, Reported>)>,
    pub(super) state: InstanceState,
}

#[derive(Clone, Copy, Debug)]
struct Distance {
    /// The number of other instances.
    others: usize,
    /// The mean of the logarithms of the instance's times, or its share of errors.
    own: f64,
    /// The highest such figure of another instance.
    next: f64,
    /// The distance from `next`, divided by the distance from the mean of the others.
    part: f64,
}

impl InstanceDetector {
    /// A detector that resumes from a state.
    pub fn new(state: InstanceState) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// Adds a minute that another detector has judged.
    pub fn recall(&mut self, start: i64, instances: &[InstanceMinute<'_>]) {
        let now = tick(start);
        if self.minutes.back().is_some_and(|(last, _)| *last >= now) {
            self.minutes.clear();
        }
        let mut minute: HashMap<RecordId, Reported> = HashMap::new();
        for instance in instances {
            for (context, sums) in &instance.contexts {
                let (reported, moments) = (minute.entry(*context).or_default(), Moments::of(sums));
                reported.all.add(&moments);
                let own = reported.instances.entry(instance.instance.clone());
                own.or_default().add(&moments);
            }
        }
        self.minutes.push_back((now, minute));
        self.minutes.retain(|(at, _)| *at > now - STORED);
    }

    /// Judges a minute that has ended. Returns all verdicts that are ongoing at the end of the minute.
    pub fn judge(&mut self, start: i64, instances: &[InstanceMinute<'_>]) -> Vec<Verdict> {
        self.recall(start, instances);
        let now = tick(start);
        let contexts = self.contexts();
        self.end(now, &contexts);
        for (context, instances) in contexts.iter() {
            for instance in instances {
                for measure in [Measure::Time, Measure::Errors] {
                    self.search((instance, *context), measure, instances, now);
                }
            }
        }
        self.find_on_many(now, &contexts);
        self.verdicts(now)
    }

    /// Whether one instance explains a slowdown: the instance is out of line on the page, and causes most of the
    /// slowdown. While the verdict is young, the instance need not be out of line yet. For `<all>`, the instance must
    /// be out of line on many pages.
    pub fn explains(&self, verdict: &Verdict) -> bool {
        let Some((now, minute)) = self.minutes.back() else {
            return false;
        };
        let (context, since) = (verdict.context, tick(verdict.since));
        let slowdown = verdict.mean_now - verdict.mean_then;
        let is_most = |extra: f64| slowdown > 0.0 && extra / slowdown >= EXPLAINS;
        if context == all_id() {
            let mut on_many = self.state.on_many.iter();
            return on_many.any(|(instance, _)| is_most(self.extra_on_all(instance, since)));
        }
        let is_ongoing = |instance: &str| {
            let mut ongoing = self.state.ongoing.iter();
            ongoing.any(|o| *o.instance == *instance && o.context == context)
        };
        let is_young = *now - tick(verdict.detected) < YOUNG;
        let instances = minute.get(&context).map(|reported| &reported.instances);
        let mut instances = instances.into_iter().flat_map(HashMap::keys);
        instances.any(|instance| {
            let (own, others) = total(&self.together(instance, context, since));
            let is_enough = own.requests >= MIN_SAMPLES / 2.0 && others.requests >= MIN_SAMPLES;
            let extra = extra_seconds(&own, &others) / (own.requests + others.requests).max(1.0);
            (is_ongoing(instance) || is_young && is_enough) && is_most(extra)
        })
    }

    /// The contexts, each with the instances that had requests of the context.
    fn contexts(&self) -> Map<RecordId, Vec<Arc<str>>> {
        let mut contexts: Map<RecordId, Vec<Arc<str>>> = Map::default();
        for (context, reported) in self.minutes.iter().flat_map(|(_, contexts)| contexts) {
            let instances = contexts.or_insert_with(*context, Vec::new);
            instances.extend(reported.instances.keys().cloned());
        }
        for instances in contexts.values_mut() {
            instances.order();
            instances.dedup();
        }
        contexts
    }

    /// The sums of an instance and of all others on a context from a minute on.
    fn sides(&self, instance: &str, context: RecordId, from: Tick) -> Vec<Sides> {
        let minutes = self.minutes.iter().filter(|(at, _)| *at >= from);
        let sides = minutes.map(|(at, contexts)| {
            let reported = contexts.get(&context);
            let own = reported.and_then(|reported| reported.instances.get(instance));
            let own = own.copied().unwrap_or_default();
            let all = reported.map_or(Moments::default(), |reported| reported.all);
            (*at, own, all.plus(-1.0, &own))
        });
        sides.collect()
    }

    /// Like [`sides`](Self::sides), but only minutes in which both sides had requests. Empty if there is only one such
    /// minute, because a process and its replacement share the minute of a restart.
    fn together(&self, instance: &str, context: RecordId, from: Tick) -> Vec<Sides> {
        let mut sides = self.sides(instance, context, from);
        sides.retain(|(_, own, others)| own.requests > 0.0 && others.requests > 0.0);
        if sides.len() < 2 { Vec::new() } else { sides }
    }

    /// The additional seconds of an instance per request of the whole fleet, from a minute on. The seconds are computed
    /// for each context and added up, because instances may have different contexts.
    fn extra_on_all(&self, instance: &str, from: Tick) -> f64 {
        let (mut extra, mut requests) = (0.0, 0.0);
        for context in self.contexts().keys() {
            let (own, others) = total(&self.sides(instance, *context, from));
            requests += own.requests + others.requests;
            if others.requests > 0.0 {
                extra += extra_seconds(&own, &others);
            }
        }
        extra / f64::max(requests, 1.0)
    }

    fn search(
        &mut self,
        (instance, context): (&Arc<str>, RecordId),
        measure: Measure,
        instances: &[Arc<str>],
        now: Tick,
    ) {
        let is_ongoing = |one: &OutOfLine| {
            one.instance == *instance && one.context == context && one.measure == measure
        };
        if instances.len() < 2 || self.state.ongoing.iter().any(is_ongoing) {
            return;
        }
        let sides = self.sides(instance, context, now - STORED);
        for (window, fewest, bar) in WINDOWS {
            let from = now - window + 1;
            let Some(difference) = compare(&sides, measure, from, fewest) else {
                continue;
            };
            if difference.z < bar
                || !is_large(measure, &difference)
                || !self.is_alone((instance, context), measure, instances, from)
            {
                continue;
            }
            self.state.ongoing.push(OutOfLine {
                instance: instance.clone(),
                context,
                measure,
                since: turning_point(&sides, measure, difference.effect),
                detected: now,
                effect: (difference.effect * 1e6) as i64,
                strength: (difference.z.min(1e4) * 100.0) as u32,
            });
            return;
        }
    }

    /// The mean logarithm of the times of an instance, or its share of errors, on a context between two minutes, the
    /// second excluded. `None` if there are too few samples.
    fn level(
        &self,
        (instance, context): (&str, RecordId),
        measure: Measure,
        (from, to): (Tick, Tick),
    ) -> Option<f64> {
        let mut sides = self.sides(instance, context, from);
        sides.retain(|(at, ..)| *at < to);
        let (n, level, _) = total(&sides).0.samples(measure);
        (n >= MIN_SAMPLES / 2.0).then_some(level)
    }

    /// The distance of an instance from the others; `None` if the instance, or all others together, have too few
    /// samples.
    fn distance(
        &self,
        (instance, context): (&Arc<str>, RecordId),
        measure: Measure,
        instances: &[Arc<str>],
        from: Tick,
    ) -> Option<Distance> {
        let times = (from, Tick::MAX);
        let own = self.level((instance, context), measure, times)?;
        let others = instances.iter().filter(|other| *other != instance);
        let levels = others.filter_map(|other| self.level((other, context), measure, times));
        let levels: Vec<f64> = levels.collect();
        let next = levels.iter().copied().reduce(f64::max)?;
        let mean = levels.iter().sum::<f64>() / levels.len() as f64;
        Some(Distance {
            others: levels.len(),
            own,
            next,
            part: (own - next) / (own - mean).max(f64::MIN_POSITIVE),
        })
    }

    /// Whether no other instance is nearly as far from the others. With only two instances, the instance must also
    /// differ from its own past.
    fn is_alone(
        &self,
        subject: (&Arc<str>, RecordId),
        measure: Measure,
        instances: &[Arc<str>],
        from: Tick,
    ) -> bool {
        let Some(distance) = self.distance(subject, measure, instances, from) else {
            return false;
        };
        let is_beyond = |other: f64| match measure {
            Measure::Time => distance.own - other >= MIN_GAP.ln(),
            Measure::Errors => distance.own >= 1.5 * other + MIN_ERROR_SHARE / 2.0,
        };
        if !is_beyond(distance.next) || distance.part < ALONE {
            return false;
        }
        let past = || self.level((subject.0, subject.1), measure, (Tick::MIN, from - 2));
        distance.others > 1 || past().is_some_and(is_beyond)
    }

    fn end(&mut self, now: Tick, contexts: &Map<RecordId, Vec<Arc<str>>>) {
        let ongoing = std::mem::take(&mut self.state.ongoing);
        let is_ongoing = |one: &OutOfLine| {
            let instances = contexts.get(&one.context).map_or(&[][..], |all| &all[..]);
            let sides = self.sides(&one.instance, one.context, now - RECENT + 1);
            let mut lately = sides.iter().filter(|(at, ..)| *at > now - GONE);
            let is_here = lately.any(|(_, own, _)| own.requests > 0.0);
            let (own, others) = total(&sides);
            let (n, level, _) = own.samples(one.measure);
            let (m, other, _) = others.samples(one.measure);
            let subject = (&one.instance, one.context);
            let distance = self.distance(subject, one.measure, instances, now - RECENT + 1);
            let is_one_of_many = distance.is_some_and(|distance| distance.part < ALONE / 2.0);
            // With too few samples to decide, nothing changes.
            let is_over = n >= 10.0 && m >= 10.0 && level - other < OVER * one.effect as f64 * 1e-6;
            instances.len() > 1 && is_here && !is_over && !is_one_of_many
        };
        self.state.ongoing = ongoing.into_iter().filter(is_ongoing).collect();
    }

    fn find_on_many(&mut self, now: Tick, contexts: &Map<RecordId, Vec<Arc<str>>>) {
        let ongoing = self.state.ongoing.iter();
        let mut names: Vec<Arc<str>> = ongoing.map(|one| one.instance.clone()).collect();
        names.order();
        let on_many = &mut self.state.on_many;
        on_many.retain(|(instance, _)| names.contains(instance));
        for of_one in names.chunk_by(|a, b| a == b) {
            let (instance, count) = (&of_one[0], of_one.len());
            let of_instance = contexts.iter().filter(|(context, instances)| {
                let sides = self.sides(instance, **context, now - ACTIVE + 1);
                instances.contains(instance) && total(&sides).0.requests >= MIN_SAMPLES
            });
            let needed = (MANY_SHARE * of_instance.count() as f64).max(MANY as f64);
            if !self.state.is_on_many(instance) && count as f64 >= needed {
                self.state.on_many.push((instance.clone(), now));
            }
        }
    }
}

/// The additional seconds of an instance, compared with as many requests of the others.
fn extra_seconds(own: &Moments, others: &Moments) -> f64 {
    (own.mean_seconds() - others.mean_seconds()) * own.requests
}
