//! The state of an instance, by stage, as `api/health` shows it. The page
//! [reading health](https://docs.rs/tower-pulse/latest/tower_pulse/guide/reading_health/index.html) of the guide says
//! what to do about each field.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::{Clock, Tick};
use crate::condition::{Condition, Warning};
use crate::task::lock;
use tower_pulse_detect::detector::Coverage;
use tower_pulse_model::pack::named;
use tower_pulse_model::snapshot::Problem;
use tower_pulse_model::sorted::Map;

/// Judging is late if the last judged minute ended more than this many seconds ago.
const LATE_JUDGEMENT: i64 = 150;

const CREDENTIALS_LOGGED_EVERY: Duration = Duration::from_secs(60);

named! {
    /// Whether the store answers, in one word.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    #[cfg_attr(feature = "query", derive(serde::Serialize))]
    #[cfg_attr(feature = "query", serde(rename_all = "lowercase"))]
    #[non_exhaustive]
    pub enum Status {
        /// The store last answered within three flush intervals.
        Ok = "ok",
        /// The last answer is older than three flush intervals, but less than 10 s old.
        Degraded = "degraded",
        /// The last answer is older than three flush intervals and at least 10 s old, or the store has never answered.
        #[default]
        Down = "down",
    }
}

impl Status {
    /// The status of a store whose last answer is `age` old, and which is asked at this interval.
    pub(crate) fn at_age(age: Option<Duration>, interval: Duration) -> Self {
        match age {
            Some(age) if age <= 3 * interval => Self::Ok,
            Some(age) if age < Duration::from_secs(10) => Self::Degraded,
            _ => Self::Down,
        }
    }
}

/// The state of an instance, as `Pulse::health` returns it, or of a `Dashboard`, which does not record, flush or clean.
/// Counts begin at the start of the instance. The counts of [`fold`](Self::fold) begin when the store is created or
/// reset. Ages are in seconds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Health {
    /// Whether the store answers, in one word.
    pub status: Status,
    /// Sentences for the operator. Most of them name a remedy.
    pub warnings: Vec<String>,
    /// The conditions that the warnings are about.
    pub conditions: Vec<Condition>,
    /// The name of this instance: the name that `Builder::instance` sets, or the host's name with a random suffix. In a
    /// process that is not an instance, the name is empty, and null in JSON.
    pub instance: String,
    /// `recorded / (recorded + dropped + lost)`, from 0 to 1: the smaller of the ratios of samples and of additions;
    /// absent in JSON unless the process is an instance.
    pub completeness: f64,
    /// Requests to the admin routers of this process with wrong credentials.
    ///
    /// Requests without credentials are not counted.
    pub wrong_credentials: u64,
    /// Recording, from requests to the pending batch; absent in JSON unless the process is an instance.
    pub recording: RecordingHealth,
    /// Flushing, from the pending batch to the store; absent in JSON unless the process is an instance.
    pub flush: FlushHealth,
    /// Cleaning, by this instance; absent in JSON unless the process is an instance.
    ///
    /// One instance of a fleet cleans at a time.
    pub cleaning: CleaningHealth,
    /// The cost of recording and reading in this process.
    pub cost: CostHealth,
    /// Folding, from the journal to the data that is read.
    pub fold: FoldHealth,
    /// Change detection.
    pub changes: ChangeHealth,
    /// The store.
    pub store: StoreHealth,
}

#[cfg(feature = "query")]
impl Health {
    pub(crate) fn is_of_instance(&self) -> bool {
        !self.instance.is_empty()
    }
}

#[cfg(feature = "query")]
impl serde::Serialize for Health {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let is_of_instance = self.is_of_instance();
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("status", &self.status)?;
        map.serialize_entry("warnings", &self.warnings)?;
        map.serialize_entry("conditions", &self.conditions)?;
        map.serialize_entry("instance", &is_of_instance.then_some(&self.instance))?;
        map.serialize_entry("wrong_credentials", &self.wrong_credentials)?;
        if is_of_instance {
            map.serialize_entry("completeness", &self.completeness)?;
            map.serialize_entry("recording", &self.recording)?;
            map.serialize_entry("flush", &self.flush)?;
            map.serialize_entry("cleaning", &self.cleaning)?;
        }
        map.serialize_entry("cost", &self.cost)?;
        map.serialize_entry("fold", &self.fold)?;
        map.serialize_entry("changes", &self.changes)?;
        map.serialize_entry("store", &self.store)?;
        map.end()
    }
}

