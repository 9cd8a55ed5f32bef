//! Compares a context in a window with the window before.

use serde::Serialize;

use super::measured::{Measured, PollTimes, Times, ratio};
use crate::query::span::Covered;
use crate::query::windows::sums::{PartSums, WindowSums};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::context::ContextId;

/// The fewest requests from which a statistic is meaningful. A ratio needs this number in both windows.
pub const ENOUGH_REQUESTS: u64 = 20;

/// The fewest requests from which a 99th percentile is meaningful. A ratio needs this number in both windows.
pub const ENOUGH_FOR_P99: u64 = 100;

/// Each measurement divided by the same measurement of another window, by default of the window before. Counts and
/// totals are compared per recorded second. A ratio is `None` if the divisor is zero, if half of a window or more was
/// not recorded, or if a window has fewer than [20 requests](ENOUGH_REQUESTS) of the context.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Ratios {
    /// The ratio of the numbers of requests.
    pub count: Option<f64>,
    /// The ratio of the numbers of errors.
    pub errors: Option<f64>,
    /// The ratio of the shares of errors.
    pub error_share: Option<f64>,
    /// The ratio of each statistic of the durations. These are ratios, not seconds. `p99` needs at least [100
    /// requests](ENOUGH_FOR_P99) in both windows.
    #[serde(flatten)]
    pub times: Times,
    /// The ratio of the sums of all durations.
    pub total: Option<f64>,
    /// The ratio of the mean times within polls.
    pub computing: Option<f64>,
    /// The ratio of the mean times outside of polls.
    pub waiting: Option<f64>,
}

impl Ratios {
    fn between(
        (now, covered): (&Measured, &Covered),
        (old, before): (&Measured, &Covered),
    ) -> Self {
        let both_have = |requests: u64| now.count.min(old.count) >= requests;
        let are_recorded = covered.is_mostly_recorded() && before.is_mostly_recorded();
        if !are_recorded || !both_have(ENOUGH_REQUESTS) {
            return Self::default();
        }
        let rate = |now, old| ratio(covered.per_second(now), before.per_second(old));
        let of_polls = |time: fn(&PollTimes) -> Option<f64>| {
            let time_of = |measured: &Measured| measured.polls.as_ref().and_then(time);
            ratio(time_of(now), time_of(old))
        };
        let times = now.times.divided_by(&old.times);
        Self {
            count: rate(now.count as f64, old.count as f64),
            errors: rate(now.errors as f64, old.errors as f64),
            error_share: ratio(now.error_share, old.error_share),
            times: Times {
                p99: times.p99.filter(|_| both_have(ENOUGH_FOR_P99)),
                ..times
            },
            total: rate(now.total, old.total),
            computing: of_polls(|polls| polls.computing),
            waiting: of_polls(|polls| polls.waiting),
        }
    }
}

/// A context in a window, and in the window before.
pub(super) struct Compared {
    pub(super) now: Option<Measured>,
    pub(super) before: Option<Measured>,
    pub(super) change: Option<Ratios>,
}

impl Compared {
    /// `added` returns the additions of other programs to the hour that begins at the given time.
    pub(super) fn of<'a>(
        context: &ContextId,
        sums: &WindowSums,
        added: impl Fn(i64) -> Option<&'a AccessTimeStats>,
    ) -> Self {
        let measured = |part: &PartSums| Measured::of_part(context, part, added(part.covered.from));
        let (now, before) = (measured(&sums.now), measured(&sums.before));
        let (covered, old) = (&sums.now.covered, &sums.before.covered);
        let pair = now.as_ref().zip(before.as_ref());
        Self {
            change: pair.map(|(now, before)| Ratios::between((now, covered), (before, old))),
            now,
            before,
        }
    }

    pub(super) fn mean_ratio(&self) -> Option<f64> {
        self.change.as_ref()?.times.mean
    }
}

/// The measurements of a context in a window and in the window before.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ComparedWindow {
    /// The time that the window covers.
    #[serde(flatten)]
    pub covered: Covered,
    /// The largest relative error of the percentiles of both windows.
    pub error: f64,
    /// The measurements in the window.
    #[serde(flatten)]
    pub now: Measured,
    /// The window before, or the window that the question names.
    pub before: Before,
    /// The measurements in the window divided by those of `before`; `None` if one of the windows has no requests.
    pub change: Option<Ratios>,
}

/// The measurements of a context in the window before.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Before {
    /// The time that the window covers.
    #[serde(flatten)]
    pub covered: Covered,
    /// The measurements in the window.
    #[serde(flatten)]
    pub measured: Measured,
}

impl ComparedWindow {
    /// `added` has the additions of other programs to hours, each with the start of its hour.
    pub(super) fn new(
        sums: &WindowSums,
        context: &ContextId,
        added: &[(i64, AccessTimeStats)],
    ) -> Self {
        let added = |from| Some(&added.iter().find(|(start, _)| *start == from)?.1);
        let compared = Compared::of(context, sums, added);
        let measured = |m: Option<Measured>| m.unwrap_or_else(|| Measured::none(context.kind));
        Self {
            covered: sums.now.covered,
            error: sums.error(),
            now: measured(compared.now),
            before: Before {
                covered: sums.before.covered,
                measured: measured(compared.before),
            },
            change: compared.change,
        }
    }
}
