//! Instances that are out of line: slower than the others on the same route in the same minutes, or failing more
//! often.
//!
//! The mean logarithm of an instance's times, less that of all others in the same minute, does not feel what the
//! whole fleet feels. An instance on older hardware is always slower and no news, so a verdict needs that this
//! difference, and the instance's own time, has grown. With two instances the difference alone cannot tell which of
//! the two is out of line; that one's own time has grown can. An instance without a past, as a deploy starts one,
//! is compared with the spread between the other instances.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::failing::{Share, deviance};
use super::history::Tick;
use super::minute::InstanceMinute;
use crate::model::aggregate::Aggregate;
use crate::model::histogram::lower_bound;
use crate::model::records::RecordId;

/// Minutes that are stored.
const STORED: Tick = 45;
/// Instances that are looked at, by name. More would take too much memory.
const MOST_INSTANCES: usize = 64;
/// The shortest and the longest window, in minutes.
const SHORTEST: usize = 5;
const LONGEST: usize = 15;
/// The fewest minutes before the window that make a past, and of an instance without one.
const FEWEST_PAST: usize = 10;
const FEWEST_NEW: usize = 15;
/// Standard deviations.
const BAR: f64 = 6.0;
/// The least growth of the difference; for an instance without a past, the least difference. Logarithms.
const LEAST: f64 = 0.22;
const LEAST_NEW: f64 = 0.4;
/// How much the difference wobbles between minutes at least, and differs between instances at least.
const WOBBLE: f64 = 0.04;
const SPREAD: f64 = 0.06;
/// The least difference of the shares of errors.
const LEAST_SHARE: f64 = 0.02;

/// Logarithms of the times of successful responses.
#[derive(Clone, Copy, Debug, Default)]
struct Logs {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Logs {
    fn of(sums: &Aggregate) -> Self {
        let successes = sums.successes();
        let mut logs = Self::default();
        for (index, count) in successes.buckets() {
            let low = lower_bound(*index, successes.scale()).max(1e-9);
            let (log, count) = (low.ln(), *count as f64);
            logs.count += count;
            logs.sum += count * log;
            logs.squares += count * log * log;
        }
        logs
    }

    fn add(&mut self, other: Self, sign: f64) {
        self.count += sign * other.count;
        self.sum += sign * other.sum;
        self.squares += sign * other.squares;
    }

