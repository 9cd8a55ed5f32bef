//! Draining: at the start of each second, samples move from the cells to the pending batch.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;

use tokio::sync::Notify;

use super::cell::Scratch;
use super::counter::NamedCounter;
use super::flush_counters::FlushCounters;
use super::in_flight::Flow;
use super::minute_reports::ReportCollector;
use super::slow_drain::SlowRequestDrain;
use super::totals::{TargetTotals, Totals};
use super::{ContextHandle, Limits, Recorder};
use crate::error::{StoreError, StoreErrorKind};
use crate::task::lock;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::amounts::Amounts;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, ContextId, Kind, OVERFLOW, TIMER_OVERFLOW, UNMATCHED};
use tower_pulse_model::fleet::Fleet;
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::mark::{MAX_PENDING_MARKS, Mark, TooManyMarks};
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::slices::Merge;

const SECOND: i64 = 1_000_000_000;

/// A flush starts early when a ranking has this many pending ids, or half of its maximum if that is more: additions
/// beyond the maximum would have no room. Contexts and counters never cause an early flush, because their maxima bound
/// the memory of the pending batch.
const CROWDED_IDS: usize = 1_000;

/// The pending batch and the counts of the drain. No request takes the lock of `state`.
pub struct Drain {
    pub(super) state: Mutex<State>,
    /// Notified when a ranking in the batch has so many ids that a flush should start before the interval ends.
    pub pressure: Notify,
}

pub(super) struct State {
    pending: Batch,
    /// The second of the oldest sample that the flush has taken, but the store may not have yet.
    taken_since: Option<i64>,
    /// The number of marks that the flush has taken, but the store may not have yet.
    taken_marks: usize,
    flush: FlushCounters,
    totals: HashMap<ContextId, Totals>,
    pub(super) copies: RegistryCopies,
    scratch: Box<Scratch>,
    all_name: Arc<str>,
    drained_at: i64,
    slow: SlowRequestDrain,
    reports: ReportCollector,
    /// The requests in flight of each context in `copies.http`.
    pub(super) flows: Vec<Flow>,
}

/// Copies of the registries, so that a drain holds no lock of a registry.
#[derive(Default)]
pub(super) struct RegistryCopies {
    pub(super) http: Vec<Arc<ContextHandle>>,
    timers: Vec<Arc<ContextHandle>>,
    counters: Vec<Arc<NamedCounter>>,
}

impl Drain {
    /// A drain with an empty pending batch.
    pub fn new(precisions: Precisions, now: i64, app_version: Option<Arc<str>>) -> Self {
        Self {
            state: Mutex::new(State {
                pending: Batch::new(precisions),
                taken_since: None,
                taken_marks: 0,
                flush: FlushCounters::default(),
                totals: HashMap::new(),
                copies: RegistryCopies::default(),
                scratch: Scratch::new(),
                all_name: ALL.into(),
                drained_at: now,
                slow: SlowRequestDrain::new(now.div_euclid(SECOND)),
                reports: ReportCollector::new(app_version),
                flows: Vec::new(),
            }),
            pressure: Notify::new(),
        }
    }

    /// Sets the name of this instance, which slow and failed requests and minute reports carry.
    pub fn set_instance(&self, instance: &str) {
        let mut state = lock(&self.state);
        state.slow.instance = instance.into();
        state.reports.instance = instance.into();
    }

    /// Sets the current fleet. Requests are reported by minute only if the application has a version or the fleet has
    /// other instances.
    pub fn set_fleet(&self, fleet: Fleet) {
        lock(&self.state).reports.fleet = fleet;
    }

    /// Adds the measurements of the runtime and the process in the minute that begins at `minute`, in Unix seconds.
    pub fn add_machine(&self, minute: i64, machine: MachineMinute) {
        lock(&self.state).reports.machines.push((minute, machine));
    }

    /// Takes the pending batch. [`unsent_since`](Self::unsent_since) covers the samples of the batch until
    /// [`note_all_sent`](Self::note_all_sent) is called.
    pub fn take(&self) -> Batch {
        lock(&self.state).take()
    }

