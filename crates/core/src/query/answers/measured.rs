//! The measurements of a context in a window.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::query::span::Covered;
use crate::query::windows::sums::{PartSums, PollSums, Summary};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ContextId, Kind, method_and_path};
use tower_pulse_model::outcome::{Outcome, OutcomeCounts};
use tower_pulse_model::sorted;
use tower_pulse_model::tally::{Codes, Kinds, MAX_CODES, MAX_KINDS};
use tower_pulse_model::timer_sums::OTHER;

/// `part / whole`; `None` if `whole` is zero.
pub(super) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// `part / whole`; `None` if one of the two is `None`, or if `whole` is zero.
pub(super) fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    share(part?, whole?)
}

/// The name of a context, with its parts.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ContextName {
    /// The method and the route template, or the name of a timer.
    pub context: String,
    /// Whether the context stands for requests, for timed code, or for all requests.
    pub kind: Kind,
    /// The HTTP method, if the context has one.
    pub method: Option<String>,
    /// The route template, if the context has one.
    pub path: Option<String>,
}

impl ContextName {
    pub(super) fn new(context: &str, kind: Kind) -> Self {
        let (method, path) = match kind {
            Kind::Http => method_and_path(context),
            _ => (None, None),
        };
        Self {
            context: context.to_owned(),
            kind,
            method: method.map(str::to_owned),
            path: path.map(str::to_owned),
        }
    }

    pub(super) fn of(id: &ContextId) -> Self {
        Self::new(&id.name, id.kind)
    }
}

/// Statistics of the durations of samples, in seconds. A statistic is `None` if nothing was measured.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Times {
    /// The mean.
    pub mean: Option<f64>,
    /// The standard deviation.
    pub stddev: Option<f64>,
    /// The smallest.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
}

impl Times {
    /// `percentiles` has `p50`, `p95` and `p99`.
    pub(super) fn new(times: &AccessTimeStats, percentiles: [Option<f64>; 3]) -> Self {
        let [p50, p95, p99] = percentiles;
        Self {
            mean: times.mean(),
            stddev: times.stddev(),
            min: times.smallest(),
            max: times.largest(),
            p50,
            p95,
            p99,
        }
    }

    /// Each statistic divided by the same statistic of `other`.
    pub(super) fn divided_by(&self, other: &Self) -> Self {
        Self {
            mean: ratio(self.mean, other.mean),
            stddev: ratio(self.stddev, other.stddev),
            min: ratio(self.min, other.min),
            max: ratio(self.max, other.max),
            p50: ratio(self.p50, other.p50),
            p95: ratio(self.p95, other.p95),
            p99: ratio(self.p99, other.p99),
        }
    }
}

/// The time that requests spend within their polls and outside of them, in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct PollTimes {
    /// The mean time of a request within its polls, in which the request computes or blocks its worker.
    ///
    /// This is wall time, and includes time in which the system ran other threads.
    pub computing: Option<f64>,
    /// The mean time of a request outside of its polls, in which the request waits.
    pub waiting: Option<f64>,
    /// The longest poll, exact to a microsecond. For the window before, `None` once slices have left that window.
    pub longest: Option<f64>,
    /// The mean duration of a poll.
    pub mean: f64,
}

impl PollTimes {
    /// `mean` is the mean duration of the requests, in seconds.
    fn new(polls: &PollSums, mean: Option<f64>) -> Self {
        let part = |share: f64| mean.map(|mean| mean * share);
        Self {
            computing: polls.computing.and_then(part),
            waiting: polls.computing.and_then(|share| part(1.0 - share)),
            longest: polls.longest,
            mean: polls.mean,
        }
    }
}

