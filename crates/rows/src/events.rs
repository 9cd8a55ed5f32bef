//! What happens to the rows of a cache in this process: each event counts under its name, and in the sums of the cache.

use std::sync::atomic::{AtomicU64, Ordering};

use tower_pulse_core::recorder::{Counter, Recorder};
use tower_pulse_core::row_lists::RowSums;

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
        let mut sums = RowSums::default();
        sums.hits = self.hits.sum();
        sums.misses = self.misses.sum();
        sums.stale = self.stale.sum();
        sums.refreshes = self.refreshes.sum();
        sums.failures = self.failures.sum();
        sums
    }
}
