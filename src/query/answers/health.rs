//! The state of this instance, with what only the store knows. It is answered whatever the state of the store.

use serde::Serialize;

use crate::model::health::{Health, Status};
use crate::model::snapshot::Problem;
use crate::query::source::Source;
use crate::store::PassRecord;

/// The version of this crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The status, the warnings and the losses: what changes seldom, so that a page that polls gets 304.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HealthStatus {
    /// Whether the store answers, in one word.
    pub status: Status,
    /// Sentences for the operator. Each ends in what to do.
    pub warnings: Vec<String>,
    /// What was not recorded.
    pub recording: RecordingLosses,
    /// What did not reach the store.
    pub flush: FlushLosses,
    /// What could not be folded.
    pub fold: FoldLosses,
}

/// What was not recorded, as in [`RecordingHealth`](crate::RecordingHealth).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecordingLosses {
    /// Samples that came after the shutdown.
    pub dropped: u64,
    /// How much was added to counters and rankings after the shutdown.
    pub dropped_additions: u64,
    /// Requests that are counted as `<overflow>`.
    pub overflowed: u64,
}

/// What did not reach the store, as in [`FlushHealth`](crate::FlushHealth).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlushLosses {
    /// Samples that are lost.
    pub lost: u64,
    /// How much is lost of what was added to counters and rankings.
    pub lost_additions: u64,
    /// Minute reports, listed requests and marks that are lost.
    pub lost_details: u64,
    /// How often the store forgot this instance.
    pub store_resets: u64,
}

/// What could not be folded, as in [`FoldHealth`](crate::FoldHealth).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FoldLosses {
    /// Samples too late for the statistics.
    pub late: u64,
    /// Samples from the store's future.
    pub skewed: u64,
    /// Parts of calls that were dropped for a key.
    pub quarantined: u64,
}

impl From<Health> for HealthStatus {
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

/// The state of this instance, with what only the store knows: [`Reader::health`](crate::query::Reader::health).
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FullHealth {
    /// The state of this instance.
    #[serde(flatten)]
    pub health: Health,
    /// Cleaning.
    pub cleaning: CleaningHealth,
    /// Reading.
    pub reading: ReadingHealth,
    /// The version of this crate.
    pub version: &'static str,
}

/// What the cleaner did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CleaningHealth {
    /// The last pass of any instance; `None` before the first, and while the store cannot be read.
    pub last_pass: Option<CleaningPass>,
}

/// What could not be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReadingHealth {
    /// Keys whose value has the wrong form.
    pub unreadable: Vec<Problem>,
}

/// A cleaning pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CleaningPass {
    /// When it ended, in Unix seconds.
    pub at: i64,
    /// Its number.
    pub number: i64,
    /// The instance that made it.
    pub instance: String,
    /// How long it took, in seconds.
    pub duration_seconds: f64,
    /// Number of keys and fields that it looked at.
    pub examined: u64,
    /// Number of slices that it removed.
    pub slices: u64,
    /// Number of counters that it removed.
    pub counters: u64,
    /// Number of contexts that it removed.
    pub contexts: u64,
    /// Number of ids of rankings that it removed.
    pub ranks: u64,
    /// Number of instances that it removed.
    pub instances: u64,
}

impl From<PassRecord> for CleaningPass {
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

/// What changes seldom.
pub(in crate::query) fn status(source: &Source) -> HealthStatus {
    HealthStatus::from(source.process.health())
}

pub(in crate::query) async fn health(source: &Source) -> FullHealth {
    // If the store cannot be read, all other fields are still answered.
    let reader = &source.reader;
    let (last_pass, book, fleet) = tokio::join!(reader.last_pass(), reader.book(), reader.fleet());
    let mut unreadable = book.map_or_else(|_| Vec::new(), |book| book.problems());
    unreadable.extend(fleet.iter().flat_map(|fleet| fleet.problems.clone()));
    FullHealth {
        health: source.process.health(),
        cleaning: CleaningHealth {
            last_pass: last_pass.ok().flatten().map(CleaningPass::from),
        },
        reading: ReadingHealth { unreadable },
        version: VERSION,
    }
}
