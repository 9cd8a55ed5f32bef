//! How the work of the shop takes time: really, or by a clock that it moves.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::Poll;
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
    /// It waits, or blocks its thread.
    Real,
    /// It moves the clock of its `Pulse`, and is done at once: an hour of requests takes seconds.
    Simulated(SimulatedTime),
}

/// The clock of an instance in the past. One request moves it at a time.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedTime {
    clock: ManualClock,
    /// For how many microseconds the request waits that has just been polled.
    waiting: Arc<AtomicU64>,
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

    /// Takes a request to its end. A simulated wait passes between two polls, so that the layer tells it from computing.
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

    /// Lets a request wait.
    async fn wait(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.waiting.store(micros.max(1), Ordering::Relaxed);
        poll_fn(|_| match self.waiting.load(Ordering::Relaxed) {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Lets the wait of the request pass that has been polled. Returns whether there was one.
    fn pass_wait(&self) -> bool {
        let micros = self.waiting.swap(0, Ordering::Relaxed);
        self.clock.advance(Duration::from_micros(micros));
        micros > 0
    }
}

impl Course<'_> {
    /// Lets `duration` pass while the request waits.
    pub(crate) async fn wait(&mut self, duration: Duration) {
        self.end += duration;
        match self.pace {
            Pace::Real => sleep_until(self.end).await,
            Pace::Simulated(time) => time.wait(duration).await,
        }
    }

    /// Lets `duration` pass while the request holds its worker, as a computation or a call that blocks does. A sleep of the
    /// thread takes no CPU from whoever tries the demo.
    pub(crate) fn compute(&mut self, duration: Duration) {
        self.end += duration;
        match self.pace {
            Pace::Real => std::thread::sleep(self.end.saturating_duration_since(Instant::now())),
            Pace::Simulated(time) => time.clock.advance(duration),
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
