//! Where aggregates are kept: one trait, and two stores that behave alike. [`memory`] is the
//! embedded default and the reference; [`self::redis`] is shared by a fleet.
//!
//! Read this file, then [`memory`], then `redis/`.

pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use crate::error::StoreError;
use crate::model::batch::{Batch, Spread};
use crate::model::snapshot::{ContextSnapshot, Problem, Snapshot};
use crate::task::BoxFuture;

/// Seconds after its last beat during which an instance counts as alive.
pub const ALIVE_FOR: i64 = 60;
/// How far in a store's future a slice or an hour may begin, in seconds.
pub const SKEW_ALLOWED: i64 = 3_600;
/// How many slices of the finest precision [`Snapshot::recent`] reaches back.
pub const RECENT_SLICES: i64 = 15;
/// How many passes ahead of ours another instance's clock may be.
const PASSES_AHEAD: i64 = 5;

/// One numbered part of a batch: merged once, however often it is sent.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who sends it: a random name that dies with the process.
    pub instance: String,
    /// Its number, counted up by one for each call of the instance, from 1.
    pub seq: u64,
    /// The number of the last call that the store is expected to have merged: `seq - 1`, but for
    /// the first call after some were lost.
    pub previous: u64,
    /// What is to be merged.
    pub batch: Batch,
}

/// What a store did with a [`Call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was merged, with these exceptions. So is the last call answered when it comes again and
    /// requests were late or skewed: its sender has not heard of them.
    Merged(Merged),
    /// It had been merged before; nothing was done.
    Duplicate,
    /// The store knows the instance and lacks calls before this one (a failover lost them); nothing
    /// was done.
    Gap {
        /// The last call that it has.
        fence: u64,
    },
    /// The store does not know the instance any more (flushed, evicted, expired); nothing was done.
    Reset,
}

/// The exceptions of a merged call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Requests older than the statistics of the last hour: in the counters, not in the statistics.
    pub late: u64,
    /// Requests from more than an hour in the store's future: refused.
    pub skewed: u64,
    /// Keys whose part was dropped because they hold something else.
    pub quarantined: Vec<Problem>,
}

/// A sign of life of an instance.
#[derive(Clone, Debug)]
pub struct Beat {
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
    pub slowest_after: i64,
    /// Seconds after which a context without a request is forgotten.
    pub forget_after: i64,
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
pub struct Cleaned {
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
pub struct LastPass {
    /// Its number.
    pub number: i64,
    /// When it ended, in Unix seconds.
    pub at: i64,
    /// Who did it.
    pub instance: String,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// What it did, and what it and earlier ones could not understand.
    pub cleaned: Cleaned,
}

/// Keeps aggregates. Every method may be called at any time, from any number of tasks.
///
/// # Cancel safety
/// Dropping a future of this trait leaves the store as it was or as if the future had ended;
/// [`apply`](Self::apply) is repeated with the same number to find out which.
pub trait Store: Send + Sync + 'static {
    /// Merges a call, once.
    fn apply<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Applied, StoreError>>;

    /// Notes that an instance is alive.
    fn beat<'a>(&'a self, beat: &'a Beat) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Notes that an instance has ended.
    fn leave<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

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

    /// The histograms of a context at a precision, oldest first.
    fn histograms<'a>(
        &'a self,
        context: &'a str,
        precision: u32,
    ) -> BoxFuture<'a, Result<Vec<(i64, Spread)>, StoreError>>;

    /// The ranking of the slowest contexts with their means in seconds, slowest first (recipe 4).
    fn slowest(&self) -> BoxFuture<'_, Result<Vec<(String, f64)>, StoreError>>;

    /// Removes what is older than its retention (recipe 2). `None` when another instance does, or
    /// did, this pass.
    fn clean<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Cleaned>, StoreError>>;

    /// The last pass of any instance.
    fn last_pass(&self) -> BoxFuture<'_, Result<Option<LastPass>, StoreError>>;

    /// What and where it is, in a few words, without passwords.
    fn describe(&self) -> String;

    /// What the operator should know about the store: an old version, an eviction policy, …
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
