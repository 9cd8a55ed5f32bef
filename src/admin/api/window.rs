//! The window that a request asks about, and the row of a context within it.

use serde::Serialize;

use super::super::params::Params;
use super::super::response::ApiError;
use super::{Outcomes, Times, outcomes};
use crate::model::access_time::AccessTimeStats;
use crate::model::context::{ContextId, Kind};
use crate::model::outcome::OutcomeCounts;
use crate::model::window::{NAMED, Window, WindowSlices};
use crate::query::Span;
use crate::query::window_sums::{PartSums, Summary, WindowSums};

/// The window that a request asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The current hour.
    Hour,
    /// The hour before.
    LastHour,
    /// Another window.
    Records(Window),
}

impl Asked {
    /// Reads `window`, or `from` and `to`. `None` if the request has none of them.
    pub(super) fn read(params: &Params, now: i64) -> Result<Option<Self>, ApiError> {
        let (from, to) = (params.time("from")?, params.time("to")?);
        let hours = [("hour", Self::Hour), ("last_hour", Self::LastHour)];
        let named = NAMED.map(|(name, seconds)| (name, Self::Records(Window::Last(seconds))));
        let window = match params.name("window")? {
            Some(_) => Some(params.choice("window", &[&hours[..], &named[..]].concat())?),
            None => None,
        };
        let Some(from) = from else {
            return match to {
                Some(_) => Err(ApiError::parameter("to", "to needs from")),
                None => Ok(window),
            };
        };
        if window.is_some() {
            let message = "from and window exclude each other";
            return Err(ApiError::parameter("from", message));
        }
        let to = to.unwrap_or(now.saturating_add(1));
        if from >= to || from > now {
            let message = "from must be before to, and not in the future";
            return Err(ApiError::parameter("from", message));
        }
        Ok(Some(Self::Records(Window::Between(from, to))))
    }

    /// The window of the records.
    pub(super) fn window(self) -> Window {
        match self {
            Self::Hour => Window::HoursAgo(0),
            Self::LastHour => Window::HoursAgo(1),
            Self::Records(window) => window,
        }
    }
}

/// What a window covers.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Covered {
    /// Start, in Unix seconds.
    pub(super) from: i64,
    /// End, in Unix seconds.
    pub(super) to: i64,
    /// The share of the window until now that was recorded, 0 to 1.
    pub(super) complete: f64,
    /// Seconds that were recorded.
    #[serde(skip)]
    pub(super) seconds: i64,
}

impl Covered {
    /// A window of the time that the store has recorded.
    pub(super) fn of(window: Window, span: Span) -> Self {
        Self::new(window.slices(span.now), span.created, span)
    }

    /// Slices that are recorded from `since` on.
    pub(super) fn new(slices: WindowSlices, since: i64, span: Span) -> Self {
        Self {
            from: slices.from,
            to: slices.to,
            complete: slices.complete(since, span.recorded_until, span.now),
            seconds: slices.covered(since, span.recorded_until, span.now),
        }
    }
}

impl From<&PartSums> for Covered {
    fn from(part: &PartSums) -> Self {
        Self {
            from: part.slices.from,
            to: part.slices.to,
            complete: part.complete,
            seconds: part.covered,
        }
    }
}

/// The samples of a context within a window.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    pub(super) count: u64,
    pub(super) errors: u64,
    /// Errors by count.
    pub(super) error_share: Option<f64>,
    #[serde(flatten)]
    pub(super) times: Times,
    /// Sum of all access times.
    pub(super) total: f64,
    /// The share of the requests below the target; `None` for timers, and if there is no target.
    pub(super) below_target: Option<f64>,
    pub(super) outcomes: Outcomes,
}

