//! The floor: a hand-written layer that only counts and times the requests of each route. The layer does not count
//! cancelled or panicking requests, mixes up routes that share a service, and loses counts if there are more threads
//! than shards. Nothing reads its counts.
//!
//! For each request, the layer reads the CPU's time stamp counter twice, and adds to a histogram in the shard of its
//! thread by plain loads and stores. The layer looks up the counts of a route only once.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use axum::extract::MatchedPath;
use http::{Request, Response};
use pin_project_lite::pin_project;
use quanta::Clock;
use tower_layer::Layer;
use tower_service::Service;

const SHARDS: usize = 2;
/// 16 buckets for each power of two of nanoseconds.
const BUCKETS: usize = 64 * 16;

#[derive(Clone)]
pub(crate) struct Floor(Arc<Routes>);

struct Routes {
    clock: Clock,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
}

struct Slot {
    clock: Clock,
    shards: [Shard; SHARDS],
}

#[repr(align(128))]
struct Shard {
    count: AtomicU64,
    nanos: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Floor {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Routes {
            clock: Clock::new(),
            slots: Mutex::default(),
        }))
    }
}

impl Routes {
    fn slot(&self, path: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.entry(path.to_owned()).or_insert_with(|| {
            Arc::new(Slot {
                clock: self.clock.clone(),
                shards: std::array::from_fn(|_| Shard {
                    count: AtomicU64::new(0),
                    nanos: AtomicU64::new(0),
                    buckets: [const { AtomicU64::new(0) }; BUCKETS],
                }),
            })
        });
        slot.clone()
    }
}

impl Slot {
    #[inline]
    fn record(&self, start: u64) {
        let nanos = self.clock.delta_as_nanos(start, self.clock.raw());
        let shard = &self.shards[thread_number() % SHARDS];
        add(&shard.count, 1);
        add(&shard.nanos, nanos);
        add(&shard.buckets[bucket_of(nanos)], 1);
    }
}

/// Adds by a load and a store, as if only one thread wrote to a shard.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// The index of a bucket: the power of two, and the four bits below the highest bit.
#[inline]
fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos | 16;
    let octave = nanos.ilog2();
    (octave as usize) * 16 + (nanos >> (octave - 4)) as usize % 16
}

#[inline]
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl<S> Layer<S> for Floor {
    type Service = FloorService<S>;

    fn layer(&self, inner: S) -> FloorService<S> {
        FloorService {
            inner,
            route: Arc::new(Route {
                routes: self.0.clone(),
                slot: OnceLock::new(),
            }),
        }
    }
}

#[derive(Clone)]
pub(crate) struct FloorService<S> {
    inner: S,
    route: Arc<Route>,
}

struct Route {
    routes: Arc<Routes>,
    slot: OnceLock<Arc<Slot>>,
}

impl<S, B, R> Service<Request<B>> for FloorService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = FloorFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let slot = self.route.slot.get_or_init(|| {
            let path = request.extensions().get::<MatchedPath>();
            self.route.routes.slot(path.map_or("", MatchedPath::as_str))
        });
        let slot = slot.clone();
        FloorFuture {
            start: slot.clock.raw(),
            slot,
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    /// Records the request when its response is ready.
    pub(crate) struct FloorFuture<F> {
        #[pin]
        inner: F,
        slot: Arc<Slot>,
        start: u64,
    }
}

impl<F: Future> Future for FloorFuture<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let result = ready!(this.inner.poll(cx));
        this.slot.record(*this.start);
        Poll::Ready(result)
    }
}
