//! The crate's background tasks: the signal that stops them, and the future that
//! [`Builder::build_with_tasks`](crate::Builder::build_with_tasks) returns instead of spawning it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::watch;

/// A boxed future, as the [`Store`](crate::store::Store) trait returns it.
// The compiler generates the code of a future anew in each crate and codegen unit that polls or drops it, with all
// futures inside. So large futures that users await, or that several modules do, are boxed by one function that is never
// inlined.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Locks a mutex even if a thread has panicked while it held the lock. The data must be consistent between
/// any two statements that could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A background task that [`Builder::build_with_tasks`](crate::Builder::build_with_tasks) returns
/// instead of spawning it. Nothing is flushed unless the tasks are polled. A task ends by itself after
/// [`Pulse::shutdown`](crate::Pulse::shutdown).
///
/// Cancel safe: samples that the task was about to flush stay in the `Pulse`.
#[must_use = "a task does nothing unless it is spawned or awaited"]
pub struct Task {
    name: &'static str,
    future: BoxFuture<'static, ()>,
}

impl Task {
    pub(crate) fn new(
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            name,
            future: Box::pin(future),
        }
    }

    /// The task's purpose in a word: `"drain"`, `"flush"`, `"fold"`, `"judge"`, `"clean"`, `"heartbeat"` or
    /// `"rows"`.
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

/// The signal that stops tasks, sent once.
#[derive(Debug)]
pub(crate) struct Stop(watch::Sender<bool>);

/// The tasks' receiver of [`Stop`].
#[derive(Clone, Debug)]
pub(crate) struct Stopped(watch::Receiver<bool>);

impl Stop {
    pub(crate) fn new() -> (Self, Stopped) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stopped(receiver))
    }

    /// A receiver for a task that is spawned later.
    #[cfg(feature = "row-cache")]
    pub(crate) fn stopped(&self) -> Stopped {
        Stopped(self.0.subscribe())
    }

    /// Sends the signal. Returns whether this was the first time.
    pub(crate) fn stop(&self) -> bool {
        !self.0.send_replace(true)
    }
}

impl Stopped {
    /// Whether the signal was sent. A [`Stop`] that was dropped without sending it does not count.
    pub(crate) fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the signal. Also ends when the sender, and with it the `Pulse`, is dropped.
    async fn sent(&mut self) {
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }

    /// Runs `future` until it is done (`Some`) or the signal is sent (`None`).
    pub(crate) async fn or<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.sent() => None,
            value = future => Some(value),
        }
    }
}
