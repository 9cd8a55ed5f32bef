//! The health of an instance: the state of each stage, and warnings for the operator.

use std::sync::PoisonError;
use std::time::Duration;

use super::Parts;
use crate::model::amounts::Amounts;
use crate::model::health::{
    ChangeHealth, FlushHealth, FoldHealth, Health, JournalHealth, RecordingHealth, Status,
    StoreHealth,
};
use crate::recorder::{DrainStats, FlushCounters};
use crate::store::JournalStatus;
use crate::store::journal::NEWER_GRACE;

/// Seconds for which an entry may wait to be folded before that is a warning.
const UNFOLDED_TOLERATED: f64 = 15.0;

impl Parts {
    pub(super) fn health(&self) -> Health {
        let flush = self.flusher.status();
        let fold = self.folder.status();
        if self.recorder.core.is_closed() {
            // Samples that came after the end are counted as dropped.
            self.recorder.drain();
        }
        let drain = self.recorder.drain.drain_stats();
        let age = flush.contact_age;
        let unsent = self.flusher.unsent();
        let pending_age_seconds = unsent.map(|unsent| {
            let nanos = self.clock.now_nanos() - unsent.since.saturating_mul(1_000_000_000);
            (nanos as f64 / 1e9).max(0.0)
        });
        let interval = flush.interval.max(Duration::from_secs(1));
        let status = match age {
            Some(age) if age <= 3 * interval => Status::Ok,
            Some(age) if age < Duration::from_secs(10) => Status::Degraded,
            _ => Status::Down,
        };
        let mut warnings = self.store.warnings();
        {
            let cleaning = self.cleaning.lock();
            warnings.extend(cleaning.unwrap_or_else(PoisonError::into_inner).warnings());
        }
        if let Some(error) = fold.last_error {
            warnings.push(format!("folding fails, and is tried again: {error}"));
        }
        warnings.extend(fold.upkeep_failures);
        warnings.extend(flush.fleet.ranking_warnings.iter().cloned());
        if let Some(journal) = &flush.fleet.journal {
            warnings.extend(journal_warnings(journal));
        }
        let changes = self.change_health();
        if let Some(error) = self.judge.status().last_error {
            warnings.push(format!(
                "changes are not detected, which is tried again: {error}"
            ));
        }
        warnings.extend(self.memory_warning.clone());
        self.recorder.drain.counters(|counters| {
            warnings.extend(self.recording_warnings(&drain, counters));
            let recorded = counters.recorded.saturating_sub(counters.lost);
            Health {
                status,
                warnings,
                instance: flush.instance,
                completeness: completeness(recorded, counters.lost + drain.dropped),
                recording: RecordingHealth {
                    recorded: recorded.requests,
                    recorded_additions: recorded.additions,
                    in_flight: self.recorder.core.in_flight(),
                    dropped: drain.dropped.requests,
                    dropped_additions: drain.dropped.additions,
                    overflowed: drain.overflowed,
                    pending_series: drain.pending + flush.series,
                    drain_lag_seconds: drain.lag,
                    max_drain_lag_seconds: drain.max_lag,
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
                fold: FoldHealth {
                    late: flush.fleet.exceptions.late,
                    skewed: flush.fleet.exceptions.skewed,
                    quarantined: flush.fleet.exceptions.quarantined,
                    quarantined_keys: flush.fleet.exceptions.quarantined_keys,
                    journal: flush.fleet.journal.map(|journal| JournalHealth {
                        entries: journal.entries,
                        bytes: journal.bytes,
                        oldest_age_seconds: journal.oldest_age,
                        folder: journal.folder,
                        is_folder: fold.is_folder,
                        last_fold_seconds: journal.last_fold,
                        set_aside: journal.set_aside,
                        hole_bytes: journal.hole_bytes,
                        orphaned: journal.orphaned,
                    }),
                },
                changes,
                store: StoreHealth {
                    description: self.store.describe(),
                    contact_age_seconds: age.map(|age| age.as_secs_f64()),
                    last_error: counters.last_error.clone(),
                },
                worst_case: self.worst,
            }
        })
    }
}

impl Parts {
    /// Requests without a context of their own, and what is gone: what happened and what to do.
    fn recording_warnings(&self, drain: &DrainStats, counts: &FlushCounters) -> Vec<String> {
        let mut warnings = Vec::new();
        let limits = &self.recorder.limits;
        let (contexts, counters) = self.recorder.core.overflows();
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
        if counts.store_resets > 0 {
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

/// Seconds after the end of a minute from which on its judgement is late.
const LATE_JUDGEMENT: i64 = 150;

impl Parts {
    fn change_health(&self) -> ChangeHealth {
        let (status, now) = (self.judge.status(), self.clock.now_seconds());
        let sight = status.sight;
        let mut blind_spots = Vec::new();
        if let Some(until) = status.until.filter(|until| now - until > LATE_JUDGEMENT) {
            let seconds = now - until;
            blind_spots.push(format!(
                "no minute of the last {seconds} s is judged: folding is late, or no instance can fold"
            ));
        }
        let unseen = sight.contexts.saturating_sub(sight.compared);
        if unseen > 0 {
            blind_spots.push(format!(
                "{unseen} of {} pages with requests in the last hour cannot be compared with their past: they have too few requests, or are new",
                sight.contexts
            ));
        }
        if sight.gaps > 0 {
            blind_spots.push(format!(
                "{} minutes of the last hour have no request at all: what changed within them is not known",
                sight.gaps
            ));
        }
        ChangeHealth {
            judged_until: status.until,
            contexts: sight.contexts,
            compared: sight.compared,
            gaps: sight.gaps,
            blind_spots,
        }
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

/// What the operator should know about the journal.
fn journal_warnings(journal: &JournalStatus) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(age) = journal.oldest_age.filter(|age| *age > UNFOLDED_TOLERATED) {
        warnings.push(format!(
            "the journal's oldest entry has waited for {age:.0} s to be folded: what is newer is not shown yet"
        ));
    }
    if let Some(newer) = &journal.newer {
        warnings.push(format!(
            "the journal waits at an entry of version {}, which a newer version of tower-pulse wrote, and this \
             instance reads versions up to {}: what is behind it is not shown. Start an instance of the newer \
             version, which folds it; after {} s more without one, such entries are set aside (`pulse:aside`)",
            newer.version,
            newer.readable,
            NEWER_GRACE.unsigned_abs().saturating_sub(newer.waited)
        ));
    }
    for (n, what) in [
        (
            journal.set_aside,
            "requests are in entries that nobody could read (`pulse:aside`)",
        ),
        (
            journal.hole_bytes,
            "bytes of the journal were gone before they were folded",
        ),
        (
            journal.orphaned,
            "entries were in a journal without its state (`pulse:orphaned`)",
        ),
    ] {
        if n > 0 {
            warnings.push(format!("{n} {what}"));
        }
    }
    warnings
}
