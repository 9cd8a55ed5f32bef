//! The time that the shop's work takes: real time, or the time of a clock that the work moves.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tower_pulse::ManualClock;

/// The approximate median lateness of the runtime's timers, in microseconds.
static LATENESS: AtomicI64 = AtomicI64::new(0);
/// The microseconds by which each wake-up corrects [`LATENESS`].
const CORRECTION: i64 = 20;
const MAX_LATENESS: i64 = 20_000;

#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// The work waits, or blocks its thread.
    Real,
    /// The work moves the clock of its `Pulse` and ends at once, so an hour of requests takes seconds.
    Simulated(SimulatedTime),
}

/// The clock of an instance in the past. Only one request at a time moves the clock.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedTime {
    clock: ManualClock,
    /// The wait of the request that was just polled, in microseconds.
    waiting: Arc<AtomicU64>,
}

#[derive(Debug)]
pub(crate) struct RequestWork<'a> {
    pace: &'a Pace,
    /// The moment at which the work so far ends.
    end: Instant,
}

impl Pace {
    pub(crate) fn begin(&self) -> RequestWork<'_> {
        let end = Instant::now();
        RequestWork { pace: self, end }
    }

    /// Runs a request to its end. A simulated wait passes between two polls, so the layer does not count it as
    /// computing.
    pub(crate) async fn drive<F: Future>(&self, request: F) -> F::Output {
        let mut request = pin!(request);
        poll_fn(|cx| {
            loop {
                match (request.as_mut().poll(cx), self) {
                    (Poll::Pending, Self::Simulated(time)) if time.pass_wait() => {}
                    (poll, _) => return poll,
                }
            }
        })
        .await
    }
}

impl SimulatedTime {
    pub(crate) fn new(clock: ManualClock) -> Self {
        Self {
            clock,
            waiting: Arc::default(),
        }
    }

    async fn wait(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.waiting.store(micros.max(1), Ordering::Relaxed);
        poll_fn(|_| match self.waiting.load(Ordering::Relaxed) {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Moves the clock by the wait of the polled request. Returns whether there was a wait.
    fn pass_wait(&self) -> bool {
        let micros = self.waiting.swap(0, Ordering::Relaxed);
        self.clock.advance(Duration::from_micros(micros));
        micros > 0
    }
}

impl RequestWork<'_> {
    /// Lets `duration` pass while the request waits.
    pub(crate) async fn wait(&mut self, duration: Duration) {
        self.end += duration;
        match self.pace {
            Pace::Real => sleep_until(self.end).await,
            Pace::Simulated(time) => time.wait(duration).await,
        }
    }

    /// Lets `duration` pass while the request holds its worker, as a computation or a call that blocks does. The thread
    /// only sleeps, which takes no CPU.
    pub(crate) fn compute(&mut self, duration: Duration) {
        self.end += duration;
        match self.pace {
            Pace::Real => std::thread::sleep(self.end.saturating_duration_since(Instant::now())),
            Pace::Simulated(time) => time.clock.advance(duration),
        }
    }
}

/// Sleeps until `end`, on average. The runtime's timers have a granularity of a millisecond, and wake a request some
/// milliseconds late on a busy machine. Without a correction, the live shop would be slower than its past.
async fn sleep_until(end: Instant) {
    let lateness = LATENESS.load(Ordering::Relaxed);
    let early = Duration::from_micros(lateness.unsigned_abs());
    let wake_up = end.checked_sub(early).unwrap_or(end);
    tokio::time::sleep_until(wake_up.into()).await;
    let correction = match Instant::now() > end {
        true => CORRECTION,
        false => -CORRECTION,
    };
    // If two requests correct the lateness at the same time, one correction is lost, which is harmless.
    let lateness = (lateness + correction).clamp(0, MAX_LATENESS);
    LATENESS.store(lateness, Ordering::Relaxed);
}
