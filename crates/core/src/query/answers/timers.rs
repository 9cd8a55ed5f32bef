//! Where the time of a context's requests goes: the timers that ran within them.

use serde::Serialize;

use super::measured::share;
use crate::query::error::QueryError;
use crate::query::source::Source;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::Kind;
use tower_pulse_model::timer_sums::{TimerSums, Timers};

/// The timers within the requests of a context, and the share of the requests' time that they cover.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RequestTimers {
    /// The largest share first.
    pub timers: Vec<RequestTimer>,
    /// The share of the time during which any timer ran, 0 to 1.
    pub timed_share: Option<f64>,
    /// The share of the time during which none ran, 0 to 1.
    pub untimed_share: Option<f64>,
    /// The time of a request during which none ran, in seconds.
    pub untimed_per_request: Option<f64>,
    /// The ratio of that to the window before, where both can be compared.
    pub untimed_change: Option<f64>,
}

/// A timer within the requests of a context.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RequestTimer {
    /// The name of the timer.
    pub timer: String,
    /// How often it ran.
    pub count: u64,
    /// How often it ran, by the number of all requests.
    pub per_request: Option<f64>,
    /// Number of requests within which it ran.
    pub requests: u64,
    /// Its durations added up, in seconds.
    pub total: f64,
    /// Seconds of the requests' time during which it ran.
    pub covered: f64,
    /// `covered` by the time of all requests, 0 to 1.
    pub share: Option<f64>,
    /// Seconds of `total` in which it ran beside itself, or on after the request.
    pub overlap: f64,
    /// The time of a request during which it ran, in seconds: `covered` by the number of all requests.
    pub seconds_per_request: Option<f64>,
    /// The ratio of that to the window before, where both can be compared.
    pub change: Option<f64>,
}

impl RequestTimers {
    /// The timers within the requests of a context of this kind. Only HTTP requests have some.
    pub(super) async fn new(
        source: &Source,
        kind: Kind,
        sums: &Aggregate,
    ) -> Result<Self, QueryError> {
        if kind != Kind::Http {
            return Ok(Self::default());
        }
        let mut timers = sums.timers.clone();
        timers.limit();
        let names = match timers.is_empty() {
            true => None,
            false => Some(source.reader.timer_names().await?),
        };
        let name = |id| {
            let name = names.as_ref().and_then(|names| names.get(&id));
            name.map_or_else(|| format!("<{id}>"), |name| name.to_string())
        };
        let requests = (sums.times.count, sums.times.sum);
        let mut rows: Vec<_> = (timers.iter())
            .map(|(id, timer)| RequestTimer::new(name(id), timer, &timers, requests))
            .collect();
        rows.sort_by(|a, b| {
            let by_share = b.covered.total_cmp(&a.covered);
            by_share.then_with(|| a.timer.cmp(&b.timer))
        });
        // Timers that ended late may be in a window that their requests have left.
        let timed = timers.covered.min(sums.times.sum);
        let untimed = sums.times.sum - timed;
        Ok(Self {
            timers: rows,
            timed_share: share(timed as f64, sums.times.sum as f64),
            untimed_share: share(untimed as f64, sums.times.sum as f64),
            untimed_per_request: share(untimed as f64 / 1e9, sums.times.count as f64),
            untimed_change: None,
        })
    }
}

impl RequestTimers {
    /// Sets the ratios to the window before.
    pub(super) fn compare(&mut self, before: &Self) {
        let ratio = |now: Option<f64>, before: Option<f64>| share(now?, before?);
        for timer in &mut self.timers {
            let old = before.timers.iter().find(|old| old.timer == timer.timer);
            let old = old.and_then(|old| old.seconds_per_request);
            timer.change = ratio(timer.seconds_per_request, old);
        }
        self.untimed_change = ratio(self.untimed_per_request, before.untimed_per_request);
    }
}

impl RequestTimer {
    /// `count` and `time` are those of all requests.
    fn new(timer: String, sums: &TimerSums, all: &Timers, (count, time): (u64, u64)) -> Self {
        // The sums of `<other>` add up several timers.
        let covered = sums.covered.min(all.covered).min(time);
        Self {
            timer,
            count: sums.count,
            per_request: share(sums.count as f64, count as f64),
            requests: sums.requests,
            total: sums.sum as f64 / 1e9,
            covered: covered as f64 / 1e9,
            share: share(covered as f64, time as f64),
            overlap: sums.sum.saturating_sub(covered) as f64 / 1e9,
            seconds_per_request: share(covered as f64 / 1e9, count as f64),
            change: None,
        }
    }
}
