//! The timers that ran within the requests of a context, and the time that the timers took.

use serde::Serialize;

use super::compared::Compared;
use super::measured::{ContextName, ratio, share};
use crate::query::store_reader::Names;
use crate::query::windows::sums::{PartSums, RunningTimer, WindowSums};
use crate::query::{QueryError, Source, Window};
use tower_pulse_detect::suspects::fails_more;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ContextId, Kind, QUEUED};
use tower_pulse_model::order::{InOrder, keep_first};
use tower_pulse_model::records::RecordId;
use tower_pulse_model::timer_sums::{OTHER, TimerSums, Timers, is_repeated, queue};

/// The timers within the requests of a context, and the share of the requests' time that the timers cover.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RequestTimers {
    /// The timers, largest share first.
    pub timers: Vec<RequestTimer>,
    /// The share of the requests' time in which a timer ran, 0 to 1.
    pub timed_share: Option<f64>,
    /// The share of the requests' time in which no timer ran, 0 to 1.
    pub untimed_share: Option<f64>,
    /// The mean time per request in which no timer ran, in seconds.
    pub untimed_per_request: Option<f64>,
    /// `untimed_per_request` divided by its value in the window before.
    pub untimed_change: Option<f64>,
    /// The wait in front of the service, which is not part of the requests' time; `None` if no header has the wait.
    pub queue: Option<QueueWait>,
}

/// The time that requests waited in front of the service, according to `Builder::queue_time_header`.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct QueueWait {
    /// Number of requests with a known wait.
    pub requests: u64,
    /// The sum of these waits, in seconds.
    pub total: f64,
    /// The mean wait, in seconds.
    pub mean: Option<f64>,
    /// `mean` divided by its value in the window before.
    pub change: Option<f64>,
}

impl QueueWait {
    fn new(sums: &TimerSums) -> Self {
        let total = sums.sum as f64 / 1e9;
        Self {
            requests: sums.requests,
            total,
            mean: share(total, sums.count as f64),
            change: None,
        }
    }

    pub(super) fn of_all(sums: &WindowSums) -> Option<Self> {
        let compared = Compared::of(&ContextId::of_judged(QUEUED), sums, |_| None);
        let change = compared.mean_ratio();
        compared.now.map(|now| Self {
            requests: now.count,
            total: now.total,
            mean: now.times.mean,
            change,
        })
    }
}

/// A timer within the requests of a context.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct RequestTimer {
    /// The name of the timer.
    pub timer: String,
    /// Number of runs.
    pub count: u64,
    /// `count` divided by the number of all requests.
    pub per_request: Option<f64>,
    /// Number of requests within which the timer ran.
    pub requests: u64,
    /// The sum of the durations of the runs, in seconds.
    pub total: f64,
    /// The time of the requests during which the timer ran, in seconds.
    pub covered: f64,
    /// `covered` divided by the time of all requests, 0 to 1.
    pub share: Option<f64>,
    /// The part of `total` in which runs overlapped or outlasted the request, in seconds.
    pub overlap: f64,
    /// `covered` divided by the number of all requests, in seconds.
    pub seconds_per_request: Option<f64>,
    /// `seconds_per_request` divided by its value in the window before.
    pub change: Option<f64>,
    /// Number of runs in the window that failed, on all paths; `None` without a window.
    pub errors: Option<u64>,
    /// `errors` divided by all runs on all paths, 0 to 1.
    pub error_share: Option<f64>,
    /// Whether the timer fails more often than in the window before, beyond chance.
    pub failing: bool,
    /// Whether the timer runs more than 20 times per request.
    pub repeated: bool,
}

const MAX_TIMER_PATHS: usize = 100;

/// A path within whose requests a timer ran.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TimerPath {
    /// The path.
    #[serde(flatten)]
    pub name: ContextName,
    /// Number of requests of the path.
    pub requests: u64,
    /// Number of runs of the timer within these requests.
    pub count: u64,
    /// `count` divided by `requests`.
    pub per_request: Option<f64>,
    /// The mean duration of these runs, in seconds.
    pub mean: Option<f64>,
    /// The share of the path's time during which the timer ran, 0 to 1.
    pub share: Option<f64>,
    /// The mean time per request during which the timer ran, in seconds.
    pub seconds_per_request: Option<f64>,
    /// The share of the timer's total time within this path, 0 to 1.
    pub share_of_timer: Option<f64>,
    /// Whether the path runs the timer more than 20 times per request.
    pub repeated: bool,
}

