//! Storage of aggregates: the trait [`Store`], and two stores that behave alike. [`memory`] is the embedded
//! default; the store in `redis` is shared by a fleet.
//!
//! [`Builder`](crate::Builder) opens the store that it is configured for. Open one here to share it among
//! several of them by [`Builder::store`](crate::Builder::store), or to read it without recording anything.

// `memory` is the reference. In Redis, all instances append to the `journal`, and one of them folds it. Read
// this file, then `memory`, `journal`, then `redis/`.

#[doc(hidden)]
pub mod journal;
pub mod memory;
pub(crate) mod pace;
#[cfg(feature = "redis")]
pub mod redis;

use self::journal::Journal;
use crate::error::StoreError;
use crate::model::batch::{Aggregate, Batch};
pub use crate::model::slice::{Precision, Precisions};
use crate::model::snapshot::{ContextSnapshot, Problem, Snapshot};
pub use crate::task::BoxFuture;

/// Seconds after its last heartbeat during which an instance counts as alive.
#[doc(hidden)]
pub const INSTANCE_TTL: i64 = 60;
/// The number of slices of the finest precision in [`Snapshot::recent`].
#[doc(hidden)]
pub const RECENT_SLICES: i64 = 15;
/// How many passes the clock of another instance may be ahead of this one's.
const PASSES_AHEAD: i64 = 5;

/// A generation of a store: a store from its first call until it loses its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Generation {
    /// Its name, which no other generation has.
    pub id: String,
    /// Its age in seconds when the store was asked.
    pub age: u64,
    /// Whether the store was empty when the generation began: then it has no call of an earlier generation.
    pub is_fresh: bool,
}

/// A call: a numbered part of a batch, which is folded once however often it is appended.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct FencedBatch {
    /// The generation of the store in which the calls of the instance are numbered.
    pub generation: String,
    /// The instance that appends the call: a random name that ends with its process.
    pub instance: String,
    /// The number of the call. The instance numbers its calls from 1 without gaps.
    pub seq: u64,
    /// The number of the last call that the store is expected to have: `seq - 1`, except for the first
    /// call after lost ones.
    pub previous: u64,
    /// The samples to fold.
    pub batch: Batch,
}

/// A place in a journal: the id of an entry, or the end of the folded entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(hidden)]
pub struct Position {
    /// Bytes appended until the end of the entry.
    pub offset: u64,
    /// A digest of all entries up to this place, which distinguishes two histories.
    pub chain: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.offset, self.chain)
    }
}

impl std::str::FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (offset, chain) = text.split_once('-').ok_or(())?;
        Ok(Self {
            offset: offset.parse().map_err(drop)?,
            chain: chain.parse().map_err(drop)?,
        })
    }
}

/// The position of a call, and the progress of folding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Receipt {
    /// The position of the call in the journal, or one after it.
    pub position: Position,
    /// The position up to which the journal is folded.
    pub folded: Position,
    /// Whether an instance folds.
    pub is_attended: bool,
}

/// The result of appending a [`FencedBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Appended {
    /// The call is in the journal, or folded if the store has no journal.
    Done(Receipt),
    /// The call had been appended before; the store did not change.
    Duplicate(Receipt),
    /// The store lacks calls before this one, as after a failover; it did not change.
    Gap {
        /// The number of the last call that the store has, 0 for none.
        fence: u64,
    },
    /// The store is of another generation: it was flushed, restored or evicted. It did not change.
    Reset,
    /// The journal is at its bound, and has no room until it is folded; the store did not change.
    Full,
    /// The fence of the instance is unreadable, as another program has overwritten it; the store did not
    /// change.
    Garbled,
}

/// Whether a call can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Readable {
    /// The call is folded.
    Yes,
    /// The call is in the journal.
    NotYet,
    /// The store has lost the call.
    Lost,
}