/// The cost of recording and reading in a process.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CostHealth {
    /// Approximate bytes of the recorder: contexts, counters and pending data; 0 unless the process is an instance.
    pub recorder_bytes: usize,
    /// Approximate bytes of the windows and answers that the reader holds.
    pub reader_bytes: usize,
    /// The mean time per minute that the tasks of the instance spend within their polls, in seconds; 0 unless the
    /// process is an instance.
    pub task_seconds_per_minute: f64,
}

/// Cleaning.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CleaningHealth {
    /// Passes that this instance has done.
    pub passes: u64,
    /// When the last pass ended, in Unix seconds.
    pub last_pass_at: Option<i64>,
    /// Counters that these passes have examined.
    pub examined: u64,
    /// Slices that these passes have removed.
    pub slices: u64,
    /// Counters that these passes have removed.
    pub counters: u64,
    /// Contexts that these passes have removed.
    pub contexts: u64,
    /// Why cleaning fails or skips a key.
    pub last_error: Option<String>,
}

/// Warnings that belong to no stage of an instance, the growth of losses, and the number of requests with wrong
/// credentials. Warnings about the configuration of this process are permanent. Warnings about failures end some time
/// after the last failure. All clones share one state.
#[derive(Clone, Default)]
pub struct Notices {
    warnings: Arc<Mutex<Vec<Notice>>>,
    losses: Arc<Mutex<Map<Condition, Loss>>>,
    credentials: Arc<Mutex<WrongCredentials>>,
}

struct Notice {
    warning: Warning,
    /// When the failure last happened; `None` for a permanent warning.
    failed_at: Option<Tick>,
}

struct Loss {
    count: u64,
    grew_at: Option<Tick>,
}

/// How long the warning about a failure lasts after the last failure.
const FAILS_FOR: Duration = Duration::from_secs(8);
const MAX_FAILURES: usize = 8;
/// How long the warning about a loss lasts after the last growth of the loss.
const LOSS_WARNED_FOR: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
struct WrongCredentials {
    count: u64,
    /// The part of `count` that the log has reported.
    logged: u64,
    logged_at: Option<Tick>,
}

impl Notices {
    /// Adds a permanent warning about the configuration, and logs it, unless the same warning exists.
    pub fn add(&self, warning: String) {
        self.note(Condition::Configuration.warning(warning), None);
    }

    /// Adds a warning about a failure. The warning ends some time after the last failure with the same warning.
    pub fn add_failure(&self, clock: &Clock, warning: Warning) {
        self.note(warning, Some(clock.tick()));
    }

    fn note(&self, warning: Warning, failed_at: Option<Tick>) {
        let mut notices = lock(&self.warnings);
        if let Some(known) = notices.iter_mut().find(|notice| notice.warning == warning) {
            known.failed_at = failed_at;
            return;
        }
        let failures = notices.iter().filter(|notice| notice.failed_at.is_some());
        if failed_at.is_none() || failures.count() < MAX_FAILURES {
            if failed_at.is_none() {
                // A process that is not an instance has no task that logs conditions.
                tracing::warn!("{}", warning.text);
            }
            notices.push(Notice { warning, failed_at });
        }
    }

    /// The current warnings.
    pub fn all(&self, clock: &Clock) -> Vec<Warning> {
        let mut notices = lock(&self.warnings);
        let is_over = |at| clock.since(at) >= FAILS_FOR;
        notices.retain(|notice| !notice.failed_at.is_some_and(is_over));
        notices.iter().map(|n| n.warning.clone()).collect()
    }

