//! The requests in flight of each path, and the paths that hang.
//!
//! A request counts as begun in the cells of its context, and as ended by its sample. Nothing else is recorded, so the
//! numbers are compared only when an instance shows that it is alive.

use super::Recorder;
use super::shards::Flow;
use crate::task::lock;
use tower_pulse_model::order::keep_first;
use tower_pulse_model::snapshot::{MAX_PATHS_IN_FLIGHT, PathInFlight};

/// A path hangs if requests are in flight and none has ended for this many seconds.
const HANGS_AFTER: u64 = 60;

/// A path hangs only after this many times its longest request: some paths always take minutes.
const TIMES_THE_LONGEST: u64 = 2;

/// A context as it was seen last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastSeen {
    /// The number of requests that had ended; `None` if none was in flight.
    ended: Option<u64>,
    /// Since when this number has been the same, in Unix seconds.
    since: i64,
}

impl LastSeen {
    /// Looks at a context again. Returns its requests in flight, and the seconds during which none has ended.
    fn look(&mut self, flow: Flow, now: i64) -> (u64, u64) {
        let in_flight = flow.begun.saturating_sub(flow.ended);
        let ended = (in_flight > 0).then_some(flow.ended);
        if self.ended != ended {
            *self = Self { ended, since: now };
        }
        (
            in_flight,
            now.saturating_sub(self.since).max(0).unsigned_abs(),
        )
    }
}

impl Recorder {
    /// The paths with requests in flight at `now`, in Unix seconds: those that hang first, then those with the most
    /// requests.
    pub fn paths_in_flight(&self, now: i64) -> Vec<PathInFlight> {
        // While the state is locked, no drain runs.
        let state = &mut *lock(&self.drain.state);
        self.http.refresh(&mut state.entries.http);
        let entries = &state.entries.http;
        state.seen.resize(entries.len(), LastSeen::default());
        let seen = entries.iter().zip(&mut state.seen);
        let paths = seen.map(|(entry, seen)| {
            let flow = entry.cells.flow();
            let (in_flight, seconds) = seen.look(flow, now);
            let usual = flow.longest.saturating_mul(TIMES_THE_LONGEST) / 1_000_000_000;
            PathInFlight {
                path: entry.id,
                in_flight,
                seconds,
                hangs: in_flight > 0 && seconds >= HANGS_AFTER && seconds > usual,
            }
        });
        let mut paths: Vec<_> = paths.filter(|path| path.in_flight > 0).collect();
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
    use crate::recorder::tests::TestRecorder;
    use tower_pulse_model::context::Kind;

    #[test]
    fn the_time_without_an_end_counts_only_while_requests_are_in_flight() {
        let mut seen = LastSeen::default();
        let looks = [
            // Begun, ended and the second; then the requests in flight, and the seconds.
            ((0, 0, 100), (0, 100)),
            ((1, 0, 200), (1, 0)),
            ((3, 0, 230), (3, 30)),
            ((4, 1, 240), (3, 0)),
            ((4, 1, 300), (3, 60)),
            ((4, 4, 310), (0, 0)),
            // The request began long after the last one had ended.
            ((5, 4, 900), (1, 0)),
            ((5, 4, 880), (1, 0)),
            ((5, 6, 990), (0, 0)),
        ];
        for ((begun, ended, now), expected) in looks {
            let flow = Flow {
                begun,
                ended,
                longest: 0,
            };
            assert_eq!(seen.look(flow, now), expected, "at {now}");
        }
    }

    #[test]
    fn the_busiest_paths_are_named_and_those_that_hang_first() {
        let recorder = TestRecorder::new(99);
        let begin = |path: usize, requests| {
            let entry = recorder.entry(Kind::Http, &format!("GET /{path}"));
            (0..requests).for_each(|_| entry.begin(0));
            entry.id
        };
        let hanging = begin(0, 1);
        recorder.requests("GET /1", [45_000]);
        let slow = begin(1, 40);
        // A sample counts as ended, whether it is drained or not.
        for _ in 0..2 {
            let paths = recorder.paths_in_flight(1_000);
            assert_eq!((paths[0].path, paths[0].in_flight), (slow, 40));
            recorder.drain();
        }
        let busy: Vec<_> = (2..40).map(|path| begin(path, path)).collect();
        recorder.paths_in_flight(1_001);
        let at = |now| {
            let paths = recorder.paths_in_flight(now).into_iter();
            let paths = paths.map(|of| (of.path, of.in_flight, of.seconds, of.hangs));
            paths.collect::<Vec<_>>()
        };
        let paths = at(1_060);
        assert_eq!(paths.len(), MAX_PATHS_IN_FLIGHT);
        assert_eq!(paths[0], (hanging, 1, 60, true));
        // One request of this path took 45 s, so twice as long is not unusual.
        assert_eq!(paths[1], (slow, 40, 60, false));
        assert_eq!(paths[2], (busy[37], 39, 59, false));
        assert!(!at(1_090).contains(&(slow, 40, 90, true)));
        assert_eq!(at(1_091)[0], (slow, 40, 91, true));
    }
}
