//! The end of a sample: adds the sample to the cells of its context, and lists a request that is slow or has failed.

use std::time::Duration;

use super::cell::{Measured, NO_CODE, Sample};
use super::details::RequestDetails;
use super::polls::{FirstPoll, Polled, RequestPolls};
use super::scope::RequestTimers;
use super::shards::thread_number;
use super::slow::ListedRequest;
use super::{ContextHandle, Ended, nanos_of};
use crate::clock::Tick;
use tower_pulse_model::context::RecordId;
use tower_pulse_model::failure::Failure;
use tower_pulse_model::measures::{Measure, Measures};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slow_request::RequestParts;
use tower_pulse_model::timer_sums::TimerSums;

impl Ended {
    #[inline(always)]
    fn code(&self) -> u16 {
        self.status.map_or(NO_CODE, |status| status.as_u16())
    }
}

impl ContextHandle {
    /// Records a sample that began at `start` and ends now. `polls` are the polls of a span's timer. Returns the
    /// nanoseconds of the sample.
    #[inline]
    pub fn finish(&self, start: Tick, outcome: Outcome, polls: Option<&RequestPolls>) -> u64 {
        let (clock, thread) = (self.recording.clock(), thread_number());
        let end = clock.tick();
        let nanos = clock.nanos_between(start, end);
        let sample = Sample(nanos, outcome, outcome.is_error(), NO_CODE);
        match polls {
            None => self.cells.record(thread, sample, []),
            Some(polls) => self
                .cells
                .record(thread, sample, Polled { polls, clock, end }),
        }
        nanos
    }

    /// Counts a request that begins, on the thread with this number.
    #[inline(always)]
    pub fn begin(&self, thread: usize) {
        self.cells.begin(thread);
    }

    /// Counts a request that began in this context and is recorded in another context, or not at all.
    pub fn abandon(&self) {
        self.cells.abandon();
    }

    /// Records a request that began at `start` and ends now. The request then no longer counts as in flight.
    #[inline(always)]
    pub fn finish_request(
        &self,
        start: Tick,
        ended: Ended,
        polls: &RequestPolls,
        details: &RequestDetails<'_>,
    ) {
        let thread = thread_number();
        let clock = self.recording.clock();
        let end = clock.tick();
        let nanos = clock.nanos_between(start, end);
        if polls.has_ended_one() {
            self.record_polled(thread, nanos, ended, polls, end, details);
        } else {
            self.record_ended(thread, nanos, ended, details, FirstPoll);
        }
        self.recording.in_flight.add(thread, -1);
    }

    #[inline(never)]
    fn record_polled(
        &self,
        thread: usize,
        nanos: u64,
        ended: Ended,
        polls: &RequestPolls,
        end: Tick,
        details: &RequestDetails<'_>,
    ) {
        let clock = self.recording.clock();
        let polled = Polled { polls, clock, end };
        self.record_ended(thread, nanos, ended, details, polled);
    }

    #[inline(always)]
    pub(super) fn record_ended(
        &self,
        thread: usize,
        nanos: u64,
        ended: Ended,
        details: &RequestDetails<'_>,
        measured: impl Measured,
    ) {
        let is_slow = self.cells.is_slow(thread, nanos);
        if is_slow || ended.is_error {
            self.record_listed(thread, nanos, ended, details, measured, is_slow);
        } else {
            let sample = Sample(nanos, ended.outcome, false, ended.code());
            self.cells.record(thread, sample, measured);
        }
    }

    /// Records a run of a timer whose duration is known.
    pub fn record_measured(&self, duration: Duration, outcome: Outcome) {
        let sample = Sample(nanos_of(duration), outcome, outcome.is_error(), NO_CODE);
        self.cells.record(thread_number(), sample, []);
    }

    /// Adds the sums of timers that ran within a request. During `covered` nanoseconds, at least one of these timers
    /// ran.
    pub(super) fn add_timers(
        &self,
        covered: u64,
        sums: impl IntoIterator<Item = (RecordId, TimerSums)>,
    ) {
        self.timers.add(thread_number(), covered, sums);
        self.cells.touch();
    }

    /// A failed request that is not slow is listed only if there is room.
    #[cold]
    #[inline(never)]
    fn record_listed(
        &self,
        thread: usize,
        nanos: u64,
        ended: Ended,
        details: &RequestDetails<'_>,
        measured: impl Measured,
        is_slow: bool,
    ) {
        let sample = Sample(nanos, ended.outcome, ended.is_error, ended.code());
        self.cells.record(thread, sample, measured);
        let slow = self.slow.as_ref();
        let Some(slow) = slow.filter(|slow| is_slow || slow.has_room_for_failed()) else {
            return;
        };
        let mut polls = Measures::default();
        measured.add_to(nanos, |measure, number| polls.add(measure, number));
        let was_polled = polls.get(Measure::Polls) > 0;
        let timers = details.timers.map(RequestTimers::parts);
        let (timed, timers) = timers.unwrap_or_default();
        let failure = details.failure.filter(|_| ended.is_error);
        let failure = failure.map(|failure| match self.recording.details().hides_messages {
            true => Failure::new(failure.kind().to_owned()),
            false => failure.clone(),
        });
        let request = ListedRequest {
            nanos,
            ended_at: self.recording.clock().now_nanos().div_euclid(1_000_000),
            ended,
            trace_id: details.trace_id.map(Box::from),
            path: details.path.map(Box::from),
            parts: RequestParts {
                queue: details.queue,
                computing: was_polled.then(|| polls.get(Measure::PollTime)),
                longest_poll: polls.get(Measure::LongestPoll),
                timed,
                timers,
            },
            failure,
        };
        match is_slow {
            true => slow.add(&self.cells, request),
            false => slow.add_failed(request),
        }
        // A drain may have taken the dirty bit since the sample was recorded.
        self.cells.touch();
    }
}
