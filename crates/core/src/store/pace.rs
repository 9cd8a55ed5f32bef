//! The size of the calls of a flush and of the steps of folding. Calls and steps are small, so that other clients of
//! the server need not wait for long.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Adapts the size of calls to the time that the server takes for a call. A step of folding counts as a call.
pub struct CostSizer {
    /// The size of the next call, in commands.
    pub cost: usize,
    initial: usize,
    costs: RangeInclusive<usize>,
    /// The longest time that the server should take for a call.
    target: Duration,
    /// The time until the fastest answer, which counts as the round trip time of the network.
    fastest: Duration,
}

impl CostSizer {
    /// Sizes that begin with the cost `first` and stay within `costs`.
    pub fn new(first: usize, costs: RangeInclusive<usize>, target: Duration) -> Self {
        Self {
            cost: first,
            initial: first,
            costs,
            target,
            fastest: Duration::MAX,
        }
    }

    /// Gives the next calls the maximum size.
    pub fn use_max_size(&mut self) {
        self.cost = *self.costs.end();
    }

    /// Adapts the size of calls to the target time. The server's time for a call is the time until the answer minus the
    /// round trip time.
    pub fn adapt(&mut self, took: Duration, cost: usize) {
        self.fastest = self.fastest.min(took);
        let work = took.saturating_sub(self.fastest);
        // On a slow network, the round trip time varies by more than the server's time. Calls are then never smaller
        // than the initial size, for which a server takes about the target time.
        let smallest = match self.fastest > self.target {
            true => self.initial,
            false => *self.costs.start(),
        };
        if work > self.target {
            self.cost = (self.cost / 2).max(smallest);
        } else if work < self.target / 4 && cost * 2 > self.cost {
            self.cost = (self.cost + self.cost / 4).min(*self.costs.end());
        }
    }
}
