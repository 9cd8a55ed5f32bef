//! The limit on requests that write.

use std::sync::Mutex;
use std::time::Duration;

use http::StatusCode;

use super::response::ApiError;
use tower_pulse_core::clock::{Clock, Tick};
use tower_pulse_core::task::lock;

/// The number of requests that are accepted at once.
const BURST: u32 = 60;

/// The time after which one more request is accepted.
const EVERY: Duration = Duration::from_secs(1);

/// Limits the requests that write to an instance.
pub struct WriteLimit {
    clock: Clock,
    began: Tick,
    /// The time since `began` at which the whole burst is available again.
    whole_at: Mutex<Duration>,
}

impl WriteLimit {
    /// Creates a limit that reads this clock.
    pub fn new(clock: Clock) -> Self {
        Self {
            began: clock.tick(),
            clock,
            whole_at: Mutex::default(),
        }
    }

    /// Counts a request that writes, or refuses it: 429.
    pub(super) fn count(&self) -> Result<(), ApiError> {
        let now = self.clock.since(self.began);
        let mut whole_at = lock(&self.whole_at);
        let next = whole_at.max(now) + EVERY;
        if next - now > EVERY * BURST {
            let message = format!(
                "too many requests that change something: {BURST} are accepted at once, and one more each second; try again in a second"
            );
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        *whole_at = next;
        Ok(())
    }
}
