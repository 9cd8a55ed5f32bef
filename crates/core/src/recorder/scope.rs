//! The timers of one request: which ran, how often, and which part of the request's time they cover.

use std::sync::{Arc, Mutex};

use super::ContextHandle;
use super::interval_union::IntervalUnion;
use super::timer_cells::MAX_LIVE;
use crate::clock::Tick;
use crate::task::lock;
use tower_pulse_model::context::RecordId;
use tower_pulse_model::failure::Failure;
use tower_pulse_model::order::keep_first;
use tower_pulse_model::slow_request::{LISTED_TIMERS, TimerPart};
use tower_pulse_model::timer_sums::{TimerSums, other};

/// The timers of one request. A request without timers has no scope.
///
/// When the request ends, the sums of its timers are added to its context. Timers that are still running, in tasks that
/// outlive the request, are added to the same context when they end. The time after the request's end does not count as
/// covered. If the request is not recorded, nothing is added.
///
/// The scope also holds the last failure of a timer or a panic within the request.
pub struct Scope {
    /// The moment from which the times in `state` are counted. Not later than the start of any timer.
    base: Tick,
    state: Mutex<State>,
}

/// A timer that counts under the request in which it was started.
pub(super) struct Started {
    scope: Arc<Scope>,
    /// The index of the timer's runs in the scope.
    at: usize,
    start: u64,
}

/// The sums that the timers of a request add to its context, once the request is recorded.
#[derive(Debug)]
pub struct RequestTimers {
    covered: u64,
    sums: Vec<(RecordId, TimerSums)>,
    /// The last failure of a timer or a panic within the request.
    pub failure: Option<Failure>,
}

#[derive(Default)]
struct State {
    timers: Vec<TimerRuns>,
    /// The time during which any timer ran.
    covered: IntervalUnion,
    failure: Option<Failure>,
    /// The context and the end of the request, once the request has ended.
    ended: Option<(Arc<ContextHandle>, u64)>,
}

/// The sums of a run that ended after its request, and the time that only this run covers.
struct Outliving {
    context: Arc<ContextHandle>,
    covered: u64,
    timer: RecordId,
    sums: TimerSums,
}

/// The runs of a timer within the request.
struct TimerRuns {
    id: RecordId,
    /// The starts of the runs in progress, oldest first.
    running: Vec<u64>,
    covered: IntervalUnion,
    /// The sums of the runs that have ended, without the time that they cover.
    sums: TimerSums,
}

impl Scope {
    /// A scope without timers, whose times are counted from `base`.
    pub fn new(base: Tick) -> Self {
        Self {
            base,
            state: Mutex::default(),
        }
    }

    /// Notes a failure within the request.
    pub fn fail(&self, failure: Failure) {
        lock(&self.state).failure = Some(failure);
    }

    /// Ends the request of a context now. Timers that end later add themselves to the context.
    pub fn end(&self, context: &Arc<ContextHandle>) -> RequestTimers {
        let mut state = lock(&self.state);
        let clock = context.recording().clock();
        let now = clock.nanos_between(self.base, clock.tick());
        state.ended = Some((context.clone(), now));
        state.end(now)
    }

    /// Adds a run that was unknown until now. The run ended at `end` and took `nanos`.
    pub(super) fn add_ended(&self, timer: &ContextHandle, end: Tick, nanos: u64) {
        let end = timer.recording().clock().nanos_between(self.base, end);
        let mut state = lock(&self.state);
        let at = state.index_of(timer.id);
        let outliving = state.add(at, end.saturating_sub(nanos), end, nanos);
        drop(state);
        outliving.into_iter().for_each(Outliving::record);
    }
}

impl Outliving {
    fn record(self) {
        let sums = [(self.timer, self.sums)];
        self.context.add_timers(self.covered, sums);
    }
}

impl Started {
    pub(super) fn new(scope: Arc<Scope>, timer: &ContextHandle, start: Tick) -> Self {
        let clock = timer.recording().clock();
        let start = clock.nanos_between(scope.base, start);
        let at = lock(&scope.state).start(timer.id, start);
        Self { scope, at, start }
    }

    pub(super) fn end(self, nanos: u64) {
        let outliving = lock(&self.scope.state).finish(self.at, self.start, Some(nanos));
        outliving.into_iter().for_each(Outliving::record);
    }

    /// Ends the timer as if it had never run.
    pub(super) fn discard(self) {
        lock(&self.scope.state).finish(self.at, self.start, None);
    }
}

impl RequestTimers {
    /// The time that at least one timer covers, and the timers that cover the most time.
    pub(super) fn parts(&self) -> (u64, Vec<TimerPart>) {
        let timers = self.sums.iter().map(|(timer, sums)| TimerPart {
            timer: *timer,
            count: sums.count,
            covered: sums.covered,
        });
        let mut timers: Vec<_> = timers.collect();
        keep_first(&mut timers, LISTED_TIMERS, |a, b| b.covered.cmp(&a.covered));
        timers.shrink_to_fit();
        (self.covered, timers)
    }

