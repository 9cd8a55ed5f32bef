//! The futures of the services.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use super::body::TimedBody;
use super::guard::{Guard, is_unrecorded};
use crate::model::outcome::Outcome;
use crate::recorder::ResponseHead;

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
        let active = guard.enter();
        // The result is inspected in place: moving a response costs more than recording it.
        let poll = this.inner.poll(cx);
        active.leave();
        match &poll {
            Poll::Ready(Ok(response)) => {
                guard.responded(response.status(), response.headers(), response.extensions());
            }
            Poll::Ready(Err(_)) => guard.end(Outcome::Failed, true),
            Poll::Pending => {}
        }
        poll
    }
}

pin_project! {
    /// The future of [`BodyEndService`](super::BodyEndService).
    #[must_use = "futures do nothing unless polled"]
    pub struct BodyEndFuture<F> {
        #[pin]
        pub(super) inner: F,
        pub(super) guard: Guard,
        pub(super) bodiless: bool,
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
        let active = this.guard.enter();
        let poll = this.inner.poll(cx);
        active.leave();
        let response = match ready!(poll) {
            Ok(response) => response,
            Err(error) => {
                this.guard.end(Outcome::Failed, true);
                return Poll::Ready(Err(error));
            }
        };
        let (status, bodiless) = (response.status(), *this.bodiless);
        let (head, body) = response.into_parts();
        let length = content_length(&head.headers);
        let at_head = || bodiless || length == Some(0) || ends_at_head(status, &head.headers);
        if body.is_end_stream() || is_unrecorded(&head.extensions) || at_head() {
            this.guard
                .responded(status, &head.headers, &head.extensions);
        } else {
            let head = ResponseHead::new(status, &head.headers, &head.extensions);
            this.guard.head_sent(&head);
        }
        let outcome = Outcome::from_status(status.as_u16());
        let body = TimedBody::new(body, this.guard.hand_over(), outcome, length);
        Poll::Ready(Ok(Response::from_parts(head, body)))
    }
}

/// The length of the body, if the head gives it.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether a response is timed until its head only: a body that is never sent, or one that lasts as long as
/// its client likes, says nothing about the speed of a page.
fn ends_at_head(status: StatusCode, headers: &HeaderMap) -> bool {
    let never_sent = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
    if status.is_informational() || never_sent.contains(&status) {
        return true;
    }
    let Some(Ok(content_type)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let starts_with = |prefix: &str| {
        content_type
            .get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    starts_with("text/event-stream") || starts_with("application/grpc")
}
