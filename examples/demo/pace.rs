//! How the work of the shop takes time: really, or by a clock that it moves.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tower_pulse::ManualClock;

/// How many microseconds late the runtime's timers wake a request: about the median.
static LATENESS: AtomicI64 = AtomicI64::new(0);
/// By how many microseconds each wake-up corrects [`LATENESS`].
const CORRECTION: i64 = 20;
/// The most that [`LATENESS`] may be.
const MAX_LATENESS: i64 = 20_000;

/// How work takes time.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// It waits.
    Real,
    /// It moves the clock of its `Pulse`, and is done at once: an hour of requests takes seconds.
    Simulated(ManualClock),
}

/// The work of one request.
#[derive(Debug)]
pub(crate) struct Course<'a> {
    pace: &'a Pace,
    /// When the work so far ends.
    end: Instant,
}

impl Pace {
    /// Begins the work of a request.
    pub(crate) fn begin(&self) -> Course<'_> {
        let end = Instant::now();
        Course { pace: self, end }
    }
}

impl Course<'_> {
    /// Lets `duration` pass.
    pub(crate) async fn spend(&mut self, duration: Duration) {
        self.end += duration;
        match self.pace {
            Pace::Real => sleep_until(self.end).await,
            Pace::Simulated(time) => time.advance(duration),
        }
    }
}

/// Sleeps until `end`, on average. The runtime's timers have a granularity of a millisecond, and on a busy machine
/// they wake a request some milliseconds late, by which the live shop would be slower than its past.
async fn sleep_until(end: Instant) {
    let lateness = LATENESS.load(Ordering::Relaxed);
    let early = Duration::from_micros(lateness.unsigned_abs());
    let wake_up = end.checked_sub(early).unwrap_or(end);
    tokio::time::sleep_until(wake_up.into()).await;
    let correction = match Instant::now() > end {
        true => CORRECTION,
        false => -CORRECTION,
    };
    // If another request corrects it at the same time, one of the corrections is lost, which does no harm.
    let lateness = (lateness + correction).clamp(0, MAX_LATENESS);
    LATENESS.store(lateness, Ordering::Relaxed);
}
