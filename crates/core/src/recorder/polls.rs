//! The polls of a request: how long it computes or blocks its worker, and how long it waits.

use super::cell::Measured;
use crate::clock::{Clock, Tick};
use tower_pulse_model::measures::Measure;

/// The polls of a request so far. If a request is ready at its first poll, this poll takes all of its time: the clock
/// is read only when the request begins and ends.
#[derive(Clone, Copy, Debug)]
pub struct RequestPolls {
    /// When the last poll began.
    since: Tick,
    /// The time of all polls that have ended, in ticks.
    time: u64,
    /// The longest of these polls, in ticks.
    longest: u64,
    /// The number of polls that ended while the request continued, and the bit [`BETWEEN`].
    ended: u32,
}

/// This bit is set if the request was dropped outside of a poll.
const BETWEEN: u32 = 1 << 31;

impl RequestPolls {
    /// The polls of a request that begins at `start`, with its first poll.
    #[inline(always)]
    pub fn new(start: Tick) -> Self {
        Self {
            since: start,
            time: 0,
            longest: 0,
            ended: 0,
        }
    }

    /// Whether any poll has ended, or the request was dropped outside of a poll.
    #[inline(always)]
    pub fn has_ended_one(&self) -> bool {
        self.ended > 0
    }

    /// Begins a poll that is not the first one.
    #[inline(always)]
    pub fn begin(&mut self, clock: &Clock) {
        self.since = clock.tick();
    }

    /// Ends a poll after which the request continues.
    #[inline(always)]
    pub fn end(&mut self, clock: &Clock) {
        self.add(clock.tick());
    }

    /// Notes that the request was dropped outside of a poll.
    pub fn drop_between(&mut self) {
        self.ended |= BETWEEN;
    }

    #[inline(always)]
    fn add(&mut self, end: Tick) {
        let ticks = self.since.ticks_until(end);
        // The time overflows only after centuries. The count reaches `BETWEEN` only after billions of polls.
        self.time = self.time.wrapping_add(ticks);
        self.longest = self.longest.max(ticks);
        self.ended = self.ended.wrapping_add(1);
    }
}

/// A request that was ready at its first poll.
#[derive(Clone, Copy)]
pub(super) struct FirstPoll;

impl Measured for FirstPoll {
    #[inline(always)]
    fn add_to(self, nanos: u64, mut add: impl FnMut(Measure, u64)) {
        add(Measure::PollTime, nanos);
        add(Measure::LongestPoll, nanos);
        add(Measure::Polls, 1);
    }
}

/// A request that was not ready at its first poll.
#[derive(Clone, Copy)]
pub(super) struct Polled<'a> {
    pub(super) polls: &'a RequestPolls,
    pub(super) clock: &'a Clock,
    pub(super) end: Tick,
}

impl Measured for Polled<'_> {
    #[inline(always)]
    fn add_to(self, nanos: u64, mut add: impl FnMut(Measure, u64)) {
        let mut polls = *self.polls;
        if polls.ended & BETWEEN == 0 {
            polls.add(self.end);
        }
        let time = self.clock.nanos_of(polls.time).min(nanos);
        let longest = self.clock.nanos_of(polls.longest).min(time);
        add(Measure::PollTime, time);
        add(Measure::Waited, nanos - time);
        add(Measure::LongestPoll, longest);
        add(Measure::Polls, (polls.ended & !BETWEEN).into());
    }
}
