//! Timing any code: database queries, the rendering of pages, jobs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::polls::RequestPolls;
use super::scope::{Scope, Started};
use super::{ContextHandle, active};
use crate::clock::Tick;
use tower_pulse_model::outcome::Outcome;

/// Records the time from its creation by `Pulse::timer` until it is dropped.
///
/// Unless [discarded](Self::discard), a timer records one sample, even if the code returns early with `?`, is cancelled
/// or panics. The timer does not see the result of the code: call [`failed`](Self::failed), or time a future with
/// `Pulse::try_time`.
///
/// A timer that is started within a recorded request counts under that request's context as well: see
/// [where the time goes](https://docs.rs/tower-pulse/latest/tower_pulse/guide/request_timers/index.html).
#[must_use = "a timer that is dropped at once times nothing"]
pub struct Timer {
    context: Arc<ContextHandle>,
    start: Tick,
    outcome: Outcome,
    is_discarded: bool,
    /// The run within a request; `None` outside of requests.
    within: Option<Started>,
    /// For a span's timer: how long the span was entered.
    pub(super) polls: Option<RequestPolls>,
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timer").field(&self.context.name).finish()
    }
}

impl Timer {
    /// A timer that runs from now on.
    #[doc(hidden)]
    pub fn start(context: Arc<ContextHandle>) -> Self {
        let scope = active::scope(context.recording());
        Self::start_within(context, scope)
    }

    pub(super) fn start_within(context: Arc<ContextHandle>, scope: Option<Arc<Scope>>) -> Self {
        let start = context.recording().clock().tick();
        let within = scope.map(|scope| Started::new(scope, &context, start));
        Self {
            within,
            context,
            start,
            outcome: Outcome::Completed,
            is_discarded: false,
            polls: None,
        }
    }

    /// Marks the sample as an error of its context.
    pub fn failed(&mut self) {
        self.outcome = Outcome::Failed;
    }

    /// Ends the measurement now.
    pub fn stop(self) {
        drop(self);
    }

    /// Ends the measurement without recording it.
    pub fn discard(mut self) {
        self.is_discarded = true;
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let within = self.within.take();
        if self.is_discarded {
            within.into_iter().for_each(Started::discard);
            return;
        }
        let outcome = if std::thread::panicking() {
            Outcome::Panicked
        } else {
            self.outcome
        };
        let polls = self.polls.as_ref();
        let nanos = self.context.finish(self.start, outcome, polls);
        if let Some(within) = within {
            within.end(nanos);
        }
    }
}

pin_project! {
    /// A future that is timed from its first poll until it completes or is dropped. Created by
    /// `Pulse::time` and `Pulse::try_time`.
    #[must_use = "futures do nothing unless polled"]
    pub struct Timed<F>
    where
        F: Future,
    {
        #[pin]
        future: F,
        context: Arc<ContextHandle>,
        timer: Option<Timer>,
        has_failed: fn(&F::Output) -> bool,
    }
}

impl<F: Future> fmt::Debug for Timed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timed").field(&self.context.name).finish()
    }
}

impl<F: Future> Timed<F> {
    /// `has_failed` tells whether an output counts as an error.
    #[doc(hidden)]
    pub fn new(context: Arc<ContextHandle>, future: F, has_failed: fn(&F::Output) -> bool) -> Self {
        Self {
            future,
            context,
            timer: None,
            has_failed,
        }
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let timer = this
            .timer
            .get_or_insert_with(|| Timer::start(this.context.clone()));
        // If the poll panics and a caller catches the panic, this future is dropped later, when `panicking` is false.
        timer.outcome = Outcome::Panicked;
        let poll = this.future.poll(cx);
        timer.outcome = Outcome::Cancelled;
        let output = ready!(poll);
        timer.outcome = match (this.has_failed)(&output) {
            true => Outcome::Failed,
            false => Outcome::Completed,
        };
        *this.timer = None;
        Poll::Ready(output)
    }
}
