//! The background tasks of the crate: the signal that stops them, their retries while the server denies access, and the
//! future that `Builder::build_with_tasks` returns instead of spawning it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, watch};

use crate::clock::Clock;
use crate::error::{Result, StoreErrorKind};

/// The time between two attempts of an instance while the server denies access.
pub const DENIED_WAIT: Duration = Duration::from_secs(2);

/// A boxed future, such as the trait [`Store`](crate::store::Store) returns.
// Each crate and codegen unit that polls or drops a future contains the code of the future and of all futures inside. A
// function that is never inlined boxes a large future, so that this code exists once.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Boxes a future, so that its code exists once even if several places await the future: see [`BoxFuture`].
#[inline(never)]
pub fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}

/// Locks a mutex even if a thread has panicked while it held the lock. The data must be consistent before each
/// statement that could panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A background task that `Builder::build_with_tasks` returns instead of spawning it. Unless the tasks are
/// polled, only `Pulse::flush` and `Pulse::shutdown` send data to the store. A task ends by itself after
/// `Pulse::shutdown`.
///
/// Cancel safe: samples that the task was about to flush stay in the `Pulse`.
#[must_use = "a task does nothing unless it is spawned or awaited"]
pub struct Task {
    name: &'static str,
    future: BoxFuture<'static, ()>,
}

impl Task {
    /// A task with this name.
    #[doc(hidden)]
    pub fn new(name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            name,
            future: Box::pin(future),
        }
    }

    /// Lets the task add the time of its polls to `busy`, in nanoseconds.
    pub(crate) fn measured(mut self, clock: Clock, busy: Arc<AtomicU64>) -> Self {
        let measured = poll_fn(move |cx| {
            let began = clock.tick();
            let polled = self.future.as_mut().poll(cx);
            busy.fetch_add(clock.since(began).as_nanos() as u64, Relaxed);
            polled
        });
        Self::new(self.name, measured)
    }

    /// The task's purpose in a word: `"drain"`, `"flush"`, `"fold"`, `"judge"`, `"clean"`, `"heartbeat"`, `"watch"`,
    /// `"machine"` or `"rows"`.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Task").field(&self.name).finish()
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.future.as_mut().poll(cx)
    }
}

/// The mean time that tasks spend within their polls, in seconds per minute. `busy` is the total in nanoseconds.
pub(crate) fn seconds_per_minute(busy: &AtomicU64, since_start: Duration) -> f64 {
    busy.load(Relaxed) as f64 / 1e9 / (since_start.as_secs_f64() / 60.0).max(1.0)
}

/// The signal that stops the tasks of an instance, sent once.
pub struct Stop {
    signal: watch::Sender<bool>,
    denials: Arc<Denials>,
}

/// The tasks' receiver of [`Stop`].
#[derive(Clone, Debug)]
pub struct Stopped {
    signal: watch::Receiver<bool>,
    denials: Arc<Denials>,
}

/// The retries of an instance's tasks while the server denies access.
#[derive(Debug, Default)]
struct Denials {
    /// Locked by the task that tries next; the lock is its permit. The lock is fair: tasks get the lock in the order of
    /// their requests.
    next: Arc<tokio::sync::Mutex<()>>,
    /// The number of denied tasks that the server let through later.
    admissions: watch::Sender<u64>,
}

/// The retries of one task while the server denies access. The tasks of an instance try one at a time, [`DENIED_WAIT`]
/// apart. When the server lets a task through, all other tasks try at once.
pub struct Admission {
    denials: Arc<Denials>,
    admissions: watch::Receiver<u64>,
    is_denied: bool,
    permit: Option<OwnedMutexGuard<()>>,
}

impl Stop {
    /// Creates a signal that is not sent yet, and its first receiver.
    pub fn new() -> (Self, Stopped) {
        let (signal, denials) = (watch::Sender::new(false), Arc::default());
        let stop = Self { signal, denials };
        let stopped = stop.stopped();
        (stop, stopped)
    }

    /// A receiver for another task.
    pub fn stopped(&self) -> Stopped {
        Stopped {
            signal: self.signal.subscribe(),
            denials: self.denials.clone(),
        }
    }

    /// Sends the signal. Returns `false` if it was sent before.
    pub fn stop(&self) -> bool {
        !self.signal.send_replace(true)
    }
}

