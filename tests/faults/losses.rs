//! The shutdown, health and the log report every kind of loss. Requests are counted one by one, additions to counters
//! and rankings by their amounts.

use std::time::Duration;

use serde_json::Value;
use tower_pulse::Condition;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Dashboard, Pulse};

use crate::faults::service::{
    PATIENT, PREFIX, Service, builder, now, with_clock, with_response_timeout, without_flushes,
};
use crate::rig::asking;
use crate::rig::log::Log;
use crate::rig::proxy::Proxy;
use crate::rig::server::{RedisServer, run};
use crate::rig::wait::until;

const TIMEOUT: Duration = Duration::from_millis(200);

pub async fn ask(pulse: &Pulse, question: &str) -> Value {
    asking::json(&pulse.router(Access::open()), question).await
}

/// The numbers of lost requests, additions and details in health.
async fn lost(pulse: &Pulse) -> [u64; 3] {
    let health = ask(pulse, "/api/health").await;
    let flush = &health["flush"];
    ["lost", "lost_additions", "lost_details"].map(|field| {
        let n = flush[field].as_u64();
        n.unwrap_or_else(|| panic!("no {field} in {flush}"))
    })
}

/// A part of the shutdown's error. The additions are 1,000 and 400 to counters, and 3, 3 and 2 to a ranking.
const LOST_ADDITIONS: &str = "1408 in additions to";

#[tokio::test]
async fn a_shutdown_reports_lost_requests_and_additions() {
    let (log, _logging) = Log::start();
    let server = RedisServer::start().await;
    let service = Service::new(without_flushes(&server.url()).shutdown_timeout(TIMEOUT));
    service.requests(1).await;
    service.settle().await;
    server.kill_9();
    let pulse = &service.pulse;
    pulse.counter("sold").add(1_000);
    pulse.counter("stock").add(-400);
    pulse.timer("job").stop();
    let posts = pulse.ranking("posts").build().unwrap();
    posts.add("7", 3);
    posts.add("7", 3);
    posts.add("9", -2);
    let error = pulse.shutdown().await.expect_err("samples are lost");
    assert_eq!(error.requests(), 1);
    let error = error.to_string();
    assert!(error.contains("1 sample"), "{error}");
    assert!(error.contains(LOST_ADDITIONS), "{error}");
    assert_eq!(lost(pulse).await, [1, 1_408, 0]);
    let health = service.health();
    assert!(health.conditions.contains(&Condition::Lost));
    // The store has the three additions of one request; 1,408 additions are lost.
    assert!((health.completeness - 3.0 / 1_411.0).abs() < 1e-9);
    let recording = health.recording;
    assert_eq!((recording.recorded, recording.pending_series), (1, 0));
    assert_eq!(log.lines_with(LOST_ADDITIONS).len(), 1);
    let warnings = health.warnings.iter().filter(|text| text.contains("1408"));
    assert_eq!(warnings.count(), 1, "{:?}", health.warnings);
    let (_, metrics) = asking::text(&pulse.router(Access::open()), "/metrics").await;
    let has_metric = metrics.contains("pulse_lost_additions_total 1408");
    assert!(has_metric, "{metrics}");
    // A second shutdown reports no loss.
    pulse.shutdown().await.unwrap();
    assert_eq!(lost(pulse).await, [1, 1_408, 0]);
}

