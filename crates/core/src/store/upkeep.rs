//! Upkeep of a store: heartbeats, the status, and cleaning.

use std::sync::Arc;

use crate::health::JournalHealth;
use crate::skew::StoreTime;
use crate::store::StoreFuture;
use tower_pulse_model::fleet::Fleet;
use tower_pulse_model::pack::packed;
use tower_pulse_model::recorded::Gap;
use tower_pulse_model::snapshot::{PathInFlight, Problem};

/// An instance counts as alive for this number of seconds after its last heartbeat.
pub const INSTANCE_TTL: i64 = 60;

/// Samples and writes of all instances that folding omitted, counted since the store's generation began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exceptions {
    /// Samples that came after the hourly statistics had moved on to later hours. Only these statistics lack such
    /// samples.
    pub late: u64,
    /// Samples that were refused because their time is more than an hour ahead of the store's.
    pub skewed: u64,
    /// How often a write was omitted because its key holds a foreign value.
    pub quarantined: u64,
    /// The newest quarantined keys, newest last. A store on a server lists only keys that still hold a foreign value.
    pub quarantined_keys: Vec<Problem>,
}

/// The maximum number of quarantined keys that are listed.
pub const MAX_QUARANTINED_KEYS: usize = 100;

packed!(Exceptions {
    late,
    skewed,
    quarantined,
    quarantined_keys
});

impl Exceptions {
    /// Adds a key whose value could not be used.
    pub fn quarantine(&mut self, problem: Problem) {
        self.quarantined += 1;
        self.quarantined_keys
            .retain(|other| other.key != problem.key);
        self.quarantined_keys.push(problem);
        if self.quarantined_keys.len() > MAX_QUARANTINED_KEYS {
            self.quarantined_keys.remove(0);
        }
    }
}

/// An entry of the journal that only a newer version of this crate can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewerEntry {
    /// The version of the entry's form.
    pub version: u64,
    /// The newest version that this instance can read.
    pub readable: u64,
    /// Number of seconds for which the entry has waited for an instance of a newer version.
    pub waited: u64,
}

/// The status of a store and its fleet.
#[derive(Clone, Debug, Default)]
pub struct StoreStatus {
    /// The moment up to which the data of all appended calls can be read, in Unix seconds.
    pub as_of: i64,
    /// When the store's generation began, in Unix seconds; `None` before the first instance has called the store.
    pub created: Option<i64>,
    /// When the first sample that the store holds was recorded, in Unix seconds, or when the generation began, if
    /// earlier.
    pub since: Option<i64>,
    /// The times in which no instance recorded, as in [`RecordState`](super::table_reads::RecordState).
    pub gaps: Vec<Gap>,
    /// The number of instances that are alive.
    pub instances: u64,
    /// Samples and writes that folding omitted.
    pub exceptions: Exceptions,
    /// A sentence for each ranking whose configuration differs between the instances.
    pub ranking_warnings: Vec<String>,
    /// Instances that have not ended, but have sent no heartbeat for some time.
    pub silent: Vec<SilentInstance>,
    /// A text about the tables of records that were found to be missing in the last hour: their number and some of
    /// their names. Empty if no table is missing.
    pub gone: String,
    /// The journal, in a store whose calls are folded some time after they are appended.
    pub journal: Option<JournalHealth>,
    /// The entry that stops the folder, if any.
    pub newer: Option<NewerEntry>,
    /// The store's time, if the store has a clock of its own.
    pub time: Option<StoreTime>,
}

/// An instance that has not sent a heartbeat for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentInstance {
    /// The name of the instance.
    pub name: String,
    /// Number of seconds since its last heartbeat.
    pub seconds: i64,
}

/// A heartbeat of an instance.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The id of the instance.
    pub instance: String,
    /// The name that the application has set for the instance, if any.
    pub name: Option<Arc<str>>,
    /// The time of the heartbeat, in Unix seconds.
    pub at: i64,
    /// Number of seconds until the next heartbeat.
    pub every: u64,
    /// Requests in flight.
    pub in_flight: i64,
    /// The paths with requests in flight.
    pub paths: Vec<PathInFlight>,
    /// Number of samples that were dropped since the instance started.
    pub dropped: u64,
    /// The version of the application.
    pub version: Option<Arc<str>>,
    /// Seconds by which the clock of the instance is ahead of the store's, if known.
    pub skew: Option<i64>,
    /// The reason that cleaning fails or skips a key, if it does.
    pub cleaning: Option<String>,
}

/// A pass of cleaning, with its time and the retentions that it applies.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The instance that cleans.
    pub instance: String,
    /// The time of the pass, in Unix seconds.
    pub now: i64,
    /// Seconds between passes.
    pub interval: i64,
    /// Seconds after which a context without a sample leaves the ranking of the slowest contexts.
    pub ranking_retention: i64,
    /// Seconds after which a context without a sample is forgotten.
    pub context_retention: i64,
}

impl Pass {
    /// The number of the pass, which is the same for all instances.
    pub fn number(&self) -> i64 {
        self.now.div_euclid(self.interval.max(1))
    }

    /// Whether a precision is examined in this pass. Coarse precisions are examined less often.
    pub fn examines(&self, precision: i64) -> bool {
        self.number() % (precision / self.interval.max(1)).max(1) == 0
    }
}

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cleaned {
    /// Number of counters that were examined.
    pub examined: u64,
    /// Number of slices that were removed.
    pub slices: u64,
    /// Number of counters that were removed because they were empty.
    pub counters: u64,
    /// Number of contexts that were forgotten.
    pub contexts: u64,
    /// A key that the pass skipped, because the key holds a foreign value.
    pub skipped: Option<Problem>,
    /// The precision of the counter in the skipped key, or 0 if the key is not of a counter.
    pub skipped_precision: i64,
}

/// Heartbeats, the status and cleaning of a store.
///
/// # Cancel safety
/// If a future of this trait is dropped, the store is unchanged, or changed as if the future had completed.
pub trait Upkeep: Send + Sync {
    /// The status of the store and its fleet at `now`.
    fn status(&self, now: i64) -> StoreFuture<'_, StoreStatus>;

    /// Records that an instance is alive. Returns the fleet and the status of the store at that time.
    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> StoreFuture<'a, (Fleet, StoreStatus)>;

    /// Removes an instance that has ended.
    fn deregister<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()>;

    /// Removes data that is older than its retention. Returns `None` while another instance cleans.
    fn clean<'a>(&'a self, pass: &'a Pass) -> StoreFuture<'a, Option<Cleaned>>;
}
