//! The suspects of a change: other differences since the change began.

mod failures;
mod instances;
mod traffic;

use std::sync::Arc;

pub use self::failures::{fails_more, failures};
pub use self::instances::instances;
pub use self::traffic::traffic;

use super::change::{Change, ChangeKind, Suspect};
use super::side_by_side::SideBySide;
use super::statistics::median;
use super::words::{against, duration, instead};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::escape_hidden;
use tower_pulse_model::machine::{MachineMinute, was_delayed};
use tower_pulse_model::mark::Mark;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::{RecordId, SliceSums};
use tower_pulse_model::slices::Merge;
use tower_pulse_model::timer_sums::TimerSums;

/// Seconds before and after the start of a change within which a mark is a suspect. The start is known only to the
/// minute, and a deploy takes effect gradually.
const DEPLOY_BEFORE: i64 = 600;
const DEPLOY_AFTER: i64 = 120;

/// The smallest part of a change that a timer must cover to be a suspect.
const MIN_SHARE: f64 = 0.3;

/// The text about a timer has its runs per request if a request has at least this number of runs, and at least this
/// multiple of the runs before.
const MORE_RUNS: f64 = 1.5;

/// Runs of a timer that take this many times as long are slower.
const SLOWER_RUNS: f64 = 1.25;

/// The smallest part of a change that must be outside of timers for the code to be a suspect.
const MIN_CODE_SHARE: f64 = 0.5;

/// A new version explains a change if it shows at least this part of the change, compared with the old versions in the
/// same minutes.
const MIN_CONFIRMED: f64 = 0.3;

/// The fewest requests on each side of a comparison.
pub(super) const MIN_REQUESTS: u64 = 20;

/// The sums of a context before a change, and since the change.
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

const MAX_MACHINES: usize = 3;

/// The machines of the instances whose scheduling delay was high since a change began, highest delay first. Unless the
/// change is about a single instance, machines are suspects only if the delay was high on at least half of the
/// instances.
pub fn machines(machines: &[(Arc<str>, Vec<MachineMinute>)], is_of_instance: bool) -> Vec<Suspect> {
    let known = machines.iter().filter(|(_, minutes)| !minutes.is_empty());
    let delayed = known.clone().filter(|(_, minutes)| was_delayed(minutes));
    let mut delayed: Vec<_> = delayed.map(|(name, m)| (load(m), name)).collect();
    if !is_of_instance && 2 * delayed.len() < known.count() {
        return Vec::new();
    }
    delayed.order_by(|((a, ..), _), ((b, ..), _)| b.total_cmp(a));
    delayed.truncate(MAX_MACHINES);
    let suspects = delayed
        .into_iter()
        .map(|((delay, cpu, load), instance)| Suspect::Machine {
            text: format!("the machine of {}: {load}", escape_hidden(instance)).into(),
            instance: instance.clone(),
            delay,
            cpu,
        });
    suspects.collect()
}

/// The medians of a machine: its scheduling delay in seconds, its share of the CPU, and both in words.
fn load(minutes: &[MachineMinute]) -> (f64, Option<f64>, String) {
    let delays = minutes.iter().filter_map(|minute| minute.delay_micros);
    let delay = median(delays.map(|micros| micros as f64 / 1e6)).unwrap_or(0.0);
    let cpu = median(minutes.iter().filter_map(MachineMinute::cpu_share));
    let of_cpu = cpu.map_or_else(String::new, |cpu| format!("CPU {:.0} %, ", 100.0 * cpu));
    let text = format!("{of_cpu}scheduling delay {:.0} ms", 1e3 * delay);
    (delay, cpu, text)
}

/// Adds the machine's load to the text about a single instance. The load need not be the cause.
pub fn add_load(suspects: &mut [Suspect], machines: &[(Arc<str>, Vec<MachineMinute>)]) {
    for suspect in suspects {
        if let (Suspect::Instance { count: 1, text, .. }, [(_, minutes)]) = (suspect, machines) {
            *text = format!("{text}, {}", load(minutes).2).into();
        }
    }
}

/// The marks near `since`, the start of a change; nearest first.
pub fn marks_near(since: i64, marks: &[Mark]) -> Vec<&Mark> {
    let around = since - DEPLOY_BEFORE..=since + DEPLOY_AFTER;
    let mut near: Vec<&Mark> = marks.iter().filter(|m| around.contains(&m.at)).collect();
    near.order_by_key(|mark| (mark.at - since).abs());
    near
}

/// A mark as the suspect of a change that began at `since`. `side_by_side` is the new version's figure divided by the
/// old one's.
pub fn deploy(mark: &Mark, since: i64, side_by_side: Option<f64>) -> Suspect {
    let seconds_before = since - mark.at;
    let minutes = seconds_before / 60;
    let when = match minutes {
        1.. => format!("{minutes} min before the change"),
        0 => "as the change began".to_owned(),
        _ => format!("{} min after the change began", -minutes),
    };
    let beside = side_by_side.map_or_else(String::new, |ratio| {
        format!(", {}", against(ratio, "the old version"))
    });
    let of_mark = escape_hidden(&mark.text);
    let name = match &mark.version {
        Some(_) => of_mark.to_string(),
        None => format!("mark “{of_mark}”"),
    };
    Suspect::Deploy {
        mark: mark.id.clone(),
        text: format!("{name}, {when}{beside}").into(),
        version: mark.version.clone(),
        seconds_before,
        side_by_side,
    }
}

