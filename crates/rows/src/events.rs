//! Counts the events of a cache in this process: each event adds to the counter of its name, and to a sum in the cache.

use std::sync::atomic::{AtomicU64, Ordering};

use tower_pulse_core::recorder::{Counter, Recorder};
use tower_pulse_core::row_lists::RowSums;

/// An event. Its discriminant is the index of its name in `NAMES`. The first three events are also counted per row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Hit,
    Miss,
    Failure,
    Refresh,
    Stale,
}

const NAMES: [&str; 5] = ["hits", "misses", "failures", "refreshes", "stale"];

/// The counter and the sum of each event. The sums are separate, because all counters beyond `max_counters` share one
/// value.
#[derive(Debug)]
pub(super) struct Events([(Counter, AtomicU64); NAMES.len()]);

impl Events {
    pub(super) fn new(recorder: &Recorder, prefix: &str) -> Self {
        let counter = |name| recorder.counter(&format!("{prefix}:{name}"));
        Self(NAMES.map(|name| (counter(name), AtomicU64::new(0))))
    }

    pub(super) fn count(&self, event: Event) {
        let (counter, sum) = &self.0[event as usize];
        counter.increment();
        sum.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sums(&self) -> RowSums {
        let all = self.0.each_ref();
        let all = all.map(|(_, sum)| sum.load(Ordering::Relaxed));
        let mut sums = RowSums::default();
        [
            sums.hits,
            sums.misses,
            sums.failures,
            sums.refreshes,
            sums.stale,
        ] = all;
        sums
    }
}
