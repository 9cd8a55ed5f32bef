//! The time that a task works before it lets others run.

use std::time::Duration;

use crate::clock::{Clock, Tick};

/// The time that a task works on a thread of the runtime without a pause.
const AT_ONCE: Duration = Duration::from_micros(150);

/// The working time of a task since its last pause.
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

    /// Lets other tasks run if this one has worked for [`AT_ONCE`].
    pub(super) async fn pause(&mut self) {
        if self.clock.since(self.since) >= AT_ONCE {
            tokio::task::yield_now().await;
            self.since = self.clock.tick();
        }
    }
}
