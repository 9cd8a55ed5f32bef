//! The duration of the dashboard's polls with 2,000 busy contexts and seven days of data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};
use tower_pulse_core::store::Store;

use crate::stores::{NOW, PulseFile, Target, batch};
use pulse_rig::server::RedisServer;

const CONTEXTS: usize = 2_000;
/// The days of data: one more than the window of seven days, because the window's first slice begins before the window.
const DAYS: i64 = 8;
/// The number of polls, one per second.
const POLLS: usize = 30;
/// The questions that the dashboard asks each second.
const OVERVIEW: &str = "/api/overview?window=7d";
const PATHS: &str = "/api/paths?window=7d&limit=100&sort=change";

/// The router of a new `Pulse`, which has not read any window.
fn new_router(store: Arc<dyn Store>, clock: &Clock) -> Router {
    let builder = Pulse::builder().store(store).clock(clock.clone());
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    pulse.router(Access::open())
}

async fn ask(app: &Router, question: &str) -> Value {
    let request = Request::get(question).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).unwrap()
}

/// Polls once like the dashboard. Returns the share of the window that the answer covers.
async fn poll(app: &Router) -> f64 {
    ask(app, OVERVIEW).await;
    ask(app, PATHS).await["complete"].as_f64().unwrap()
}

/// Flushes a batch per half hour of [`DAYS`] days, and a batch per minute of the last two hours.
async fn fill(target: &mut Target) {
    let seconds = DAYS * 86_400;
    let mut at = 0;
    while at < seconds {
        let length = if at < seconds - 7_200 { 1_800 } else { 60 };
        let now = target.clock.now_seconds();
        target.flush(batch(CONTEXTS, now)).await;
        target.manual.advance(Duration::from_secs(length as u64));
        at += length;
    }
    assert_eq!(target.clock.now_seconds(), NOW + seconds);
}

/// Prints a row of the table. `reopen` opens a file again, as a new process does.
async fn print_row(label: &str, target: &mut Target, reopen: impl AsyncFnOnce(&mut Target)) {
    fill(target).await;
    let start = Instant::now();
    reopen(target).await;
    let app = new_router(target.store.clone(), &target.clock);
    let mut complete = poll(&app).await;
    let first = start.elapsed();
    for _ in 0..100 {
        if complete >= 1.0 {
            break;
        }
        target.manual.advance(Duration::from_secs(1));
        complete = poll(&app).await;
    }
    let whole = start.elapsed();
    let mut took = Vec::new();
    for _ in 0..POLLS {
        target.manual.advance(Duration::from_secs(1));
        let now = target.clock.now_seconds();
        target.flush(batch(CONTEXTS, now)).await;
        let start = Instant::now();
        assert!(poll(&app).await >= 1.0, "the window was complete before");
        took.push(start.elapsed());
    }
    took.sort_unstable();
    let millis = |took: Duration| took.as_secs_f64() * 1e3;
    println!(
        "| {label} | {:.1} | {:.1} | {:.0} | {:.0} |",
        millis(took[POLLS / 2]),
        millis(took[POLLS - 1]),
        millis(first),
        millis(whole)
    );
}

pub async fn print_table() {
    println!(
        "\nA poll of the dashboard (`{OVERVIEW}` and `{PATHS}`) with {CONTEXTS} contexts, all busy each second. \
         Cold is the first poll of a process, including the time to open the store. The goals are 50 ms for the \
         median, and 1,000 ms for a cold poll.\n\n\
         | store | median, ms | longest | cold | until the window is complete |\n\
         |---|---:|---:|---:|---:|"
    );
    let mut memory = Target::memory();
    print_row("memory", &mut memory, async |_| {}).await;
    let file = PulseFile::new();
    let mut target = Target::file(&file).await;
    print_row("file", &mut target, async |target| {
        target.reopen(&file).await
    })
    .await;
    println!("\nThe file has {:.0} MiB.", file.mib());
    let server = RedisServer::start().await;
    let mut target = Target::redis(&server);
    print_row("Redis", &mut target, async |_| {}).await;
}