/// Counts by outcome, sorted by the names of the outcomes. In JSON, an object.
#[derive(Debug)]
pub struct Outcomes(Vec<(&'static str, u64)>);

impl Outcomes {
    /// The counts of all outcomes that a context of this kind can have, including counts of 0.
    pub(super) fn new(kind: Kind, outcomes: OutcomeCounts) -> Self {
        let possible = |outcome| match outcome {
            Outcome::Failed | Outcome::Cancelled | Outcome::Panicked => true,
            Outcome::Completed => kind == Kind::Timer,
            _ => kind != Kind::Timer,
        };
        let mut counts = Vec::new();
        for outcome in Outcome::ALL {
            let count = outcomes.count(outcome);
            if possible(outcome) || count > 0 {
                sorted::entry(&mut counts, outcome.as_str(), || count);
            }
        }
        Self(counts)
    }

    /// The count of an outcome, such as `"2xx"`; 0 if a context of this kind cannot have this outcome.
    pub fn count(&self, name: &str) -> u64 {
        let count = self.iter().find(|(other, _)| *other == name);
        count.map_or(0, |(_, n)| n)
    }

    /// The names and their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }
}

impl Serialize for Outcomes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Number of requests with a status code.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct CodeCount {
    /// The status code, such as `429`; `none` for requests without a response, and `other` for all further codes.
    pub code: String,
    /// Number of requests.
    pub count: u64,
}

/// The codes with the most requests, most first, then `none` and `other`. The counts add up to `outcomes`. Timers have
/// no codes.
pub(super) fn code_counts(kind: Kind, codes: &Codes, outcomes: &OutcomeCounts) -> Vec<CodeCount> {
    if kind == Kind::Timer {
        return Vec::new();
    }
    let mut codes = codes.clone();
    codes.limit(MAX_CODES);
    let uncounted = outcomes.total().saturating_sub(codes.total());
    let none = [Outcome::Failed, Outcome::Cancelled, Outcome::Panicked];
    let none = none.map(|outcome| outcomes.count(outcome));
    let none = uncounted.min(none.iter().sum());
    // Records of another version of this crate may lack codes. Their responses count as `other`.
    let other = codes.other() + (uncounted - none);
    let named = codes.largest().into_iter();
    let named = named.map(|(code, count)| (code.to_string(), count));
    let last = [("none".to_owned(), none), ("other".to_owned(), other)];
    let all = named.chain(last).filter(|(_, count)| *count > 0);
    all.map(|(code, count)| CodeCount { code, count }).collect()
}

/// Number of requests with a kind of error.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct KindCount {
    /// The kind of error, by the name that the service gives; `<other>` for all further kinds.
    pub kind: Arc<str>,
    /// Number of requests, or of runs of a timer.
    pub count: u64,
}

/// The kinds with the most requests, most first, then `<other>`.
pub(super) fn kind_counts(kinds: &Kinds) -> Vec<KindCount> {
    let mut kinds = kinds.clone();
    kinds.limit(MAX_KINDS);
    let named = kinds.largest().into_iter();
    let named = named.map(|(kind, count)| (kind.clone(), count));
    let last = [(OTHER.into(), kinds.other())];
    let all = named.chain(last).filter(|(_, count)| *count > 0);
    all.map(|(kind, count)| KindCount { kind, count }).collect()
}

/// The samples of a context within a window.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// Number of requests, or of runs of a timer.
    pub count: u64,
    /// Samples per recorded second.
    pub per_second: Option<f64>,
    /// Number of errors.
    pub errors: u64,
    /// Errors divided by `count`, 0 to 1.
    pub error_share: Option<f64>,
    /// Statistics of the durations.
    #[serde(flatten)]
    pub times: Times,
    /// Sum of all durations, in seconds.
    pub total: f64,
    /// The share of the requests below the target, 0 to 1. The target is the context's own target, or else that of all
    /// requests. `None` for timers, and without a target.
    pub below_target: Option<f64>,
    /// Counts by outcome.
    pub outcomes: Outcomes,
    /// The time within polls and outside of them; `None` for timers, and if no polls were measured.
    pub polls: Option<PollTimes>,
}

impl Measured {
    fn new(kind: Kind, summary: &Summary, covered: &Covered) -> Self {
        let (times, count) = (&summary.times, summary.times.count);
        Self {
            count: count as u64,
            per_second: covered.per_second(count).filter(|_| count > 0.0),
            errors: summary.outcomes.errors,
            error_share: share(summary.outcomes.errors as f64, count),
            times: Times::new(times, summary.percentiles),
            total: times.sum,
            below_target: summary.below_target.filter(|_| kind != Kind::Timer),
            outcomes: Outcomes::new(kind, summary.outcomes),
            polls: (summary.polls).map(|polls| PollTimes::new(&polls, times.mean())),
        }
    }

    /// `None` if there are no samples.
    pub(super) fn of_sums(
        kind: Kind,
        sums: &Aggregate,
        covered: &Covered,
        target: Option<f64>,
    ) -> Option<Self> {
        let has_samples = sums.times.count > 0;
        has_samples.then(|| Self::new(kind, &Summary::new(sums, true, target), covered))
    }

    /// The samples of a slice, without rates.
    pub(super) fn in_slice(kind: Kind, sums: &Aggregate) -> Self {
        let summary = Summary::new(sums, true, None);
        Self::new(kind, &summary, &Covered::default())
    }

    /// The samples of a context in a part of a window, with the additions of other programs.
    pub(super) fn of_part(
        context: &ContextId,
        part: &PartSums,
        added: Option<&AccessTimeStats>,
    ) -> Option<Self> {
        let mut summary = part.get(context).map(Cow::Borrowed);
        if let Some(added) = added {
            let summary = summary.get_or_insert_default();
            summary.to_mut().times.merge(added);
        }
        let summary = summary.filter(|summary| summary.times.count >= 1.0)?;
        Some(Self::new(context.kind, &summary, &part.covered))
    }

    pub(super) fn none(kind: Kind) -> Self {
        Self::new(kind, &Summary::default(), &Covered::default())
    }
}
