//! Futures whose timers count under the request in which the future was wrapped.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::RecordingState;
use super::active::{self, Entered};
use super::scope::Scope;

pin_project! {
    /// A future whose timers count under the request that was current when the future was wrapped, wherever the future
    /// runs. Created by `Pulse::within`.
    #[must_use = "futures do nothing unless polled"]
    pub struct Within<F> {
        #[pin]
        future: F,
        recorder_id: u32,
        scope: Option<Arc<Scope>>,
    }
}

impl<F> fmt::Debug for Within<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within")
            .field("has_request", &self.scope.is_some())
            .finish_non_exhaustive()
    }
}

impl<F> Within<F> {
    /// Wraps a future for the request that this thread is working on.
    #[doc(hidden)]
    pub fn new(recording: &RecordingState, future: F) -> Self {
        Self {
            future,
            recorder_id: recording.id(),
            scope: active::scope(recording),
        }
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let scope = this.scope.as_ref();
        let _entered = scope.map(|scope| Entered::new(*this.recorder_id, scope));
        this.future.poll(cx)
    }
}
