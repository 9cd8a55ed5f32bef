//! A layer that does nothing, to measure the cost of any layer.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

#[derive(Clone)]
pub(super) struct Identity;

#[derive(Clone)]
pub(super) struct IdentityService<S>(S);

impl<S> Layer<S> for Identity {
    type Service = IdentityService<S>;

    fn layer(&self, inner: S) -> IdentityService<S> {
        IdentityService(inner)
    }
}

impl<S: Service<R>, R> Service<R> for IdentityService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}
