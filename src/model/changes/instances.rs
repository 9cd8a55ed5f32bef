//! Instances that are out of line with the others on the same context: slower, or failing more often.
//!
//! An instance is compared with all others in the same minutes, so that what the whole fleet suffers cancels out. Times
//! are compared by the mean of their logarithms, whose difference is the logarithm of a ratio (Welch, 1947, with the
//! variance multiplied by the dispersion between minutes, as in quasi-likelihood: McCullagh and Nelder, 1989, chapter
//! 9). Shares of errors are compared as two proportions with the same correction. The next slowest instance must be
//! nearer to the others: half a fleet that is slow is no matter of one instance. Of two instances nobody can say by
//! comparison alone which one is out of line, so there it must differ from its own past too.
//!
//! An instance that is out of line on many contexts is one verdict, about `<all>`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::change::ChangeKind;
use super::detector::{InstanceMinute, Verdict, all_id};
use super::history::{Tick, tick};
use crate::model::batch::Aggregate;
use crate::model::histogram::lower_bound;
use crate::model::records::RecordId;

/// Minutes that are remembered.
const STORED: Tick = 30;

/// The lengths of the comparisons, in minutes.
const WINDOWS: [Tick; 3] = [5, 10, 15];

/// The minutes that say whether a difference still stands.
const RECENT: Tick = 5;

/// Minutes without a request after which an instance is gone.
const GONE: Tick = 3;

/// Minutes for which a verdict about one context waits: by then the instance may be out of line on many.
const SETTLING: Tick = 2;

/// Fewest samples on each side of a comparison.
const MIN_SAMPLES: f64 = 30.0;

/// Standard deviations that a difference must have.
const BAR: f64 = 6.0;

/// The smallest ratio of times that counts, and that to the next slowest instance.
const MIN_RATIO: f64 = 1.3;
const MIN_GAP: f64 = 1.15;

/// The part of the way from the others to an instance on which there must be no other instance.
const ALONE: f64 = 0.5;

/// A difference below this part of what it was is over.
const OVER: f64 = 0.45;

/// How much more errors count: the share must be twice that of the others, and two of a hundred more.
const MIN_ERROR_RATIO: f64 = 2.0;
const MIN_ERROR_SHARE: f64 = 0.02;

/// Contexts on which an instance must be out of line to be so on all of them, and the part of its contexts.
const MANY: usize = 3;
const MANY_SHARE: f64 = 0.5;

/// Sums of one instance and context in a minute.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    requests: f64,
    errors: f64,
    seconds: f64,
    /// Of the successful responses.
    successes: f64,
    logs: f64,
    squares: f64,
}

impl Moments {
    fn of(sums: &Aggregate) -> Self {
        let histogram = sums.successes();
        let scale = histogram.scale();
        let mut moments = Self {
            requests: sums.times.count as f64,
            errors: sums.outcomes.errors as f64,
            seconds: sums.times.sum as f64 * 1e-9,
            ..Self::default()
        };
        for (index, n) in histogram.buckets() {
            let (low, high) = (
                lower_bound(*index, scale),
                lower_bound(index.saturating_add(1), scale),
            );
            let log = (low * high).sqrt().ln();
            moments.successes += *n as f64;
            moments.logs += *n as f64 * log;
            moments.squares += *n as f64 * log * log;
        }
        moments
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.seconds += other.seconds;
        self.successes += other.successes;
        self.logs += other.logs;
        self.squares += other.squares;
    }

    fn without(&self, other: &Self) -> Self {
        Self {
            requests: self.requests - other.requests,
            errors: self.errors - other.errors,
            seconds: self.seconds - other.seconds,
            successes: self.successes - other.successes,
            logs: self.logs - other.logs,
            squares: self.squares - other.squares,
        }
    }