    /// Whether the pending batch is to be flushed early.
    pub fn is_crowded(&self) -> bool {
        is_crowded(&lock(&self.state).pending)
    }

    /// Notes that all taken samples are in the store or lost.
    pub fn note_all_sent(&self) {
        let mut state = lock(&self.state);
        (state.taken_since, state.taken_marks) = (None, 0);
    }

    /// The second of the oldest sample that may not be in the store yet, in Unix seconds; `None` if the store has all
    /// samples.
    pub fn unsent_since(&self) -> Option<i64> {
        let state = lock(&self.state);
        earlier(state.pending.since, state.taken_since)
    }

    /// Approximate bytes of the pending batch.
    pub fn pending_bytes(&self) -> usize {
        lock(&self.state).pending.approximate_bytes()
    }

    /// The amounts in the pending batch.
    pub fn pending_amounts(&self) -> Amounts {
        lock(&self.state).pending.amounts()
    }

    /// Reads or changes the counts of draining and flushing.
    pub fn counters<T>(&self, with: impl FnOnce(&mut FlushCounters) -> T) -> T {
        with(&mut lock(&self.state).flush)
    }

    /// A copy of every context's totals.
    pub fn totals(&self) -> Vec<(Arc<str>, Totals)> {
        let state = lock(&self.state);
        let totals = state.totals.iter();
        totals
            .map(|(context, totals)| (context.name.clone(), totals.clone()))
            .collect()
    }

    /// Whether a request in another context than `<unmatched>` was recorded.
    pub fn has_routes(&self) -> bool {
        let state = lock(&self.state);
        let mut totals = state.totals.iter();
        totals.any(|(context, totals)| {
            context.kind == Kind::Http && &*context.name != UNMATCHED && totals.count > 0
        })
    }

    /// The number of contexts, counters, rankings, minute reports and marks in the pending batch.
    pub fn pending_series(&self) -> usize {
        lock(&self.state).pending.len()
    }
}