impl Measured {
    /// The samples of a window. `None` if there are none.
    pub(super) fn of_summary(kind: Kind, summary: &Summary) -> Option<Self> {
        let Summary {
            times,
            outcomes: counts,
            below_target,
            ..
        } = summary;
        let count = times.count as u64;
        (count > 0).then(|| Self {
            count,
            errors: counts.errors,
            error_share: share(counts.errors as f64, times.count),
            times: Times::from(summary),
            total: times.sum,
            below_target: below_target.filter(|_| kind != Kind::Timer),
            outcomes: outcomes(kind, *counts),
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
        Self::of_summary(context.kind, &summary)
    }

    /// No samples.
    pub(super) fn none(kind: Kind) -> Self {
        Self {
            count: 0,
            errors: 0,
            error_share: None,
            times: Times::default(),
            total: 0.0,
            below_target: None,
            outcomes: outcomes(kind, OutcomeCounts::default()),
        }
    }
}

/// `part / whole`, if there is a whole.
pub(super) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// The ratio of each measurement to that of the window before: counts and totals per recorded second.
/// `null` where the window before has nothing to compare with.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Change {
    pub(super) count: Option<f64>,
    pub(super) errors: Option<f64>,
    pub(super) error_share: Option<f64>,
    pub(super) mean: Option<f64>,
    pub(super) stddev: Option<f64>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p95: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) total: Option<f64>,
}

impl Change {
    /// Compares two windows, each with the seconds of it that were recorded.
    pub(super) fn between(now: (&Measured, i64), before: (&Measured, i64)) -> Self {
        let ((now, seconds), (old, old_seconds)) = (now, before);
        let rate = |now: f64, old: f64| {
            let now = share(now, seconds as f64)?;
            share(now, share(old, old_seconds as f64)?)
        };
        let ratio = |now: Option<f64>, old: Option<f64>| share(now?, old?);
        Self {
            count: rate(now.count as f64, old.count as f64),
            errors: rate(now.errors as f64, old.errors as f64),
            error_share: ratio(now.error_share, old.error_share),
            mean: ratio(now.times.mean, old.times.mean),
            stddev: ratio(now.times.stddev, old.times.stddev),
            min: ratio(now.times.min, old.times.min),
            max: ratio(now.times.max, old.times.max),
            p50: ratio(now.times.p50, old.times.p50),
            p95: ratio(now.times.p95, old.times.p95),
            p99: ratio(now.times.p99, old.times.p99),
            total: rate(now.total, old.total),
        }
    }
}

/// A window of the records, and what a context measured in it and in the window before.
#[derive(Debug, Serialize)]
pub(super) struct WindowOf {
    #[serde(flatten)]
    covered: Covered,
    /// The largest relative error of the percentiles.
    error: f64,
    #[serde(flatten)]
    now: Measured,
    before: Before,
    change: Option<Change>,
}

/// The window before, and what a context measured in it.
#[derive(Debug, Serialize)]
struct Before {
    #[serde(flatten)]
    covered: Covered,
    #[serde(flatten)]
    measured: Measured,
}

impl WindowOf {
    /// The window of a context, with what other programs have added to the hours that begin then.
    pub(super) fn new(
        sums: &WindowSums,
        context: &ContextId,
        added: &[(i64, AccessTimeStats)],
    ) -> Self {
        let kind = context.kind;
        let measured = |part: &PartSums| {
            let added = added.iter().find(|(start, _)| *start == part.slices.from);
            Measured::of_part(context, part, added.map(|(_, added)| added))
        };
        let (covered, old) = (Covered::from(&sums.now), Covered::from(&sums.before));
        let compared = Compared::new(
            (measured(&sums.now), covered.seconds),
            (measured(&sums.before), old.seconds),
        );
        Self {
            covered,
            error: sums.error(),
            now: compared.now.unwrap_or_else(|| Measured::none(kind)),
            before: Before {
                covered: old,
                measured: compared.before.unwrap_or_else(|| Measured::none(kind)),
            },
            change: compared.change,
        }
    }
}

/// A context in a window, and in the window before.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    pub(super) now: Option<Measured>,
    pub(super) before: Option<Measured>,
    pub(super) change: Option<Change>,
}

impl Compared {
    pub(super) fn new(
        (now, seconds): (Option<Measured>, i64),
        (before, old_seconds): (Option<Measured>, i64),
    ) -> Self {
        let pair = now.as_ref().zip(before.as_ref());
        let change =
            pair.map(|(now, before)| Change::between((now, seconds), (before, old_seconds)));
        Self {
            now,
            before,
            change,
        }
    }
}
