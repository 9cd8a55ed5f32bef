//! Memory is bounded by configuration: a process that reaches every limit takes no more memory than the guide's page on
//! sizing says. Each case has its own process, because a process does not return memory to the system.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "test code: a panic is a failed test"
)]

use std::convert::Infallible;
use std::process::{Command, Stdio};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use pulse_rig::process::resident_bytes;
use pulse_rig::server::RedisServer;
use tower::{Layer, Service};
use tower_pulse::query::{PathsQuery, Window};
use tower_pulse::{Builder, Clock, Failure, Outcome, Pulse, Ranking, RequestOutcome};

const SIZING: &str = include_str!("../src/guide/sizing.md");
/// The environment variable that names the case of a child process.
const CHILD: &str = "PULSE_MEMORY_CASE";
const NOW: i64 = 1_700_006_400;
/// The length of the outage of Redis, in minutes. Records of minutes are kept for a shorter time.
const MINUTES: i64 = 135;
const CONTEXTS: usize = 100;
const MIB: usize = 1 << 20;

/// A builder with the limits that the guide's page assumes.
fn limited() -> Builder {
    Pulse::builder()
        .max_contexts(CONTEXTS)
        .max_counters(100)
        .memory_bytes(2 * MIB)
        .pending_bytes(4 * MIB)
        .replay_bytes(4 * MIB)
        .query_bytes(4 * MIB)
}

/// Records more contexts, codes, counters and ids than the limits allow. The durations of each context go from 1 µs to
/// 12 minutes, with two for each doubling.
fn record(pulse: &Pulse, ranking: &Ranking, round: i64) {
    for context in 0..CONTEXTS + 20 {
        let context = format!("GET /{:x<200}/{context}", "");
        for step in 0..60u16 {
            let duration = Duration::from_secs_f64(1e-6 * (f64::from(step) / 2.0).exp2());
            let outcome = match (round + i64::from(step)) % 3 {
                0 => Outcome::Cancelled.into(),
                1 => StatusCode::from_u16(500 + step % 20).unwrap().into(),
                _ => RequestOutcome::from(StatusCode::OK),
            };
            pulse.record(&context, duration, outcome);
        }
    }
    for name in 0..120 {
        pulse.counter(&format!("{:x<200}{name}", "")).increment();
    }
    for id in 0..1_200 {
        ranking.add(&format!("{:x<200}{id}-{}", "", round % 3), 1);
    }
}

/// Serves failed requests of each context. The requests have more timers than a listed request keeps, and more kinds of
/// errors than are counted separately.
async fn serve(pulse: &Pulse) {
    for context in 0..CONTEXTS {
        let layer = pulse.layer().named(format!("GET /{:x<200}/{context}", ""));
        let mut service = layer.layer(tower::service_fn(async |request: Request<usize>| {
            for timer in 0..10 {
                pulse.timer(&format!("{:x<200}{timer}", "")).stop();
            }
            let kind = (9 * context + request.into_body()) % 300;
            let failure = Failure::new(format!("{:x<60}{kind}", ""));
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            let failure = failure.with_message(format_args!("{:x<300}", ""));
            response.extensions_mut().insert(failure);
            Ok::<_, Infallible>(response)
        }));
        for request in 0..9 {
            service.call(Request::new(request)).await.unwrap();
        }
    }
}

/// Fills this process to its limits, and prints by how many bytes the process grew.
async fn fill(redis: Option<RedisServer>) {
    let before = resident_bytes(std::process::id());
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = limited().clock(clock);
    let builder = match &redis {
        Some(redis) => builder.redis(redis.url()),
        None => builder,
    };
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let ranking = pulse.ranking("posts").max_ids(1_000).build().unwrap();
    // While the store answers, fills every table, the acknowledged calls and the caches of queries.
    for round in 0..20 {
        serve(&pulse).await;
        record(&pulse, &ranking, round);
        manual_clock.advance(Duration::from_secs(60));
        pulse.flush().await.unwrap();
        for window in ["5m", "1h", "6h", "24h"] {
            let mut query = PathsQuery::default();
            query.window = window.parse::<Window>().unwrap();
            pulse.query().ask(&query).await.unwrap();
        }
    }
    if let Some(redis) = &redis {
        redis.kill_9();
    }
    for round in 0..MINUTES {
        serve(&pulse).await;
        record(&pulse, &ranking, round);
        manual_clock.advance(Duration::from_secs(60));
        // A flush that fails keeps its data for the next flush, up to `pending_bytes`.
        assert_eq!(pulse.flush().await.is_err(), redis.is_some());
    }
    let health = pulse.health();
    assert!(health.recording.overflowed > 0, "{health:?}");
    println!(
        "grew by {} bytes",
        resident_bytes(std::process::id()) - before
    );
}

/// Only a child process fills itself: in the test program, this test does nothing.
#[tokio::test]
async fn fill_child() {
    match std::env::var(CHILD).as_deref() {
        Ok("memory") => fill(None).await,
        Ok(_) => fill(Some(RedisServer::start().await)).await,
        Err(_) => {}
    }
}

#[test]
fn a_process_at_every_limit_takes_no_more_memory_than_the_guide_says() {
    let children = [("memory", "| memory |"), ("redis", "| Redis, away |")].map(|(case, row)| {
        let stated = SIZING.lines().find_map(|line| line.strip_prefix(row));
        let stated = stated.and_then(|cells| cells.trim().split(' ').next()?.parse::<u64>().ok());
        let stated = stated.expect("the page has the number of MB") * 1_000_000;
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["fill_child", "--exact", "--nocapture"])
            .env(CHILD, case)
            .stdout(Stdio::piped())
            .spawn();
        (case, stated, child.unwrap())
    });
    for (case, stated, child) in children {
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let grown = printed.split_once("grew by ");
        let grown = grown.and_then(|(_, grown)| grown.split(' ').next()?.parse::<u64>().ok());
        let grown = grown.unwrap_or_else(|| panic!("{case}: {printed}"));
        println!("{case}: {grown} bytes, the guide says {stated}");
        // The guide's number is at most twice the measured number.
        assert!(
            (stated / 2..=stated).contains(&grown),
            "{case}: {grown} bytes, the guide says {stated}"
        );
    }
}
