//! The duration of scrapes of `metrics` through the mounted router: `cargo bench -p pulse-benches --bench admin`.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use tower::ServiceExt;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};

const NOW: i64 = 1_700_001_000;

const SCRAPED_CONTEXTS: u64 = 2_000;
/// The goal for the median duration of a scrape.
const SCRAPE_GOAL: Duration = Duration::from_millis(10);

async fn get(app: &Router, path: &str) -> usize {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    body.len()
}

/// Scrapes a service 100 times. Before each scrape, the clock of the service advances by 15 seconds. Prints the
/// durations of the scrapes.
fn scrapes() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (clock, manual) = Clock::manual(NOW);
    let (pulse, _tasks) = Pulse::builder().clock(clock).build_with_tasks().unwrap();
    for context in 0..SCRAPED_CONTEXTS {
        let context = format!("GET /api/v1/things-{context}/{{id}}");
        for request in 1..20u64 {
            let duration = Duration::from_micros(request.pow(3) * 200);
            let status = [StatusCode::OK, StatusCode::NOT_FOUND][usize::from(request == 7)];
            pulse.record(&context, duration, status);
        }
    }
    runtime.block_on(pulse.flush()).unwrap();
    let app = Router::new().merge(pulse.mount("/admin/pulse", Access::open()));
    println!(
        "\n| `metrics` of {SCRAPED_CONTEXTS} contexts | bytes sent | fastest | median | slowest of 100 | goal |"
    );
    println!("|---|---:|---:|---:|---:|---|");
    let mut bytes = 0;
    let mut times: Vec<Duration> = (0..100)
        .map(|_| {
            manual.advance(Duration::from_secs(15));
            let start = Instant::now();
            bytes = runtime.block_on(get(&app, "/admin/pulse/metrics"));
            start.elapsed()
        })
        .collect();
    times.sort();
    let [fastest, median, slowest] = [times[0], times[50], times[99]].map(millis);
    let verdict = if times[50] <= SCRAPE_GOAL {
        "ok"
    } else {
        "**MISSED**"
    };
    let goal = millis(SCRAPE_GOAL);
    println!(
        "| a scrape | {bytes} | {fastest} | {median} | {slowest} | median <= {goal}: {verdict} |"
    );
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

fn main() {
    // Without `--bench`, as in `cargo test --benches`, only check that the bench starts.
    if std::env::args().any(|argument| argument == "--bench") {
        scrapes();
    }
}
