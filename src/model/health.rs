//! The state of an instance, by stage, as `api/health` shows it. The page
//! [reading health](crate::guide::reading_health) of the guide says what to do about each field.

use super::snapshot::Problem;
use super::worst_case::WorstCase;

/// Whether the store is reached, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[cfg_attr(feature = "admin", serde(rename_all = "lowercase"))]
pub enum Status {
    /// The store was reached within the last three flush intervals.
    Ok,
    /// It was not, but it was within the last 10 s.
    Degraded,
    /// It has never been reached, or not for 10 s.
    Down,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Status {
    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

/// The state of an instance, as [`Pulse::health`](crate::Pulse::health) gives it. Counts are since the instance
/// started, those of [`fold`](Self::fold) since the store began; ages are in seconds.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Health {
    /// Whether the store is reached, in one word.
    pub status: Status,
    /// Sentences for the operator, each ending in what to do.
    pub warnings: Vec<String>,
    /// The name of this instance. A reset of the store changes it.
    pub instance: String,
    /// `recorded / (recorded + dropped + lost)`.
    pub completeness: f64,
    /// What requests and other code hand over.
    pub recording: RecordingHealth,
    /// How that reaches the store.
    pub flush: FlushHealth,
    /// How the fleet's calls become what is read.
    pub fold: FoldHealth,
    /// The store itself.
    pub store: StoreHealth,
    /// The most bytes that this configuration can take.
    pub worst_case: WorstCase,
}

/// Recording in this instance.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RecordingHealth {
    /// Requests and runs of timers that were recorded, in the store or on their way to it.
    pub recorded: u64,
    /// Requests in flight.
    pub in_flight: i64,
    /// Requests and runs of timers that could not be recorded: after the shutdown.
    pub dropped: u64,
    /// Requests whose context came after `max_contexts` others.
    pub overflowed: u64,
    /// Contexts and counters that wait to be flushed.
    pub pending_series: usize,
    /// How late the last drain was, in seconds after the turn of the second.
    pub drain_lag_seconds: f64,
    /// The latest that a drain ever was.
    pub max_drain_lag_seconds: f64,
}

/// Flushing in this instance.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FlushHealth {
    /// Seconds between flushes. Where the builder does not set them, they grow with the fleet.
    pub interval_seconds: f64,
    /// Seconds since the store last took a call; `None` when it never did.
    pub last_flush_age_seconds: Option<f64>,
    /// For how many seconds the call that has no answer yet has had none.
    pub in_doubt_age_seconds: Option<f64>,
    /// Calls that had no answer or an error.
    pub errors: u64,
    /// Calls that were sent again because the store had lost them.
    pub replayed: u64,
    /// Requests that the store had acknowledged and lost, or that a shutdown could not flush.
    pub lost: u64,
    /// How often the store had forgotten this instance.
    pub store_resets: u64,
}

/// Folding, of the whole fleet.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FoldHealth {
    /// Requests whose hour is neither this one nor the last one: in the counters, not in the statistics.
    pub late: u64,
    /// Requests from more than an hour in the store's future, refused.
    pub skewed: u64,
    /// How often what the fleet had for a key was dropped because the key holds something else.
    pub quarantined: u64,
    /// Those keys, of the last day, the newest last.
    pub quarantined_keys: Vec<Problem>,
    /// Calls that the fleet has appended and no instance has folded yet; `None` in memory.
    pub journal: Option<JournalHealth>,
}

/// The journal, of the whole fleet.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JournalHealth {
    /// Entries in it.
    pub entries: u64,
    /// Bytes of entries that are not folded.
    pub bytes: u64,
    /// Seconds since the oldest entry that is not folded was appended.
    pub oldest_age_seconds: Option<f64>,
    /// The instance that folds.
    pub folder: Option<String>,
    /// Whether that is this one.
    pub is_folder: bool,
    /// How long the last round of folding took, in seconds.
    pub last_fold_seconds: Option<f64>,
    /// Requests in entries that no instance could read, which were set aside.
    pub set_aside: u64,
    /// Bytes of entries that were acknowledged, and gone before they were folded.
    pub hole_bytes: u64,
    /// Entries of an earlier generation whose state was missing.
    pub orphaned: u64,
}

/// The store, as this instance sees it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StoreHealth {
    /// Which store, and where, without a password.
    pub description: String,
    /// Seconds since it last answered, to a flush or a heartbeat; `None` when it never did.
    pub contact_age_seconds: Option<f64>,
    /// Its last error, while it has not recovered from it.
    pub last_error: Option<String>,
}
