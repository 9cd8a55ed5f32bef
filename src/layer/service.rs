//! The service of the layer.

use std::task::{Context, Poll};

use http::{Method, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::TimedBody;
use super::future::{BodyEndFuture, ResponseFuture};
use super::guard::Guard;
use super::route::ServiceStates;
use super::source::Head;

/// Times each request until the head of its response. With `BODY_END`, times each request until the end of the
/// response's body. See [`PulseLayer`](super::PulseLayer).
#[derive(Clone, Debug)]
pub struct PulseService<S, const BODY_END: bool = false> {
    pub(super) inner: S,
    pub(super) states: ServiceStates,
}

impl<S, B, R> Service<Request<B>> for PulseService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    #[inline(always)]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    // Never inlined: if it were inlined into a framework's wrapper, the future would be copied once more.
    #[inline(never)]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (method, extensions) = (request.method(), request.extensions());
        let head = || Head::from_request(&request);
        let mut guard = Guard::start(self.states.of_thread(), method, extensions, &head);
        let active = guard.enter();
        let inner = self.inner.call(request);
        active.leave();
        ResponseFuture { inner, guard }
    }
}

impl<S, B, R> Service<Request<B>> for PulseService<S, true>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Response = Response<TimedBody<R>>;
    type Error = S::Error;
    type Future = BodyEndFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline(never)]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_bodiless = matches!(*request.method(), Method::CONNECT | Method::HEAD);
        let (method, extensions) = (request.method(), request.extensions());
        let head = || Head::from_request(&request);
        let mut guard = Guard::start(self.states.of_thread(), method, extensions, &head);
        let active = guard.enter();
        let inner = self.inner.call(request);
        active.leave();
        BodyEndFuture {
            inner,
            guard,
            is_bodiless,
        }
    }
}
