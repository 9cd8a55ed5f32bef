//! Where aggregates are kept: one trait, and two stores that behave alike. [`memory`] is the
//! embedded default and the reference; [`self::redis`] is shared by a fleet, whose instances append
//! to its [`journal`], which one of them folds.
//!
//! Read this file, then [`memory`], [`journal`], then `redis/`.

pub mod journal;
pub mod memory;
pub(crate) mod pace;
#[cfg(feature = "redis")]
pub mod redis;

use self::journal::Journal;
use crate::error::StoreError;
use crate::model::batch::{Aggregate, Batch};
use crate::model::snapshot::{ContextSnapshot, Problem, Snapshot};
use crate::task::BoxFuture;

/// Seconds after its last heartbeat during which an instance counts as alive.
pub const INSTANCE_TTL: i64 = 60;
/// How many slices of the finest precision [`Snapshot::recent`] reaches back.
pub const RECENT_SLICES: i64 = 15;
/// How many passes ahead of ours another instance's clock may be.
const PASSES_AHEAD: i64 = 5;

/// A generation of a store: from its first call until it is flushed, or loses its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its name, which no other has had.
    pub id: String,
    /// How many seconds ago it began when it was asked for.
    pub age: u64,
    /// There was nothing when it began: whatever was appended to another generation is not in it.
    pub is_fresh: bool,
}

/// One numbered part of a batch: folded once, however often it is appended.
#[derive(Clone, Debug)]
pub struct FencedBatch {
    /// The generation of the store that the instance is numbered in.
    pub generation: String,
    /// Who appends it: a random name that dies with the process.
    pub instance: String,
    /// Its number, counted up by one for each call of the instance, from 1.
    pub seq: u64,
    /// The number of the last call that the store is expected to have: `seq - 1`, but for the first
    /// call after some were lost.
    pub previous: u64,
    /// What is to be folded.
    pub batch: Batch,
}

/// A place in a journal: an entry's id, or the last one before which all is folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Bytes appended until the end of the entry.
    pub offset: u64,
    /// A digest of all entries up to it, which tells two histories apart.
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

/// Where a call stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Its place in the journal, or one after it.
    pub position: Position,
    /// Until where the journal is folded.
    pub folded: Position,
    /// Whether an instance folds.
    pub is_attended: bool,
}

/// What a store did with a [`FencedBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the journal, or folded where there is none.
    Done(Receipt),
    /// It had been appended before; nothing was done.
    Duplicate(Receipt),
    /// The store lacks calls before this one (a failover lost them); nothing was done.
    Gap {
        /// The last call that it has, 0 for none.
        fence: u64,
    },
    /// The store is of another generation (flushed, restored, evicted); nothing was done.
    Reset,
    /// The journal has no room until somebody folds it; nothing was done.
    Full,
    /// The store does not know which calls of the instance it has, as something else has written there;
    /// nothing was done.
    Garbled,
}

/// Whether a call can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// It is folded.
    Yes,
    /// It is in the journal.
    NotYet,
    /// The store does not have it any more.
    Lost,
}

/// Exceptions of folding, of all instances, since the store's generation began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exceptions {
    /// Requests older than the statistics of the last hour: in the counters, not in the statistics.
    pub late: u64,
    /// Requests from more than an hour in the store's future: refused.
    pub skewed: u64,
    /// How often a key's part was dropped because the key holds something else.
    pub quarantined: u64,
    /// Those keys, of the last day.
    pub quarantined_keys: Vec<Problem>,
}

/// Quarantined keys that are told.
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

/// How a journal is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalStatus {
    /// Entries in it, folded ones that are not trimmed yet among them.
    pub entries: u64,
    /// Bytes of entries that are not folded.
    pub bytes: u64,
    /// Seconds since the oldest entry that is not folded was appended.
    pub oldest_age: Option<f64>,
    /// The instance that folds.
    pub folder: Option<String>,
    /// How long the last round took, in seconds.
    pub last_fold: Option<f64>,
    /// Requests in entries that nobody could read, which were set aside.
    pub set_aside: u64,
    /// Bytes of entries that were acknowledged and gone before they were folded.
    pub hole_bytes: u64,
    /// Entries of an earlier generation that were found without their state.
    pub orphaned: u64,
}

/// What a store knows of the fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreStatus {
    /// Until when everything that was appended can be read, in Unix seconds.
    pub as_of: i64,
    /// How many instances are alive.
    pub instances: u64,
    /// What folding could not use.
    pub exceptions: Exceptions,
    /// The journal, where there is one.
    pub journal: Option<JournalStatus>,
}

