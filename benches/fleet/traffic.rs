//! Requests through the real layer: each context of each instance gets three requests per second. A request takes up to
//! three quarters of a second.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use tower::{Layer, Service};
use tower_pulse::Pulse;
use tower_pulse::layer::PulseService;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, Kind};
use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::Precisions;

pub(crate) const CONTEXTS: usize = 200;
pub(crate) const REQUESTS: usize = 3;
/// Ticks per second. At each tick, some contexts begin their requests.
const TICKS: usize = 40;
/// The most ticks that a request takes.
const LONGEST: usize = 30;

pub(crate) fn context(number: usize) -> String {
    format!("GET /api/v1/things-{number}/{{id}}")
}

type Answer = Result<Response<()>, Infallible>;

/// A request that completes at its second poll.
struct Handled(bool);

impl Future for Handled {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(Ok(Response::new(()))),
            false => Poll::Pending,
        }
    }
}

#[derive(Clone)]
struct Handler;

impl Service<Request<()>> for Handler {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Handled;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Handled {
        Handled(false)
    }
}

/// The services of one instance, one for each context.
pub(crate) struct Traffic {
    services: Vec<PulseService<Handler>>,
}

type Running = Pin<Box<dyn Future<Output = Answer> + Send>>;

impl Traffic {
    pub(crate) fn new(pulse: &Pulse) -> Self {
        let service = |number| pulse.layer().named(context(number)).layer(Handler);
        Self {
            services: (0..CONTEXTS).map(service).collect(),
        }
    }
}

/// Serves requests of all instances forever.
pub(crate) async fn serve(mut instances: Vec<Traffic>) {
    let mut running: Vec<Vec<Running>> = (0..=LONGEST).map(|_| Vec::new()).collect();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / TICKS as u32);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let mut noop = Context::from_waker(Waker::noop());
    for tick in 0.. {
        ticks.tick().await;
        for mut ended in std::mem::take(&mut running[tick % (LONGEST + 1)]) {
            assert!(ended.as_mut().poll(&mut noop).is_ready());
        }
        for instance in &mut instances {
            let tick_of_second = tick % TICKS;
            let contexts =
                tick_of_second * CONTEXTS / TICKS..(tick_of_second + 1) * CONTEXTS / TICKS;
            for service in &mut instance.services[contexts] {
                for _ in 0..REQUESTS {
                    let mut request = Box::pin(service.call(Request::new(())));
                    assert!(request.as_mut().poll(&mut noop).is_pending());
                    match fastrand::usize(0..=LONGEST) {
                        0 => drop(request.as_mut().poll(&mut noop)),
                        last => running[(tick + last) % (LONGEST + 1)].push(request),
                    }
                }
            }
        }
    }
}

/// The batch of an instance's first `contexts` contexts for the last `seconds` seconds, up to `now`.
pub(crate) fn batch(contexts: usize, now: i64, seconds: i64) -> Batch {
    let mut batch = Batch::new(Precisions::default());
    let all: Arc<str> = ALL.into();
    for number in 0..contexts {
        let name: Arc<str> = context(number).into();
        for second in now - seconds + 1..=now {
            let aggregate = random_requests();
            batch.add(&name, Kind::Http, second, &aggregate);
            batch.add(&all, Kind::All, second, &aggregate);
        }
    }
    batch
}

/// The requests of a context in one second: [`REQUESTS`] requests of up to 0.75 s.
fn random_requests() -> Aggregate {
    let mut aggregate = Aggregate::default();
    let mut buckets = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let nanos =
            2_000 + 25_000_000 * fastrand::u64(0..=LONGEST as u64) + fastrand::u64(..1_000_000);
        aggregate.times.record(nanos);
        aggregate.outcomes.record(Outcome::Success, false);
        aggregate.codes.add(200, 1);
        buckets.push((bucket_of(nanos) as u16, 1));
    }
    aggregate.histogram = Histogram::new(SCALE, buckets);
    aggregate
}
