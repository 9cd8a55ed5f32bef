//! The suspects of a change: other differences since it began.

use std::sync::Arc;

use super::change::{Change, ChangeKind, Suspect};
use super::figures::median;
use super::side_by_side::SideBySide;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::escape_hidden;
use tower_pulse_model::machine::{MachineMinute, was_delayed};
use tower_pulse_model::mark::Mark;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::{RecordId, SliceSums};
use tower_pulse_model::slices::Merge;
use tower_pulse_model::sorted::Map;

/// Seconds before and after the start of a change within which a mark is a suspect. The start is known only to the
/// minute, and a deploy takes effect gradually.
const DEPLOY_BEFORE: i64 = 600;
const DEPLOY_AFTER: i64 = 120;

/// The smallest part of a change that a timer must cover to be a suspect.
const MIN_SHARE: f64 = 0.3;

/// The smallest part of a change that must be outside of timers for the code to be a suspect.
const MIN_CODE_SHARE: f64 = 0.5;

/// The smallest part of a change that one instance must account for.
const MIN_INSTANCE_SHARE: f64 = 0.6;

/// The part of a change that a new version must show, compared with the old versions in the same minutes, to explain
/// it.
const MIN_CONFIRMED: f64 = 0.3;

/// The smallest ratio of a suspected instance to the others: of its times, or of its share of errors.
const MIN_RATIO: f64 = 1.25;

/// The fewest requests on each side of a comparison.
pub(super) const MIN_REQUESTS: u64 = 20;

/// The sums of a context before a change and since.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    /// The sums before the change.
    pub then: Aggregate,
    /// The sums since the change.
    pub now: Aggregate,
}

impl Sides {
    /// Adds up the slices within `length` seconds before `since`, and those from `since` until `end`.
    pub fn new(slices: &[SliceSums], since: i64, end: i64, length: i64) -> Self {
        let mut sides = Self::default();
        for slice in slices {
            if (since - length..since).contains(&slice.start) {
                sides.then.merge(&slice.sums);
            } else if (since..end).contains(&slice.start) {
                sides.now.merge(&slice.sums);
            }
        }
        sides
    }
}

/// The most instances whose machines are suspects of a change.
const MAX_MACHINES: usize = 3;

/// The machines of the instances whose scheduling delay was high since a change began, highest delay first. Unless the
/// change is about a single instance, machines are suspects only if the delay was high on at least half of the
/// instances.
pub fn machines(machines: &[(Arc<str>, Vec<MachineMinute>)], is_of_one: bool) -> Vec<Suspect> {
    let known = machines.iter().filter(|(_, minutes)| !minutes.is_empty());
    let delayed = known.clone().filter(|(_, minutes)| was_delayed(minutes));
    let figures = delayed.map(|(instance, minutes)| {
        let delays = minutes.iter().filter_map(|minute| minute.delay_micros);
        let cpus = minutes.iter().filter_map(MachineMinute::cpu_share);
        let delay = median(delays.map(|micros| micros as f64 / 1e6));
        (delay.unwrap_or(0.0), median(cpus), instance)
    });
    let mut delayed: Vec<_> = figures.collect();
    if !is_of_one && 2 * delayed.len() < known.count() {
        return Vec::new();
    }
    delayed.order_by(|a, b| b.0.total_cmp(&a.0));
    delayed.truncate(MAX_MACHINES);
    let suspect = |(delay, cpu, instance): (f64, Option<f64>, &Arc<str>)| {
        let of_cpu = cpu.map_or_else(String::new, |cpu| format!("CPU {:.0} %, ", 100.0 * cpu));
        let (name, millis) = (escape_hidden(instance), 1e3 * delay);
        let text = format!("{name}: {of_cpu}scheduling delay {millis:.0} ms: the machine");
        Suspect::Machine {
            text: text.into(),
            instance: instance.clone(),
            delay,
            cpu,
        }
    };
    delayed.into_iter().map(suspect).collect()
}

/// The marks around the start of a change, in Unix seconds, nearest first.
pub fn deploys(since: i64, marks: &[Mark]) -> Vec<Suspect> {
    let around = since - DEPLOY_BEFORE..=since + DEPLOY_AFTER;
    let mut near: Vec<&Mark> = marks.iter().filter(|m| around.contains(&m.at)).collect();
    near.order_by_key(|mark| (mark.at - since).abs());
    near.into_iter()
        .map(|mark| Suspect::Deploy {
            mark: mark.id.clone(),
            text: mark.text.clone(),
            version: mark.version.clone(),
            seconds_before: since - mark.at,
            side_by_side: None,
        })
        .collect()
}

/// The instance that the whole change is about, if there is one.
pub fn own_instance(change: &Change) -> Option<Suspect> {
    let instance = change.instance.clone()?;
    Some(Suspect::Instance {
        instance,
        ratio: change.ratio,
        share: 1.0,
    })
}

/// The figure that a change is about, as the ratio of a new version to the others in the same minutes.
pub fn ratio_of(kind: ChangeKind, compared: &SideBySide) -> Option<f64> {
    match kind {
        ChangeKind::Slower | ChangeKind::Faster => compared.ratio,
        ChangeKind::Failing => {
            let is_enough = compared.new.count.min(compared.old.count) >= MIN_REQUESTS;
            let (new, old) = (compared.new.error_share?, compared.old.error_share?);
            // Half an error stands for no error.
            let old = old.max(0.5 / compared.old.count as f64);
            is_enough.then(|| new / old)
        }
        _ => None,
    }
}