    /// Adds the sums to the context of the request.
    pub fn add_to(self, context: &ContextHandle) {
        // Without sums, no time is covered.
        if !self.sums.is_empty() {
            context.add_timers(self.covered, self.sums);
        }
    }
}

impl State {
    /// The index of a timer, or of `other()` if there are too many timers.
    fn index_of(&mut self, id: RecordId) -> usize {
        let position = |timers: &[TimerRuns], id| timers.iter().position(|timer| timer.id == id);
        let existing = position(&self.timers, id);
        let id = match self.timers.len() < MAX_LIVE {
            true => id,
            false => other(),
        };
        let at = existing.or_else(|| position(&self.timers, id));
        at.unwrap_or_else(|| {
            self.timers.push(TimerRuns {
                id,
                running: Vec::new(),
                covered: IntervalUnion::default(),
                sums: TimerSums::default(),
            });
            self.timers.len() - 1
        })
    }

    fn start(&mut self, id: RecordId, start: u64) -> usize {
        let at = self.index_of(id);
        let running = &mut self.timers[at].running;
        running.insert(running.partition_point(|other| *other <= start), start);
        at
    }

    /// Ends a timer. `nanos` is `None` if the timer is discarded. Returns the sums to add to the context of the
    /// request, if the request has already ended.
    fn finish(&mut self, at: usize, start: u64, nanos: Option<u64>) -> Option<Outliving> {
        let timer = &mut self.timers[at];
        if let Ok(started) = timer.running.binary_search(&start) {
            timer.running.remove(started);
        }
        let nanos = nanos?;
        self.add(at, start, start.saturating_add(nanos), nanos)
    }

    /// Returns the sums to add to the context of the request, if the request has already ended.
    fn add(&mut self, at: usize, start: u64, end: u64, nanos: u64) -> Option<Outliving> {
        let timer = &mut self.timers[at];
        // All runs of a timer together count the request once.
        let requests = 1 - std::mem::replace(&mut timer.sums.requests, 1);
        let Some((context, request_end)) = self.ended.clone() else {
            timer.sums.count += 1;
            timer.sums.sum = timer.sums.sum.saturating_add(nanos);
            self.cover(at, start, end);
            return None;
        };
        // If the run was unknown when the request ended, its time within the request is not covered yet.
        let before = [self.covered.total(), timer.covered.total()];
        if start < request_end {
            self.cover(at, start, end.min(request_end));
        }
        let timer = &self.timers[at];
        Some(Outliving {
            context,
            covered: self.covered.total() - before[0],
            timer: timer.id,
            sums: TimerSums {
                count: 1,
                requests,
                sum: nanos,
                covered: timer.covered.total() - before[1],
            },
        })
    }

    /// Adds an interval to the time that a timer covers, and to the time that any timer covers.
    fn cover(&mut self, at: usize, start: u64, end: u64) {
        let timer = &mut self.timers[at];
        timer
            .covered
            .add(start, end, timer.running.first().copied());
        let running = self.timers.iter().filter_map(|timer| timer.running.first());
        self.covered.add(start, end, running.min().copied());
    }

    fn end(&mut self, now: u64) -> RequestTimers {
        for at in 0..self.timers.len() {
            if let Some(oldest) = self.timers[at].running.first().copied() {
                self.cover(at, oldest, now);
            }
        }
        let sums = self.timers.iter().map(|timer| {
            let covered = timer.covered.total();
            let sums = TimerSums {
                covered,
                ..timer.sums
            };
            (timer.id, sums)
        });
        RequestTimers {
            covered: self.covered.total(),
            sums: sums
                .filter(|(_, sums)| *sums != TimerSums::default())
                .collect(),
            failure: self.failure.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::context::Kind;

    #[test]
    fn timers_beyond_the_limit_count_as_other() {
        let mut state = State::default();
        // Each timer runs for a nanosecond, and the first timer runs twice.
        let runs = (0..MAX_LIVE as u64 + 30).map(|number| (number, number));
        for (number, start) in runs.chain([(0, 500)]) {
            let at = state.start(RecordId::new(Kind::Timer, &number.to_string()), start);
            assert!(state.finish(at, start, Some(1)).is_none());
        }
        let timers = state.end(1_000).sums;
        assert_eq!(timers.len(), MAX_LIVE + 1);
        let sums = |at: usize| {
            let (_, sums) = timers[at];
            [sums.count, sums.requests, sums.sum, sums.covered]
        };
        assert_eq!(sums(0), [2, 1, 2, 2]);
        assert_eq!(sums(MAX_LIVE)[..3], [30, 1, 30]);
    }
}
