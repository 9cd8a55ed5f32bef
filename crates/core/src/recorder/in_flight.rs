//! The requests in flight of each path, and the paths that hang.
//!
//! A request counts as begun in the cells of its context, and as ended by its sample. A drain adds both numbers to the
//! context's [`Flow`].

use super::Recorder;
use crate::task::lock;
use tower_pulse_model::access_time::DurationSums;
use tower_pulse_model::order::keep_first;
use tower_pulse_model::snapshot::{MAX_PATHS_IN_FLIGHT, PathInFlight};

/// A path hangs if requests are in flight and none has ended for this many seconds.
const HANGS_AFTER: u64 = 60;

/// Some paths always take minutes, so a path hangs only after this many times the duration of its longest request.
const TIMES_THE_LONGEST: u64 = 2;

/// The requests in flight of a context at the last drain.
#[derive(Clone, Default)]
pub(super) struct Flow {
    in_flight: i64,
    /// Since when requests have been in flight and none has ended, in Unix seconds.
    since: i64,
    /// The longest request that has ended, in nanoseconds.
    longest: u64,
}

impl Flow {
    /// Adds the requests that have begun and the requests that have ended by `now`, in Unix seconds.
    pub(super) fn add(&mut self, begun: i64, ended: &DurationSums, now: i64) {
        if self.in_flight <= 0 || ended.count > 0 {
            self.since = now;
        }
        self.in_flight += begun - ended.count as i64;
        self.longest = self.longest.max(ended.max);
    }
}

impl Recorder {
    /// The paths with requests in flight at `now`, in Unix seconds, according to the last drain: paths that hang first,
    /// then the paths with the most requests.
    pub fn paths_in_flight(&self, now: i64) -> Vec<PathInFlight> {
        let state = lock(&self.drain.state);
        let flows = state.copies.http.iter().zip(&state.flows);
        let paths = flows.filter(|(_, flow)| flow.in_flight > 0);
        let paths = paths.map(|(handle, flow)| {
            let seconds = now.saturating_sub(flow.since).max(0).unsigned_abs();
            let usual = flow.longest.saturating_mul(TIMES_THE_LONGEST) / 1_000_000_000;
            PathInFlight {
                path: handle.id,
                in_flight: flow.in_flight.unsigned_abs(),
                seconds,
                hangs: seconds >= HANGS_AFTER && seconds > usual,
            }
        });
        let mut paths: Vec<_> = paths.collect();
        keep_first(&mut paths, MAX_PATHS_IN_FLIGHT, |a, b| {
            let order = |path: &PathInFlight| (path.hangs, path.in_flight);
            order(b).cmp(&order(a))
        });
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{NOW, TestRecorder};
    use tower_pulse_model::context::Kind;

    #[test]
    fn the_time_without_an_end_counts_only_while_requests_are_in_flight() {
        let mut flow = Flow::default();
        let drains = [
            // First the begun requests, the ended requests and the second. Then the expected requests in flight, and
            // the expected `since`.
            ((1, 0, 200), (1, 200)),
            ((2, 0, 230), (3, 200)),
            ((1, 1, 240), (3, 240)),
            ((0, 3, 310), (0, 310)),
            ((1, 0, 900), (1, 900)),
            ((0, 1, 990), (0, 990)),
        ];
        for ((begun, count, now), expected) in drains {
            let ended = DurationSums {
                count,
                ..DurationSums::default()
            };
            flow.add(begun, &ended, now);
            assert_eq!((flow.in_flight, flow.since), expected, "at {now}");
        }
    }

    #[test]
    fn paths_that_hang_are_listed_before_the_busiest_paths() {
        let recorder = TestRecorder::new(99);
        let begin = |path: usize, requests| {
            let handle = recorder.context(Kind::Http, &format!("GET /{path}"));
            (0..requests).for_each(|_| handle.begin(0));
            handle.id
        };
        let at = |second| {
            recorder.clock.set_wall(NOW + second);
            recorder.drain();
            let paths = recorder.paths_in_flight(NOW + second).into_iter();
            let paths = paths.map(|path| (path.path, path.in_flight, path.seconds, path.hangs));
            paths.collect::<Vec<_>>()
        };
        let hanging = begin(0, 1);
        recorder.cancelled_requests("GET /1", [45_000]);
        let slow = begin(1, 40);
        assert_eq!(at(0), [(slow, 40, 0, false), (hanging, 1, 0, false)]);
        let busy: Vec<_> = (2..40).map(|path| begin(path, path)).collect();
        at(1);
        let paths = at(60);
        assert_eq!(paths.len(), MAX_PATHS_IN_FLIGHT);
        assert_eq!(paths[0], (hanging, 1, 60, true));
        // A request of this path took 45 s, so the path hangs only after 90 s.
        assert_eq!(paths[1], (slow, 40, 60, false));
        assert_eq!(paths[2], (busy[37], 39, 59, false));
        assert!(!at(90).contains(&(slow, 40, 90, true)));
        assert_eq!(at(91)[0], (slow, 40, 91, true));
    }
}
