//! The state of recording and flushing, as `api/health` shows it. The page
//! [reading health](crate::guide::reading_health) of the guide says what to do about each field.

use crate::model::snapshot::Problem;

/// In one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The state of an instance, as [`Pulse::health`](crate::Pulse::health) gives it. All counts are
/// since the instance started; ages are in seconds.
#[derive(Clone, Debug)]
pub struct Health {
    /// In one word.
    pub status: Status,
    /// What and where the store is.
    pub store: String,
    /// The last error of the store, while it has not recovered from it.
    pub last_error: Option<String>,
    /// Seconds since the store last answered, to a flush or a heartbeat; `None` when it never did.
    pub store_contact_age_seconds: Option<f64>,
    /// Seconds since the store last took a call; `None` when it never did.
    pub last_flush_age_seconds: Option<f64>,
    /// Seconds between flushes. Where the builder does not set them, they grow with the fleet.
    pub flush_interval_seconds: f64,
    /// Calls that the fleet has appended and nobody has folded yet; `None` in memory.
    pub journal: Option<JournalHealth>,
    /// Contexts and counters that wait to be flushed.
    pub pending: usize,
    /// Requests and runs of timers that were recorded, in the store or on their way to it.
    pub recorded: u64,
    /// Requests and runs of timers that could not be recorded: after the shutdown.
    pub dropped: u64,
    /// Requests that the store had acknowledged and lost, or that a shutdown could not flush.
    pub lost: u64,
    /// Requests of the fleet whose hour is neither this one nor the last one: in the counters, not in
    /// the statistics.
    pub late: u64,
    /// Requests of the fleet from more than an hour in the store's future, refused.
    pub skewed: u64,
    /// Requests whose context came after `max_contexts` others.
    pub overflowed: u64,
    /// How often what the fleet had for a key was dropped because the key holds something else.
    pub quarantined: u64,
    /// Those keys, of the last day, the newest last.
    pub quarantined_keys: Vec<Problem>,
    /// Calls that had no answer or an error.
    pub flush_errors: u64,
    /// How often the store had forgotten this instance.
    pub store_resets: u64,
    /// Calls that were sent again because the store had lost them.
    pub replayed: u64,
    /// For how many seconds the call that has no answer yet has had none.
    pub in_doubt_age: Option<f64>,
    /// How late the last drain was, in seconds after the turn of the second.
    pub drain_lag: f64,
    /// The latest that a drain ever was.
    pub drain_lateness_max: f64,
    /// `recorded / (recorded + dropped + lost)`.
    pub completeness: f64,
    /// Requests in flight.
    pub in_flight: i64,
    /// The name of this instance.
    pub instance: String,
    /// The most bytes that this configuration can take in this process.
    pub worst_case_process_bytes: u64,
    /// The most bytes that this configuration can take in the store.
    pub worst_case_store_bytes: u64,
    /// Sentences for the operator, each ending in what to do.
    pub warnings: Vec<String>,
}

/// The journal, as [`Health`] shows it.
#[derive(Clone, Debug)]
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
    /// Requests in entries that nobody could read, which were set aside.
    pub set_aside: u64,
    /// Bytes of entries that were acknowledged, and gone before they were folded.
    pub hole_bytes: u64,
    /// Entries of an earlier generation that were found without their state.
    pub orphaned: u64,
}

/// The figures behind [`Health`] that flushing changes.
#[derive(Debug, Default)]
pub(crate) struct FlushCounters {
    pub(crate) recorded: u64,
    pub(crate) lost: u64,
    pub(crate) flush_errors: u64,
    pub(crate) store_resets: u64,
    pub(crate) replayed: u64,
    pub(crate) last_error: Option<String>,
}