/// A sign of life of an instance.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The instance.
    pub instance: String,
    /// When, in Unix seconds.
    pub at: i64,
    /// Requests in flight.
    pub in_flight: i64,
    /// Requests that could not be recorded since it started.
    pub dropped: u64,
}

/// What to clean, and how.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The instance that cleans.
    pub instance: String,
    /// Now, in Unix seconds.
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

    /// Whether a precision is examined in this pass (recipe 2).
    pub fn examines(&self, precision: i64) -> bool {
        self.number() % (precision / self.interval.max(1)).max(1) == 0
    }
}

impl Pass {
    /// Whether this pass need not be done when `last` was the last one that was. A last pass far
    /// ahead comes from a clock that is wrong, and must not keep all others from cleaning.
    pub fn is_done_by(&self, last: i64) -> bool {
        (0..=PASSES_AHEAD).contains(&last.saturating_sub(self.number()))
    }
}

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// Counters that were looked at.
    pub examined: u64,
    /// Slices that were removed.
    pub slices: u64,
    /// Counters that were empty and went.
    pub counters: u64,
    /// Contexts that were forgotten.
    pub contexts: u64,
    /// Contexts that left the ranking of the slowest.
    pub ranks: u64,
    /// Instances that were dead.
    pub instances: u64,
    /// What could not be understood, and was left alone.
    pub problems: Vec<Problem>,
}

/// What stands in a store's own record of the last pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassRecord {
    /// Its number.
    pub number: i64,
    /// When it ended, in Unix seconds.
    pub at: i64,
    /// Who did it.
    pub instance: String,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// What it did, and what it and earlier ones could not understand.
    pub cleaned: CleanReport,
}

/// Keeps aggregates. Every method may be called at any time, from any number of tasks.
///
/// # Cancel safety
/// Dropping a future of this trait leaves the store as it was or as if the future had ended;
/// [`append`](Self::append) is repeated with the same number to find out which.
pub trait Store: Send + Sync + 'static {
    /// Names the store's generation, and begins one where there is none.
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>>;

    /// Appends a call, once.
    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>>;

    /// Whether the call of that number, which was appended at `position`, can be read.
    fn readable<'a>(
        &'a self,
        generation: &'a str,
        instance: &'a str,
        seq: u64,
        position: Position,
    ) -> BoxFuture<'a, Result<Readable, StoreError>>;

    /// What the store knows of the fleet at `now`.
    fn status(&self, now: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>>;

    /// The journal, where calls are folded later by one instance of the fleet.
    fn journal(&self) -> Option<&dyn Journal> {
        None
    }

    /// Notes that an instance is alive.
    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Notes that an instance has ended.
    fn deregister<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Everything known of all contexts in the hour of `now` and the one before.
    fn snapshot(&self, now: i64) -> BoxFuture<'_, Result<Snapshot, StoreError>>;

    /// Everything known of one context in the hour of `now` and the one before, `None` when it is
    /// unknown. Problems are left out.
    fn context<'a>(
        &'a self,
        context: &'a str,
        now: i64,
    ) -> BoxFuture<'a, Result<Option<ContextSnapshot>, StoreError>>;

    /// The samples of a counter at a precision, oldest first; none when it is unknown (recipe 1).
    fn counter<'a>(
        &'a self,
        name: &'a str,
        precision: u32,
    ) -> BoxFuture<'a, Result<Vec<(i64, i64)>, StoreError>>;

    /// The records of a context that are retained at `now`, put together to slices of `width` seconds, which
    /// is one of [`WIDTHS`](crate::model::tier::WIDTHS), oldest first.
    fn records<'a>(
        &'a self,
        context: &'a str,
        width: u32,
        now: i64,
    ) -> BoxFuture<'a, Result<Vec<(i64, Aggregate)>, StoreError>>;

    /// The ranking of the slowest contexts with their means in seconds, slowest first (recipe 4).
    fn slowest(&self) -> BoxFuture<'_, Result<Vec<(String, f64)>, StoreError>>;

    /// Removes what is older than its retention (recipe 2). `None` when another instance does, or
    /// did, this pass.
    fn clean<'a>(
        &'a self,
        pass: &'a Pass,
    ) -> BoxFuture<'a, Result<Option<CleanReport>, StoreError>>;

    /// The last pass of any instance.
    fn last_pass(&self) -> BoxFuture<'_, Result<Option<PassRecord>, StoreError>>;

    /// What and where it is, in a few words, without passwords.
    fn describe(&self) -> String;

    /// What the operator should know about the store: an old version, an eviction policy, …
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