/// The instance that the whole change is about, if there is one.
pub fn own_instance(change: &Change) -> Option<Suspect> {
    let instance = change.instance.clone()?;
    let others = against(change.ratio, "the others on the same pages");
    Some(Suspect::Instance {
        text: format!("{}: {others}", escape_hidden(&instance)).into(),
        instances: vec![instance],
        count: 1,
        then: change.then,
        now: change.now,
        ratio: change.ratio,
        share: 1.0,
    })
}

/// The ratio of a new version's figure to the others' in the same minutes; `kind` chooses the figure.
pub fn ratio_of(kind: ChangeKind, compared: &SideBySide) -> Option<f64> {
    match kind {
        ChangeKind::Slower | ChangeKind::Faster => compared.ratio,
        ChangeKind::Failing => {
            let is_enough = compared.new.count.min(compared.old.count) >= MIN_REQUESTS;
            let (new, old) = (compared.new.error_share?, compared.old.error_share?);
            // 0 errors count as half an error.
            let old = old.max(0.5 / compared.old.count as f64);
            is_enough.then(|| new / old)
        }
        _ => None,
    }
}

/// Whether a new version explains a change: compared with the other versions, the new version shows at least three
/// tenths of the change.
pub fn is_confirmed(ratio: f64, side_by_side: f64) -> bool {
    let (beside, change) = (side_by_side.ln(), ratio.ln());
    change != 0.0 && beside / change >= MIN_CONFIRMED
}

/// The timers that cover a part of a change of speed, and the code outside of all timers if most of the change is
/// there; largest part first.
pub fn timers_and_code(sides: &Sides, name: impl Fn(RecordId) -> Option<Arc<str>>) -> Vec<Suspect> {
    let (then, now) = (&sides.then, &sides.now);
    if then.times.count < MIN_REQUESTS || now.times.count < MIN_REQUESTS {
        return Vec::new();
    }
    let seconds = |nanos: u64, sums: &Aggregate| nanos as f64 / 1e9 / sums.times.count as f64;
    let change = seconds(now.times.sum, now) - seconds(then.times.sum, then);
    let of_time = |share: f64| {
        let time = if change > 0.0 { "added" } else { "saved" };
        format!("{:.0} % of the {time} time", 100.0 * share.min(1.0))
    };
    let mut suspects: Vec<(f64, Suspect)> = Vec::new();
    for (id, sums) in now.timers.iter() {
        let old = then.timers.get(id).copied().unwrap_or_default();
        let (before, after) = (seconds(old.covered, then), seconds(sums.covered, now));
        let share = (after - before) / change;
        // A timer explains a change only if the timer has changed in the same direction.
        if change == 0.0 || share < MIN_SHARE {
            continue;
        }
        let Some(timer) = name(id) else { continue };
        let runs = |sums: &TimerSums, all: &Aggregate| sums.count as f64 / all.times.count as f64;
        let (runs, old_runs) = (runs(sums, now), runs(&old, then));
        let words = match runs >= MORE_RUNS * old_runs.max(1.0) {
            true => format!(
                "{runs:.0} times a request instead of {old_runs:.0}, {}",
                per_run(&old, sums)
            ),
            false => instead(after, " a request", before),
        };
        let suspect = Suspect::Timer {
            text: format!("{}, {words}, {}", escape_hidden(&timer), of_time(share)).into(),
            timer,
            then: before,
            now: after,
            share: share.min(1.0),
        };
        suspects.push((share, suspect));
    }
    // A timer that ended late may be in a later slice than its request, so timers may cover more than the requests.
    let untimed = |all: &Aggregate| seconds(all.times.sum.saturating_sub(all.timers.covered), all);
    let (before, after) = (untimed(then), untimed(now));
    let share = (after - before) / change;
    if change != 0.0 && share >= MIN_CODE_SHARE {
        let suspect = Suspect::Code {
            then: before,
            now: after,
            share: share.min(1.0),
            text: format!("your code outside of timers, {}", of_time(share)).into(),
        };
        suspects.push((share, suspect));
    }
    suspects.order_by(|(a, _), (b, _)| b.total_cmp(a));
    suspects.into_iter().map(|(_, suspect)| suspect).collect()
}

/// The words about each run of a timer that runs more often within a request.
fn per_run(then: &TimerSums, now: &TimerSums) -> String {
    let mean = |sums: &TimerSums| sums.sum as f64 / 1e9 / sums.count.max(1) as f64;
    match then.count > 0 && mean(now) > SLOWER_RUNS * mean(then) {
        true => instead(mean(now), " each", mean(then)),
        false => format!("{} each: more runs, not slower ones", duration(mean(now))),
    }
}

#[cfg(test)]
mod tests;
