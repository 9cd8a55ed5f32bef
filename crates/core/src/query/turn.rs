//! How long a task works before others may run.

use std::time::Duration;

use crate::clock::{Clock, Tick};

/// How long a task works on a thread of the runtime at once.
const AT_ONCE: Duration = Duration::from_micros(150);

/// The turn of a task to work.
pub(super) struct Turn<'a> {
    clock: &'a Clock,
    since: Tick,
}

impl<'a> Turn<'a> {
    pub(super) fn new(clock: &'a Clock) -> Self {
        Self {
            clock,
            since: clock.tick(),
        }
    }

    /// Lets other tasks run if this one has worked for a while.
    pub(super) async fn pause(&mut self) {
        if self.clock.since(self.since) >= AT_ONCE {
            tokio::task::yield_now().await;
            self.since = self.clock.tick();
        }
    }
}
