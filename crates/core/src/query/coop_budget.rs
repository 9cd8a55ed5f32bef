//! The cooperative budget: the time that a task works on a thread of the runtime before it lets other tasks run.

use std::time::Duration;

use crate::clock::{Clock, Tick};

const BUDGET: Duration = Duration::from_micros(150);

/// The working time of a task since it last yielded.
pub(super) struct CoopBudget<'a> {
    clock: &'a Clock,
    since: Tick,
}

impl<'a> CoopBudget<'a> {
    pub(super) fn new(clock: &'a Clock) -> Self {
        Self {
            clock,
            since: clock.tick(),
        }
    }

    /// Lets other tasks run if this task has worked for [`BUDGET`].
    pub(super) async fn yield_if_spent(&mut self) {
        if self.clock.since(self.since) >= BUDGET {
            tokio::task::yield_now().await;
            self.since = self.clock.tick();
        }
    }
}