/// A window reports lost requests if it contains their minute. All instances give the same answer.
#[tokio::test]
async fn windows_report_the_number_of_their_lost_requests() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(now());
    let minute = now() / 60 * 60;
    let service = Service::new(with_clock(&server.url(), &clock).replay_bytes(0));
    let posts = service.pulse.ranking("posts").build().unwrap();
    let minutes = [5, 0, 3, 4, 7];
    for (at, requests) in minutes.into_iter().enumerate() {
        if at == 2 {
            let mut conn = server.connection().await;
            let () = run(&mut conn, "SAVE").await;
        }
        if at == 4 {
            server.kill_9();
            server.restart().await;
        }
        // Samples after the first drain of a second count for this second.
        service.settle().await;
        service.requests(requests).await;
        if (2..4).contains(&at) {
            posts.add("7", 2);
            service.pulse.counter("sold").add(5);
        }
        service.settle().await;
        manual_clock.advance(Duration::from_secs(60));
    }
    // The next flush reports the loss that the last flush has found.
    service.settle().await;
    let [requests, additions, details] = lost(&service.pulse).await;
    assert_eq!([requests, additions], [7, 7 * 3 + 2 * 7]);
    // The lost details include the instance's reports, one in each flush.
    assert!(details <= 11, "{details}");
    let health = service.health();
    assert!(health.completeness < 1.0);
    let warnings = health.warnings.concat();
    assert!(warnings.contains("35 in additions to"), "{warnings}");
    let other = service.join(with_clock(&server.url(), &clock));
    let dashboard = Dashboard::builder().redis(server.url()).prefix(PREFIX);
    let dashboard = dashboard.clock(clock).build().unwrap();
    let routers = [&service.pulse, &other.pulse].map(|pulse| pulse.router(Access::open()));
    for router in routers
        .into_iter()
        .chain([dashboard.router(Access::open())])
    {
        let window = async |question: &str, minutes: std::ops::Range<i64>| {
            let [from, to] = [minutes.start, minutes.end].map(|at| minute + 60 * at);
            let question = format!("/api/{question}from={from}&to={to}");
            asking::json(&router, &question).await
        };
        let counts = async |minutes: std::ops::Range<i64>| {
            let window = window("overview?", minutes).await["window"].take();
            ["missing", "count"].map(|field| window[field].as_u64().unwrap())
        };
        for (at, served) in (0..).zip(minutes.map(|n| n as u64)) {
            let missing = if (2..4).contains(&at) { served } else { 0 };
            assert_eq!(
                counts(at..at + 1).await,
                [missing, served - missing],
                "{at}"
            );
        }
        assert_eq!(counts(0..5).await, [7, 12]);
        let page = "context=GET%20/page/0&";
        for question in [
            "paths?",
            "series?metric=hits&",
            "series?metric=hits&precision=5&",
            "heat_map?",
            "instances?",
            &format!("path?{page}"),
            &format!("heat_map?{page}"),
        ] {
            let missing = async |minutes| {
                let answer = window(question, minutes).await;
                let missing = answer["missing"].as_u64();
                missing.or(answer["window"]["missing"].as_u64())
            };
            let reported = (
                missing(0..2).await,
                missing(2..3).await,
                missing(0..5).await,
            );
            assert_eq!(reported, (Some(0), Some(3), Some(7)), "{question}");
        }
        // A window of longer slices, and the window before it.
        let day = asking::json(&router, "/api/overview?window=24h").await["window"].take();
        assert_eq!(day["missing"], 7);
        assert_eq!(day["before"]["missing"], 0);
        let slowest = asking::json(&router, "/api/slowest_requests").await;
        assert_eq!(slowest["missing"], 7, "{slowest}");
    }
    service.pulse.shutdown().await.unwrap();
}

/// The server answers the last flush of a shutdown, but has lost calls that it had acknowledged.
#[tokio::test]
async fn a_shutdown_that_finds_a_loss_reports_it() {
    let server = RedisServer::start().await;
    let service = Service::new(without_flushes(&server.url()).replay_bytes(0));
    service.requests(10).await;
    service.settle().await;
    let mut conn = server.connection().await;
    let () = run(&mut conn, "SAVE").await;
    service.pulse.counter("sold").add(1_000);
    service.requests(2).await;
    service.settle().await;
    server.kill_9();
    server.restart().await;
    service.pulse.counter("sold").add(1);
    let error = service.pulse.shutdown().await.unwrap_err().to_string();
    assert!(error.contains("2 samples"), "{error}");
    // Each of the two requests adds 3 to the counter `sales`.
    assert_eq!(lost(&service.pulse).await, [2, 1_000 + 2 * 3, 2]);
    // Other instances know the lost requests too.
    let other = service.join(with_response_timeout(&server.url(), PATIENT));
    until("the loss is folded", async || {
        let overview = ask(&other.pulse, "/api/overview?window=5m").await;
        overview["window"]["missing"] == 2
    })
    .await;
    other.pulse.shutdown().await.unwrap();
}

/// Calls `end` to end a service during a call that is never answered.
fn end_in_a_call(end: impl FnOnce(tokio::runtime::Runtime, Service, &Log)) {
    let (log, _logging) = Log::start();
    let runtime = runtime();
    let (service, server, proxy) = runtime.block_on(async {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port()).await;
        let service = Service::new(builder(&proxy.url()).shutdown_timeout(TIMEOUT));
        service.requests(10).await;
        service.settle().await;
        proxy.black_hole(true);
        service.pulse.counter("sold").add(1_000);
        service.pulse.timer("job").stop();
        let is_in_progress = async || service.health().flush.in_doubt_age_seconds.is_some();
        until("a call is in progress", is_in_progress).await;
        (service, server, proxy)
    });
    end(runtime, service, &log);
    drop((server, proxy));
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread();
    { runtime }.enable_all().build().unwrap()
}

#[test]
fn the_end_of_a_runtime_during_a_call_is_logged_and_nothing_hangs() {
    end_in_a_call(|ended, service, log| {
        drop(ended);
        let result = runtime().block_on(service.pulse.shutdown());
        assert_eq!(result.unwrap_err().requests(), 1);
        let lines = log.lines_with("the runtime ended without");
        assert!(lines.len() == 1, "{lines:?}");
        for text in ["shutdown().await", "1000 in additions to"] {
            assert!(lines[0].contains(text), "{lines:?}");
        }
    });
}

#[test]
fn a_dropped_pulse_logs_the_samples_that_it_could_not_flush() {
    end_in_a_call(|runtime, service, log| {
        drop(service);
        let lines = || log.lines_with("could not be flushed before the shutdown");
        runtime.block_on(until("a log line", async || !lines().is_empty()));
        assert!(lines().len() == 1, "{:?}", lines());
        assert!(lines()[0].contains("1000 in additions to"), "{:?}", lines());
    });
}