impl TimerPath {
    /// Paths on which the timer takes most time come first. A path is missing if the timer is not among the 16 timers
    /// that take most of the path's time.
    pub(super) async fn of(
        source: &Source,
        window: Window,
        timer: &ContextId,
    ) -> Result<Vec<Self>, QueryError> {
        let id = RecordId::new(timer.kind, &timer.name);
        let running = source.running(window, id).await?;
        let whole: f64 = running.iter().map(|r| r.timer.sum as f64).sum();
        let mut running: Vec<&RunningTimer> = running.iter().collect();
        keep_first(&mut running, MAX_TIMER_PATHS, |a, b| {
            let by_time = b.timer.sum.cmp(&a.timer.sum);
            by_time.then_with(|| a.context.name.cmp(&b.context.name))
        });
        Ok(running.into_iter().map(|r| Self::new(r, whole)).collect())
    }

    /// `whole` is the time of the timer on all paths, in nanoseconds.
    fn new(running: &RunningTimer, whole: f64) -> Self {
        let (timer, requests) = (&running.timer, running.times.count as f64);
        // A timer that ended after its request may be in a window that lacks the request.
        let covered = timer.covered.min(running.times.sum) as f64;
        Self {
            name: ContextName::of(&running.context),
            requests: running.times.count,
            count: timer.count,
            per_request: share(timer.count as f64, requests),
            mean: share(timer.sum as f64 / 1e9, timer.count as f64),
            share: share(covered, running.times.sum as f64),
            seconds_per_request: share(covered / 1e9, requests),
            share_of_timer: share(timer.sum as f64, whole),
            repeated: is_repeated(timer.count, running.times.count),
        }
    }
}

/// The name of a timer, or its id if the name is unknown.
pub(super) fn timer_name(names: Option<&Names>, id: RecordId) -> String {
    let name = names.and_then(|names| names.get(&id));
    name.map_or_else(|| format!("<{id}>"), |name| name.to_string())
}

impl RequestTimers {
    /// Only HTTP requests have timers.
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
        // A timer of the application may have the name of the timer of the wait. Such a timer covers a part of the
        // requests' time, unlike the wait.
        let queue_id = queue();
        let queue = timers.get(queue_id).filter(|sums| sums.covered == 0);
        let queue = queue.copied();
        let names = match timers.is_empty() {
            true => None,
            false => Some(source.names().await?),
        };
        let name = |id| timer_name(names.as_deref(), id);
        let requests = (sums.times.count, sums.times.sum);
        let within = timers.iter();
        let within = within.filter(|(id, _)| queue.is_none() || *id != queue_id);
        let rows = within.map(|(id, sums)| RequestTimer::new(name(id), sums, &timers, requests));
        let mut rows: Vec<_> = rows.collect();
        rows.order_by(|a, b| {
            let by_share = b.covered.total_cmp(&a.covered);
            by_share.then_with(|| a.timer.cmp(&b.timer))
        });
        let timed = timers.covered.min(sums.times.sum);
        let untimed = sums.times.sum - timed;
        Ok(Self {
            timers: rows,
            timed_share: share(timed as f64, sums.times.sum as f64),
            untimed_share: share(untimed as f64, sums.times.sum as f64),
            untimed_per_request: share(untimed as f64 / 1e9, sums.times.count as f64),
            untimed_change: None,
            queue: queue.as_ref().map(QueueWait::new),
        })
    }

    /// Sets the errors of the timers in a window, on all paths, and whether they fail more often than in the window
    /// before.
    pub(super) fn set_errors(&mut self, sums: &PartSums, before: &PartSums) {
        for timer in &mut self.timers {
            let id = ContextId::new(Kind::Timer, timer.timer.as_str());
            let errors = |part: &PartSums| {
                let all = part.get(&id)?;
                Some((all.outcomes.errors, all.times.count as u64))
            };
            let Some((now, count)) = errors(sums) else {
                continue;
            };
            timer.errors = Some(now);
            timer.error_share = share(now as f64, count as f64);
            timer.failing = errors(before).is_some_and(|old| fails_more((now, count), old));
        }
    }

    pub(super) fn compare(&mut self, before: &Self) {
        for timer in &mut self.timers {
            let old = before.timers.iter().find(|old| old.timer == timer.timer);
            let old = old.and_then(|old| old.seconds_per_request);
            timer.change = ratio(timer.seconds_per_request, old);
        }
        self.untimed_change = ratio(self.untimed_per_request, before.untimed_per_request);
        if let (Some(queue), Some(before)) = (&mut self.queue, &before.queue) {
            queue.change = ratio(queue.mean, before.mean);
        }
    }
}

impl RequestTimer {
    /// `count` and `time` are the number and the time of all requests.
    fn new(timer: String, sums: &TimerSums, all: &Timers, (count, time): (u64, u64)) -> Self {
        // The sums of `<other>` combine several timers, which may run at the same time.
        let covered = sums.covered.min(all.covered).min(time);
        Self {
            repeated: timer != OTHER && is_repeated(sums.count, count),
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
            errors: None,
            error_share: None,
            failing: false,
        }
    }
}