fn is_crowded(batch: &Batch) -> bool {
    let mut rankings = batch.rankings.values();
    rankings.any(|ranking| {
        let half = ranking.spec.max_ids as usize / 2;
        ranking.ids.len() >= half.max(CROWDED_IDS)
    })
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

/// The second to which the samples of a drain belong. The first drain in a second, even a late one, drains the previous
/// second. Any other drain drains the current second.
fn second_of(before: i64, now: i64) -> i64 {
    let (before, now) = (before.div_euclid(SECOND), now.div_euclid(SECOND));
    if now > before { now - 1 } else { now }
}

impl Recorder {
    /// Moves all samples into the pending batch. After [`close`](super::RecordingState::close), counts the samples as
    /// dropped instead.
    pub fn drain(&self) {
        self.drain_to(&mut lock(&self.drain.state));
    }

    /// Moves all samples into the pending batch, and takes the batch. From then on, the clock follows the store's time
    /// (`origin`: see `Clock::origin`), or the wall clock if `origin` is `None`.
    pub(crate) fn drain_and_follow(&self, origin: Option<i64>) -> Batch {
        let mut state = lock(&self.drain.state);
        let state = &mut *state;
        self.drain_to(state);
        state.reports.report(&mut state.pending);
        self.recording.clock().follow(origin);
        state.drained_at = self.recording.clock().now_nanos();
        state.take()
    }

    fn drain_to(&self, state: &mut State) {
        self.http.refresh(&mut state.copies.http);
        self.timers.refresh(&mut state.copies.timers);
        self.counters.refresh(&mut state.copies.counters);
        let contexts = state.copies.http.len();
        state.flows.resize(contexts, Flow::default());

        let now = self.recording.clock().now_nanos();
        let second = second_of(state.drained_at, now);
        if now.div_euclid(SECOND) > state.drained_at.div_euclid(SECOND) {
            state.flush.lag = now.rem_euclid(SECOND);
            state.flush.max_lag = state.flush.max_lag.max(state.flush.lag);
        }
        state.drained_at = now;

        let mut all = Aggregate::default();
        state.slow.begin(second, now.div_euclid(SECOND));
        state.reports.begin(&mut state.pending, second);
        let copies = std::mem::take(&mut state.copies);
        for handle in self.due(&copies, state.slow.concerns_all()) {
            if let Some(list) = &handle.slow {
                let listed = list.drain(&handle.cells, state.slow.parameters);
                if !listed.is_empty() && !self.recording.is_closed() {
                    let context = ContextId::new(handle.kind, handle.name.clone());
                    state
                        .totals_of(&context, &self.limits)
                        .add_exemplars(&listed);
                    state.slow.add(&mut state.pending, context, listed);
                }
            }
            // Timers and kinds are drained before requests. A request is recorded before its timers and its kind. So
            // each drained timer or kind has its request in this drain or an earlier one.
            let timers = handle.timers.drain();
            let kinds = std::mem::take(&mut *lock(&handle.kinds));
            let aggregate = handle.cells.drain(&mut state.scratch);
            let is_idle = aggregate.is_none() && timers.is_none() && kinds.is_empty();
            let mut aggregate = aggregate.unwrap_or_default();
            aggregate.kinds = kinds;
            if handle.kind == Kind::Http && !handle.is_unmatched {
                // The begun requests are taken after the samples. A request begins before it ends, so each ended
                // request counts as begun.
                let begun = handle.cells.take_begun();
                let flow = &mut state.flows[handle.cells.index()];
                flow.add(begun, &aggregate.times, now.div_euclid(SECOND));
            }
            if is_idle {
                continue;
            }
            if self.recording.is_closed() {
                state.flush.dropped.samples += aggregate.times.count;
                continue;
            }
            if handle.kind == Kind::Http {
                // `aggregate` has no timers yet, because `<all>` has none.
                all.merge(&aggregate);
                state.reports.add(handle.id, &aggregate);
            }
            aggregate.timers = timers.unwrap_or_default();
            state.add_to_pending(handle, second, &aggregate, &self.limits);
        }
        let counters = &copies.counters;
        self.counters.take_dirty(counters.len(), |index| {
            let counter = &counters[index];
            let n = counter.value.take();
            if n == 0 {
                return;
            }
            if self.recording.is_closed() {
                state.flush.dropped += Amounts::of_additions(n.unsigned_abs());
                return;
            }
            state.flush.recorded += Amounts::of_additions(n.unsigned_abs());
            state.pending.count(&counter.name, second, n);
        });
        state.copies = copies;
        let ranked = self.rankings.drain(&mut state.pending, second);
        match self.recording.is_closed() {
            true => state.flush.dropped += Amounts::of_additions(ranked),
            false => state.flush.recorded += Amounts::of_additions(ranked),
        }
        if all.times.count > 0 || !all.kinds.is_empty() {
            let name = state.all_name.clone();
            let pending = &mut state.pending;
            pending.add(&name, Kind::All, second, &all);
        }
        state.slow.end(&mut state.pending);
        state.reports.report_machines(&mut state.pending);
        match self.recording.is_closed() {
            true => state.reports.report(&mut state.pending),
            false => state
                .reports
                .end(&mut state.pending, now.div_euclid(SECOND)),
        }
        if !state.pending.is_empty() {
            state.pending.since.get_or_insert(second);
        }
        if is_crowded(&state.pending) {
            self.drain.pressure.notify_one();
        }
    }

    /// The contexts to drain: contexts in which something happened since the last drain, or all contexts if
    /// `wants_all`. The dirty bits of all contexts are taken before the first context is drained.
    fn due<'a>(&'a self, copies: &'a RegistryCopies, wants_all: bool) -> Vec<&'a ContextHandle> {
        let mut due: Vec<&ContextHandle> = Vec::new();
        let registries = [(&self.http, &copies.http), (&self.timers, &copies.timers)];
        for (registry, copy) in registries {
            registry.take_dirty(copy.len(), |index| {
                if !wants_all {
                    due.push(&copy[index]);
                }
            });
            if wants_all {
                due.extend(copy.iter().map(|context| &**context));
            }
        }
        // `<unmatched>` is in no registry, so each drain visits it.
        due.push(&self.unmatched);
        due
    }

    /// The totals of the counters since the start, including additions that are not drained yet.
    #[cfg(feature = "query")]
    pub fn counter_totals(&self) -> HashMap<Arc<str>, i64> {
        let mut guard = lock(&self.drain.state);
        let counters = &mut guard.copies.counters;
        self.counters.refresh(counters);
        let overflow = &self.counters.overflow;
        let mut totals = HashMap::new();
        for counter in counters {
            let total = counter.value.total();
            // The overflow counter always exists, even if no name overflows.
            if total != 0 || !Arc::ptr_eq(counter, overflow) {
                let sum: &mut i64 = totals.entry(counter.name.clone()).or_default();
                *sum = sum.saturating_add(total);
            }
        }
        totals
    }

    /// Puts a batch that could not be flushed back into the pending batch.
    pub fn put_back(&self, batch: Batch) {
        let mut state = lock(&self.drain.state);
        state.taken_marks = state.taken_marks.saturating_sub(batch.marks.len());
        let later = std::mem::replace(&mut state.pending, batch);
        state.pending.merge(later);
        state.flush.lost.details += state.pending.compact(self.limits.pending_bytes);
    }

    /// Notes in the pending batch how many requests the store has lost. These requests count as missing in `second`,
    /// the second of the newest lost request.
    pub fn add_missing(&self, (second, requests): (i64, u64)) {
        if requests > 0 {
            let mut state = lock(&self.drain.state);
            let drained_at = state.drained_at.div_euclid(SECOND);
            let all = state.pending.seen(&ContextId::all(), second);
            all.add_missing(second, requests);
            state.pending.since.get_or_insert(drained_at);
        }
    }

    /// Adds a mark to the pending batch.
    ///
    /// # Errors
    /// Too many marks wait for the store, or the recorder is closed.
    pub fn add_mark(&self, mark: Mark) -> Result<(), StoreError> {
        let mut state = lock(&self.drain.state);
        let refused = |why: String| StoreError::new(StoreErrorKind::Refused, why);
        // The last flush takes the pending batch after the recorder is closed. A later mark would be lost.
        if self.recording.is_closed() {
            return Err(refused(
                "the shutdown has begun: no mark is made".to_owned(),
            ));
        }
        let is_known = state.pending.marks.contains_key(&mark.id);
        let added = match state.taken_marks + state.pending.marks.len() {
            MAX_PENDING_MARKS.. if !is_known => Err(TooManyMarks),
            _ => state.pending.add_mark(mark),
        };
        added.map_err(|error| refused(error.to_string()))
    }

    /// Drains at the start of each second, independently of the flush interval.
    pub async fn drain_each_second(self: Arc<Self>) {
        loop {
            let clock = self.recording.clock();
            let to_next = SECOND - clock.now_nanos().rem_euclid(SECOND);
            let wait = std::time::Duration::from_nanos(to_next.unsigned_abs());
            clock.sleep(wait).await;
            self.drain();
        }
    }
}

impl State {
    fn take(&mut self) -> Batch {
        self.taken_since = earlier(self.taken_since, self.pending.since);
        self.taken_marks += self.pending.marks.len();
        self.pending.take()
    }

    fn add_to_pending(
        &mut self,
        handle: &ContextHandle,
        second: i64,
        aggregate: &Aggregate,
        limits: &Limits,
    ) {
        let count = aggregate.times.count;
        self.flush.recorded.samples += count;
        if matches!(&*handle.name, OVERFLOW | TIMER_OVERFLOW) {
            self.flush.overflowed += count;
        }
        let pending = &mut self.pending;
        pending.add(&handle.name, handle.kind, second, aggregate);
        let context = ContextId::new(handle.kind, handle.name.clone());
        self.totals_of(&context, limits).add(aggregate);
    }

    fn totals_of(&mut self, context: &ContextId, limits: &Limits) -> &mut Totals {
        let totals = self.totals.entry(context.clone());
        totals.or_insert_with(|| {
            let mut targets = limits.targets.iter();
            let target = targets.find(|target| target.context == *context);
            Totals {
                target: target.map(|target| TargetTotals::new(target.duration.as_secs_f64())),
                ..Totals::new(context.kind)
            }
        })
    }
}
