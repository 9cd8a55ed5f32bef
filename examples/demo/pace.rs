//! How the work of the shop takes time: really, or by a clock that it moves.

use std::time::{Duration, Instant};

use tower_pulse::ManualClock;

/// The runtime's timers fire up to two milliseconds late, by which the live shop would be slower than its past.
const TIMERS_LATE: Duration = Duration::from_millis(2);

/// How work takes time.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// It waits.
    Real,
    /// It moves the clock of its `Pulse`, and is done at once: an hour of requests takes seconds.
    Simulated(ManualClock),
}

impl Pace {
    /// Lets `duration` pass.
    pub(crate) async fn spend(&self, duration: Duration) {
        match self {
            Self::Real => sleep_precisely(duration).await,
            Self::Simulated(time) => time.advance(duration),
        }
    }
}

/// Sleeps within about a tenth of a millisecond: the last part on a thread, as the kernel's timers are precise.
async fn sleep_precisely(duration: Duration) {
    let end = Instant::now() + duration;
    if duration > TIMERS_LATE {
        tokio::time::sleep(duration - TIMERS_LATE).await;
    }
    let rest = end.saturating_duration_since(Instant::now());
    if !rest.is_zero() {
        // An error says that the runtime ends, and with it the request.
        let _ = tokio::task::spawn_blocking(move || std::thread::sleep(rest)).await;
    }
}
