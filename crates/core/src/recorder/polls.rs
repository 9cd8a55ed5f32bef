//! The polls of a request: how long it computes or blocks its worker, and how long it waits.

use crate::clock::{Clock, Tick};
use tower_pulse_model::measures::Measure;

/// The polls of a request so far. A request that is ready at its first poll needs no more readings of the clock than its
/// begin and its end: that poll is all of its time.
#[derive(Clone, Copy, Debug, Default)]
pub enum RequestPolls {
    /// The first poll has not ended.
    #[default]
    First,
    /// The first poll has ended, and others may have followed.
    Further(PollTicks),
}

/// Sums of polls, in ticks of the clock.
#[derive(Clone, Copy, Debug)]
pub struct PollTicks {
    /// When the poll began that goes on; [`Tick::NEVER`] while none does.
    since: Tick,
    sum: u64,
    longest: u64,
    count: u32,
}

/// What a request adds to the measures, in nanoseconds.
pub(super) type Measured = [(Measure, u64); 4];

impl RequestPolls {
    /// The polls of a request that was dropped before it was ever polled.
    pub const NONE: Self = Self::Further(PollTicks {
        since: Tick::NEVER,
        sum: 0,
        longest: 0,
        count: 0,
    });

    /// A poll begins now. Of the first one, the request's begin is known.
    #[inline(always)]
    pub fn begin(&mut self, clock: &Clock) {
        if let Self::Further(ticks) = self {
            ticks.since = clock.tick();
        }
    }

    /// A poll ends now, of a request that began at `start`, and the request goes on.
    #[inline(always)]
    pub fn end(&mut self, start: Tick, clock: &Clock) {
        let now = clock.tick();
        let mut ticks = match self {
            Self::Further(ticks) => *ticks,
            Self::First => PollTicks {
                since: start,
                sum: 0,
                longest: 0,
                count: 0,
            },
        };
        ticks.add(now);
        ticks.since = Tick::NEVER;
        *self = Self::Further(ticks);
    }
}

impl PollTicks {
    #[inline(always)]
    fn add(&mut self, end: Tick) {
        if self.since == Tick::NEVER {
            return;
        }
        let ticks = self.since.ticks_until(end);
        self.sum = self.sum.wrapping_add(ticks);
        self.longest = self.longest.max(ticks);
        self.count = self.count.saturating_add(1);
    }

    /// What the request adds, which took `nanos` and ended at `end`.
    pub(super) fn measured(mut self, clock: &Clock, nanos: u64, end: Tick) -> Measured {
        self.add(end);
        let time = clock.nanos_of(self.sum).min(nanos);
        [
            (Measure::PollTime, time),
            (Measure::Waited, nanos - time),
            (Measure::LongestPoll, clock.nanos_of(self.longest).min(time)),
            (Measure::Polls, self.count.into()),
        ]
    }
}
