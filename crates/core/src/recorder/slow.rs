//! Lists of the slowest and the failed requests, until a drain moves these requests to the batch.
//!
//! Each context has a threshold. A request that takes at least as long is put on the context's list, which is drained
//! once a second. A faster success costs one comparison. The thresholds rise during the hour.
//!
//! The first few failed requests of a context since the last drain are listed even if they are not slow.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Ended;
use super::shards::Cells;
use crate::task::lock;
use tower_pulse_model::failure::Failure;
use tower_pulse_model::slow_request::{
    FAILED_PER_SECOND, RequestParts, SLOW_PER_CONTEXT, SLOW_PER_SECOND,
};

pub(super) struct ListedRequest {
    pub(super) nanos: u64,
    /// When the request ended, in Unix milliseconds.
    pub(super) ended_at: i64,
    pub(super) ended: Ended,
    pub(super) trace_id: Option<Box<str>>,
    pub(super) path: Option<Box<str>>,
    pub(super) parts: RequestParts,
    /// The failure of an error, as the service describes it.
    pub(super) failure: Option<Failure>,
}

/// The durations of the slowest requests of an hour.
pub(super) struct LongestDurations {
    limit: usize,
    /// Longest first.
    nanos: Vec<u64>,
}

impl LongestDurations {
    pub(super) fn new(limit: usize) -> Self {
        let nanos = Vec::new();
        Self { limit, nanos }
    }

    pub(super) fn clear(&mut self) {
        self.nanos.clear();
    }

    pub(super) fn add(&mut self, nanos: u64) {
        let at = self.nanos.partition_point(|longer| *longer >= nanos);
        if at < self.limit {
            self.nanos.truncate(self.limit - 1);
            self.nanos.insert(at, nanos);
        }
    }

    /// The shortest duration that would be added: 0 while there is room.
    pub(super) fn threshold(&self) -> u64 {
        let last = self.nanos.get(self.limit - 1);
        last.map_or(0, |last| last.saturating_add(1))
    }
}

pub(super) struct SlowList {
    state: Mutex<State>,
    /// Read without the lock, so that failures in quick succession do not wait for the lock. The value may be out of
    /// date, so `add_failed` checks again under the lock.
    has_room_for_failed: AtomicBool,
}

struct State {
    listed: ListedRequests,
    /// The durations of this process's slowest requests of the hour.
    longest: LongestDurations,
    threshold: u64,
}

#[derive(Default)]
pub(super) struct ListedRequests {
    /// At most [`SLOW_PER_SECOND`] requests that reached the threshold, in no order. Some may have failed.
    pub(super) slow: Vec<ListedRequest>,
    /// At most [`FAILED_PER_SECOND`] requests that failed and are not in `slow`.
    pub(super) failed: Vec<ListedRequest>,
}

impl ListedRequests {
    pub(super) fn is_empty(&self) -> bool {
        self.slow.is_empty() && self.failed.is_empty()
    }