    fn mean(self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    fn variance(self) -> f64 {
        (self.squares / self.count.max(1.0) - self.mean().powi(2)).max(1e-4)
    }
}

/// An instance on a route in a minute, beside the others.
#[derive(Clone, Copy, Debug)]
struct Beside {
    tick: Tick,
    /// Mean logarithm of seconds, less that of the others.
    difference: f32,
    /// Its variance from sampling; infinite if one side has too few requests.
    variance: f32,
    /// Mean logarithm of seconds.
    own: f32,
    requests: f32,
    errors: f32,
    others: f32,
    other_errors: f32,
}

/// An instance on a route in a minute.
type Side<'a> = (&'a Arc<str>, &'a Aggregate, Logs);

/// What an instance on a route is, at the end of a minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) since: Tick,
    pub(super) strength: f64,
    /// Whether it fails, and is not slower.
    pub(super) fails: bool,
    /// The difference before, a logarithm; or the share of errors of the others.
    pub(super) then: f64,
    /// The difference now, a logarithm; or its own share of errors.
    pub(super) now: f64,
    /// Seconds per request before.
    pub(super) seconds: f64,
}

/// All instances, by route.
#[derive(Debug, Default)]
pub(super) struct Instances {
    series: BTreeMap<(RecordId, Arc<str>), VecDeque<Beside>>,
}

impl Instances {
    /// Adds a minute.
    pub(super) fn push(&mut self, now: Tick, instances: &[InstanceMinute<'_>]) {
        let mut order: Vec<_> = instances.iter().collect();
        order.sort_by(|a, b| a.instance.cmp(&b.instance));
        order.dedup_by(|a, b| a.instance == b.instance);
        order.truncate(MOST_INSTANCES);
        let mut routes: BTreeMap<RecordId, Vec<Side<'_>>> = BTreeMap::new();
        for minute in order {
            for (id, sums) in &minute.contexts {
                routes
                    .entry(*id)
                    .or_default()
                    .push((&minute.instance, *sums, Logs::of(sums)));
            }
        }
        for (id, sides) in routes.into_iter().filter(|(_, sides)| sides.len() >= 2) {
            let mut all = Logs::default();
            let (mut requests, mut errors) = (0.0, 0.0);
            for (_, sums, logs) in &sides {
                all.add(*logs, 1.0);
                requests += sums.times.count as f64;
                errors += sums.outcomes.errors as f64;
            }
            for (instance, sums, logs) in sides {
                let mut others = all;
                others.add(logs, -1.0);
                let enough = logs.count >= 5.0 && others.count >= 5.0;
                let variance = logs.variance() / logs.count + others.variance() / others.count;
                let (own_requests, own_errors) =
                    (sums.times.count as f64, sums.outcomes.errors as f64);
                let series = self.series.entry((id, Arc::clone(instance))).or_default();
                series.push_back(Beside {
                    tick: now,
                    difference: if enough {
                        (logs.mean() - others.mean()) as f32
                    } else {
                        0.0
                    },
                    variance: if enough {
                        variance as f32
                    } else {
                        f32::INFINITY
                    },
                    own: logs.mean() as f32,
                    requests: own_requests as f32,
                    errors: own_errors as f32,
                    others: (requests - own_requests) as f32,
                    other_errors: (errors - own_errors).max(0.0) as f32,
                });
            }
        }
        self.series.retain(|_, series| {
            while series
                .front()
                .is_some_and(|first| first.tick <= now - STORED)
            {
                series.pop_front();
            }
            !series.is_empty()
        });
    }

    pub(super) fn clear(&mut self) {
        self.series.clear();
    }

    /// The instances on routes that are out of line at the end of minute `now`.
    pub(super) fn search(&self, now: Tick) -> Vec<(RecordId, Arc<str>, Found)> {
        let mut found = Vec::new();
        for ((id, instance), series) in &self.series {
            if series.back().is_none_or(|last| last.tick != now) {
                continue;
            }
            let spread = || self.spread(*id, instance, now);
            if let Some(failing) = failing(series, now) {
                found.push((*id, Arc::clone(instance), failing));
            } else if let Some(slower) = slower(series, now, spread) {
                found.push((*id, Arc::clone(instance), slower));
            }
        }
        found
    }

    /// How much the other instances on the route differ from each other; `None` if there are fewer than two.
    fn spread(&self, id: RecordId, instance: &Arc<str>, now: Tick) -> Option<f64> {
        let from = (id, Arc::from(""));
        let route = self
            .series
            .range(from..)
            .take_while(|((route, _), _)| *route == id);
        let others = route.filter(|((_, other), _)| other != instance);
        let mut means: Vec<_> = others
            .filter_map(|(_, series)| {
                let recent = series
                    .iter()
                    .rev()
                    .take_while(|side| side.tick > now - LONGEST as Tick);
                mean(recent).map(|(mean, _)| mean)
            })
            .collect();
        if means.len() < 2 {
            return None;
        }
        means.sort_unstable_by(f64::total_cmp);
        let median = means[means.len() / 2];
        let mut distances: Vec<_> = means.iter().map(|mean| (mean - median).abs()).collect();
        distances.sort_unstable_by(f64::total_cmp);
        // With two others the median of the distances is the larger one: half of what lies between them.
        Some((1.4826 * distances[distances.len() / 2]).max(SPREAD))
    }

    /// Whether what was found is over.
    pub(super) fn is_over(
        &self,
        id: RecordId,
        instance: &Arc<str>,
        now: Tick,
        found: &Found,
    ) -> bool {
        let Some(series) = self.series.get(&(id, Arc::clone(instance))) else {
            return true;
        };
        let recent = series.iter().rev().take_while(|side| side.tick > now - 5);
        let current = match found.fails {
            true => {
                let mut share = Share::default();
                recent
                    .for_each(|side| share.count(f64::from(side.errors), f64::from(side.requests)));
                (share.requests > 0.0).then(|| share.share())
            }
            false => mean(recent.take(4)).map(|(mean, _)| mean),
        };
        current.is_none_or(|current| current < found.then + 0.45 * (found.now - found.then))
    }

    pub(super) fn bytes(&self) -> usize {
        let series = self
            .series
            .values()
            .map(|series| series.capacity() * size_of::<Beside>() + 96);
        series.sum()
    }
}

/// The weighted mean of the differences, with its variance.
fn mean<'a>(sides: impl Iterator<Item = &'a Beside>) -> Option<(f64, f64)> {
    let (mut sum, mut weights, mut minutes) = (0.0, 0.0, 0.0);
    for side in sides.filter(|side| side.variance.is_finite()) {
        let weight = 1.0 / (f64::from(side.variance) + WOBBLE * WOBBLE);
        sum += weight * f64::from(side.difference);
        weights += weight;
        minutes += 1.0;
    }
    // The wobble lasts for some minutes: a few of them count as one.
    (minutes > 0.0).then(|| {
        (
            sum / weights,
            1.0 / weights + 2.0 * WOBBLE * WOBBLE / minutes,
        )
    })
}

fn own_time<'a>(sides: impl Iterator<Item = &'a Beside>) -> f64 {
    let sides = sides.filter(|side| side.variance.is_finite());
    let (sum, count) = sides.fold((0.0, 0.0), |(sum, count), side| {
        (sum + f64::from(side.own), count + 1.0)
    });
    sum / f64::max(count, 1.0)
}

