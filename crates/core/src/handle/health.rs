//! The health of an instance: the state of each stage, and warnings for the operator.

use std::sync::Mutex;
use std::time::Duration;

use super::Stages;
use crate::advice;
use crate::clock::{Clock, Tick};
use crate::condition::{Condition, Warning, conditions, texts};
use crate::flush::FlushStatus;
use crate::health::{
    ChangeHealth, CostHealth, FlushHealth, Health, QueueHealth, RecordingHealth, Status,
    StoreHealth,
};
use crate::recorder::FlushCounters;
use crate::skew::skew_warning;
use crate::task::{lock, seconds_per_minute};
use tower_pulse_model::amounts::Amounts;

impl Stages {
    pub(super) fn health(&self) -> Health {
        let flush = self.flusher.status();
        let fold = self.folder.status();
        if self.recorder.recording.is_closed() {
            // This drain counts the samples that came after the shutdown as dropped.
            self.recorder.drain();
        }
        let drain = &self.recorder.drain;
        let age = flush.contact_age;
        let unsent = self.flusher.unsent();
        let pending_age_seconds = unsent.map(|unsent| {
            let nanos = self.options.clock.now_nanos() - unsent.since.saturating_mul(1_000_000_000);
            (nanos as f64 / 1e9).max(0.0)
        });
        let interval = flush.interval.max(Duration::from_secs(1));
        let counters = drain.counters(|counters| counters.clone());
        let judge = self.judge.status();
        let changes = ChangeHealth::new(
            judge.until,
            judge.coverage,
            self.options.clock.now_seconds(),
        );
        let warnings = self.warnings();
        let recorded = counters.recorded.saturating_sub(counters.lost);
        Health {
            status: Status::at_age(age, interval),
            conditions: conditions(&warnings),
            warnings: texts(warnings),
            instance: flush.instance,
            completeness: completeness(recorded, counters.lost + counters.dropped),
            wrong_credentials: self.options.notices.wrong_credentials(),
            recording: RecordingHealth {
                recorded: recorded.samples,
                recorded_additions: recorded.additions,
                in_flight: self.recorder.recording.in_flight(),
                dropped: counters.dropped.samples,
                dropped_additions: counters.dropped.additions,
                overflowed: counters.overflowed,
                pending_series: drain.pending_series() + flush.series,
                drain_lag_seconds: counters.lag as f64 / 1e9,
                max_drain_lag_seconds: counters.max_lag as f64 / 1e9,
                queue: (self.recorder.queue.as_ref())
                    .map(|_| self.recorder.recording.queue_stats()),
            },
            flush: FlushHealth {
                interval_seconds: flush.last_interval.as_secs_f64(),
                last_flush_age_seconds: flush.flushed_age.map(|age| age.as_secs_f64()),
                pending_age_seconds,
                in_doubt_age_seconds: flush.in_doubt_age.map(|age| age.as_secs_f64()),
                errors: counters.flush_errors,
                replayed: counters.replayed,
                lost: counters.lost.samples,
                lost_additions: counters.lost.additions,
                lost_details: counters.lost.details,
                store_resets: counters.store_resets,
            },
            cleaning: lock(&self.flusher.cleaning).clone(),
            cost: CostHealth {
                recorder_bytes: self.recorder.bytes(),
                task_seconds_per_minute: seconds_per_minute(
                    &self.busy,
                    self.recorder.recording.age(),
                ),
                ..CostHealth::default()
            },
            fold: flush.fleet.fold_health(fold.is_leader),
            changes,
            store: StoreHealth {
                description: self.store.describe(),
                contact_age_seconds: age.map(|age| age.as_secs_f64()),
                last_error: counters.last_error.clone(),
                clock_skew_seconds: flush.skew,
            },
        }
    }

