//! How figures leave the cells: once a second, at the turn of the second, into the pending batch.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;

use tokio::sync::Notify;

use super::cell::Scratch;
use super::counter::CounterEntry;
use super::flush_counters::FlushCounters;
use super::totals::Totals;
use super::{Entry, Recorder};
use crate::model::batch::{Aggregate, Batch, Merge};
use crate::model::context::{ALL, Kind, OVERFLOW};
use crate::task::{Stopped, lock};

const SECOND: i64 = 1_000_000_000;

/// So many names waiting are flushed before their time.
const PRESSURE: usize = 1_000;

/// What has been drained, and what is known of it. None of it is touched by a request.
pub(crate) struct Drain {
    state: Mutex<State>,
    /// Told when much is pending.
    pub(crate) pressure: Notify,
}

struct State {
    pending: Batch,
    figures: FlushCounters,
    totals: HashMap<Arc<str>, Totals>,
    entries: Entries,
    scratch: Box<Scratch>,
    all: Arc<str>,
    drained_at: i64,
    lateness: i64,
    lateness_max: i64,
    dropped: u64,
    overflowed: u64,
}

/// The registries' entries, so that a drain holds no registry's lock.
#[derive(Default)]
struct Entries {
    http: Vec<Arc<Entry>>,
    timers: Vec<Arc<Entry>>,
    counters: Vec<Arc<CounterEntry>>,
}

/// FlushCounters of the drain itself, for health.
pub(crate) struct DrainStats {
    pub(crate) pending: usize,
    pub(crate) dropped: u64,
    pub(crate) overflowed: u64,
    pub(crate) lateness: f64,
    pub(crate) lateness_max: f64,
}

impl std::fmt::Debug for Drain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pending = lock(&self.state).pending.len();
        f.debug_struct("Drain").field("pending", &pending).finish()
    }
}

impl Drain {
    pub(crate) fn new(now: i64) -> Self {
        Self {
            state: Mutex::new(State {
                pending: Batch::default(),
                figures: FlushCounters::default(),
                totals: HashMap::new(),
                entries: Entries::default(),
                scratch: Scratch::new(),
                all: ALL.into(),
                drained_at: now,
                lateness: 0,
                lateness_max: 0,
                dropped: 0,
                overflowed: 0,
            }),
            pressure: Notify::new(),
        }
    }

    /// Takes all that is pending.
    pub(crate) fn take(&self) -> Batch {
        let mut state = lock(&self.state);
        std::mem::take(&mut state.pending)
    }

    /// Reads or changes the figures.
    pub(crate) fn counters<T>(&self, with: impl FnOnce(&mut FlushCounters) -> T) -> T {
        with(&mut lock(&self.state).figures)
    }

    /// A copy of every context's totals.
    #[cfg(feature = "admin")]
    pub(crate) fn totals(&self) -> Vec<(Arc<str>, Totals)> {
        let state = lock(&self.state);
        let totals = state.totals.iter();
        totals
            .map(|(name, totals)| (name.clone(), totals.clone()))
            .collect()
    }

    pub(crate) fn drain_figures(&self) -> DrainStats {
        let state = lock(&self.state);
        DrainStats {
            pending: state.pending.len(),
            dropped: state.dropped,
            overflowed: state.overflowed,
            lateness: state.lateness as f64 / 1e9,
            lateness_max: state.lateness_max as f64 / 1e9,
        }
    }
}

/// The second that figures belong to which were collected between two drains: the one that has just
/// ended when a drain comes at its turn, however late; else the current one.
fn second_of(before: i64, now: i64) -> i64 {
    let (before, now) = (before.div_euclid(SECOND), now.div_euclid(SECOND));
    if now > before { now - 1 } else { now }
}

impl Recorder {
    /// Moves everything that was recorded into the pending batch. After
    /// [`Core::close`](super::Core::close) it is counted as dropped instead.
    pub(crate) fn drain(&self) {
        let mut guard = lock(&self.drain.state);
        let state = &mut *guard;
        self.http.refresh(&mut state.entries.http);
        self.timers.refresh(&mut state.entries.timers);
        self.counters.refresh(&mut state.entries.counters);

        let now = self.core.clock.now_nanos();
        let second = second_of(state.drained_at, now);
        if now.div_euclid(SECOND) > state.drained_at.div_euclid(SECOND) {
            state.lateness = now.rem_euclid(SECOND);
            state.lateness_max = state.lateness_max.max(state.lateness);
        }
        state.drained_at = now;

        let mut all = Aggregate::default();
        let entries = std::mem::take(&mut state.entries);
        let contexts = entries.http.iter().chain(&entries.timers);
        for entry in contexts.chain(std::iter::once(&self.unmatched)) {
            let Some(found) = entry.cells.drain(&mut state.scratch) else {
                continue;
            };
            if self.core.is_closed() {
                state.dropped += found.times.count;
                continue;
            }
            state.fold_into_pending(self, entry, second, &found);
            if entry.kind == Kind::Http {
                all.merge(&found);
            }
        }
        for counter in &entries.counters {
            let n = counter.value.take();
            if n != 0 && !self.core.is_closed() {
                let pending = &mut state.pending;
                pending.count(&self.precisions, &counter.name, second, n);
            }
        }
        state.entries = entries;
        if all.times.count > 0 {
            let name = state.all.clone();
            let pending = &mut state.pending;
            pending.add(&self.precisions, &name, Kind::All, second, &all);
        }
        if state.pending.len() >= PRESSURE {
            self.drain.pressure.notify_one();
        }
    }

    /// Puts back what could not be flushed.
    pub(crate) fn put_back(&self, batch: Batch) {
        let mut state = lock(&self.drain.state);
        state.pending.merge(batch, &self.precisions);
        state.pending.compact(self.limits.pending_bytes);
    }

    /// Drains at each turn of a second, whatever the flush interval, until it is told to stop.
    pub(crate) async fn drain_each_second(self: Arc<Self>, mut stopped: Stopped) {
        loop {
            let clock = &self.core.clock;
            let to_turn = SECOND - clock.now_nanos().rem_euclid(SECOND);
            let wait = std::time::Duration::from_nanos(to_turn.unsigned_abs());
            if stopped.or(clock.sleep(wait)).await.is_none() {
                return;
            }
            self.drain();
        }
    }
}

impl State {
    fn fold_into_pending(
        &mut self,
        recorder: &Recorder,
        entry: &Entry,
        second: i64,
        found: &Aggregate,
    ) {
        let count = found.times.count;
        self.figures.recorded += count;
        if &*entry.name == OVERFLOW {
            self.overflowed += count;
        }
        let pending = &mut self.pending;
        pending.add(&recorder.precisions, &entry.name, entry.kind, second, found);
        match self.totals.get_mut(&entry.name) {
            Some(totals) => totals.add(found),
            None => {
                let mut totals = Totals::new(entry.kind);
                totals.add(found);
                self.totals.insert(entry.name.clone(), totals);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_belongs_to_the_second_in_which_it_finished() {
        let at = |seconds: f64| (seconds * 1e9) as i64;
        assert_eq!(second_of(at(10.0), at(10.7)), 10);
        assert_eq!(second_of(at(10.7), at(11.001)), 10);
        assert_eq!(second_of(at(10.001), at(12.4)), 11);
        assert_eq!(second_of(at(10.5), at(7.2)), 7);
    }
}
