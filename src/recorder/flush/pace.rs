//! How large a call may be, so that it blocks nobody in the store.

use std::time::Duration;

/// Commands of a first call: about 16 contexts.
const FIRST_COST: usize = 16 * 24;
/// A call is made smaller until the store merges it in about this time, so that it blocks nobody.
const CALL_TIME: Duration = Duration::from_millis(1);
const COSTS: std::ops::RangeInclusive<usize> = 96..=1_536;

/// How large a call may be.
pub(super) struct Pace {
    pub(super) cost: usize,
    /// The fastest answer: how long the way there and back takes.
    fastest: Duration,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            cost: FIRST_COST,
            fastest: Duration::MAX,
        }
    }

    /// From now on nobody is held up by a call that is large.
    pub(super) fn hurry(&mut self) {
        self.cost = *COSTS.end();
    }

    /// Makes calls as large as the store merges in [`CALL_TIME`], judged by the answer's time less
    /// that of the fastest one.
    pub(super) fn adapt(&mut self, took: Duration, cost: usize) {
        self.fastest = self.fastest.min(took);
        let work = took.saturating_sub(self.fastest);
        // On a long way, how much the way's own time varies hides the server's: there, calls stay as
        // large as are merged in about that time by measurement.
        let least = match self.fastest > CALL_TIME {
            true => FIRST_COST,
            false => *COSTS.start(),
        };
        if work > CALL_TIME {
            self.cost = (self.cost / 2).max(least);
        } else if work < CALL_TIME / 4 && cost * 2 > self.cost {
            self.cost = (self.cost + self.cost / 4).min(*COSTS.end());
        }
    }
}
