//! `api/health`: how this instance is doing. It answers 200 whatever the store does.

use serde::Serialize;

use super::super::{Admin, VERSION};
use crate::model::snapshot::Problem;
use crate::recorder::health::JournalHealth;
use crate::store::PassRecord;

#[derive(Serialize)]
pub(in crate::admin) struct HealthJson {
    status: &'static str,
    store: String,
    last_error: Option<String>,
    store_contact_age_seconds: Option<f64>,
    last_flush_age_seconds: Option<f64>,
    flush_interval_seconds: f64,
    journal: Option<JournalJson>,
    pending: usize,
    recorded: u64,
    dropped: u64,
    lost: u64,
    late: u64,
    skewed: u64,
    overflowed: u64,
    quarantined: u64,
    quarantined_keys: Vec<Key>,
    unreadable: Vec<Key>,
    flush_errors: u64,
    store_resets: u64,
    replayed: u64,
    in_doubt_age: Option<f64>,
    drain_lag: f64,
    drain_lateness_max: f64,
    completeness: f64,
    in_flight: i64,
    instance: String,
    version: &'static str,
    worst_case_process_bytes: u64,
    worst_case_store_bytes: u64,
    last_pass: Option<PassJson>,
    warnings: Vec<String>,
}

/// A key that holds something else than it should.
#[derive(Serialize)]
struct Key {
    key: String,
    reason: String,
}

impl From<&Problem> for Key {
    fn from(problem: &Problem) -> Self {
        Self {
            key: problem.key.clone(),
            reason: problem.reason.clone(),
        }
    }
}

/// The journal, of the whole fleet.
#[derive(Serialize)]
struct JournalJson {
    entries: u64,
    bytes: u64,
    oldest_age_seconds: Option<f64>,
    folder: Option<String>,
    is_folder: bool,
    last_fold_seconds: Option<f64>,
    set_aside: u64,
    hole_bytes: u64,
    orphaned: u64,
}

impl From<JournalHealth> for JournalJson {
    fn from(journal: JournalHealth) -> Self {
        Self {
            entries: journal.entries,
            bytes: journal.bytes,
            oldest_age_seconds: journal.oldest_age_seconds,
            folder: journal.folder,
            is_folder: journal.is_folder,
            last_fold_seconds: journal.last_fold_seconds,
            set_aside: journal.set_aside,
            hole_bytes: journal.hole_bytes,
            orphaned: journal.orphaned,
        }
    }
}

/// The last pass of the cleaner, of whichever instance.
#[derive(Serialize)]
struct PassJson {
    at: i64,
    number: i64,
    instance: String,
    millis: u64,
    examined: u64,
    /// Slices that went.
    removed: u64,
    counters: u64,
    contexts: u64,
    ranks: u64,
    instances: u64,
}

impl From<PassRecord> for PassJson {
    fn from(pass: PassRecord) -> Self {
        Self {
            at: pass.at,
            number: pass.number,
            instance: pass.instance,
            millis: pass.millis,
            examined: pass.cleaned.examined,
            removed: pass.cleaned.slices,
            counters: pass.cleaned.counters,
            contexts: pass.cleaned.contexts,
            ranks: pass.cleaned.ranks,
            instances: pass.cleaned.instances,
        }
    }
}

pub(in crate::admin) async fn health(admin: &Admin) -> HealthJson {
    // What the store cannot tell now is left out: the rest is what one looks for then.
    let (last_pass, snapshot) =
        tokio::join!(admin.reader.last_pass(), admin.reader.recent_snapshot());
    let unreadable = snapshot.map_or_else(
        |_| Vec::new(),
        |snapshot| snapshot.problems.iter().map(Key::from).collect(),
    );
    let health = (admin.source.health)();
    HealthJson {
        status: health.status.as_str(),
        store: health.store,
        last_error: health.last_error,
        store_contact_age_seconds: health.store_contact_age_seconds,
        last_flush_age_seconds: health.last_flush_age_seconds,
        flush_interval_seconds: health.flush_interval_seconds,
        journal: health.journal.map(JournalJson::from),
        pending: health.pending,
        recorded: health.recorded,
        dropped: health.dropped,
        lost: health.lost,
        late: health.late,
        skewed: health.skewed,
        overflowed: health.overflowed,
        quarantined: health.quarantined,
        quarantined_keys: health.quarantined_keys.iter().map(Key::from).collect(),
        unreadable,
        flush_errors: health.flush_errors,
        store_resets: health.store_resets,
        replayed: health.replayed,
        in_doubt_age: health.in_doubt_age,
        drain_lag: health.drain_lag,
        drain_lateness_max: health.drain_lateness_max,
        completeness: health.completeness,
        in_flight: health.in_flight,
        instance: health.instance,
        version: VERSION,
        worst_case_process_bytes: health.worst_case_process_bytes,
        worst_case_store_bytes: health.worst_case_store_bytes,
        last_pass: last_pass.ok().flatten().map(PassJson::from),
        warnings: health.warnings,
    }
}
