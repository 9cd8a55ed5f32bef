//! The data of one context.

use serde::{Deserialize, Serialize};

use super::changes::{ChangeRow, changes_of};
use super::compared::ComparedWindow;
use super::hanging::in_flight_of;
use super::measured::{
    CodeCount, ContextName, KindCount, Outcomes, Times, code_counts, kind_counts,
};
use super::path_targets::{TargetBudget, target_of};
use super::slow_requests::{BothHours, both_hours};
use super::timers::{RequestTimers, TimerPath};
use super::worst_requests::{WorstRequests, worst_of};
use super::{check_given, of_kind};
use crate::advice::Advice;
use crate::query::book::added_hours;
use crate::query::question::or_any;
use crate::query::{Against, QueryError, Source, Window};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ContextId, Kind, UNMATCHED};
use tower_pulse_model::slow_request::SlowRequests;
use tower_pulse_model::snapshot::HourSnapshot;

/// The data of one context.
///
/// The answer to [`PathQuery`](crate::query::PathQuery). The JSON also has the hours, the timers, the requests to look
/// at, advice, and the context's own target.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Path {
    /// The context.
    #[serde(flatten)]
    pub name: ContextName,
    /// The current hour, UTC; `None` without samples.
    hour: Option<ContextHour>,
    /// The hour before; `None` without samples.
    last_hour: Option<ContextHour>,
    /// The non-empty buckets of the current hour, or of the hour before while the current hour has no samples. A bucket
    /// has two bounds in seconds, and a count.
    pub histogram: Vec<(f64, f64, u64)>,
    /// Counts by outcome in the hour of `histogram`.
    pub outcomes: Outcomes,
    /// Counts by status code in the hour of `histogram`, at most 16 codes, largest first.
    ///
    /// The counts add up to those of `outcomes`; timers have no codes.
    pub codes: Vec<CodeCount>,
    /// Counts by kind of error in the hour of `histogram`, at most 8 kinds, largest first.
    pub kinds: Vec<KindCount>,
    /// The 5 slowest requests of each hour, slowest first.
    slowest_requests: BothHours,
    /// The 5 newest failed requests of each hour, newest first.
    ///
    /// A request may be in both lists.
    failed_requests: BothHours,
    /// The changes of a page, or the changes in which a timer is a suspect; for the timer `queue`, the changes of
    /// `<queue>`. Ongoing changes come first.
    pub changes: Vec<ChangeRow>,
    /// The timers within the requests in the hour of `histogram`.
    #[serde(flatten)]
    timers: RequestTimers,
    /// Advice about the layer, if the context is `<unmatched>` or many requests are cancelled.
    ///
    /// The advice is about the window, or without a window about the hour of `histogram`.
    advice: Vec<Advice>,
    /// The context's own target, if it has one.
    path_target: Option<TargetBudget>,
    /// Requests in flight in all instances, as of their last heartbeats; `None` for timers, or if the number is
    /// unknown.
    ///
    /// An instance reports the 16 paths with the most requests in flight.
    pub in_flight: Option<u64>,
    /// The window, if the question has a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<PathWindow>,
}

/// The measurements of a context in a window, with histograms.
///
/// The JSON also has timers and the requests to look at.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct PathWindow {
    /// The measurements in the window and in the window before.
    #[serde(flatten)]
    pub window: ComparedWindow,
    /// The non-empty buckets. A bucket has two bounds in seconds, and a count.
    pub histogram: Vec<(f64, f64, u64)>,
    /// The non-empty buckets of the window before.
    pub histogram_before: Vec<(f64, f64, u64)>,
    /// Counts by status code, at most 16 codes, largest first.
    ///
    /// The counts add up to those of `outcomes`; timers have no codes.
    pub codes: Vec<CodeCount>,
    /// Counts by kind of error, at most 8 kinds, largest first.
    pub kinds: Vec<KindCount>,
    /// The timers within the requests.
    #[serde(flatten)]
    timers: RequestTimers,
    /// The timers within the requests of the window before.
    timers_before: RequestTimers,
    /// The requests to look at first.
    worst_requests: WorstRequests,
    /// For a timer, the paths whose requests ran it, at most 100; empty for other contexts.
    ///
    /// A path is missing if the timer is not among the 16 timers that take most of the path's time.
    run_by: Vec<TimerPath>,
}

/// An hour of a context.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ContextHour {
    /// When the hour began, in Unix seconds.
    pub start: i64,
    /// Number of samples.
    pub count: u64,
    /// Statistics of the durations.
    #[serde(flatten)]
    pub times: Times,
    /// Sum of all durations, in seconds.
    pub total: f64,
    /// Number of errors.
    pub errors: u64,
}