    pub(super) fn warnings(&self) -> Vec<Warning> {
        let (flush, clock) = (self.flusher.status(), &self.options.clock);
        let counters = self.recorder.drain.counters(|counters| counters.clone());
        let notices = &self.options.notices;
        let mut warnings = self.store_warnings(&flush, &counters);
        warnings.extend(self.store.conditions());
        let cleaning = lock(&self.flusher.cleaning).last_error.clone();
        warnings.extend(cleaning.map(|text| Condition::Cleaning.warning(text)));
        let fold = self.folder.status();
        if let Some(error) = fold.last_error {
            let text = format!("folding fails, and is retried automatically: {error}");
            warnings.push(Condition::Fold.warning(text));
        }
        warnings.extend(fold.history.map(|text| Condition::History.warning(text)));
        warnings.extend(flush.fleet.warnings(notices, clock));
        let whose = format!("this instance ({})", flush.instance);
        warnings.extend(skew_warning(&whose, flush.skew));
        if let Some(error) = self.judge.status().last_error {
            let text = format!(
                "changes are not detected, and detection is retried automatically: {error}"
            );
            warnings.push(Condition::Judgement.warning(text));
        }
        warnings.extend(notices.all(clock));
        warnings.extend(self.layer_warning());
        let spans = self.recorder.recording.spans.get();
        if spans.is_some_and(|spans| spans.hides_statements()) {
            let text = "the statements of sqlx are not timed: a filter of the whole subscriber hides `sqlx::query` at \
                        DEBUG. Give the filter to the layer that writes the log: `fmt::layer().with_filter(filter)`. In \
                        a service without sqlx, use `SpanTimers::statements(false)`";
            warnings.push(Condition::HiddenStatements.warning(text));
        }
        warnings.extend(self.recording_warnings(&counters));
        warnings.extend(self.queue_warnings());
        warnings
    }

    /// Warnings about calls of the store that fail. Each warning ends with the store's error.
    fn store_warnings(&self, flush: &FlushStatus, counters: &FlushCounters) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.store.explains_failures() {
            return warnings;
        }
        let waiting = |condition: Condition, text: &str, error: &str| {
            let unsent = self.flusher.unsent_amounts();
            condition.warning(format!("{text}, so this process keeps {unsent}: {error}"))
        };
        let age = (flush.contact_age).unwrap_or_else(|| self.recorder.recording.age());
        match &flush.heartbeat_error {
            Some(error) if error.kind().is_without_answer() => {
                let interval = flush.interval.max(Duration::from_secs(1));
                if age >= (3 * interval).max(AWAY_AFTER) {
                    let text = "the store has not answered for a while";
                    warnings.push(waiting(Condition::Unreachable, text, &error.to_string()));
                }
            }
            Some(error) => {
                let text = "this instance cannot show other instances that it is alive";
                warnings.push(Condition::Heartbeat.warning(format!("{text}: {error}")));
            }
            None => {}
        }
        let is_refused = flush.failed.is_some_and(|kind| !kind.is_without_answer());
        if let Some(error) = counters.last_error.as_ref().filter(|_| is_refused) {
            let text = "the store answers, but does not accept recorded data";
            warnings.push(waiting(Condition::Flush, text, error));
        }
        warnings
    }
}

/// The least time without an answer of the store before there is a warning.
const AWAY_AFTER: Duration = Duration::from_secs(5);

/// If the layer has recorded no request to a route for this time after the start, there is a warning.
const NO_ROUTES_AFTER: Duration = Duration::from_secs(10);

/// There is a warning if the wait is impossible or unreadable in at least one of this many requests. Fewer are no
/// problem, because a client may send any header.
const WARNED_ONE_IN: u64 = 100;

impl Stages {
    /// Warnings about impossible or unreadable waits in front of this instance, if many of the last requests have such
    /// a wait.
    fn queue_warnings(&self) -> Vec<Warning> {
        let (Some(_), Some(header)) = (&self.recorder.queue, &self.recorder.limits.queue_header)
        else {
            return Vec::new();
        };
        let queue = self
            .queue_since
            .counted(&self.options.clock, self.recorder.recording.queue_stats());
        let all = queue.timed + queue.too_long + queue.unreadable;
        let is_frequent = |count: u64| count > 0 && count.saturating_mul(WARNED_ONE_IN) >= all;
        let mut warnings = Vec::new();
        let mut add = |count: u64, text: String| {
            if is_frequent(count) {
                let text = format!("{count} of the last {all} requests {text}");
                warnings.push(Condition::QueueHeader.warning(text));
            }
        };
        add(
            queue.negative,
            format!(
                "came before the time in `{header}`, and their wait counts as 0: set the clocks of the proxy and of \
             this machine (NTP)"
            ),
        );
        add(
            queue.too_long,
            format!(
                "waited for more than a minute according to `{header}`, and these waits are not counted: let the proxy \
             replace the header that a client sends, and set the clocks (NTP)"
            ),
        );
        add(
            queue.unreadable,
            format!(
                "have a `{header}` that is no Unix time, and their waits are not counted: let the proxy replace the \
             header that a client sends"
            ),
        );
        warnings
    }
}

