//! Drains the slowest and the failed requests: moves them from the lists of the contexts to the batch, and sets the
//! thresholds of the lists for the rest of the hour.

use std::sync::Arc;

use super::slow::{DrainParameters, ListedRequest, ListedRequests, LongestDurations};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::slice::hour_of;
use tower_pulse_model::slow_request::{SLOW_OF_ALL, SlowRequest, SlowRequests};

pub(super) struct SlowRequestDrain {
    pub(super) instance: Arc<str>,
    /// The second that is drained, in Unix seconds.
    second: i64,
    /// The start of the hour in which the last drain ended, in Unix seconds. The requests of the next drain should
    /// belong to this hour.
    hour: i64,
    /// This process's longest durations of the hour.
    longest: LongestDurations,
    /// The slowest requests of all contexts in this drain.
    slowest: SlowRequests,
    pub(super) parameters: DrainParameters,
}

impl SlowRequestDrain {
    pub(super) fn new(now: i64) -> Self {
        Self {
            instance: "".into(),
            second: now,
            hour: hour_of(now),
            parameters: DrainParameters::default(),
            longest: LongestDurations::new(SLOW_OF_ALL),
            slowest: SlowRequests::of(Kind::All),
        }
    }

    /// Begins to drain the requests of `second`. `now` is the current second.
    pub(super) fn begin(&mut self, second: i64, now: i64) {
        let hour = hour_of(second);
        let begins_hour = hour != self.hour;
        if begins_hour {
            self.longest.clear();
        }
        self.second = second;
        self.hour = hour_of(now);
        self.parameters = DrainParameters {
            begins_hour,
            ends_hour: hour != self.hour,
            // The threshold at the end of the last drain. During an hour thresholds only rise, so this threshold is
            // never too high.
            threshold_of_all: self.longest.threshold(),
        };
    }

    /// Whether the lists of all contexts must be drained, even if nothing happened in them: at the start of an hour,
    /// the drain resets all thresholds to 0.
    pub(super) fn concerns_all(&self) -> bool {
        self.parameters.begins_hour || self.parameters.ends_hour
    }

    /// Adds requests to their context in the batch. Also collects the requests that are among the slowest of all
    /// contexts.
    pub(super) fn add(&mut self, pending: &mut Batch, context: ContextId, listed: ListedRequests) {
        let mut slowest = SlowRequests::of(context.kind);
        for request in listed.slow {
            let request = self.request(&context, request);
            if request.nanos >= self.longest.threshold() {
                self.longest.add(request.nanos);
                self.slowest.add(request.clone());
            }
            slowest.add(request);
        }
        for request in listed.failed {
            slowest.add(self.request(&context, request));
        }
        pending.add_slowest(context, self.second, slowest);
    }

    fn request(&self, context: &ContextId, listed: ListedRequest) -> SlowRequest {
        // The request may have ended outside of the drained second, even in another hour.
        let start = self.second.saturating_mul(1_000);
        let end = start.saturating_add(999);
        SlowRequest {
            nanos: listed.nanos,
            ended: listed.ended_at.clamp(start, end),
            context: context.name.clone(),
            instance: self.instance.clone(),
            outcome: listed.ended.outcome,
            is_error: listed.ended.is_error,
            status: listed.ended.status.map(|status| status.as_u16()),
            trace_id: listed.trace_id,
            path: listed.path,
            parts: listed.parts,
            failure: listed.failure,
        }
    }

    /// Adds the slowest requests of all contexts to the batch.
    pub(super) fn end(&mut self, pending: &mut Batch) {
        let empty = SlowRequests::of(Kind::All);
        let slowest = std::mem::replace(&mut self.slowest, empty);
        if !slowest.is_empty() {
            pending.add_slowest(ContextId::all(), self.second, slowest);
        }
        if self.parameters.ends_hour {
            self.longest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::recorder::tests::{NOW, TestRecorder, listed, root};
    use tower_pulse_model::context::{OVERFLOW, UNMATCHED};
    use tower_pulse_model::outcome::Outcome;

    /// The slow requests of a context in the pending batch, by hour: durations in milliseconds, slowest first.
    fn slowest(recorder: &TestRecorder, context: &ContextId) -> Vec<(i64, Vec<u64>)> {
        let millis = |list: Vec<SlowRequest>| list.iter().map(|r| r.nanos / 1_000_000).collect();
        let lists = listed(&recorder.drained(), context).into_iter();
        lists.map(|(hour, list)| (hour, millis(list))).collect()
    }

    #[test]
    fn a_request_belongs_to_the_hour_of_the_drained_second() {
        let recorder = TestRecorder::new(9);
        let hour = hour_of(NOW);
        recorder.clock.set_wall(hour + 3_599);
        recorder.drain();
        recorder.cancelled_requests("GET /", 10..30);
        // The first drain after the start of the hour drains the last second of the hour before.
        recorder.clock.set_wall(hour + 3_600);
        recorder.cancelled_requests("GET /", 30..32);
        let (at, list) = &listed(&recorder.drained(), &root())[0];
        assert_eq!((*at, list.len()), (hour, 5));
        let within_the_second = 1_000 * (hour + 3_599) + 999;
        assert_eq!(list[0].ended, within_the_second);
        // In the new hour, all requests are slow at first.
        recorder.cancelled_requests("GET /", [1]);
        assert_eq!(slowest(&recorder, &root()), [(hour + 3_600, vec![1])]);
        recorder.cancelled_requests("GET /", [2]);
        recorder.clock.set_wall(hour);
        let back_in_time = slowest(&recorder, &root());
        assert_eq!(back_in_time, [(hour, vec![2])]);
    }

    #[test]
    fn a_new_hour_resets_the_threshold_of_an_idle_context() {
        let recorder = TestRecorder::new(9);
        let hour = hour_of(NOW);
        recorder.cancelled_requests("GET /", 10..30);
        recorder.drain();
        // While nothing happens in `GET /`, another context has a hundred slower requests, 20 per drain.
        for _ in 0..5 {
            recorder.cancelled_requests("POST /", [900; 20]);
            recorder.drain();
        }
        recorder.drain.take();
        recorder.cancelled_requests("GET /", [9]);
        assert_eq!(slowest(&recorder, &root()), [], "others are slower");
        for second in [hour + 3_599, hour + 3_600, hour + 3_601] {
            recorder.clock.set_wall(second);
            recorder.drain();
        }
        recorder.cancelled_requests("GET /", [9]);
        assert_eq!(slowest(&recorder, &root()), [(hour + 3_600, vec![9])]);
    }

    #[test]
    fn requests_are_listed_until_the_shutdown_and_timers_never() {
        let recorder = TestRecorder::new(1);
        let timer = recorder.context(Kind::Timer, "job");
        timer.record_measured(Duration::from_secs(9), Outcome::Completed);
        assert_eq!(slowest(&recorder, &ContextId::new(Kind::Timer, "job")), []);
        for context in [UNMATCHED, OVERFLOW] {
            recorder.cancelled_requests(context, [3]);
            let context = ContextId::new(Kind::Http, context);
            assert_eq!(slowest(&recorder, &context), [(hour_of(NOW), vec![3])]);
        }
        recorder.recording.close();
        recorder.cancelled_requests(UNMATCHED, [5]);
        assert_eq!(slowest(&recorder, &ContextId::all()), []);
        assert!(recorder.drain.take().is_empty());
    }
}