impl ContextHour {
    fn new(hour: &HourSnapshot) -> Self {
        let HourSnapshot {
            start,
            times,
            aggregate,
        } = hour;
        Self {
            start: *start,
            // Stores hold counts as floats. An invalid count, below zero or NaN, counts as 0.
            count: times.count as u64,
            times: Times::new(times, aggregate.percentiles(times)),
            total: times.sum,
            errors: aggregate.outcomes.errors,
        }
    }
}

/// Asks for one context.
/// The answer is [`Path`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PathQuery {
    /// The context.
    pub context: String,
    /// The kind of the context. Without a kind, a page is preferred to a timer.
    #[serde(deserialize_with = "or_any")]
    pub kind: Option<Kind>,
    /// If set, the answer also has this window.
    pub window: Option<Window>,
    /// The window with which `window` is compared.
    pub against: Against,
}

pub(in crate::query) async fn path(source: &Source, query: &PathQuery) -> Result<Path, QueryError> {
    let context = &*query.context;
    check_given("context", context)?;
    let snapshots = source.contexts(context).await?;
    let snapshot = of_kind(&snapshots, query.kind);
    let snapshot = snapshot.ok_or(QueryError::NotFound("no path or timer has this name"))?;
    let id = ContextId::new(snapshot.kind, context);
    let aggregate = aggregate(snapshot.hour.as_ref(), snapshot.last_hour.as_ref());
    let nothing = Aggregate::default();
    let of_hour = aggregate.unwrap_or(&nothing);
    let mut outcomes = of_hour.outcomes;
    let window = match query.window {
        Some(window) => {
            let sums = source.compared(window, query.against).await?;
            // The book has statistics for hours only.
            let added = match window.is_hour() {
                true => added_hours(snapshot),
                false => Vec::new(),
            };
            let compared = source.compared_of(window, query.against, &id);
            let [now, before] = compared.await?;
            outcomes = now.outcomes;
            let window_of = ComparedWindow::new(&sums, &id, &added);
            let mut timers = RequestTimers::new(source, id.kind, &now).await?;
            let timers_before = RequestTimers::new(source, id.kind, &before).await?;
            timers.set_errors(&sums.now, &sums.before);
            if (window_of.change.as_ref()).is_some_and(|change| change.times.mean.is_some()) {
                timers.compare(&timers_before);
            }
            Some(PathWindow {
                window: window_of,
                histogram: now.histogram.ranges().collect(),
                histogram_before: before.histogram.ranges().collect(),
                codes: code_counts(id.kind, &now.codes, &now.outcomes),
                kinds: kind_counts(&now.kinds),
                timers,
                timers_before,
                run_by: match id.kind {
                    Kind::Timer => TimerPath::of(source, window, &id).await?,
                    _ => Vec::new(),
                },
                worst_requests: match id.kind {
                    Kind::Http => worst_of(source, context, window).await?,
                    _ => WorstRequests::default(),
                },
            })
        }
        None => None,
    };
    let listed = both_hours(source, &id).await?;
    Ok(Path {
        window,
        timers: RequestTimers::new(source, snapshot.kind, of_hour).await?,
        name: ContextName::of(&id),
        hour: snapshot.hour.as_ref().map(ContextHour::new),
        last_hour: snapshot.last_hour.as_ref().map(ContextHour::new),
        histogram: of_hour.histogram.ranges().collect(),
        outcomes: Outcomes::new(snapshot.kind, of_hour.outcomes),
        codes: code_counts(id.kind, &of_hour.codes, &of_hour.outcomes),
        kinds: kind_counts(&of_hour.kinds),
        advice: match id.kind {
            Kind::Http => Advice::about(&outcomes, context == UNMATCHED),
            _ => Vec::new(),
        },
        slowest_requests: BothHours::new(source, &listed, SlowRequests::slowest).await?,
        failed_requests: BothHours::new(source, &listed, SlowRequests::failed).await?,
        changes: changes_of(source, &id).await?,
        path_target: target_of(source, &id).await?,
        in_flight: match id.kind {
            Kind::Http => in_flight_of(source, &id).await?,
            _ => None,
        },
    })
}

/// The aggregate of the current hour, or of the last hour while the current hour has no samples.
fn aggregate<'a>(
    hour: Option<&'a HourSnapshot>,
    last_hour: Option<&'a HourSnapshot>,
) -> Option<&'a Aggregate> {
    let has_samples =
        |hour: &&HourSnapshot| hour.times.count > 0.0 || !hour.aggregate.histogram.is_empty();
    let hour = hour.filter(has_samples).or(last_hour).or(hour);
    hour.map(|hour| &hour.aggregate)
}