/// Counts of the requests with the queue-time header, at two earlier moments.
#[derive(Default)]
pub(super) struct QueueSince(Mutex<[Option<(Tick, QueueHealth)>; 2]>);

/// The least time between the two moments of [`QueueSince`].
const QUEUE_COUNTED_FOR: Duration = Duration::from_secs(4);

impl QueueSince {
    /// The counts since the older moment; since the start if there is no such moment yet.
    fn counted(&self, clock: &Clock, now: QueueHealth) -> QueueHealth {
        let mut since = lock(&self.0);
        let is_over = |(at, _): (Tick, _)| clock.since(at) >= QUEUE_COUNTED_FOR;
        if since[1].is_none_or(is_over) {
            *since = [since[1], Some((clock.tick(), now))];
        }
        let before = since[0].map_or_else(QueueHealth::default, |(_, before)| before);
        QueueHealth {
            timed: now.timed.saturating_sub(before.timed),
            negative: now.negative.saturating_sub(before.negative),
            too_long: now.too_long.saturating_sub(before.too_long),
            unreadable: now.unreadable.saturating_sub(before.unreadable),
        }
    }
}

impl Stages {
    /// The warning that the layer may not see the routes, or that the layer records no request to a route.
    fn layer_warning(&self) -> Option<Warning> {
        let recording = &self.recorder.recording;
        let is_due = recording.has_layer() && recording.age() >= NO_ROUTES_AFTER;
        let advice = match recording.has_unmatched() {
            true => advice::UNMATCHED,
            false if is_due && !self.recorder.drain.has_routes() => advice::NO_ROUTES,
            false => return None,
        };
        Some(Condition::Routes.warning(advice.to_string()))
    }

    fn recording_warnings(&self, counts: &FlushCounters) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let limits = &self.recorder.limits;
        let overflowed = counts.overflowed;
        let (has_many_contexts, has_many_counters) = self.recorder.recording.overflows();
        if has_many_contexts && overflowed > 0 {
            warnings.push(Condition::Overflow.warning(format!(
                "{overflowed} samples are counted as <overflow>, because there are more contexts than \
                 `max_contexts` ({}): let context functions return route templates or few fixed names, \
                 never raw paths, or raise `max_contexts`",
                limits.max_contexts
            )));
        }
        if has_many_counters {
            warnings.push(Condition::Overflow.warning(format!(
                "some counters are counted as <overflow>, because there are more names than \
                 `max_counters` ({}): name counters by what they count, not by an id, or raise \
                 `max_counters`",
                limits.max_counters
            )));
        }
        let (notices, clock) = (&self.options.notices, &self.options.clock);
        let has_grown = |condition, count| notices.has_grown(clock, condition, count, Some(0));
        if has_grown(Condition::StoreReset, counts.store_resets)
            && let Some(remedy) = self.store.reset_remedy()
        {
            warnings.push(Condition::StoreReset.warning(format!(
                "the store was reset or came back empty {}, and some or all earlier data is gone, except for \
                 calls that were sent again (`flush.replayed`): {remedy}",
                times(counts.store_resets),
            )));
        }
        let Amounts {
            samples,
            additions,
            details,
        } = counts.lost;
        let lost = samples.saturating_add(additions).saturating_add(details);
        if has_grown(Condition::Lost, lost) {
            warnings.push(Condition::Lost.warning(format!(
                "{} lost, because the store lost them, or was away at a shutdown or for too long: see the log \
                 for the time, use persistence and a replica, and raise `replay_bytes` to send more \
                 calls again after a failover",
                counts.lost
            )));
        }
        warnings
    }
}

/// The ratio `recorded / (recorded + missing)`: the smaller of the ratio of samples and the ratio of additions. Below 1
/// if anything is missing.
fn completeness(recorded: Amounts, missing: Amounts) -> f64 {
    if missing.is_zero() {
        return 1.0;
    }
    let share = |recorded: u64, missing: u64| match missing {
        0 => 1.0,
        missing => recorded as f64 / (recorded as f64 + missing as f64),
    };
    share(recorded.samples, missing.samples)
        .min(share(recorded.additions, missing.additions))
        .min(1.0_f64.next_down())
}

fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}
