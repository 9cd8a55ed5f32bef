//! Makes requests, sends them through a Router in this process, and times them, in the same way for all rows.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Uri};
use http_body_util::BodyExt;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Handle, Runtime};
use tower_service::Service;

use crate::alloc;
use crate::instructions::RUNS;
use crate::options::Options;
use crate::rows::{App, Row};

/// The number of routes of each row's Router.
pub(crate) const ROUTES: usize = 20;

/// The two runtimes that all rows share: one for requests, and one for all other work.
pub(crate) struct Runtimes {
    /// Runs the requests, on the thread whose CPU time is read.
    requests: Runtime,
    /// Runs a row's work outside of requests: flushes, exporters.
    background: Runtime,
    flush_interval: Duration,
}

impl Runtimes {
    pub(crate) fn new(flush_interval: Duration) -> std::io::Result<Self> {
        Ok(Self {
            flush_interval,
            requests: Builder::new_current_thread().enable_all().build()?,
            background: Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()?,
        })
    }

    pub(crate) fn background(&self) -> &Handle {
        self.background.handle()
    }

    pub(crate) fn flush_interval(&self) -> Duration {
        self.flush_interval
    }

    pub(crate) fn run_requests<T>(&self, future: impl Future<Output = T>) -> T {
        self.requests.block_on(pin!(future))
    }
}

/// The URIs of the first `paths` routes.
pub(crate) fn uris(paths: usize) -> Vec<Uri> {
    (0..paths)
        .map(|route| {
            let uri = format!("/route{route}/7");
            uri.parse().expect("a path is a URI")
        })
        .collect()
}

/// Sends requests one after another. Reads each response's body to its end, as hyper would.
pub(crate) async fn send(app: &mut Router, uris: &[Uri], requests: usize) {
    for uri in uris.iter().cycle().take(requests) {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uri.clone();
        let Ok(response) = Service::call(app, request).await;
        let mut body = response.into_body();
        while !http_body::Body::is_end_stream(&body) {
            match body.frame().await {
                Some(frame) => drop(black_box(frame)),
                None => break,
            }
        }
    }
}

#[inline(never)]
pub(crate) fn send_here(runtimes: &Runtimes, app: &mut Router, uris: &[Uri], requests: usize) {
    runtimes.run_requests(send(app, uris, requests));
}

/// Calls [`send_here`]. Callgrind counts the instructions of the function with this name. Without the `black_box`, the
/// compiler would merge the two functions, because they would be equal.
#[inline(never)]
pub(crate) fn measured_requests(runtimes: &Runtimes, app: &mut Router, uris: &[Uri], count: usize) {
    send_here(runtimes, app, uris, black_box(count));
}

fn thread_nanos() -> i64 {
    nanos(ClockId::ThreadCPUTime)
}

pub(crate) fn process_nanos() -> i64 {
    nanos(ClockId::ProcessCPUTime)
}

fn nanos(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The nanoseconds per request, by row and round. Each round measures the rows in another random order.
pub(crate) fn nanoseconds(
    runtimes: &Runtimes,
    apps: &mut [(&'static Row, App)],
    options: &Options,
) -> Vec<(&'static str, Vec<f64>)> {
    let uris = uris(ROUTES);
    let mut results: Vec<_> = apps
        .iter()
        .map(|(row, _)| (row.id, Vec::with_capacity(options.rounds)))
        .collect();
    let mut order: Vec<usize> = (0..apps.len()).collect();
    for _ in 0..options.rounds {
        fastrand::shuffle(&mut order);
        for &at in &order {
            let app = &mut apps[at].1;
            let count = options.requests;
            send_here(runtimes, &mut app.router, &uris, count / 10);
            let start = thread_nanos();
            measured_requests(runtimes, &mut app.router, &uris, count);
            let nanos = thread_nanos() - start;
            results[at].1.push(nanos as f64 / count as f64);
        }
    }
    results
}

/// The allocations per request, on the thread of the request: the fewest of [`RUNS`] measurements. A request that
/// enters a list of the slowest requests allocates. The row fills these lists in advance, but at the start of each
/// hour, they are empty again.
pub(crate) fn allocations(
    runtimes: &Runtimes,
    apps: &mut [(&'static Row, App)],
) -> Vec<(&'static str, f64)> {
    const REQUESTS: usize = 1_000;
    let uris = uris(ROUTES);
    apps.iter_mut()
        .map(|(row, app)| {
            send_here(runtimes, &mut app.router, &uris, REQUESTS);
            let counts = (0..RUNS).map(|_| {
                alloc::counted(|| measured_requests(runtimes, &mut app.router, &uris, REQUESTS))
            });
            let least = counts.min().expect("RUNS is not 0");
            (row.id, least as f64 / REQUESTS as f64)
        })
        .collect()
}