fn slower(series: &VecDeque<Beside>, now: Tick, spread: impl Fn() -> Option<f64>) -> Option<Found> {
    let sides: Vec<_> = series
        .iter()
        .filter(|side| side.variance.is_finite())
        .collect();
    let mut best: Option<Found> = None;
    for length in SHORTEST..=LONGEST.min(sides.len()) {
        let (past, window) = sides.split_at(sides.len() - length);
        if window[0].tick < now - 2 * LONGEST as Tick {
            break;
        }
        let (level, variance) = mean(window.iter().copied())?;
        // The past ends some minutes before, as the start of the change may lie in between.
        let past = &past[..past.len().saturating_sub(2)];
        let (then, strength) = if past.len() >= FEWEST_PAST {
            let (then, past_variance) = mean(past.iter().copied())?;
            let growth = level - then;
            let own = own_time(window.iter().copied()) - own_time(past.iter().copied());
            if growth < LEAST || level < 0.5 * growth || own < 0.5 * growth {
                continue;
            }
            (then, growth / (variance + past_variance).sqrt())
        } else if length == FEWEST_NEW && level >= LEAST_NEW {
            let spread = spread()?;
            (0.0, level / (variance + spread * spread).sqrt())
        } else {
            continue;
        };
        let shows = |side: &&&Beside| f64::from(side.difference) - then >= 0.4 * (level - then);
        let goes_on = window.iter().filter(shows).count() + length / 5 >= length;
        if strength < BAR || !goes_on || best.is_some_and(|best| best.strength >= strength) {
            continue;
        }
        let middle = (level + then) / 2.0;
        best = Some(Found {
            since: turning_point(&sides, |side| f64::from(side.difference) - middle),
            strength,
            fails: false,
            then,
            now: level,
            seconds: (own_time(window.iter().copied()) - (level - then)).exp(),
        });
    }
    best
}

fn failing(series: &VecDeque<Beside>, now: Tick) -> Option<Found> {
    let recent: Vec<_> = series
        .iter()
        .filter(|side| side.tick > now - LONGEST as Tick)
        .collect();
    let mut best: Option<Found> = None;
    for length in SHORTEST..=recent.len() {
        let window = &recent[recent.len() - length..];
        let (mut own, mut others) = (Share::default(), Share::default());
        let mut worst = 0.0f64;
        for side in window {
            own.count(f64::from(side.errors), f64::from(side.requests));
            others.count(f64::from(side.other_errors), f64::from(side.others));
            worst = worst.max(f64::from(side.errors));
        }
        let mut past = Share::default();
        for side in series.iter().filter(|side| side.tick < window[0].tick - 2) {
            past.count(f64::from(side.errors), f64::from(side.requests));
        }
        let usual = others.share().max(past.share());
        let minutes = window.iter().filter(|side| side.errors > 0.0).count();
        let strength = deviance(own, others).max(0.0).sqrt() / 1.3;
        let spread = 2 * minutes >= length && own.errors - worst >= 4.0;
        if own.share() < usual + LEAST_SHARE
            || own.share() < 2.0 * usual
            || !spread
            || strength < BAR
        {
            continue;
        }
        if best.is_some_and(|best| best.strength >= strength) {
            continue;
        }
        let middle = (own.share() + usual) / 2.0;
        best = Some(Found {
            since: turning_point(&recent, |side| {
                f64::from(side.errors) - middle * f64::from(side.requests)
            }),
            strength,
            fails: true,
            then: usual,
            now: own.share(),
            seconds: 0.0,
        });
    }
    best
}

/// The minute since which the sum of `excess` is largest.
fn turning_point(sides: &[&Beside], excess: impl Fn(&Beside) -> f64) -> Tick {
    let (mut sum, mut most, mut since) = (0.0, f64::NEG_INFINITY, 0);
    for side in sides.iter().rev().take(LONGEST + 5) {
        sum += excess(side);
        if sum > most {
            (most, since) = (sum, side.tick);
        }
    }
    since
}