    /// What is compared: how many samples, their mean, and the sum of their squared deviations.
    fn samples(&self, measure: Measure) -> (f64, f64, f64) {
        match measure {
            Measure::Time => {
                let n = self.successes.max(0.0);
                let mean = self.logs / n.max(1.0);
                (n, mean, (self.squares - n * mean * mean).max(0.0))
            }
            Measure::Errors => {
                let n = self.requests.max(0.0);
                let share = self.errors / n.max(1.0);
                (n, share, n * share * (1.0 - share))
            }
        }
    }

    fn mean_seconds(&self) -> f64 {
        self.seconds / self.requests.max(1.0)
    }

    fn error_share(&self) -> f64 {
        self.errors / self.requests.max(1.0)
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Measure {
    /// The times of successful responses.
    Time,
    /// The share of errors.
    Errors,
}

/// An instance that is out of line on a context.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OutOfLine {
    instance: Arc<str>,
    context: RecordId,
    measure: Measure,
    since: Tick,
    detected: Tick,
    /// Of the logarithm of the times, or of the share of errors, in millionths.
    effect: i64,
    /// Standard deviations, in hundredths.
    strength: u32,
}

/// What the detector of instances needs, beside the minutes themselves, to go on where another one was.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct InstanceState {
    standing: Vec<OutOfLine>,
    /// Instances that are out of line on many contexts, and when that was detected.
    on_many: Vec<(Arc<str>, Tick)>,
}

/// What the instances did on a context in a minute.
#[derive(Debug, Default)]
struct Reported {
    all: Moments,
    instances: HashMap<Arc<str>, Moments>,
}

/// Finds instances that are out of line.
#[derive(Debug, Default)]
pub struct InstanceDetector {
    minutes: VecDeque<(Tick, HashMap<RecordId, Reported>)>,
    state: InstanceState,
}

/// The difference between an instance and the others.
#[derive(Clone, Copy, Debug, Default)]
struct Difference {
    effect: f64,
    z: f64,
    own: f64,
    others: f64,
}

/// How far an instance is from the others.
#[derive(Clone, Copy, Debug)]
struct Distance {
    /// Number of other instances.
    others: usize,
    own: f64,
    /// The level of the other instance that is next to it.
    next: f64,
    /// The part of the way from the mean of the others on which there is no other.
    part: f64,
}

/// What an instance and all others did on a context, minute by minute.
type Sides = Vec<(Tick, Moments, Moments)>;

impl InstanceDetector {
    /// A detector that goes on from a state.
    pub fn new(state: InstanceState) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// What another detector needs to go on from here.
    pub fn state(&self) -> &InstanceState {
        &self.state
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        let reported = self.minutes.iter().flat_map(|(_, of)| of.values());
        let instances: usize = reported.clone().map(|of| of.instances.capacity()).sum();
        reported.count() * size_of::<(RecordId, Reported)>()
            + instances * size_of::<(Arc<str>, Moments)>()
            + self.state.standing.len() * size_of::<OutOfLine>()
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
        while self
            .minutes
            .front()
            .is_some_and(|(at, _)| *at <= now - STORED)
        {
            self.minutes.pop_front();
        }
    }