/// Samples that folding could not use, of all instances, since the store's generation began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Exceptions {
    /// Requests older than the statistics of the last hour: in the counters, not in the statistics.
    pub late: u64,
    /// Requests from more than an hour in the store's future: refused.
    pub skewed: u64,
    /// How often data for a key was dropped because the key holds something else.
    pub quarantined: u64,
    /// The quarantined keys of the last day.
    pub quarantined_keys: Vec<Problem>,
}

/// The most quarantined keys that are listed.
pub(crate) const MAX_QUARANTINED_KEYS: usize = 100;

impl Exceptions {
    pub(crate) fn quarantine(&mut self, problem: Problem) {
        self.quarantined += 1;
        self.quarantined_keys
            .retain(|other| other.key != problem.key);
        self.quarantined_keys.push(problem);
        if self.quarantined_keys.len() > MAX_QUARANTINED_KEYS {
            self.quarantined_keys.remove(0);
        }
    }
}

/// The status of a journal.
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(hidden)]
pub struct JournalStatus {
    /// Entries in the journal, including folded entries that are not trimmed yet.
    pub entries: u64,
    /// Bytes of entries that are not folded.
    pub bytes: u64,
    /// Seconds since the oldest entry that is not folded was appended.
    pub oldest_age: Option<f64>,
    /// The instance that folds.
    pub folder: Option<String>,
    /// How long the last round took, in seconds.
    pub last_fold: Option<f64>,
    /// Requests in entries that were set aside because no instance could read them.
    pub set_aside: u64,
    /// Bytes of entries that were acknowledged, and gone before they were folded.
    pub hole_bytes: u64,
    /// Entries of an earlier generation whose state was missing.
    pub orphaned: u64,
}

/// The status of a store and its fleet.
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(hidden)]
pub struct StoreStatus {
    /// The moment up to which all appended calls can be read, in Unix seconds.
    pub as_of: i64,
    /// The number of instances that are alive.
    pub instances: u64,
    /// Samples that folding could not use.
    pub exceptions: Exceptions,
    /// The status of the journal, if the store has one.
    pub journal: Option<JournalStatus>,
}

/// A heartbeat of an instance.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Heartbeat {
    /// The name of the instance.
    pub instance: String,
    /// The time of the heartbeat, in Unix seconds.
    pub at: i64,
    /// Requests in flight.
    pub in_flight: i64,
    /// Samples that were dropped since the instance started.
    pub dropped: u64,
}

/// A pass of cleaning: its time, and the retentions that it applies.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Pass {
    /// The instance that cleans.
    pub instance: String,
    /// The time of the pass, in Unix seconds.
    pub now: i64,
    /// Seconds between passes.
    pub interval: i64,
    /// Seconds after which a context without a request leaves the ranking of the slowest.
    pub ranking_retention: i64,
    /// Seconds after which a context without a request is forgotten.
    pub context_retention: i64,
}

impl Pass {
    /// The number of the pass, the same on every instance.
    pub fn number(&self) -> i64 {
        self.now.div_euclid(self.interval.max(1))
    }

    /// Whether a precision is examined in this pass: coarse precisions are due less often.
    pub fn examines(&self, precision: i64) -> bool {
        self.number() % (precision / self.interval.max(1)).max(1) == 0
    }
}

impl Pass {
    /// Whether this pass is unnecessary when `last` is the number of the last completed pass. A number that is
    /// far ahead comes from a wrong clock, and must not stop all other instances from cleaning.
    pub fn is_done_by(&self, last: i64) -> bool {
        (0..=PASSES_AHEAD).contains(&last.saturating_sub(self.number()))
    }
}

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct CleanReport {
    /// Counters that were examined.
    pub examined: u64,
    /// Slices that were removed.
    pub slices: u64,
    /// Counters that were removed because they were empty.
    pub counters: u64,
    /// Contexts that were forgotten.
    pub contexts: u64,
    /// Contexts that left the ranking of the slowest.
    pub ranks: u64,
    /// Instances that were removed because they sent no heartbeat.
    pub instances: u64,
    /// Keys that the pass could not read, and left as they are.
    pub problems: Vec<Problem>,
}

