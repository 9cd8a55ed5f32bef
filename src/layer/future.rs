//! The response futures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use super::body::TimedBody;
use super::guard::{Guard, is_unrecorded};
use tower_pulse_model::outcome::Outcome;

pin_project! {
    /// The future of [`PulseService`](super::PulseService).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        pub(super) inner: F,
        pub(super) guard: Guard,
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let guard = this.guard;
        let active = guard.resume();
        // The result is inspected in place: moving a response costs more than recording it.
        let poll = this.inner.poll(cx);
        active.leave();
        match &poll {
            Poll::Ready(Ok(response)) => {
                guard.responded(response.status(), response.headers(), response.extensions());
            }
            Poll::Ready(Err(_)) => guard.end(Outcome::Failed, true, None),
            Poll::Pending => guard.poll_ended(),
        }
        poll
    }
}

pin_project! {
    /// The future of a [`PulseService`](super::PulseService) that times each request until the end of the body.
    #[must_use = "futures do nothing unless polled"]
    pub struct BodyEndFuture<F> {
        #[pin]
        pub(super) inner: F,
        pub(super) guard: Guard,
        pub(super) is_bodiless: bool,
    }
}

impl<F> fmt::Debug for BodyEndFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyEndFuture").finish_non_exhaustive()
    }
}

impl<F, R, E> Future for BodyEndFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<TimedBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (guard, is_bodiless) = (this.guard, *this.is_bodiless);
        let active = guard.resume();
        let poll = this.inner.poll(cx);
        active.leave();
        let mut length = None;
        match &poll {
            Poll::Ready(Ok(response)) => length = finish_head(guard, response, is_bodiless),
            Poll::Ready(Err(_)) => guard.end(Outcome::Failed, true, None),
            Poll::Pending => guard.poll_ended(),
        }
        poll.map_ok(|response| {
            let outcome = Outcome::from_status(response.status().as_u16());
            let failure = response.extensions().get().cloned();
            response
                .map(|body| TimedBody::new(body, guard.move_to_body(), outcome, length, failure))
        })
    }
}

/// Ends the measurement with the head of a response, or leaves the end to the body. Returns the length of the body, if
/// the head gives it.
fn finish_head<R: Body>(
    guard: &mut Guard,
    response: &Response<R>,
    is_bodiless: bool,
) -> Option<u64> {
    let (status, headers, extensions) =
        (response.status(), response.headers(), response.extensions());
    let (length, content_type) = length_and_type(headers);
    let at_head = || is_bodiless || length == Some(0) || ends_at_head(status, content_type);
    if response.body().is_end_stream() || is_unrecorded(extensions) || at_head() {
        guard.responded(status, headers, extensions);
    } else {
        guard.head_sent(status, headers, extensions);
    }
    length
}

/// The length and the type of the body, if the head gives them. One pass over the few headers of a response is cheaper
/// than two lookups by hash.
fn length_and_type(headers: &HeaderMap) -> (Option<u64>, &[u8]) {
    let (mut length, mut content_type) = (None, None);
    for (name, value) in headers {
        if *name == CONTENT_LENGTH {
            length.get_or_insert(value);
        } else if *name == CONTENT_TYPE {
            content_type.get_or_insert(value);
        }
    }
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    (length, content_type.map_or(b"", HeaderValue::as_bytes))
}

/// Whether a response is timed only until its head. A body that is never sent, or that the client ends at will, says
/// nothing about the speed of a page.
fn ends_at_head(status: StatusCode, content_type: &[u8]) -> bool {
    let never_sent = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
    status.is_informational()
        || never_sent.contains(&status)
        || starts_with(content_type, b"text/event-stream")
        || starts_with(content_type, b"application/grpc")
}

/// Whether `text` starts with `start`, ignoring case. `start` is in lower case. Compares from the end, where content
/// types differ sooner.
fn starts_with(text: &[u8], start: &[u8]) -> bool {
    let bytes = text.iter().zip(start);
    text.len() >= start.len()
        && bytes
            .rev()
            .all(|(byte, wanted)| byte.to_ascii_lowercase() == *wanted)
}
