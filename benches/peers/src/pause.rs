//! The effect of a flush on requests that are recorded at the same time. One thread sends requests to 2,000 contexts,
//! one after another. Meanwhile, another thread flushes continuously, or sleeps.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use http::Uri;
use tower_pulse::Pulse;

use crate::Failure;
use crate::driver::{Runtimes, send};
use crate::options::Options;
use crate::stats::{Median, quantile};
#[cfg(feature = "redis")]
use pulse_rig::server::RedisServer;

const CONTEXTS: usize = 2_000;
/// The length of a period with or without flushes.
const PERIOD: Duration = Duration::from_millis(200);

/// 99.9th percentiles of the durations of requests, in microseconds.
#[derive(Debug)]
pub(crate) struct Pause {
    /// The store to which the thread flushes.
    pub(crate) store: &'static str,
    /// The median over periods without flushes.
    pub(crate) without: Median,
    /// The median over periods with flushes.
    pub(crate) with: Median,
    /// The difference between a period with flushes and the following period without.
    pub(crate) added: Median,
    /// The mean number of flushes in a period.
    pub(crate) flushes: f64,
}

/// Measures with a store in memory, and with Redis if its feature is on.
pub(crate) fn pauses(runtimes: &Runtimes, options: &Options) -> Result<Vec<Pause>, Failure> {
    let builder = || Pulse::builder().max_contexts(CONTEXTS);
    let build = |builder: tower_pulse::Builder| {
        let _inside = runtimes.background().enter();
        builder.build()
    };
    let pauses = vec![pause(runtimes, options, "memory", &build(builder())?)?];
    #[cfg(feature = "redis")]
    let pauses = {
        let server = runtimes.background().block_on(RedisServer::start());
        let pulse = build(builder().redis(server.url()))?;
        let in_redis = pause(runtimes, options, "Redis", &pulse)?;
        runtimes.background().block_on(pulse.shutdown())?;
        pauses.into_iter().chain([in_redis]).collect()
    };
    Ok(pauses)
}

fn pause(
    runtimes: &Runtimes,
    options: &Options,
    store: &'static str,
    pulse: &Pulse,
) -> Result<Pause, Failure> {
    let app = (0..CONTEXTS).fold(Router::new(), |app, context| {
        app.route(
            &format!("/context{context}/{{id}}"),
            get(|| async { "pong" }),
        )
    });
    let mut app = app.layer(pulse.layer()).with_state(());
    let uris = (0..CONTEXTS).map(|context| format!("/context{context}/7").parse::<Uri>());
    let uris = uris.collect::<Result<Vec<_>, _>>()?;
    runtimes.run_requests(send(&mut app, &uris, 2 * CONTEXTS));

    let (mut with, mut without, mut flushes) = (Vec::new(), Vec::new(), 0);
    for round in 0..2 * options.long_rounds {
        let is_flushing = round % 2 == 0;
        let stop = AtomicBool::new(false);
        let nanos = std::thread::scope(|scope| {
            let flusher = scope.spawn(|| {
                let mut count = 0;
                while !stop.load(Relaxed) {
                    if !is_flushing {
                        std::thread::sleep(Duration::from_millis(1));
                    } else if runtimes.background().block_on(pulse.flush()).is_ok() {
                        count += 1;
                    }
                }
                count
            });
            let nanos = request_nanos(runtimes, &mut app, &uris);
            stop.store(true, Relaxed);
            flushes += flusher.join().unwrap_or_default();
            nanos
        });
        let periods = if is_flushing { &mut with } else { &mut without };
        periods.push(quantile(&nanos, 0.999) / 1e3);
    }
    let pairs = with.iter().zip(&without);
    Ok(Pause {
        store,
        added: Median::of(pairs.map(|(with, without)| with - without)),
        flushes: f64::from(flushes) / with.len() as f64,
        with: Median::of(with),
        without: Median::of(without),
    })
}

/// Sends requests for one period. Returns the nanoseconds that each request took, sorted.
fn request_nanos(runtimes: &Runtimes, app: &mut Router, uris: &[Uri]) -> Vec<f64> {
    let clock = quanta::Clock::new();
    let mut nanos = Vec::with_capacity(1 << 19);
    let start = Instant::now();
    runtimes.run_requests(async {
        while start.elapsed() < PERIOD {
            for uri in uris {
                let begun = clock.raw();
                send(app, std::slice::from_ref(uri), 1).await;
                nanos.push(clock.delta_as_nanos(begun, clock.raw()) as f64);
            }
        }
    });
    nanos.sort_by(f64::total_cmp);
    nanos
}
