//! The measurements of windows, which [`Windows`](super::Windows) returns.

use std::collections::HashMap;
use std::sync::Arc;

use super::points::longest_poll;
use crate::query::span::Covered;
use crate::targets::PathTarget;
use tower_pulse_model::access_time::{AccessTimeStats, DurationSums};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::measures::Measure;
use tower_pulse_model::outcome::OutcomeCounts;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::tally::{Codes, Kinds, MAX_CODES, MAX_WINDOW_KEYS};
use tower_pulse_model::timer_sums::{TimerSums, is_repeated, other};

/// The measurements of all contexts in a window, and in the window with which the window is compared.
pub struct WindowSums {
    /// The contexts by the ids of their records.
    pub contexts: Arc<HashMap<RecordId, ContextId>>,
    /// The window.
    pub now: Arc<PartSums>,
    /// The window before, or the window that [`Against`](crate::query::Against) names.
    pub before: Arc<PartSums>,
}

/// The measurements of all contexts in some slices.
#[derive(Default)]
pub struct PartSums {
    pub covered: Covered,
    pub error: f64,
    /// The measurements of each context that had samples.
    pub summaries: HashMap<RecordId, Summary>,
    /// Bytes of the codes and the kinds of errors in `summaries`.
    pub tally_bytes: usize,
}

/// The request counts of each [`PathTarget`], in some slices.
pub struct TargetSums {
    pub covered: Covered,
    /// The counts of each target, in the order of the configured targets.
    pub counts: Vec<TargetCounts>,
}

/// The number of requests that count for a target, and the number of bad requests among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TargetCounts {
    /// Number of successes and errors.
    pub counted: u64,
    /// Number of counted requests that were errors, or took too long.
    pub bad: u64,
    /// The largest relative error of the duration that divides good requests from bad ones.
    pub error: f64,
}

impl TargetCounts {
    pub fn new(target: &PathTarget, sums: &Aggregate) -> Self {
        let (good, counted) = sums.counts_below(target.duration.as_secs_f64());
        Self {
            counted,
            bad: counted.saturating_sub(good),
            error: sums.successes().error(),
        }
    }
}

/// The measurements of a context. Measurements are smaller than sums, so the measurements of all contexts can be cached
/// for a second.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The durations. If slices were subtracted from the sums, minimum and maximum come from the histogram. Otherwise,
    /// minimum and maximum are exact.
    pub times: AccessTimeStats,
    pub outcomes: OutcomeCounts,
    /// The median, the 95th and the 99th percentile, in seconds.
    pub percentiles: [Option<f64>; 3],
    /// The share of the requests below the context's target; `None` without a target.
    pub below_target: Option<f64>,
    /// The timer that the requests run most often; `None` if no timer runs more than 20 times per request.
    pub repeated: Option<(RecordId, TimerSums)>,
    /// The polls of the requests; `None` if no polls were measured.
    pub polls: Option<PollSums>,
    pub codes: Codes,
    pub kinds: Kinds,
}

#[derive(Clone, Copy, Debug)]
pub struct PollSums {
    /// The share of the requests' time within their polls, 0 to 1; `None` if the requests took no time.
    pub computing: Option<f64>,
    /// The longest poll, in seconds; `None` for the window before, once slices have left that window.
    pub longest: Option<f64>,
    /// The mean duration of a poll, in seconds.
    pub mean: f64,
}

impl PollSums {
    /// `longest` is in microseconds.
    pub fn new(sums: &Aggregate, longest: Option<u32>) -> Option<Self> {
        let sum = |measure| sums.measures.get(measure) as f64;
        let (time, waited) = (sum(Measure::PollTime), sum(Measure::Waited));
        let (polls, whole) = (sum(Measure::Polls), time + waited);
        (polls > 0.0).then(|| Self {
            computing: (whole > 0.0).then(|| time / whole),
            longest: longest.map(|micros| f64::from(micros) / 1e6),
            mean: time / polls / 1e9,
        })
    }
}

/// A timer within the requests of a context in a window.
#[derive(Clone, Debug)]
pub struct RunningTimer {
    pub context: ContextId,
    pub timer: TimerSums,
    /// The durations of all requests of the context.
    pub times: DurationSums,
}

impl Summary {
    /// `target` is in seconds.
    pub fn new(sums: &Aggregate, has_exact_bounds: bool, target: Option<f64>) -> Self {
        let mut times = AccessTimeStats::from(&sums.times);
        if !has_exact_bounds {
            times.min = sums.histogram.quantile(0.0).unwrap_or(times.min);
            times.max = sums.histogram.quantile(1.0).unwrap_or(times.max);
        }
        let (mut codes, mut kinds) = (sums.codes.clone(), sums.kinds.clone());
        codes.limit(MAX_CODES);
        kinds.limit(MAX_WINDOW_KEYS);
        Self {
            percentiles: sums.percentiles(&times),
            times,
            outcomes: sums.outcomes,
            below_target: target.and_then(|target| sums.share_below(target)),
            repeated: most_repeated(sums),
            polls: PollSums::new(sums, has_exact_bounds.then(|| longest_poll(sums))),
            codes,
            kinds,
        }
    }
}

fn most_repeated(sums: &Aggregate) -> Option<(RecordId, TimerSums)> {
    let others = other();
    let timers = sums.timers.iter();
    let repeated = timers.filter(|(_, timer)| is_repeated(timer.count, sums.times.count));
    let repeated = repeated.filter(|(id, _)| *id != others);
    let most = repeated.max_by_key(|(id, timer)| (timer.count, *id));
    most.map(|(id, timer)| (id, *timer))
}

impl PartSums {
    /// The measurements of a context; `None` if it had no samples.
    pub fn get(&self, context: &ContextId) -> Option<&Summary> {
        let id = RecordId::new(context.kind, &context.name);
        self.summaries.get(&id)
    }
}

impl WindowSums {
    /// Approximate bytes in memory, without the names of the contexts.
    pub fn bytes(&self) -> usize {
        let summaries = self.now.summaries.capacity() + self.before.summaries.capacity();
        let tallies = self.now.tally_bytes + self.before.tally_bytes;
        summaries * (size_of::<(RecordId, Summary)>() + 1) + tallies
    }

    /// Whether a context had samples in either part.
    pub fn has(&self, context: &ContextId) -> bool {
        self.now.get(context).is_some() || self.before.get(context).is_some()
    }

    /// The contexts that had samples in either part, without [`ALL`](tower_pulse_model::context::ALL).
    pub fn contexts(&self) -> impl Iterator<Item = &ContextId> {
        let has_samples = |id: &RecordId| {
            self.now.summaries.contains_key(id) || self.before.summaries.contains_key(id)
        };
        let contexts = self.contexts.iter().filter(move |(id, _)| has_samples(id));
        let contexts = contexts.map(|(_, context)| context);
        contexts.filter(|context| context.kind != Kind::All)
    }

    pub fn error(&self) -> f64 {
        self.now.error.max(self.before.error)
    }
}