/// Whether a new version explains a change: compared with the other versions, it shows a sufficient part of the change.
pub fn is_confirmed(ratio: f64, side_by_side: f64) -> bool {
    let (beside, change) = (side_by_side.ln(), ratio.ln());
    change != 0.0 && beside / change >= MIN_CONFIRMED
}

/// The timers that cover a part of a slowdown, and the code outside of all timers if most of the slowdown is there;
/// largest part first.
pub fn timers_and_code(sides: &Sides, name: impl Fn(RecordId) -> Option<Arc<str>>) -> Vec<Suspect> {
    let (then, now) = (&sides.then, &sides.now);
    if then.times.count < MIN_REQUESTS || now.times.count < MIN_REQUESTS {
        return Vec::new();
    }
    let seconds = |nanos: u64, of: &Aggregate| nanos as f64 / 1e9 / of.times.count as f64;
    let slowdown = seconds(now.times.sum, now) - seconds(then.times.sum, then);
    let mut suspects: Vec<(f64, Suspect)> = Vec::new();
    for (id, sums) in now.timers.iter() {
        let before = then.timers.get(id).map_or(0, |sums| sums.covered);
        let (before, after) = (seconds(before, then), seconds(sums.covered, now));
        let share = (after - before) / slowdown;
        // A timer only explains a change in its own direction.
        if slowdown == 0.0 || share < MIN_SHARE {
            continue;
        }
        let Some(timer) = name(id) else { continue };
        let suspect = Suspect::Timer {
            timer,
            then: before,
            now: after,
            share: share.min(1.0),
        };
        suspects.push((share, suspect));
    }
    // A timer that ended late may be in a later slice than its request, so timers may cover more than the requests.
    let untimed = |of: &Aggregate| seconds(of.times.sum.saturating_sub(of.timers.covered), of);
    let (before, after) = (untimed(then), untimed(now));
    let share = (after - before) / slowdown;
    if slowdown != 0.0 && share >= MIN_CODE_SHARE {
        let suspect = Suspect::Code {
            then: before,
            now: after,
            share: share.min(1.0),
        };
        suspects.push((share, suspect));
    }
    suspects.order_by(|(a, _), (b, _)| b.total_cmp(a));
    suspects.into_iter().map(|(_, suspect)| suspect).collect()
}

/// The requests of an instance in some minutes, and the sum of the figure that a change is about.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    requests: f64,
    sum: f64,
}

impl Counted {
    fn of(kind: ChangeKind, sums: &Aggregate) -> Option<Self> {
        let (count, mean) = match kind {
            ChangeKind::Slower => (sums.successes().count(), sums.successes().mean()?),
            ChangeKind::Failing => {
                let share = sums.outcomes.errors as f64 / sums.times.count.max(1) as f64;
                (sums.times.count, share)
            }
            _ => return None,
        };
        let requests = count as f64;
        (count > 0).then_some(Self {
            requests,
            sum: requests * mean,
        })
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.sum += other.sum;
    }

    fn mean(self) -> f64 {
        self.sum / self.requests.max(1.0)
    }
}

/// The fewest minutes in which two instances must both have requests to be compared. A process and its replacement both
/// have requests in the minute of a restart.
const FEWEST_TOGETHER: usize = 2;

/// The instance that a change of a context comes from, if there is one: the instance is out of line with those that
/// serve in the same minutes, and most of the change comes from it. `minutes` has the sums of each instance in each
/// minute since the change began.
pub fn instance(
    kind: ChangeKind,
    sides: &Sides,
    minutes: &[Vec<(&Arc<str>, &Aggregate)>],
) -> Option<Suspect> {
    let mut instances: Map<&Arc<str>, Vec<Option<Counted>>> = Map::default();
    for (at, minute) in minutes.iter().enumerate() {
        for (instance, sums) in minute {
            let served = instances.or_insert_with(instance, || vec![None; minutes.len()]);
            served[at] = Counted::of(kind, sums);
        }
    }
    let change = Counted::of(kind, &sides.now)?.mean() - Counted::of(kind, &sides.then)?.mean();
    let judged = instances.iter().filter_map(|(instance, served)| {
        let (mut own, mut others) = (Counted::default(), Counted::default());
        for other in instances.iter().filter(|(other, _)| *other != instance) {
            let both = served.iter().zip(other.1);
            let both = both.filter_map(|(own, other)| own.and(*other));
            if both.clone().count() >= FEWEST_TOGETHER {
                both.for_each(|counted| others.add(counted));
            }
        }
        let served = served.iter().flatten();
        served.for_each(|counted| own.add(*counted));
        let fewest = MIN_REQUESTS as f64;
        if own.requests < fewest || others.requests < fewest {
            return None;
        }
        let (mean, theirs) = (own.mean(), others.mean());
        let all = own.requests + others.requests;
        // The part of the change that comes from this instance alone.
        let extra = (mean - theirs) * own.requests / all;
        let ratio = mean / theirs.max(f64::MIN_POSITIVE).max(0.5 / all);
        (change > 0.0).then(|| (Arc::clone(instance), ratio, extra / change))
    });
    let (instance, ratio, share) = judged.max_by(|a, b| a.2.total_cmp(&b.2))?;
    (ratio >= MIN_RATIO && share >= MIN_INSTANCE_SHARE).then(|| Suspect::Instance {
        instance,
        ratio,
        share: share.min(1.0),
    })
}

#[cfg(test)]
mod tests;
