//! A context in a window, compared with the window before: the only place where two windows are compared.

use serde::Serialize;

use super::measured::{Covered, Measured, PollTimes, share};
use crate::query::windows::sums::{PartSums, WindowSums};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::context::ContextId;

/// Fewest requests on each side of which a ratio says something, and of which a statistic of one window does.
pub const ENOUGH_REQUESTS: u64 = 20;

/// The same for the 99th percentile.
pub const ENOUGH_FOR_P99: u64 = 100;

/// The ratio of each measurement to that of the window before, or of another one: counts and totals per recorded
/// second. `None` unless both windows are mostly recorded and have [enough requests](ENOUGH_REQUESTS) of the context, and
/// where there is nothing to divide by.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Ratios {
    /// Of the count.
    pub count: Option<f64>,
    /// Of the errors.
    pub errors: Option<f64>,
    /// Of the share of errors.
    pub error_share: Option<f64>,
    /// Of the mean.
    pub mean: Option<f64>,
    /// Of the standard deviation.
    pub stddev: Option<f64>,
    /// Of the smallest access time.
    pub min: Option<f64>,
    /// Of the largest access time.
    pub max: Option<f64>,
    /// Of the median.
    pub p50: Option<f64>,
    /// Of the 95th percentile.
    pub p95: Option<f64>,
    /// Of the 99th percentile; both sides need [more requests](ENOUGH_FOR_P99).
    pub p99: Option<f64>,
    /// Of the sum of all access times.
    pub total: Option<f64>,
    /// Of the time within polls.
    pub computing: Option<f64>,
    /// Of the time outside of polls.
    pub waiting: Option<f64>,
}

impl Ratios {
    /// Compares what a context measured in two windows.
    pub(super) fn between(now: (&Measured, &Covered), before: (&Measured, &Covered)) -> Self {
        let ((now, covered), (old, old_covered)) = (now, before);
        let have = |requests: u64| now.count.min(old.count) >= requests;
        let are_recorded = covered.is_mostly_recorded() && old_covered.is_mostly_recorded();
        if !are_recorded || !have(ENOUGH_REQUESTS) {
            return Self::default();
        }
        let rate = |now: f64, old: f64| {
            let now = covered.per_second(now)?;
            share(now, old_covered.per_second(old)?)
        };
        let ratio = |now: Option<f64>, old: Option<f64>| share(now?, old?);
        let of_polls = |time: fn(&PollTimes) -> Option<f64>| {
            let of = |measured: &Measured| measured.polls.as_ref().and_then(time);
            ratio(of(now), of(old))
        };
        let p99 = have(ENOUGH_FOR_P99).then(|| ratio(now.times.p99, old.times.p99));
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
            p99: p99.flatten(),
            total: rate(now.total, old.total),
            computing: of_polls(|polls| polls.computing),
            waiting: of_polls(|polls| polls.waiting),
        }
    }
}

/// A context in a window, and in the window before.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    pub(super) now: Option<Measured>,
    pub(super) before: Option<Measured>,
    pub(super) change: Option<Ratios>,
}

impl Compared {
    pub(super) fn new(
        (now, covered): (Option<Measured>, &Covered),
        (before, old_covered): (Option<Measured>, &Covered),
    ) -> Self {
        let pair = now.as_ref().zip(before.as_ref());
        let change =
            pair.map(|(now, before)| Ratios::between((now, covered), (before, old_covered)));
        Self {
            now,
            before,
            change,
        }
    }
}

/// What a context measured in a window, and in the window before.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ComparedWindow {
    /// What the window covers.
    #[serde(flatten)]
    pub covered: Covered,
    /// The largest relative error of the percentiles of both windows.
    pub error: f64,
    /// What was measured in it.
    #[serde(flatten)]
    pub now: Measured,
    /// The window before.
    pub before: Before,
    /// `now` by `before`; `None` if the context had no requests in one of them.
    pub change: Option<Ratios>,
}

/// The window before, and what a context measured in it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Before {
    /// What the window covers.
    #[serde(flatten)]
    pub covered: Covered,
    /// What was measured in it.
    #[serde(flatten)]
    pub measured: Measured,
}

impl ComparedWindow {
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
            (measured(&sums.now), &covered),
            (measured(&sums.before), &old),
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
