//! What a context measured in a window, and what a window covers.

use serde::{Serialize, Serializer};

use crate::query::error::QueryError;
use crate::query::source::Source;
use crate::query::span::Span;
use crate::query::windows::points::longest_poll;
use crate::query::windows::sums::{PartSums, PollSums, Summary};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ContextId, Kind, method_and_path};
use tower_pulse_model::measures::Measure;
use tower_pulse_model::outcome::{Outcome, OutcomeCounts};
use tower_pulse_model::slices::Merge;
use tower_pulse_model::snapshot::HourSnapshot;
use tower_pulse_model::sorted;
use tower_pulse_model::window::{RecordedPart, Window as Slices, WindowSlices};

/// `part / whole`, if there is a whole.
pub(super) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Fewest samples on each side of which shares of errors are compared.
const MIN_SAMPLES: u64 = 10;

/// The smallest difference of two shares of errors that counts, their smallest ratio, and the standard errors that the
/// difference must be above, which chance makes once in some hundred pairs.
const ERRORS_BEYOND: f64 = 0.01;
const ERRORS_TIMES: f64 = 1.5;
const ERRORS_SURE: f64 = 3.0;

/// Whether samples fail more often than usual ones, beyond chance. Both are the number of errors and that of all.
pub(super) fn fails_more((errors, count): (u64, u64), (old_errors, old_count): (u64, u64)) -> bool {
    if count.min(old_count) < MIN_SAMPLES {
        return false;
    }
    let (n, old_n) = (count as f64, old_count as f64);
    let (share, usual) = (errors as f64 / n, old_errors as f64 / old_n);
    let pooled = (errors as f64 + old_errors as f64) / (n + old_n);
    let deviation = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / old_n)).sqrt();
    share >= ERRORS_TIMES * usual && share - usual >= ERRORS_BEYOND.max(ERRORS_SURE * deviation)
}

/// The name of a context, with its parts.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[non_exhaustive]
pub struct ContextName {
    /// The context: method and route template, or the name of a timer.
    pub context: String,
    /// Whether it stands for requests, for other code or for all requests.
    pub kind: Kind,
    /// The method of requests; `None` for all other contexts.
    pub method: Option<String>,
    /// The route template of requests; `None` for all other contexts.
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
}

impl From<&ContextId> for ContextName {
    fn from(id: &ContextId) -> Self {
        Self::new(&id.name, id.kind)
    }
}

/// Statistics of access times, in seconds. `None` where nothing was measured.
#[derive(Clone, Debug, Default, Serialize)]
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
    /// The median, with the relative error of the answer.
    pub p50: Option<f64>,
    /// The 95th percentile, with the relative error of the answer.
    pub p95: Option<f64>,
    /// The 99th percentile, with the relative error of the answer.
    pub p99: Option<f64>,
}

impl From<&HourSnapshot> for Times {
    fn from(hour: &HourSnapshot) -> Self {
        Self {
            mean: hour.times.mean(),
            stddev: hour.times.stddev(),
            min: hour.times.smallest(),
            max: hour.times.largest(),
            p50: hour.quantile(0.50),
            p95: hour.quantile(0.95),
            p99: hour.quantile(0.99),
        }
    }
}

impl From<&Summary> for Times {
    fn from(summary: &Summary) -> Self {
        let times = &summary.times;
        Self {
            mean: times.mean(),
            stddev: times.stddev(),
            min: times.smallest(),
            max: times.largest(),
            p50: summary.p50,
            p95: summary.p95,
            p99: summary.p99,
        }
    }
}

/// The polls of requests, in seconds: how long they compute, and how long they wait.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct PollTimes {
    /// The mean time of a request within its polls: while it computes, or blocks its worker thread. Wall time, with what
    /// the system has given to others meanwhile.
    pub computing: Option<f64>,
    /// The mean time of a request outside of its polls: while it waits.
    pub waiting: Option<f64>,
    /// The longest single poll, for which a worker thread was held, to the microsecond; `None` in the window before, once
    /// slices have left it.
    pub longest: Option<f64>,
    /// The mean of the polls.
    pub mean: f64,
}

impl PollTimes {
    /// Those of requests that take `mean` seconds.
    fn new(polls: &PollSums, mean: Option<f64>) -> Self {
        let of = |share: f64| mean.map(|mean| mean * share);
        Self {
            computing: polls.computing.and_then(of),
            waiting: polls.computing.and_then(|share| of(1.0 - share)),
            longest: polls.longest,
            mean: polls.mean,
        }
    }

    /// Those of the sums of a slice.
    pub(super) fn of(sums: &Aggregate) -> Option<Self> {
        let polls = PollSums::new(sums, Some(longest_poll(sums)))?;
        Some(Self::new(&polls, AccessTimeStats::from(&sums.times).mean()))
    }
}

/// Counts by the names of outcomes, sorted by name; an object in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes(Vec<(&'static str, u64)>);

impl Outcomes {
    /// Counts of the outcomes that a context of this kind can have, including zero counts.
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

