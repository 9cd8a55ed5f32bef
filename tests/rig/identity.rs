//! A layer that does nothing, to measure the cost of any layer.

use std::task::{Context, Poll};

use tower::{Layer, Service};

#[derive(Clone)]
pub struct Identity<S = ()>(pub S);

impl<S> Layer<S> for Identity {
    type Service = Identity<S>;
    fn layer(&self, inner: S) -> Identity<S> {
        Identity(inner)
    }
}

impl<S: Service<R>, R> Service<R> for Identity<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }
    fn call(&mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}
