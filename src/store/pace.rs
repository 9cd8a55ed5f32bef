//! How large a call of a script may be, so that it holds up nobody else in the store.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Adapts the size of calls to the time that the server takes for one.
#[derive(Debug)]
pub(crate) struct BatchSizer {
    /// The size of the next call, in commands.
    pub(crate) cost: usize,
    first: usize,
    costs: RangeInclusive<usize>,
    /// How long the server should take at most.
    target: Duration,
    /// The fastest answer: how long the way there and back takes.
    fastest: Duration,
}

impl BatchSizer {
    pub(crate) fn new(first: usize, costs: RangeInclusive<usize>, target: Duration) -> Self {
        Self {
            cost: first,
            first,
            costs,
            target,
            fastest: Duration::MAX,
        }
    }

    /// From now on calls are as large as they may be.
    pub(crate) fn use_max_size(&mut self) {
        self.cost = *self.costs.end();
    }

    /// Makes calls as large as the server takes the target time for, judged by the answer's time less
    /// that of the fastest one.
    pub(crate) fn adapt(&mut self, took: Duration, cost: usize) {
        self.fastest = self.fastest.min(took);
        let work = took.saturating_sub(self.fastest);
        // On a long way, how much the way's own time varies hides the server's: there, calls stay as
        // large as the server is known to take about the target time for.
        let least = match self.fastest > self.target {
            true => self.first,
            false => *self.costs.start(),
        };
        if work > self.target {
            self.cost = (self.cost / 2).max(least);
        } else if work < self.target / 4 && cost * 2 > self.cost {
            self.cost = (self.cost + self.cost / 4).min(*self.costs.end());
        }
    }
}