    /// Judges a minute that has ended. Returns all verdicts that stand at its end.
    pub fn judge(&mut self, start: i64, instances: &[InstanceMinute<'_>]) -> Vec<Verdict> {
        self.recall(start, instances);
        let now = tick(start);
        let contexts = self.contexts();
        self.end(now, &contexts);
        for (context, instances) in &contexts {
            for instance in instances {
                for measure in [Measure::Time, Measure::Errors] {
                    self.search((instance, *context), measure, instances, now);
                }
            }
        }
        self.gather(now, &contexts);
        self.verdicts(now)
    }

    /// Whether a change of the mean of a context, in seconds, is the doing of an instance that is out of line on it.
    pub fn explains(&self, context: RecordId, mean_then: f64, mean_now: f64) -> bool {
        const MOST: f64 = 0.6;
        let standing = self.state.standing.iter();
        let mut standing = standing.filter(|one| one.context == context);
        standing.any(|one| {
            let sides = self.sides(&one.instance, context, one.since);
            let (own, others) = total(&sides);
            let share = own.requests / (own.requests + others.requests).max(1.0);
            let extra = (own.mean_seconds() - others.mean_seconds()) * share;
            extra / (mean_now - mean_then) >= MOST
        })
    }

    /// The contexts with the instances that had requests of them.
    fn contexts(&self) -> BTreeMap<RecordId, Vec<Arc<str>>> {
        let mut contexts: BTreeMap<RecordId, Vec<Arc<str>>> = BTreeMap::new();
        for (context, reported) in self.minutes.iter().flat_map(|(_, of)| of) {
            let instances = contexts.entry(*context).or_default();
            instances.extend(reported.instances.keys().cloned());
        }
        for instances in contexts.values_mut() {
            instances.sort();
            instances.dedup();
        }
        contexts
    }

    /// What an instance and all others did on a context from a minute on.
    fn sides(&self, instance: &str, context: RecordId, from: Tick) -> Sides {
        let minutes = self.minutes.iter().filter(|(at, _)| *at >= from);
        let sides = minutes.map(|(at, of)| {
            let reported = of.get(&context);
            let own = reported.and_then(|reported| reported.instances.get(instance));
            let own = own.copied().unwrap_or_default();
            let all = reported.map_or(Moments::default(), |reported| reported.all);
            (*at, own, all.without(&own))
        });
        sides.collect()
    }

    fn search(
        &mut self,
        (instance, context): (&Arc<str>, RecordId),
        measure: Measure,
        instances: &[Arc<str>],
        now: Tick,
    ) {
        let is_standing = |one: &OutOfLine| {
            one.instance == *instance && one.context == context && one.measure == measure
        };
        if instances.len() < 2 || self.state.standing.iter().any(is_standing) {
            return;
        }
        let sides = self.sides(instance, context, now - STORED);
        for window in WINDOWS {
            let from = now - window + 1;
            let Some(difference) = compare(&sides, measure, from) else {
                continue;
            };
            if difference.z < BAR
                || !is_large(measure, &difference)
                || !self.is_alone((instance, context), measure, instances, from)
            {
                continue;
            }
            self.state.standing.push(OutOfLine {
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

    /// The mean of what an instance did on a context between two minutes, the second excluded; `None` if that is
    /// little.
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

    /// The part of the way from the others to an instance on which there is no other instance; `None` if nothing is
    /// known about the others.
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

    /// Whether no other instance is nearly as far out; of two, whether it differs from its own past.
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

    /// Ends what is over.
    fn end(&mut self, now: Tick, contexts: &BTreeMap<RecordId, Vec<Arc<str>>>) {
        let standing = std::mem::take(&mut self.state.standing);
        let stands = |one: &OutOfLine| {
            let is_known = contexts.get(&one.context).is_some_and(|of| of.len() > 1);
            let sides = self.sides(&one.instance, one.context, now - RECENT + 1);
            let is_here = sides
                .iter()
                .any(|(at, own, _)| *at > now - GONE && own.requests > 0.0);
            let (own, others) = total(&sides);
            let (n, level, _) = own.samples(one.measure);
            let (m, other, _) = others.samples(one.measure);
            let instances = contexts.get(&one.context).map_or(&[][..], |of| &of[..]);
            let subject = (&one.instance, one.context);
            let distance = self.distance(subject, one.measure, instances, now - RECENT + 1);
            let is_one_of_many = distance.is_some_and(|distance| distance.part < ALONE / 2.0);
            // Too few to say anything: as before.
            let is_over = n >= 10.0 && m >= 10.0 && level - other < OVER * one.effect as f64 * 1e-6;
            is_known && is_here && !is_over && !is_one_of_many
        };
        self.state.standing = standing.into_iter().filter(stands).collect();
    }

    /// Finds the instances that are out of line on many contexts.
    fn gather(&mut self, now: Tick, contexts: &BTreeMap<RecordId, Vec<Arc<str>>>) {
        let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for one in &self.state.standing {
            *counts.entry(one.instance.clone()).or_default() += 1;
        }
        self.state
            .on_many
            .retain(|(instance, _)| counts.contains_key(instance));
        for (instance, count) in counts {
            let of_instance = contexts.iter().filter(|(context, instances)| {
                let sides = self.sides(&instance, **context, now - WINDOWS[1] + 1);
                instances.contains(&instance) && total(&sides).0.requests >= MIN_SAMPLES
            });
            let needed = (MANY_SHARE * of_instance.count() as f64).max(MANY as f64);
            let is_known = self
                .state
                .on_many
                .iter()
                .any(|(other, _)| *other == instance);
            if !is_known && count as f64 >= needed {
                self.state.on_many.push((instance, now));
            }
        }
    }

    fn verdicts(&self, now: Tick) -> Vec<Verdict> {
        let is_on_many = |instance: &str| {
            self.state
                .on_many
                .iter()
                .any(|(other, _)| **other == *instance)
        };
        let single = self.state.standing.iter();
        let single =
            single.filter(|one| !is_on_many(&one.instance) && now - one.detected >= SETTLING);
        let mut verdicts: Vec<Verdict> = single
            .map(|one| {
                let detected = one.detected + SETTLING;
                self.verdict(&[one], one.context, one.since, detected)
            })
            .collect();
        for (instance, detected) in &self.state.on_many {
            let of_instance = self.state.standing.iter();
            let of_instance: Vec<_> = of_instance
                .filter(|one| one.instance == *instance)
                .collect();
            let mut since: Vec<Tick> = of_instance.iter().map(|one| one.since).collect();
            since.sort_unstable();
            if let Some(since) = since.get(since.len() / 2) {
                verdicts.push(self.verdict(&of_instance, all_id(), *since, *detected));
            }
        }
        verdicts
    }

    /// The verdict about an instance that is out of line on some contexts.
    fn verdict(
        &self,
        parts: &[&OutOfLine],
        context: RecordId,
        since: Tick,
        detected: Tick,
    ) -> Verdict {
        let (mut own, mut others) = (Moments::default(), Moments::default());
        let (mut logs, mut expected, mut weights, mut minutes) = (0.0, 0.0, 0.0, 0);
        for part in parts {
            let sides = self.sides(&part.instance, part.context, since);
            minutes = minutes.max(sides.len());
            let (mine, theirs) = total(&sides);
            let (n, level, _) = mine.samples(Measure::Time);
            let (_, other, _) = theirs.samples(Measure::Time);
            logs += n * (level - other);
            weights += n;
            // What the instance would have taken at the pace of the others.
            expected += mine.requests * theirs.mean_seconds();
            own.add(&mine);
            others.add(&theirs);
        }
        let is_time = parts.iter().any(|part| part.measure == Measure::Time);
        let strength = parts.iter().map(|part| part.strength).max().unwrap_or(0);
        let z = f64::from(strength) / 100.0;
        let mean_then = expected / own.requests.max(1.0);
        let (then, now, ratio) = match is_time {
            true => {
                let ratio = (logs / f64::max(weights, 1.0)).exp();
                (mean_then, mean_then * ratio, ratio)
            }
            false => {
                let least = others.error_share().max(0.5 / others.requests.max(1.0));
                let share = own.error_share();
                (others.error_share(), share, share / least)
            }
        };
        let rate = own.requests / minutes.max(1) as f64;
        Verdict {
            context,
            kind: ChangeKind::Instance,
            instance: parts.first().map(|part| part.instance.clone()),
            since: i64::from(since) * 60,
            detected: (i64::from(detected) + 1) * 60,
            then,
            now,
            ratio,
            confidence: 1.0 - (-z * z / 2.0).exp(),
            requests: own.requests as u64,
            rate_then: rate,
            rate_now: rate,
            mean_then,
            mean_now: own.mean_seconds(),
        }
    }
}

/// The sums of an instance and of the others.
fn total(sides: &Sides) -> (Moments, Moments) {
    let (mut own, mut others) = (Moments::default(), Moments::default());
    for (_, mine, theirs) in sides {
        own.add(mine);
        others.add(theirs);
    }
    (own, others)
}

/// Compares an instance with the others in the minutes from `from` on; `None` if there is too little.
fn compare(sides: &Sides, measure: Measure, from: Tick) -> Option<Difference> {
    let (mut weights, mut weighted, mut spread) = (0.0, 0.0, 0.0);
    let (mut deviations, mut samples) = (0.0, 0.0);
    let mut minutes = Vec::new();
    for (_, own, others) in sides.iter().filter(|(at, ..)| *at >= from) {
        let (n, level, own_deviations) = own.samples(measure);
        let (m, other, other_deviations) = others.samples(measure);
        if n < 1.0 || m < 1.0 {
            continue;
        }
        let weight = n * m / (n + m);
        weights += weight;
        weighted += weight * (level - other);
        deviations += own_deviations + other_deviations;
        samples += n + m - 2.0;
        minutes.push((weight, level - other));
    }
    let window: Sides = sides
        .iter()
        .filter(|(at, ..)| *at >= from)
        .copied()
        .collect();
    let (own, others) = total(&window);
    let (n, level, _) = own.samples(measure);
    let (m, other, _) = others.samples(measure);
    if minutes.len() < 4 || n < MIN_SAMPLES || m < MIN_SAMPLES {
        return None;
    }
    let effect = weighted / weights;
    for (weight, difference) in &minutes {
        spread += weight * (difference - effect) * (difference - effect);
    }
    // A share of errors that was never seen has the variance of half an error.
    let least = match measure {
        Measure::Time => 1e-6,
        Measure::Errors => 0.5 / (n + m),
    };
    let variance = (deviations / f64::max(samples, 1.0)).max(least);
    let dispersion = (spread / (minutes.len() - 1) as f64 / variance).max(1.0);
    Some(Difference {
        effect,
        z: effect / (variance * dispersion / weights).sqrt(),
        own: level,
        others: other,
    })
}

fn is_large(measure: Measure, difference: &Difference) -> bool {
    match measure {
        Measure::Time => difference.effect >= MIN_RATIO.ln(),
        Measure::Errors => difference.own >= MIN_ERROR_RATIO * difference.others + MIN_ERROR_SHARE,
    }
}

/// The minute from which on an instance is out of line: where the sum of what it is above half of the effect, from
/// there to the end, is largest (Page, 1954).
fn turning_point(sides: &Sides, measure: Measure, effect: f64) -> Tick {
    let (mut sum, mut best) = (0.0, f64::NEG_INFINITY);
    let mut since = sides.last().map_or(0, |(at, ..)| *at);
    for (at, own, others) in sides.iter().rev() {
        let (n, level, _) = own.samples(measure);
        let (m, other, _) = others.samples(measure);
        if n < 1.0 || m < 1.0 {
            continue;
        }
        sum += n * m / (n + m) * (level - other - effect / 2.0);
        if sum >= best {
            (best, since) = (sum, *at);
        }
    }
    since
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::context::Kind;
    use crate::model::histogram::{Histogram, bucket_of};
    use crate::model::outcome::Outcome;

    const PAGES: [&str; 5] = ["GET /a", "GET /b", "GET /c", "GET /d", "GET /e"];
    const START: i64 = 1_700_000_040;

    /// A fleet whose instances have times around 100 ms, with a wobble from minute to minute that all share.
    struct Fleet {
        random: fastrand::Rng,
        instances: Vec<Arc<str>>,
        detector: InstanceDetector,
        minute: i64,
    }

    /// What is wrong with an instance: how much slower it is, and its share of errors.
    type Wrong<'a> = &'a dyn Fn(&str, &str) -> (f64, f64);

    impl Fleet {
        fn new(instances: usize, seed: u64) -> Self {
            println!("seed {seed}");
            let names = (1..=instances).map(|n| format!("web-{n}").into());
            Self {
                random: fastrand::Rng::with_seed(seed),
                instances: names.collect(),
                detector: InstanceDetector::default(),
                minute: START,
            }
        }

        fn aggregate(&mut self, level: f64, slowness: f64, errors: f64) -> Aggregate {
            let mut sums = Aggregate::default();
            let (mut all, mut failures) = (Vec::new(), Vec::new());
            for _ in 0..self.random.u64(20..40) {
                let tail = if self.random.f64() < 0.1 { 4.0 } else { 1.0 };
                let seconds = 0.1 * level * slowness * tail * (0.5 + self.random.f64());
                let nanos = (seconds * 1e9) as u64;
                let is_error = self.random.f64() < errors;
                sums.times.record(nanos);
                let outcome = match is_error {
                    true => Outcome::ServerError,
                    false => Outcome::Success,
                };
                sums.outcomes.record(outcome, is_error);
                all.push((bucket_of(nanos) as u16, 1));
                if is_error {
                    failures.push((bucket_of(nanos) as u16, 1));
                }
            }
            sums.histogram = Histogram::new(4, all);
            sums.failures = Histogram::new(4, failures);
            sums
        }

        /// Lets minutes pass. Returns the verdicts of each.
        fn pass(&mut self, minutes: usize, wrong: Wrong<'_>) -> Vec<Vec<Verdict>> {
            (0..minutes)
                .map(|_| {
                    let level = (0.3 * (self.random.f64() - 0.5)).exp();
                    let mut reports = Vec::new();
                    for instance in self.instances.clone() {
                        let mut contexts = Vec::new();
                        for page in PAGES {
                            let (slowness, errors) = wrong(&instance, page);
                            let sums = self.aggregate(level, slowness, errors);
                            contexts.push((RecordId::new(Kind::Http, page), sums));
                        }
                        reports.push((instance, contexts));
                    }
                    let minute: Vec<_> = reports
                        .iter()
                        .map(|(instance, contexts)| InstanceMinute {
                            instance: instance.clone(),
                            contexts: contexts.iter().map(|(id, sums)| (*id, sums)).collect(),
                        })
                        .collect();
                    self.minute += 60;
                    self.detector.judge(self.minute, &minute)
                })
                .collect()
        }
    }

    fn fine(_: &str, _: &str) -> (f64, f64) {
        (1.0, 0.01)
    }

    #[test]
    fn a_fleet_in_line_has_no_verdict() {
        for seed in 0..20 {
            for instances in [1, 2, 3, 4, 8] {
                let verdicts = Fleet::new(instances, seed).pass(120, &fine);
                assert!(verdicts.iter().all(Vec::is_empty), "{verdicts:?}");
            }
        }
    }

    #[test]
    fn an_instance_that_is_slow_on_one_page_is_named_until_it_is_not() {
        for (seed, instances) in (0..10).flat_map(|seed| [(seed, 2), (seed, 4)]) {
            let mut fleet = Fleet::new(instances, seed);
            assert!(fleet.pass(40, &fine).iter().all(Vec::is_empty));
            let began = fleet.minute + 60;
            let slow = |instance: &str, page: &str| match (instance, page) {
                ("web-2", "GET /c") => (2.0, 0.01),
                _ => (1.0, 0.01),
            };
            let verdicts = fleet.pass(12, &slow);
            let last = verdicts.last().expect("there are minutes");
            let [verdict] = &last[..] else {
                panic!("{instances} instances: {last:?}");
            };
            assert_eq!(verdict.instance.as_deref(), Some("web-2"));
            assert_eq!(verdict.context, RecordId::new(Kind::Http, "GET /c"));
            assert!(
                (verdict.since - began).abs() <= 120,
                "{}",
                verdict.since - began
            );
            assert!(
                (verdict.ratio / 2.0 - 1.0).abs() < 0.15,
                "{}",
                verdict.ratio
            );
            let named = verdicts.iter().take_while(|of| of.is_empty()).count();
            assert!(named <= 9, "after {named} minutes");
            let after = fleet.pass(15, &fine);
            assert_eq!(after.last(), Some(&Vec::new()));
        }
    }

    #[test]
    fn an_instance_that_is_slow_everywhere_is_one_verdict() {
        for seed in 0..10 {
            let mut fleet = Fleet::new(4, seed);
            fleet.pass(40, &fine);
            let slow = |instance: &str, _: &str| match instance {
                "web-3" => (2.5, 0.01),
                _ => (1.0, 0.01),
            };
            let verdicts = fleet.pass(12, &slow);
            for of_minute in verdicts.iter().filter(|of| !of.is_empty()) {
                let [verdict] = &of_minute[..] else {
                    panic!("{of_minute:?}");
                };
                assert_eq!(verdict.context, all_id());
                assert_eq!(verdict.instance.as_deref(), Some("web-3"));
            }
            let last = verdicts.last().and_then(|of| of.first());
            let last = last.expect("it is named");
            assert!((last.ratio / 2.5 - 1.0).abs() < 0.1, "{}", last.ratio);
            let page = RecordId::new(Kind::Http, "GET /a");
            assert!(fleet.detector.explains(page, 0.13, 0.13 * 1.375));
            assert!(!fleet.detector.explains(page, 0.13, 0.13 * 3.0));
        }
    }

    #[test]
    fn half_of_a_fleet_is_no_matter_of_one_instance() {
        for seed in 0..10 {
            let mut fleet = Fleet::new(4, seed);
            fleet.pass(40, &fine);
            let slow = |instance: &str, _: &str| match instance {
                "web-1" | "web-2" => (2.0, 0.01),
                _ => (1.0, 0.01),
            };
            let verdicts = fleet.pass(20, &slow);
            assert!(verdicts.iter().all(Vec::is_empty), "{verdicts:?}");
        }
    }

    #[test]
    fn an_instance_that_fails_is_named_with_its_share() {
        for seed in 0..10 {
            let mut fleet = Fleet::new(4, seed);
            fleet.pass(40, &fine);
            let failing = |instance: &str, page: &str| match (instance, page) {
                ("web-4", "GET /b") => (1.0, 0.3),
                _ => (1.0, 0.01),
            };
            let verdicts = fleet.pass(12, &failing);
            let last = verdicts.last().expect("there are minutes");
            let [verdict] = &last[..] else {
                panic!("{last:?}");
            };
            assert_eq!(verdict.instance.as_deref(), Some("web-4"));
            assert!((0.2..0.4).contains(&verdict.now), "{}", verdict.now);
        }
    }

    #[test]
    fn another_detector_goes_on_with_the_same_verdicts() {
        let mut fleet = Fleet::new(4, 7);
        fleet.pass(40, &fine);
        let slow = |instance: &str, page: &str| match (instance, page) {
            ("web-2", "GET /c") | ("web-3", _) => (2.0, 0.01),
            _ => (1.0, 0.01),
        };
        let before = fleet.pass(8, &slow);
        assert!(before.iter().any(|of| !of.is_empty()));
        let mut other = InstanceDetector::new(fleet.detector.state().clone());
        other.minutes = std::mem::take(&mut fleet.detector.minutes);
        let random = fleet.random.clone();
        let minutes: Vec<_> = (0..other.minutes.len()).collect();
        assert_eq!(minutes.len(), STORED as usize);
        let resumed = Fleet {
            random,
            instances: fleet.instances.clone(),
            minute: fleet.minute,
            detector: other,
        }
        .pass(10, &slow);
        assert!(resumed.iter().all(|of| !of.is_empty()));
    }
}
