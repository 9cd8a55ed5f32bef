//! `api/health`: the state of this instance. It answers 200 whatever the state of the store.

use serde::Serialize;

use super::super::params::Params;
use super::super::response::ApiError;
use super::super::{Admin, VERSION};
use crate::model::health::{Health, Status};
use crate::model::snapshot::Problem;
use crate::store::PassRecord;

/// All of health, or a part of it.
#[derive(Serialize)]
#[serde(untagged)]
pub(in crate::admin) enum HealthAnswer {
    All(Box<HealthJson>),
    Status(StatusJson),
}

/// The status, the warnings and the losses: what changes seldom, so that a page that polls gets 304.
#[derive(Serialize)]
pub(in crate::admin) struct StatusJson {
    status: Status,
    warnings: Vec<String>,
    recording: RecordingLosses,
    flush: FlushLosses,
    fold: FoldLosses,
}

#[derive(Serialize)]
struct RecordingLosses {
    dropped: u64,
    dropped_additions: u64,
    overflowed: u64,
}

#[derive(Serialize)]
struct FlushLosses {
    lost: u64,
    lost_additions: u64,
    lost_details: u64,
    store_resets: u64,
}

#[derive(Serialize)]
struct FoldLosses {
    late: u64,
    skewed: u64,
    quarantined: u64,
}

impl From<Health> for StatusJson {
    fn from(health: Health) -> Self {
        Self {
            status: health.status,
            warnings: health.warnings,
            recording: RecordingLosses {
                dropped: health.recording.dropped,
                dropped_additions: health.recording.dropped_additions,
                overflowed: health.recording.overflowed,
            },
            flush: FlushLosses {
                lost: health.flush.lost,
                lost_additions: health.flush.lost_additions,
                lost_details: health.flush.lost_details,
                store_resets: health.flush.store_resets,
            },
            fold: FoldLosses {
                late: health.fold.late,
                skewed: health.fold.skewed,
                quarantined: health.fold.quarantined,
            },
        }
    }
}

#[derive(Serialize)]
pub(in crate::admin) struct HealthJson {
    #[serde(flatten)]
    health: Health,
    cleaning: CleaningJson,
    reading: ReadingJson,
    version: &'static str,
}

#[derive(Serialize)]
struct CleaningJson {
    last_pass: Option<PassJson>,
}

#[derive(Serialize)]
struct ReadingJson {
    /// Keys whose value has the wrong form.
    unreadable: Vec<Problem>,
}

/// The last cleaning pass of any instance.
#[derive(Serialize)]
struct PassJson {
    at: i64,
    number: i64,
    instance: String,
    duration_seconds: f64,
    examined: u64,
    slices: u64,
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
            duration_seconds: pass.millis as f64 / 1e3,
            examined: pass.cleaned.examined,
            slices: pass.cleaned.slices,
            counters: pass.cleaned.counters,
            contexts: pass.cleaned.contexts,
            ranks: pass.cleaned.ranks,
            instances: pass.cleaned.instances,
        }
    }
}

pub(in crate::admin) async fn health(
    admin: &Admin,
    params: &Params,
) -> Result<HealthAnswer, ApiError> {
    if params.choice("part", &[("all", false), ("status", true)])? {
        let health = (admin.source.health)();
        return Ok(HealthAnswer::Status(StatusJson::from(health)));
    }
    // If the store cannot be read, all other fields are still answered.
    let reader = &admin.reader;
    let (last_pass, book, fleet) = tokio::join!(reader.last_pass(), reader.book(), reader.fleet());
    let mut unreadable = book.map_or_else(|_| Vec::new(), |book| book.problems());
    unreadable.extend(fleet.iter().flat_map(|fleet| fleet.problems.clone()));
    Ok(HealthAnswer::All(Box::new(HealthJson {
        health: (admin.source.health)(),
        cleaning: CleaningJson {
            last_pass: last_pass.ok().flatten().map(PassJson::from),
        },
        reading: ReadingJson { unreadable },
        version: VERSION,
    })))
}