    /// Whether a count of losses has grown within [`LOSS_WARNED_FOR`]. The first call for a condition compares `count`
    /// with `before`. If `before` is `None`, this call finds no growth.
    pub(crate) fn has_grown(
        &self,
        clock: &Clock,
        condition: Condition,
        count: u64,
        before: Option<u64>,
    ) -> bool {
        let mut losses = lock(&self.losses);
        let first = Loss {
            count: before.unwrap_or(count),
            grew_at: None,
        };
        let loss = losses.or_insert_with(condition, || first);
        if count > loss.count {
            loss.grew_at = Some(clock.tick());
        }
        loss.count = count;
        (loss.grew_at).is_some_and(|at| clock.since(at) < LOSS_WARNED_FOR)
    }

    /// Counts a request with wrong credentials. Logs the number of such requests since the last log line, at most once
    /// a minute.
    pub fn add_wrong_credentials(&self, clock: &Clock) {
        let mut wrong = lock(&self.credentials);
        wrong.count += 1;
        let is_recent = |at| clock.since(at) < CREDENTIALS_LOGGED_EVERY;
        if wrong.logged_at.is_some_and(is_recent) {
            return;
        }
        let new = wrong.count - wrong.logged;
        wrong.logged = wrong.count;
        wrong.logged_at = Some(clock.tick());
        drop(wrong);
        let requests = if new == 1 { "request" } else { "requests" };
        tracing::warn!(
            "{new} {requests} to the dashboard had wrong credentials, and got 401: look in the log of the proxy for a \
             client that has an old secret, or guesses. This line is logged at most once a minute"
        );
    }

    /// The number of requests with wrong credentials.
    pub fn wrong_credentials(&self) -> u64 {
        lock(&self.credentials).count
    }
}

/// The name of a lease's holder. The store has the holder as `{name}:{id}`.
pub(crate) fn shown_name(holder: &str) -> String {
    holder
        .rsplit_once(':')
        .map_or(holder, |(name, _)| name)
        .to_owned()
}

/// Counts of the requests with the header of `Builder::queue_time_header`.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QueueHealth {
    /// Requests whose wait was recorded.
    pub timed: u64,
    /// Recorded waits that were negative, and count as 0.
    pub negative: u64,
    /// Requests whose wait is ignored, because it was more than a minute.
    pub too_long: u64,
    /// Requests whose header is ignored, because it is not a time.
    pub unreadable: u64,
}

/// Recording in this instance.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RecordingHealth {
    /// Samples that were recorded.
    ///
    /// They are in the store or on the way to it.
    pub recorded: u64,
    /// The sum of the absolute values that were added to counters and rankings.
    ///
    /// A removal from a ranking counts as 1.
    pub recorded_additions: u64,
    /// Requests in flight.
    pub in_flight: i64,
    /// Samples that came after the shutdown.
    pub dropped: u64,
    /// The sum of the absolute values that were added to counters and rankings after the shutdown.
    ///
    /// A removal from a ranking counts as 1.
    pub dropped_additions: u64,
    /// Samples of contexts beyond `max_contexts`.
    pub overflowed: u64,
    /// Contexts, counters, rankings, minute reports and marks that wait for a flush.
    pub pending_series: usize,
    /// How late the samples of the last second were collected, in seconds.
    pub drain_lag_seconds: f64,
    /// The longest delay of any collection, in seconds.
    pub max_drain_lag_seconds: f64,
    /// The waits in front of this instance; `None` without `Builder::queue_time_header`.
    #[cfg_attr(feature = "query", serde(skip_serializing_if = "Option::is_none"))]
    pub queue: Option<QueueHealth>,
}

/// Flushing in this instance.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FlushHealth {
    /// Seconds between flushes.
    ///
    /// Unless the builder sets the interval, it grows with the fleet. While very many ids are added to a ranking, the
    /// instance flushes early, and the interval is shorter.
    pub interval_seconds: f64,
    /// Seconds since the store last acknowledged a call.
    pub last_flush_age_seconds: Option<f64>,
    /// Age of the oldest sample that the store may not have yet, in seconds.
    pub pending_age_seconds: Option<f64>,
    /// Seconds since the call in doubt was first sent.
    pub in_doubt_age_seconds: Option<f64>,
    /// Flushes that failed, or had no answer.
    pub errors: u64,
    /// Calls that were replayed after a gap.
    pub replayed: u64,
    /// Acknowledged samples that the store lost, samples whose call had no answer before the store was reset, and
    /// samples that a shutdown could not flush.
    pub lost: u64,
    /// The sum of the absolute values of lost additions to counters and rankings.
    ///
    /// A removal from a ranking counts as 1.
    pub lost_additions: u64,
    /// Lost details: marks, entries in the lists of slow and failed requests, and an instance's figures for a minute.
    pub lost_details: u64,
    /// Resets of the store that this instance has seen.
    pub store_resets: u64,
}

