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
    /// The index of its sums in the scope.
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
    timers: Vec<OneTimer>,
    /// The time during which any timer ran.
    covered: IntervalUnion,
    failure: Option<Failure>,
    /// The context of the request and its end, once the request has ended.
    ended: Option<(Arc<ContextHandle>, u64)>,
}

/// The sums of a run that ended after its request, and the time that no other run covers.
struct Late {
    entry: Arc<ContextHandle>,
    covered: u64,
    timer: RecordId,
    sums: TimerSums,
}

/// The timers of one name.
struct OneTimer {
    id: RecordId,
    /// The starts of the timers that are running, oldest first.
    running: Vec<u64>,
    covered: IntervalUnion,
    /// The sums of the timers that have ended, without the time that they cover.
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

    /// Ends the request of the context `entry` now. Timers that end later add themselves to the context.
    pub fn end(&self, entry: &Arc<ContextHandle>) -> RequestTimers {
        let mut state = lock(&self.state);
        let clock = entry.recording().clock();
        let now = clock.nanos_between(self.base, clock.tick());
        state.ended = Some((entry.clone(), now));
        state.end(now)
    }

    /// Adds a run that ended at `end` and took `nanos`, and that was not known before.
    pub(super) fn add_ended(&self, timer: &ContextHandle, end: Tick, nanos: u64) {
        let end = timer.recording().clock().nanos_between(self.base, end);
        let mut state = lock(&self.state);
        let at = state.index_of(timer.id);
        let late = state.add(at, end.saturating_sub(nanos), end, nanos);
        drop(state);
        late.into_iter().for_each(Late::record);
    }
}

impl Late {
    fn record(self) {
        let sums = [(self.timer, self.sums)];
        self.entry.add_timers(self.covered, sums);
    }
}

impl Started {
    /// Starts a timer within a request.
    pub(super) fn new(scope: Arc<Scope>, timer: &ContextHandle, start: Tick) -> Self {
        let clock = timer.recording().clock();
        let start = clock.nanos_between(scope.base, start);
        let at = lock(&scope.state).start(timer.id, start);
        Self { scope, at, start }
    }

    /// Ends the timer, which took `nanos`.
    pub(super) fn end(self, nanos: u64) {
        let late = lock(&self.scope.state).finish(self.at, self.start, Some(nanos));
        late.into_iter().for_each(Late::record);
    }

    /// Ends the timer as if it had never run.
    pub(super) fn discard(self) {
        lock(&self.scope.state).finish(self.at, self.start, None);
    }
}

impl RequestTimers {
    /// The time that all timers together cover, and the timers that cover the most time.
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
    pub fn add_to(self, entry: &ContextHandle) {
        // Without sums, no time is covered.
        if !self.sums.is_empty() {
            entry.add_timers(self.covered, self.sums);
        }
    }
}

impl State {
    /// The index of a timer, or of `other()` if there are too many timers.
    fn index_of(&mut self, id: RecordId) -> usize {
        let place = |timers: &[OneTimer], id| timers.iter().position(|timer| timer.id == id);
        let existing = place(&self.timers, id);
        let id = match self.timers.len() < MAX_LIVE {
            true => id,
            false => other(),
        };
        let at = existing.or_else(|| place(&self.timers, id));
        at.unwrap_or_else(|| {
            self.timers.push(OneTimer {
                id,
                running: Vec::new(),
                covered: IntervalUnion::default(),
                sums: TimerSums::default(),
            });
            self.timers.len() - 1
        })
    }

    /// Starts a timer. Returns its index.
    fn start(&mut self, id: RecordId, start: u64) -> usize {
        let at = self.index_of(id);
        let running = &mut self.timers[at].running;
        running.insert(running.partition_point(|other| *other <= start), start);
        at
    }

    /// Ends a timer. `nanos` is `None` if it is discarded. Returns the sums to add to the context of the request, if
    /// the request has already ended.
    fn finish(&mut self, at: usize, start: u64, nanos: Option<u64>) -> Option<Late> {
        let timer = &mut self.timers[at];
        if let Ok(started) = timer.running.binary_search(&start) {
            timer.running.remove(started);
        }
        let nanos = nanos?;
        self.add(at, start, start.saturating_add(nanos), nanos)
    }

    /// Adds a run. Returns the sums to add to the context of the request, if the request has already ended.
    fn add(&mut self, at: usize, start: u64, end: u64, nanos: u64) -> Option<Late> {
        let timer = &mut self.timers[at];
        // All timers of one name count the request once.
        let requests = 1 - std::mem::replace(&mut timer.sums.requests, 1);
        let Some((entry, request_end)) = self.ended.clone() else {
            timer.sums.count += 1;
            timer.sums.sum = timer.sums.sum.saturating_add(nanos);
            self.cover(at, start, end);
            return None;
        };
        // The part within the request was not sent with the other timers if the run was not known then.
        let before = [self.covered.total(), timer.covered.total()];
        if start < request_end {
            self.cover(at, start, end.min(request_end));
        }
        let timer = &self.timers[at];
        Some(Late {
            entry,
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

    /// Adds an interval to the time that a timer covers.
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

    fn id(name: &str) -> RecordId {
        RecordId::new(Kind::Timer, name)
    }

    fn sums_of(timers: &RequestTimers, name: &str) -> [u64; 4] {
        let mut sums = timers.sums.iter();
        let (_, sums) = sums.find(|(timer, _)| *timer == id(name)).expect("it ran");
        [sums.count, sums.requests, sums.sum, sums.covered]
    }

    /// Runs a timer from `start` to `end`.
    fn run(state: &mut State, name: &str, (start, end): (u64, u64)) {
        let at = state.start(id(name), start);
        assert!(state.finish(at, start, Some(end - start)).is_none());
    }

    #[test]
    fn timers_beyond_the_limit_count_as_other() {
        let mut state = State::default();
        for number in 0..MAX_LIVE as u64 + 30 {
            run(&mut state, &number.to_string(), (number, number + 1));
        }
        run(&mut state, "0", (500, 501));
        let timers = state.end(1_000);
        assert_eq!(timers.sums.len(), MAX_LIVE + 1);
        assert_eq!(sums_of(&timers, "0"), [2, 1, 2, 2]);
        let (_, others) = timers.sums.last().expect("there are some");
        assert_eq!((others.count, others.requests, others.sum), (30, 1, 30));
    }
}