    /// The count of an outcome, such as `"2xx"`; 0 if a context of this kind cannot have it.
    pub fn count(&self, name: &str) -> u64 {
        let counts = self.0.iter();
        counts
            .filter(|(other, _)| *other == name)
            .map(|(_, n)| n)
            .sum()
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

/// What a window covers.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Covered {
    /// Its start, in Unix seconds: that of its first slice.
    pub from: i64,
    /// Its end, in Unix seconds: that of its last slice, which may be in the future.
    pub to: i64,
    /// The share of the window until now that was recorded, 0 to 1.
    pub complete: f64,
    /// How many seconds of it were recorded. Rates are per recorded second.
    pub recorded_seconds: i64,
    /// For how many seconds of it the service was not running, after the first one that was recorded. It is 0 where the
    /// store cannot know, as in Redis.
    pub not_running_seconds: i64,
    /// How many requests are missing in it: all instances served them, and the store lost them, or their time was too far
    /// ahead of the store's.
    pub missing: u64,
}

/// The share of a window that must have been recorded for a comparison with another one.
const MOSTLY: f64 = 0.5;

impl Covered {
    /// Slices of the time that the store has recorded.
    pub(super) async fn read(
        source: &Source,
        slices: WindowSlices,
        span: &Span,
    ) -> Result<Self, QueryError> {
        let recorded = slices.covered(&span.recorded, span.recorded_until, span.now);
        Self::of_part(slices, recorded)
            .with_missing(source, span)
            .await
    }

    /// Reads which requests are missing, where no sums tell.
    pub(super) async fn with_missing(
        self,
        source: &Source,
        span: &Span,
    ) -> Result<Self, QueryError> {
        // Its own slices may be those of counters.
        let slices = Slices::Between(self.from, self.to).slices(span.tiers, span.now);
        let all = records(source, &ContextId::all(), slices).await?;
        let missing = all.measures.get(Measure::Missing);
        Ok(Self { missing, ..self })
    }

    /// Slices of which a part was recorded.
    pub(super) fn of_part(slices: WindowSlices, recorded: RecordedPart) -> Self {
        Self {
            from: slices.from,
            to: slices.to,
            complete: recorded.share(),
            recorded_seconds: recorded.seconds,
            not_running_seconds: recorded.not_running_seconds,
            missing: recorded.missing,
        }
    }

    /// Whether most of it was recorded, so that it can be compared.
    pub fn is_mostly_recorded(&self) -> bool {
        self.complete > MOSTLY
    }

    /// An amount per recorded second.
    pub(super) fn per_second(&self, amount: f64) -> Option<f64> {
        share(amount, self.recorded_seconds as f64)
    }

    /// An amount per recorded minute.
    pub(super) fn per_minute(&self, amount: f64) -> Option<f64> {
        self.per_second(60.0 * amount)
    }
}

impl From<&PartSums> for Covered {
    fn from(part: &PartSums) -> Self {
        Self::of_part(part.slices, part.recorded)
    }
}

/// What a context measured in some slices.
pub(super) async fn records(
    source: &Source,
    id: &ContextId,
    slices: WindowSlices,
) -> Result<Aggregate, QueryError> {
    let tier = slices.tier;
    let records = source.reader.records(id, tier.seconds, tier).await?;
    let mut sums = Aggregate::default();
    for slice in records.iter().filter(|slice| slices.contains(slice.start)) {
        sums.merge(&slice.sums);
    }
    Ok(sums)
}

/// The samples of a context within a window.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// Number of requests, or of runs of a timer.
    pub count: u64,
    /// Requests per recorded second.
    pub per_second: Option<f64>,
    /// How many of them are errors.
    pub errors: u64,
    /// Errors by count, 0 to 1.
    pub error_share: Option<f64>,
    /// Statistics of the access times.
    #[serde(flatten)]
    pub times: Times,
    /// Sum of all access times, in seconds.
    pub total: f64,
    /// The share of the requests below the target, 0 to 1; `None` for timers, and if there is no
    /// `target`.
    pub below_target: Option<f64>,
    /// Counts by outcome.
    pub outcomes: Outcomes,
    /// How long the requests compute, and how long they wait; `None` for timers, and where no polls were measured.
    pub polls: Option<PollTimes>,
}

impl Measured {
    /// The samples of a window. `None` if there are none.
    pub(super) fn of_summary(kind: Kind, summary: &Summary, covered: &Covered) -> Option<Self> {
        let Summary {
            times,
            outcomes,
            below_target,
            polls,
            ..
        } = summary;
        let count = times.count as u64;
        (count > 0).then(|| Self {
            count,
            per_second: covered.per_second(times.count),
            errors: outcomes.errors,
            error_share: share(outcomes.errors as f64, times.count),
            times: Times::from(summary),
            total: times.sum,
            below_target: below_target.filter(|_| kind != Kind::Timer),
            outcomes: Outcomes::new(kind, *outcomes),
            polls: polls.map(|polls| PollTimes::new(&polls, times.mean())),
        })
    }

    /// The samples of a context in a part of a window, with what other programs have added to it.
    pub(super) fn of_part(
        context: &ContextId,
        part: &PartSums,
        added: Option<&AccessTimeStats>,
    ) -> Option<Self> {
        let summary = match (part.get(context).copied(), added) {
            (Some(mut summary), Some(added)) => {
                summary.times.merge(added);
                summary
            }
            (None, Some(added)) => Summary::from(*added),
            (summary, None) => summary?,
        };
        Self::of_summary(context.kind, &summary, &Covered::from(part))
    }

    /// No samples.
    pub(super) fn none(kind: Kind) -> Self {
        Self {
            count: 0,
            per_second: None,
            errors: 0,
            error_share: None,
            times: Times::default(),
            total: 0.0,
            below_target: None,
            outcomes: Outcomes::new(kind, OutcomeCounts::default()),
            polls: None,
        }
    }
}