/// Folding, of the whole fleet.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FoldHealth {
    /// Late samples: the counters contain them, but the hourly statistics had moved on to later hours.
    pub late: u64,
    /// Skewed samples: refused, because their time is more than an hour ahead of the store's.
    pub skewed: u64,
    /// Omitted writes to keys with foreign values.
    pub quarantined: u64,
    /// Quarantined keys, the newest last.
    ///
    /// In Redis, a key is listed until its value is repaired. The keys are checked every 5 s.
    pub quarantined_keys: Vec<Problem>,
    /// The state of the journal; `None` for a store in memory or a file.
    pub journal: Option<JournalHealth>,
}

/// The journal, of the whole fleet.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JournalHealth {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of entries that are not folded.
    pub bytes: u64,
    /// Age of the oldest entry that is not folded, in seconds.
    pub oldest_age_seconds: Option<f64>,
    /// Name of the instance that folds.
    pub folder: Option<String>,
    /// Whether this instance folds.
    pub is_folder: bool,
    /// Duration of the last round, in seconds.
    pub last_fold_seconds: Option<f64>,
    /// Samples that were set aside.
    pub set_aside: u64,
    /// Bytes of acknowledged entries that were lost before they were folded.
    pub hole_bytes: u64,
    /// Entries that could not be folded, because the journal's state was missing.
    pub orphaned: u64,
}

/// Change detection, of the whole fleet.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ChangeHealth {
    /// The end of the last minute that was judged, in Unix seconds; `None` before the first.
    pub judged_until: Option<i64>,
    /// HTTP contexts with requests in the last hour.
    ///
    /// Timers are not judged.
    pub contexts: usize,
    /// Contexts with enough requests, for long enough, to be compared with their past.
    pub compared: usize,
    /// Minutes of the last hour without a request.
    pub gaps: usize,
    /// Sentences about what the detector cannot see, and why.
    pub blind_spots: Vec<String>,
}

impl ChangeHealth {
    /// The state of detection from the coverage of the last judged minute, which ended at `until`.
    pub(crate) fn new(until: Option<i64>, coverage: Coverage, now: i64) -> Self {
        let mut blind_spots = Vec::new();
        if let Some(until) = until.filter(|until| now - until > LATE_JUDGEMENT) {
            let seconds = now - until;
            blind_spots.push(format!(
                "no minute of the last {seconds} s is judged: folding is late, or no instance can fold (see `fold`)"
            ));
        }
        let unseen = coverage.contexts.saturating_sub(coverage.compared);
        if unseen > 0 {
            blind_spots.push(format!(
                "{unseen} of {} pages with requests in the last hour cannot be compared with their past: they have too few requests, or are new",
                coverage.contexts
            ));
        }
        if coverage.gaps > 0 {
            blind_spots.push(format!(
                "{} minutes of the last hour have no request at all: changes within them are not detected",
                coverage.gaps
            ));
        }
        Self {
            judged_until: until,
            contexts: coverage.contexts,
            compared: coverage.compared,
            gaps: coverage.gaps,
            blind_spots,
        }
    }
}

/// The store, as this process sees it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StoreHealth {
    /// Kind and address of the store, without the password.
    pub description: String,
    /// Seconds since the store last answered.
    pub contact_age_seconds: Option<f64>,
    /// The last error of the store, until it recovers.
    pub last_error: Option<String>,
    /// Seconds by which the clock of this process is ahead of the store's; `None` if unknown.
    pub clock_skew_seconds: Option<i64>,
}
