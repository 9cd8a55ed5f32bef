//! The simplest counter: one slot for all routes, of relaxed atomics that all threads share.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use quanta::Clock;
use tower_layer::Layer;
use tower_service::Service;

/// The layer.
#[derive(Clone, Default)]
pub(super) struct Atomics(Arc<Slot>);

#[derive(Default)]
struct Slot {
    clock: Clock,
    count: AtomicU64,
    nanos: AtomicU64,
    longest: AtomicU64,
}

/// The service.
#[derive(Clone)]
pub(super) struct AtomicsService<S> {
    inner: S,
    slot: Arc<Slot>,
}

impl<S> Layer<S> for Atomics {
    type Service = AtomicsService<S>;

    fn layer(&self, inner: S) -> AtomicsService<S> {
        AtomicsService {
            inner,
            slot: self.0.clone(),
        }
    }
}

impl<S: Service<R>, R> Service<R> for AtomicsService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = AtomicsFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        AtomicsFuture {
            start: self.slot.clock.raw(),
            slot: self.slot.clone(),
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    /// Adds when the response is ready.
    pub(super) struct AtomicsFuture<F> {
        #[pin]
        inner: F,
        slot: Arc<Slot>,
        start: u64,
    }
}

impl<F: Future> Future for AtomicsFuture<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let result = ready!(this.inner.poll(cx));
        let slot = this.slot;
        let nanos = slot.clock.delta_as_nanos(*this.start, slot.clock.raw());
        slot.count.fetch_add(1, Relaxed);
        slot.nanos.fetch_add(nanos, Relaxed);
        slot.longest.fetch_max(nanos, Relaxed);
        Poll::Ready(result)
    }
}