impl Admission {
    /// Notes an answer of the server. Returns whether the server denied access. The task must then
    /// [`wait`](Self::wait).
    pub fn denies<T>(&mut self, answer: &Result<T>) -> bool {
        let was_denied = self.is_denied;
        self.is_denied = matches!(answer, Err(e) if e.kind() == StoreErrorKind::Forbidden);
        if was_denied && answer.is_ok() {
            self.denials.admissions.send_modify(|n| *n += 1);
        }
        if !self.is_denied {
            // Only admissions after the next denial end a wait.
            self.admissions.mark_unchanged();
        }
        self.permit = None;
        self.is_denied
    }

    /// If this task was denied, waits until the server lets another task through, or until this task has the permit to
    /// try next and `pause` has then slept for [`DENIED_WAIT`]. The permit ends with the next [answer](Self::denies).
    ///
    /// Cancel safe: the permit goes to another task.
    pub async fn wait<F: Future>(&mut self, pause: impl FnOnce() -> F) {
        if !self.is_denied {
            return;
        }
        let next = self.denials.next.clone();
        let waiting = async {
            let permit = next.lock_owned().await;
            pause().await;
            permit
        };
        tokio::select! {
            biased;
            // `changed` never fails, because the sender is in `self.denials`.
            _ = self.admissions.changed() => {}
            permit = waiting => self.permit = Some(permit),
        }
    }
}

impl Stopped {
    /// Whether the signal was sent. Dropping the [`Stop`] does not send the signal.
    pub fn is_set(&self) -> bool {
        *self.signal.borrow()
    }

    /// The retries of one task while the server denies access.
    pub fn admission(&self) -> Admission {
        Admission {
            denials: self.denials.clone(),
            admissions: self.denials.admissions.subscribe(),
            is_denied: false,
            permit: None,
        }
    }

    /// Waits for the signal. Also returns when the `Pulse` is dropped, because the [`Stop`] is then dropped too.
    async fn sent(&mut self) {
        let _ = self.signal.wait_for(|stopped| *stopped).await;
    }

    /// Runs a task until the signal is sent. The task then ends at the point where it waits.
    pub async fn run(mut self, task: BoxFuture<'_, ()>) {
        self.or(task).await;
    }

    /// Runs `future` until it is done (`Some`) or the signal is sent (`None`).
    // The future is boxed, so that this function exists only once per type of value.
    pub async fn or<T>(&mut self, future: BoxFuture<'_, T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.sent() => None,
            value = future => Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::error::StoreError;

    #[tokio::test]
    async fn the_time_of_polls_is_shown_per_minute() {
        let (clock, manual_clock) = Clock::manual(0);
        let busy = Arc::new(AtomicU64::new(0));
        for millis in [250, 500] {
            let manual_clock = manual_clock.clone();
            let work = async move { manual_clock.advance(Duration::from_millis(millis)) };
            let task = Task::new("drain", work);
            task.measured(clock.clone(), busy.clone()).await;
        }
        let after = |seconds| seconds_per_minute(&busy, Duration::from_secs(seconds));
        assert_eq!([1, 300].map(after), [0.75, 0.15]);
    }

    fn failed(kind: StoreErrorKind) -> Result<()> {
        Err(StoreError::new(kind, "failed"))
    }

    #[tokio::test(start_paused = true)]
    async fn the_permit_of_a_dropped_task_goes_to_the_next_task() {
        let (_stop, stopped) = Stop::new();
        let mut admissions = [stopped.admission(), stopped.admission()];
        for admission in &mut admissions {
            assert!(admission.denies(&failed(StoreErrorKind::Forbidden)));
        }
        let [mut first, mut second] = admissions;
        let dropped = timeout(Duration::from_secs(1), first.wait(|| sleep(DENIED_WAIT)));
        assert!(dropped.await.is_err());
        let start = Instant::now();
        second.wait(|| sleep(DENIED_WAIT)).await;
        assert_eq!(start.elapsed(), DENIED_WAIT);
        // After an error other than a denial, no other task is let through, but the permit ends.
        assert!(!second.denies(&failed(StoreErrorKind::TimedOut)));
        let start = Instant::now();
        first.wait(|| sleep(DENIED_WAIT)).await;
        assert_eq!(start.elapsed(), DENIED_WAIT);
    }
}
