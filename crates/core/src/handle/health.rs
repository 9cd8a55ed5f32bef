//! The health of an instance: the state of each stage, and warnings for the operator.

use std::sync::PoisonError;
use std::time::Duration;

use super::Stages;
use crate::advice;
use crate::health::{
    ChangeHealth, FlushHealth, Health, QueueHealth, RecordingHealth, Status, StoreHealth,
    one_per_cause,
};
use crate::recorder::{DrainStats, FlushCounters};
use tower_pulse_model::amounts::Amounts;

impl Stages {
    pub(super) fn health(&self) -> Health {
        let flush = self.flusher.status();
        let fold = self.folder.status();
        if self.recorder.recording.is_closed() {
            // Samples that came after the end are counted as dropped.
            self.recorder.drain();
        }
        let drain = self.recorder.drain.drain_stats();
        let age = flush.contact_age;
        let unsent = self.flusher.unsent();
        let pending_age_seconds = unsent.map(|unsent| {
            let nanos = self.options.clock.now_nanos() - unsent.since.saturating_mul(1_000_000_000);
            (nanos as f64 / 1e9).max(0.0)
        });
        let interval = flush.interval.max(Duration::from_secs(1));
        let mut warnings = self.store.warnings();
        // A store in this process says by itself why it is another one.
        let has_told_reset = self.store.is_in_process() && !warnings.is_empty();
        {
            let cleaning = self.cleaning.lock();
            warnings.extend(cleaning.unwrap_or_else(PoisonError::into_inner).warnings());
        }
        if let Some(error) = fold.last_error {
            warnings.push(format!("folding fails, and is tried again: {error}"));
        }
        warnings.extend(fold.upkeep_failures);
        warnings.extend(fold.history);
        warnings.extend(flush.fleet.warnings());
        let judge = self.judge.status();
        let changes = ChangeHealth::new(judge.until, judge.sight, self.options.clock.now_seconds());
        if let Some(error) = judge.last_error {
            warnings.push(format!(
                "changes are not detected, which is tried again: {error}"
            ));
        }
        warnings.extend(self.options.notices.all(&self.options.clock));
        warnings.extend(self.layer_warning());
        self.recorder.drain.counters(|counters| {
            warnings.extend(self.recording_warnings(&drain, counters, has_told_reset));
            warnings.extend(self.queue_warnings());
            let recorded = counters.recorded.saturating_sub(counters.lost);
            Health {
                status: Status::at_age(age, interval),
                warnings: one_per_cause(warnings),
                instance: flush.instance,
                completeness: completeness(recorded, counters.lost + drain.dropped),
                wrong_credentials: self.options.notices.wrong_credentials(),
                recording: RecordingHealth {
                    recorded: recorded.requests,
                    recorded_additions: recorded.additions,
                    in_flight: self.recorder.recording.in_flight(),
                    dropped: drain.dropped.requests,
                    dropped_additions: drain.dropped.additions,
                    overflowed: drain.overflowed,
                    pending_series: drain.pending + flush.series,
                    drain_lag_seconds: drain.lag,
                    max_drain_lag_seconds: drain.max_lag,
                    queue: self.queue_health(),
                },
                flush: FlushHealth {
                    interval_seconds: flush.last_interval.as_secs_f64(),
                    last_flush_age_seconds: flush.flushed_age.map(|age| age.as_secs_f64()),
                    pending_age_seconds,
                    in_doubt_age_seconds: flush.in_doubt_age.map(|age| age.as_secs_f64()),
                    errors: counters.flush_errors,
                    replayed: counters.replayed,
                    lost: counters.lost.requests,
                    lost_additions: counters.lost.additions,
                    lost_details: counters.lost.details,
                    store_resets: counters.store_resets,
                },
                fold: flush.fleet.fold_health(fold.is_folder),
                changes,
                store: StoreHealth {
                    description: self.store.describe(),
                    contact_age_seconds: age.map(|age| age.as_secs_f64()),
                    last_error: counters.last_error.clone(),
                },
            }
        })
    }
}

/// How long after the start a layer without any request to a route is worth a warning.
const NO_ROUTES_AFTER: Duration = Duration::from_secs(10);

/// One of so many requests whose wait makes no sense is worth a warning: a client may send anything now and then.
const SENSELESS_OF: u64 = 100;