    /// Removes slow requests that do not reach a threshold. Failed requests among them are moved to `failed` if there
    /// is room.
    fn raise(&mut self, threshold: u64) {
        let too_fast = self.slow.extract_if(.., |listed| listed.nanos < threshold);
        let failed = too_fast.filter(|listed| listed.ended.is_error);
        let room = FAILED_PER_SECOND.saturating_sub(self.failed.len());
        let failed: Vec<_> = failed.collect();
        self.failed.extend(failed.into_iter().take(room));
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrainParameters {
    /// Whether the drained requests belong to another hour than the last drain expected, as after a clock was set.
    pub(super) begins_hour: bool,
    /// Whether the requests of the next drain belong to another hour than the drained requests.
    pub(super) ends_hour: bool,
    pub(super) threshold_of_all: u64,
}

impl SlowList {
    pub(super) fn new(cells: &Cells) -> Self {
        cells.set_slow_from(0);
        Self {
            state: Mutex::new(State {
                listed: ListedRequests::default(),
                longest: LongestDurations::new(SLOW_PER_CONTEXT),
                threshold: 0,
            }),
            has_room_for_failed: AtomicBool::new(true),
        }
    }

    /// Adds a request that reached the threshold. A full list drops its fastest request; if that request failed, it is
    /// moved to `failed` if there is room. A full list also raises the threshold, so that requests of a burst do not
    /// wait for the lock.
    pub(super) fn add(&self, cells: &Cells, request: ListedRequest) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let slow = &mut state.listed.slow;
        if slow.len() < SLOW_PER_SECOND {
            slow.push(request);
        } else {
            let fastest = slow.iter_mut().min_by_key(|listed| listed.nanos);
            let dropped = match fastest {
                Some(fastest) if fastest.nanos < request.nanos => {
                    std::mem::replace(fastest, request)
                }
                _ => request,
            };
            if dropped.ended.is_error {
                self.add_to_failed(state, dropped);
            }
        }
        let slow = &state.listed.slow;
        if slow.len() == SLOW_PER_SECOND {
            let fastest = slow.iter().map(|listed| listed.nanos).min();
            let threshold = fastest.map_or(0, |nanos| nanos.saturating_add(1));
            state.raise(threshold, cells);
        }
    }

    pub(super) fn has_room_for_failed(&self) -> bool {
        self.has_room_for_failed.load(Ordering::Relaxed)
    }

    /// Adds a failed request that did not reach the threshold, if there is room.
    pub(super) fn add_failed(&self, request: ListedRequest) {
        self.add_to_failed(&mut lock(&self.state), request);
    }

    fn add_to_failed(&self, state: &mut State, request: ListedRequest) {
        let failed = &mut state.listed.failed;
        if failed.len() < FAILED_PER_SECOND {
            failed.push(request);
        }
        let has_room = failed.len() < FAILED_PER_SECOND;
        self.has_room_for_failed.store(has_room, Ordering::Relaxed);
    }

    /// Moves the requests out, and sets the threshold for later requests.
    ///
    /// The threshold of all contexts may have risen since the last call. Requests below the threshold are left out,
    /// unless they failed and there is room.
    pub(super) fn drain(&self, cells: &Cells, parameters: DrainParameters) -> ListedRequests {
        let mut state = lock(&self.state);
        let mut listed = std::mem::take(&mut state.listed);
        self.has_room_for_failed.store(true, Ordering::Relaxed);
        if parameters.begins_hour {
            state.longest.clear();
        }
        listed.raise(state.longest.threshold().min(parameters.threshold_of_all));
        for request in &listed.slow {
            state.longest.add(request.nanos);
        }
        if parameters.ends_hour {
            state.longest.clear();
        }
        let threshold = state.longest.threshold().min(parameters.threshold_of_all);
        if threshold != state.threshold {
            state.threshold = threshold;
            cells.set_slow_from(threshold);
        }
        listed
    }
}

impl State {
    fn raise(&mut self, threshold: u64, cells: &Cells) {
        if threshold > self.threshold {
            self.threshold = threshold;
            cells.set_slow_from(threshold);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::dirty_bits::DirtyBits;
    use tower_pulse_model::outcome::Outcome;

    const SAME_HOUR: DrainParameters = of_all(u64::MAX);

    const fn of_all(threshold_of_all: u64) -> DrainParameters {
        DrainParameters {
            begins_hour: false,
            ends_hour: false,
            threshold_of_all,
        }
    }

    fn request(nanos: u64, is_error: bool) -> ListedRequest {
        ListedRequest {
            nanos,
            ended_at: 0,
            ended: Ended {
                outcome: Outcome::Success,
                is_error,
                status: None,
            },
            trace_id: None,
            path: None,
            parts: RequestParts::default(),
            failure: None,
        }
    }

    struct Context {
        cells: Cells,
        list: SlowList,
    }

    impl Context {
        fn new() -> Self {
            let cells = Cells::new(2, DirtyBits::new(1).dirty_bit(0));
            let list = SlowList::new(&cells);
            Self { cells, list }
        }

        fn serve(&self, nanos: impl IntoIterator<Item = u64>) {
            let slow = nanos.into_iter().filter(|n| self.cells.is_slow(0, *n));
            slow.for_each(|nanos| self.list.add(&self.cells, request(nanos, false)));
        }

        fn fail(&self, nanos: impl IntoIterator<Item = u64>) {
            nanos.into_iter().for_each(|nanos| {
                let request = request(nanos, true);
                match self.cells.is_slow(0, nanos) {
                    true => self.list.add(&self.cells, request),
                    false => self.list.add_failed(request),
                }
            });
        }

        /// The durations of the slow and of the failed requests, shortest first.
        fn drain(&self, parameters: DrainParameters) -> (Vec<u64>, Vec<u64>) {
            let nanos = |requests: Vec<ListedRequest>| {
                let mut nanos: Vec<_> = requests.iter().map(|request| request.nanos).collect();
                nanos.sort_unstable();
                nanos
            };
            let listed = self.list.drain(&self.cells, parameters);
            (nanos(listed.slow), nanos(listed.failed))
        }

        /// The shortest slow duration, if it is below 100 ns.
        fn threshold(&self) -> Option<u64> {
            (0..100).find(|nanos| self.cells.is_slow(3, *nanos))
        }
    }

    #[test]
    fn a_request_is_not_listed_if_five_requests_of_the_hour_are_slower() {
        let context = Context::new();
        for (nanos, threshold) in [(10, 0), (20, 0), (30, 0), (40, 0), (0, 1), (50, 11)] {
            context.serve([nanos]);
            context.drain(SAME_HOUR);
            assert_eq!(context.threshold(), Some(threshold), "after {nanos} ns");
        }
        // The lower threshold of all contexts together applies.
        context.drain(of_all(7));
        assert_eq!(context.threshold(), Some(7));
    }

    #[test]
    fn the_first_five_failed_requests_of_a_second_are_listed() {
        let context = Context::new();
        context.serve(50..70);
        for _ in 0..2 {
            assert!(context.list.has_room_for_failed());
            context.fail(1..5);
            assert!(context.list.has_room_for_failed());
            context.fail(5..9);
            assert!(!context.list.has_room_for_failed());
            assert_eq!(context.drain(SAME_HOUR).1, [1, 2, 3, 4, 5]);
        }
        assert!(context.list.drain(&context.cells, SAME_HOUR).is_empty());
    }

    #[test]
    fn failed_requests_that_are_not_slow_do_not_change_the_threshold() {
        let context = Context::new();
        context.serve(50..55);
        context.drain(SAME_HOUR);
        for _ in 0..9 {
            context.fail(0..40);
            assert_eq!(context.threshold(), Some(51));
            context.drain(SAME_HOUR);
            assert_eq!(context.threshold(), Some(51));
        }
        // A failed request that is slow counts as slow, and is listed once.
        context.fail([60]);
        assert_eq!(context.drain(SAME_HOUR), (vec![60], vec![]));
        assert_eq!(context.threshold(), Some(52));
    }

    #[test]
    fn a_failed_request_that_is_dropped_as_slow_stays_listed_as_failed() {
        let context = Context::new();
        context.fail(0..3);
        context.serve(50..68);
        // The list is full, and has dropped the request of 0 ns. The list then drops the success of 1 ns, the failed
        // requests of 1 and 2 ns, and the request of 30 ns.
        for (nanos, is_error) in [(1, false), (68, false), (69, false), (30, true)] {
            let request = request(nanos, is_error);
            context.list.add(&context.cells, request);
        }
        let expected = ((50..70).collect(), vec![0, 1, 2, 30]);
        assert_eq!(context.drain(SAME_HOUR), expected);
    }

    #[test]
    fn a_drain_leaves_out_slow_requests_below_the_new_threshold() {
        let context = Context::new();
        context.serve(50..55);
        context.drain(of_all(7));
        assert_eq!(context.threshold(), Some(7));
        // This context was not drained while the threshold of all contexts together rose.
        context.serve(10..14);
        context.fail([9, 15, 60]);
        let listed = context.drain(of_all(12));
        assert_eq!(listed, (vec![12, 13, 15, 60], vec![9]));
        context.fail(6..12);
        assert_eq!(context.threshold(), Some(12));
        context.fail([20; 8]);
        let listed = context.drain(of_all(30));
        assert_eq!(listed, (vec![], vec![6, 7, 8, 9, 10]));
    }

    #[test]
    fn each_hour_begins_without_a_threshold() {
        for (begins_hour, ends_hour) in [(true, false), (false, true)] {
            let context = Context::new();
            context.serve(10..20);
            context.drain(SAME_HOUR);
            assert_eq!(context.threshold(), Some(16));
            context.drain(DrainParameters {
                begins_hour,
                ends_hour,
                ..SAME_HOUR
            });
            assert_eq!(context.threshold(), Some(0));
            context.serve(0..5);
            assert_eq!(context.drain(SAME_HOUR).0, [0, 1, 2, 3, 4]);
            assert_eq!(context.threshold(), Some(1), "of the new hour alone");
        }
    }
}
