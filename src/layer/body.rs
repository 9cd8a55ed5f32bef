//! A response body that is timed until its end.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::guard::Guard;
use tower_pulse_model::failure::Failure;
use tower_pulse_model::outcome::Outcome;

pin_project! {
    /// The body of a response that is timed until its end. Forwards every frame unchanged, and ends the measurement
    /// with the last frame, an error, or the drop of the body.
    pub struct TimedBody<B> {
        #[pin]
        inner: B,
        guard: Option<Guard>,
        outcome: Outcome,
        // The remaining bytes, if the head gives the length.
        remaining: Option<u64>,
        // The `Failure` that came with the head of the response.
        failure: Option<Failure>,
    }

    impl<B> PinnedDrop for TimedBody<B> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // Without a failure, the guard's own drop does the same.
            if let (Some(guard), Some(failure)) = (this.guard, this.failure) {
                guard.end_dropped(Some(&*failure));
            }
        }
    }
}

impl<B> TimedBody<B> {
    pub(super) fn new(
        inner: B,
        guard: Guard,
        outcome: Outcome,
        length: Option<u64>,
        failure: Option<Failure>,
    ) -> Self {
        Self {
            inner,
            guard: Some(guard),
            outcome,
            remaining: length,
            failure,
        }
    }
}

impl<B> fmt::Debug for TimedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedBody").finish_non_exhaustive()
    }
}

impl<B: Default> Default for TimedBody<B> {
    fn default() -> Self {
        Self {
            inner: B::default(),
            guard: None,
            outcome: Outcome::Success,
            remaining: None,
            failure: None,
        }
    }
}

impl<B: Body> Body for TimedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let Some(guard) = this.guard.as_mut() else {
            return this.inner.poll_frame(cx);
        };
        let active = guard.resume();
        let poll = this.inner.as_mut().poll_frame(cx);
        active.leave();
        let Poll::Ready(frame) = poll else {
            guard.poll_ended();
            return Poll::Pending;
        };
        let failure = this.failure.as_ref();
        match &frame {
            // The last frame ends the measurement: a reader that relies on `is_end_stream`, or on the length in the
            // head, does not poll for the `None` at the end.
            Some(Ok(frame)) => {
                if let (Some(remaining), Some(data)) = (this.remaining.as_mut(), frame.data_ref()) {
                    *remaining = remaining.saturating_sub(data.remaining() as u64);
                }
                // Trailers are the last frame: a server of HTTP/2 does not poll again after them.
                let is_last = frame.is_trailers() || *this.remaining == Some(0);
                if is_last || this.inner.is_end_stream() {
                    guard.body_ended(*this.outcome, failure);
                } else {
                    guard.poll_ended();
                }
            }
            None => guard.body_ended(*this.outcome, failure),
            Some(Err(_)) => guard.end(Outcome::BodyFailed, true, failure),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
