//! Requests per second of a steady load, in windows, in the overview and in the list of counters. Faults of the store
//! delay some samples.

use std::time::Duration;

use serde_json::Value;
use tower_pulse::{Clock, ManualClock, Pulse};

use crate::faults::losses::ask;
use crate::faults::service::{now, settle, with_clock, with_tasks, without_tasks};
use crate::rig::reads::StoreOf;
use crate::rig::server::RedisServer;

/// The number of requests of each instance in each second.
const LOAD: u64 = 24;

/// Lets instances serve the load for `seconds`, and try to flush after each second.
async fn serve(instances: &[&Pulse], manual_clock: &ManualClock, seconds: u64) {
    for _ in 0..seconds {
        for pulse in instances {
            for _ in 0..LOAD {
                pulse.record("GET /", Duration::from_millis(1), http::StatusCode::OK);
            }
            pulse.counter("sold").add(LOAD as i64);
        }
        manual_clock.advance(Duration::from_secs(1));
        for pulse in instances {
            pulse.simulation().drain();
            let _ = pulse.flush().await;
        }
    }
}

/// Requests per second of the last five minutes as the dashboard shows them, and the number of recorded seconds.
async fn window_rate(pulse: &Pulse, clock: &Clock) -> (f64, f64) {
    let window = ask(pulse, "/api/overview?window=5m").await["window"].clone();
    let number = |field: &str| window[field].as_f64().unwrap();
    let passed = number("to").min(clock.now_seconds() as f64) - number("from");
    let recorded = number("complete") * passed;
    (number("count") / recorded, recorded)
}

async fn assert_rates(pulse: &Pulse, clock: &Clock, load: u64, seconds: u64) {
    let load = load as f64;
    let (rate, recorded) = window_rate(pulse, clock).await;
    assert!((recorded - seconds as f64).abs() < 1e-6, "{recorded} s");
    assert!((rate - load).abs() < 1e-6, "{rate}/s in the window");
    let overview = ask(pulse, "/api/overview").await;
    assert_eq!(overview["requests_per_second"], load, "{overview}");
    for precision in [1, 60, 3_600] {
        let counters = ask(pulse, &format!("/api/counters?precision={precision}")).await;
        let rate = counters["counters"][0]["rate"].as_f64().unwrap();
        assert!((rate - load).abs() < 1e-6, "{counters}");
    }
}

/// The start of the store's generation, and the time of its first sample.
async fn beginning(pulse: &Pulse, clock: &Clock) -> (i64, i64) {
    let store = pulse.backend();
    let status = store.upkeep().status(clock.now_seconds()).await.unwrap();
    (status.created.unwrap(), status.since.unwrap())
}

#[tokio::test]
async fn after_flushall_the_data_begins_with_the_oldest_replayed_call() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(now());
    // The test drains and flushes. The folding task notices that the store was emptied.
    let pulse = with_tasks(with_clock(&server.url(), &clock), |task| task == "fold");
    let flushall = async || -> () { server.run("FLUSHALL").await };
    serve(&[&pulse], &manual_clock, 20).await;
    flushall().await;
    serve(&[&pulse], &manual_clock, 10).await;
    settle(&pulse).await;
    assert!(pulse.health().flush.replayed > 0);
    let begun = beginning(&pulse, &clock).await;
    assert_eq!(begun, (now() + 21, now()));
    assert_rates(&pulse, &clock, LOAD, 30).await;
    // If the lost generation was older than a minute, no call is replayed. The oldest samples are then those of the
    // failed flush.
    serve(&[&pulse], &manual_clock, 60).await;
    flushall().await;
    serve(&[&pulse], &manual_clock, 10).await;
    settle(&pulse).await;
    let begun = beginning(&pulse, &clock).await;
    assert_eq!(begun, (now() + 91, now() + 90));
    assert_rates(&pulse, &clock, LOAD, 10).await;
    pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_overview_shows_the_rate_of_the_last_seconds_that_can_be_read() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(now());
    let pulse = without_tasks(with_clock(&server.url(), &clock));
    let rate = async || ask(&pulse, "/api/overview").await["requests_per_second"].clone();
    // The rate leaves out the second that has just ended.
    serve(&[&pulse], &manual_clock, 1).await;
    assert_eq!(rate().await, 0.0);
    serve(&[&pulse], &manual_clock, 1).await;
    for _ in 0..30 {
        assert_eq!(rate().await, LOAD as f64);
        serve(&[&pulse], &manual_clock, 1).await;
    }
    // The server answers reads, but refuses writes.
    let () = server.run("CONFIG SET maxmemory 1").await;
    for seconds in 1..30 {
        serve(&[&pulse], &manual_clock, 1).await;
        let expected = match seconds {
            ..=14 => Value::from(LOAD as f64),
            _ => Value::Null,
        };
        assert_eq!(rate().await, expected, "after {seconds} s");
    }
    let () = server.run("CONFIG SET maxmemory 0").await;
    settle(&pulse).await;
    for _ in 0..15 {
        serve(&[&pulse], &manual_clock, 1).await;
        assert_eq!(rate().await, LOAD as f64);
    }
    pulse.shutdown().await.unwrap();
}
