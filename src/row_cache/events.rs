//! What happens to the rows of a cache in this process: each event counts under its name, and in the sums of the cache.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::recorder::{Counter, Recorder};

/// How often something has happened to the rows of a cache in this process, since the cache was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RowSums {
    /// Reads that were answered from the cache.
    pub hits: u64,
    /// Reads that found no row.
    pub misses: u64,
    /// Rows that were read while the store was away, as this process had last seen them.
    pub stale: u64,
    /// Loads that were written to the cache.
    pub refreshes: u64,
    /// Loads that failed, also of rows without a schedule, and of those that have left it.
    pub failures: u64,
}

/// An event. The sum is its own, as all counters beyond `max_counters` share one.
#[derive(Debug)]
pub(super) struct Event {
    counter: Counter,
    sum: AtomicU64,
}

impl Event {
    pub(super) fn count(&self) {
        self.counter.increment();
        self.sum.fetch_add(1, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }
}

/// The events of a cache.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) hits: Event,
    pub(super) misses: Event,
    pub(super) stale: Event,
    pub(super) refreshes: Event,
    pub(super) failures: Event,
}

impl Events {
    /// The events whose counters are named after `prefix`.
    pub(super) fn new(recorder: &Recorder, prefix: &str) -> Self {
        let event = |name: &str| Event {
            counter: recorder.counter(&format!("{prefix}:{name}")),
            sum: AtomicU64::new(0),
        };
        Self {
            hits: event("hits"),
            misses: event("misses"),
            stale: event("stale"),
            refreshes: event("refreshes"),
            failures: event("failures"),
        }
    }

    pub(super) fn sums(&self) -> RowSums {
        RowSums {
            hits: self.hits.sum(),
            misses: self.misses.sum(),
            stale: self.stale.sum(),
            refreshes: self.refreshes.sum(),
            failures: self.failures.sum(),
        }
    }
}