impl Stages {
    /// What the header of the queue in front has told, if it is read.
    fn queue_health(&self) -> Option<QueueHealth> {
        let is_read = self.recorder.queue.is_some();
        is_read.then(|| {
            let stats = self.recorder.recording.queue_stats();
            QueueHealth {
                timed: stats.timed,
                negative: stats.negative,
                too_long: stats.too_long,
                unreadable: stats.unreadable,
            }
        })
    }

    /// Waits in front of this instance that make no sense, if they are more than a few: what to do.
    fn queue_warnings(&self) -> Vec<String> {
        let (Some(queue), Some(header)) = (self.queue_health(), &self.recorder.limits.queue_header)
        else {
            return Vec::new();
        };
        let all = queue.timed + queue.too_long + queue.unreadable;
        let is_worth = |count: u64| count > 0 && count.saturating_mul(SENSELESS_OF) >= all;
        let mut warnings = Vec::new();
        if is_worth(queue.negative) {
            warnings.push(format!(
                "{} of {all} requests came before their proxy took them, by `{header}`, and their wait counts as 0: \
                 set the clocks of the proxy and of this machine (NTP)",
                queue.negative
            ));
        }
        if is_worth(queue.too_long) {
            warnings.push(format!(
                "{} of {all} requests waited for more than a minute, by `{header}`, which is not counted: let the \
                 proxy replace the header that a client sends, and set the clocks (NTP)",
                queue.too_long
            ));
        }
        if is_worth(queue.unreadable) {
            warnings.push(format!(
                "{} of {all} requests have a `{header}` that is no Unix time, which is not counted: let the proxy \
                 replace the header that a client sends",
                queue.unreadable
            ));
        }
        warnings
    }
}

impl Stages {
    /// Why requests have no route, or none is recorded, where the layer is in use.
    fn layer_warning(&self) -> Option<String> {
        let recording = &self.recorder.recording;
        if recording.has_warned_unmatched() {
            return Some(advice::UNMATCHED.to_string());
        }
        let is_due = recording.has_layer() && recording.age() >= NO_ROUTES_AFTER;
        (is_due && !self.recorder.drain.has_routes()).then(|| advice::NO_ROUTES.to_string())
    }

    /// Requests without a context of their own, and what is gone: what happened and what to do.
    fn recording_warnings(
        &self,
        drain: &DrainStats,
        counts: &FlushCounters,
        has_told_reset: bool,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        let limits = &self.recorder.limits;
        let (contexts, counters) = self.recorder.recording.overflows();
        if contexts && drain.overflowed > 0 {
            warnings.push(format!(
                "{} requests are counted as <overflow>, since there are more contexts than \
                 `max_contexts` ({}): let context functions return route templates or few fixed names, \
                 never raw paths, or raise `max_contexts`",
                drain.overflowed, limits.max_contexts
            ));
        }
        if counters {
            warnings.push(format!(
                "some counters are counted as <overflow>, since there are more names than \
                 `max_counters` ({}): name counters by what they count, not by an id, or raise \
                 `max_counters`",
                limits.max_counters
            ));
        }
        if counts.store_resets > 0 && !has_told_reset {
            warnings.push(format!(
                "the store was reset or came back empty {}, and its earlier data is gone except for calls \
                 that were sent again (`replayed`): look for FLUSHALL, a restart without persistence, \
                 evictions (use `maxmemory-policy noeviction`) and a failover to an empty replica",
                times(counts.store_resets)
            ));
        }
        if !counts.lost.is_zero() {
            warnings.push(format!(
                "{} are lost, since the store lost them, or was away at a shutdown or for too long: see the log \
                 for the time, use persistence and a replica, and raise `replay_bytes` if a failover \
                 loses more than it holds",
                counts.lost
            ));
        }
        warnings
    }
}

/// The smallest share, of any kind, of what was recorded and is not missing; below 1 if anything is missing.
fn completeness(recorded: Amounts, missing: Amounts) -> f64 {
    if missing.is_zero() {
        return 1.0;
    }
    let share = |recorded: u64, missing: u64| match missing {
        0 => 1.0,
        missing => recorded as f64 / (recorded as f64 + missing as f64),
    };
    share(recorded.requests, missing.requests)
        .min(share(recorded.additions, missing.additions))
        .min(1.0_f64.next_down())
}

fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}