/// The last pass, as the store remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct PassRecord {
    /// The number of the pass.
    pub number: i64,
    /// The time of the pass, in Unix seconds.
    pub at: i64,
    /// The instance that ran the pass.
    pub instance: String,
    /// The duration of the pass, in milliseconds.
    pub millis: u64,
    /// Its result, and the keys that this pass and earlier ones could not read.
    pub cleaned: CleanReport,
}

/// A store of aggregates. Every method may be called at any time, from any number of tasks.
///
/// Implemented by [`MemoryStore`](memory::MemoryStore) and `RedisStore`, and not meant to be implemented
/// elsewhere: the methods that are not shown here change without notice.
///
/// # Cancel safety
/// Dropping a future of this trait leaves the store either unchanged or as if the future had completed.
pub trait Store: Send + Sync + 'static {
    /// Returns the store's generation, and begins one if there is none.
    #[doc(hidden)]
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>>;

    /// Appends a call once, however often it is repeated; a repetition finds out whether it was appended.
    #[doc(hidden)]
    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>>;

    /// Whether the call with the number `seq`, which was appended at `position`, can be read.
    #[doc(hidden)]
    fn readable<'a>(
        &'a self,
        generation: &'a str,
        instance: &'a str,
        seq: u64,
        position: Position,
    ) -> BoxFuture<'a, Result<Readable, StoreError>>;

    /// The status of the store and its fleet at `now`.
    #[doc(hidden)]
    fn status(&self, now: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>>;

    /// The journal, if one instance of the fleet folds calls later. `None` if the store folds each call at once.
    #[doc(hidden)]
    fn journal(&self) -> Option<&dyn Journal> {
        None
    }

    /// Records that an instance is alive.
    #[doc(hidden)]
    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes an instance that has ended.
    #[doc(hidden)]
    fn deregister<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// All contexts, with their statistics of the hour of `now` and of the hour before.
    #[doc(hidden)]
    fn snapshot(&self, now: i64) -> BoxFuture<'_, Result<Snapshot, StoreError>>;

    /// One context, with its statistics of the hour of `now` and of the hour before. `None` when the store does
    /// not have the context. Problems are left out.
    #[doc(hidden)]
    fn context<'a>(
        &'a self,
        context: &'a str,
        now: i64,
    ) -> BoxFuture<'a, Result<Option<ContextSnapshot>, StoreError>>;

    /// The slices of a counter at a precision with their counts, oldest first; empty when the store does not
    /// have the counter. See *time-series counters* in [`guide::recipes`](crate::guide::recipes).
    fn counter<'a>(
        &'a self,
        name: &'a str,
        precision: u32,
    ) -> BoxFuture<'a, Result<Vec<(i64, i64)>, StoreError>>;

    /// The records of a context that are retained at `now`, combined into slices of `width` seconds, oldest
    /// first. `width` is one of [`WIDTHS`](crate::model::tier::WIDTHS).
    #[doc(hidden)]
    fn records<'a>(
        &'a self,
        context: &'a str,
        width: u32,
        now: i64,
    ) -> BoxFuture<'a, Result<Vec<(i64, Aggregate)>, StoreError>>;

    /// The slowest contexts with their means in seconds, slowest first. See *access times* in
    /// [`guide::recipes`](crate::guide::recipes).
    fn slowest(&self) -> BoxFuture<'_, Result<Vec<(String, f64)>, StoreError>>;

    /// Removes data that is older than its retention. `None` when another instance runs this pass, or has
    /// completed it. See *cleaning counters* in [`guide::recipes`](crate::guide::recipes).
    #[doc(hidden)]
    fn clean<'a>(
        &'a self,
        pass: &'a Pass,
    ) -> BoxFuture<'a, Result<Option<CleanReport>, StoreError>>;

    /// The last pass of any instance.
    #[doc(hidden)]
    fn last_pass(&self) -> BoxFuture<'_, Result<Option<PassRecord>, StoreError>>;

    /// The kind and the address of the store in a few words, without passwords.
    fn describe(&self) -> String;

    /// Warnings for the operator about the store: an old version, an eviction policy, …
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
