//! The end of a service: in the middle of a flush, without a store, twice, without a shutdown, by a signal.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::rig::demo::{self, Demo};
use crate::rig::fold::fold_rest;
use crate::rig::http::Client;
use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;
use crate::service::{PREFIX, Service, builder, by_day, pause, until, without_flushes};

#[tokio::test]
async fn a_shutdown_in_the_middle_of_a_flush_loses_nothing() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    for asked in [true, false] {
        let service = Service::new(match asked {
            true => without_flushes(&proxy.url()),
            false => builder(&proxy.url()),
        });
        service.requests(100).await;
        service.settle().await;
        proxy.delay(Duration::from_millis(60));
        service.requests(100).await;
        let flush = tokio::spawn({
            let pulse = service.pulse.clone();
            async move {
                match asked {
                    true => pulse.flush().await,
                    false => Ok(()),
                }
            }
        });
        until("a call is under way", async || {
            service.health().flush.in_doubt_age_seconds.is_some()
        })
        .await;
        service.pulse.shutdown().await.unwrap();
        flush.await.unwrap().unwrap();
        proxy.heal();
        service.assert_exact(&server).await;
        assert_eq!(service.health().recording.pending_series, 0);
        redis::cmd("FLUSHALL")
            .exec_async(&mut server.connection().await)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_shutdown_without_a_store_reports_the_lost_requests() {
    let server = RedisServer::start().await;
    let timeout = Duration::from_millis(300);
    let service = Service::new(builder(&server.url()).shutdown_timeout(timeout));
    service.requests(48).await;
    service.settle().await;
    server.terminate();
    service.requests(24).await;
    until("a call is in doubt", async || {
        service.health().flush.in_doubt_age_seconds.is_some()
    })
    .await;
    service.requests(24).await;
    let start = Instant::now();
    let error = service.pulse.shutdown().await.unwrap_err();
    assert!(start.elapsed() < timeout + Duration::from_millis(500));
    assert_eq!(error.requests(), 48);
    assert!(error.to_string().contains("48 requests"), "{error}");
    let health = service.health();
    assert_eq!(
        (
            health.flush.lost,
            health.recording.recorded,
            health.recording.pending_series
        ),
        (48, 48, 0)
    );
    assert!((health.completeness - 0.5).abs() < 1e-9);
    // A second shutdown has nothing to add.
    service.pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_shutdown_with_a_store_that_never_answers_ends_in_time() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(builder(&proxy.url()).shutdown_timeout(Duration::from_millis(200)));
    service.requests(10).await;
    service.settle().await;
    proxy.black_hole(true);
    service.requests(10).await;
    let start = Instant::now();
    let (first, second) = tokio::join!(service.pulse.shutdown(), async {
        pause(20).await;
        service.pulse.shutdown().await
    });
    assert_eq!(first.unwrap_err().requests(), 10);
    assert!(start.elapsed() < Duration::from_secs(1));
    let _ = second;
    assert_eq!(service.health().flush.lost, 10);
}

/// The deadline of a shutdown.
const TIMEOUT: Duration = Duration::from_millis(300);

/// A service with seven requests to flush, whose server never answers.
async fn unanswered() -> (RedisServer, Proxy, Service) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(without_flushes(&proxy.url()).shutdown_timeout(TIMEOUT));
    service.requests(10).await;
    service.settle().await;
    proxy.black_hole(true);
    service.requests(7).await;
    (server, proxy, service)
}

/// A caller of `flush` may never poll its future again.
#[tokio::test]
async fn a_shutdown_ends_in_time_while_a_flush_is_not_polled() {
    let (_server, _proxy, service) = unanswered().await;
    let mut held = Box::pin(service.pulse.flush());
    let polled = tokio::time::timeout(Duration::from_millis(20), &mut held).await;
    polled.unwrap_err();
    let start = Instant::now();
    let error = service.pulse.shutdown().await.unwrap_err();
    assert_eq!(error.requests(), 7);
    assert!(start.elapsed() < TIMEOUT + Duration::from_secs(1));
    assert_eq!(service.health().flush.lost, 7);
    // The flush is dropped, and a further shutdown gives up the same samples: they are counted once.
    drop(held);
    service.pulse.shutdown().await.unwrap_err();
    assert_eq!(service.health().flush.lost, 7);
}

#[tokio::test]
async fn samples_of_a_dropped_flush_are_not_lost() {
    let (server, proxy, service) = unanswered().await;
    let mut held = Box::pin(service.pulse.flush());
    let polled = tokio::time::timeout(Duration::from_millis(20), &mut held).await;
    polled.unwrap_err();
    service.pulse.shutdown().await.unwrap_err();
    drop(held);
    proxy.heal();
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn a_second_shutdown_succeeds_and_later_requests_are_dropped() {
    let server = RedisServer::start().await;
    let service = Service::new(builder(&server.url()));
    service.requests(100).await;
    let (first, second) = tokio::join!(service.pulse.shutdown(), service.pulse.shutdown());
    first.unwrap();
    second.unwrap();
    service.assert_exact(&server).await;
    // The service still answers.
    service.requests(20).await;
    service.pulse.timer("late").stop();
    let health = service.health();
    assert_eq!(
        (health.recording.recorded, health.recording.dropped),
        (100, 21)
    );
    assert!((health.completeness - 100.0 / 121.0).abs() < 1e-9);
    service.pulse.shutdown().await.unwrap();
    service.pulse.flush().await.unwrap();
    let mut conn = server.connection().await;
    assert_eq!(by_day(&mut conn, "hits").await, 100);
}

/// The log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn a_dropped_runtime_is_reported_and_hangs_nothing() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
        };
        // No server listens on this port.
        let one = runtime();
        let service = one.block_on(async {
            let service = Service::new(without_flushes("redis://127.0.0.1:1/"));
            service.requests(30).await;
            service
        });
        let start = Instant::now();
        drop(one);
        assert!(start.elapsed() < Duration::from_secs(1));
        let text = log.text();
        assert!(text.contains("shutdown().await"), "{text}");
        // A later shutdown does not hang either.
        assert!(service.health().recording.recorded >= 30);
        let start = Instant::now();
        let result = runtime().block_on(service.pulse.shutdown());
        assert_eq!(result.unwrap_err().requests(), 30);
        assert!(start.elapsed() < Duration::from_secs(2));
    });
}

/// Sends `n` requests on one connection, or as many as the server answers. Returns the number of answers.
async fn ping(demo: &Demo, n: usize) -> u64 {
    let mut client = Client::connect(demo.address()).await;
    let mut answered = 0;
    for _ in 0..n {
        match client.try_request("GET", "/ping", &[], "").await {
            Ok(response) if response.status == 200 => answered += 1,
            _ => break,
        }
    }
    answered
}

#[tokio::test]
async fn sigterm_under_load_loses_nothing() {
    let server = RedisServer::start().await;
    let url = server.url();
    let env = [("REDIS_URL", &*url), ("DEMO_TRAFFIC", "off")];
    let demo = Demo::start(demo::built(), &env).await;
    let (a, b, end) = tokio::join!(ping(&demo, usize::MAX), ping(&demo, usize::MAX), async {
        pause(300).await;
        demo.signal("TERM");
        let start = Instant::now();
        let exit = demo.wait_exit(Duration::from_secs(5)).await;
        assert!(exit.is_some_and(|exit| exit.success()), "{}", demo.stderr());
        start.elapsed()
    });
    assert!(end < Duration::from_secs(2), "{end:?}");
    fold_rest(&url, PREFIX).await;
    let stored = by_day(&mut server.connection().await, "hits:GET /ping").await as u64;
    // The last request of each connection may have been served and its answer cut off.
    assert!(
        stored >= a + b && stored <= a + b + 2,
        "{stored} for {a} + {b}"
    );
}

#[tokio::test]
async fn after_sigkill_at_most_one_interval_is_missing() {
    let server = RedisServer::start().await;
    let url = server.url();
    let env = [
        ("REDIS_URL", &*url),
        ("DEMO_TRAFFIC", "off"),
        ("PULSE_FLUSH_MS", "300"),
    ];
    let demo = Demo::start(demo::built(), &env).await;
    let early = ping(&demo, 300).await;
    let mut conn = server.connection().await;
    until("the first ones are flushed", async || {
        by_day(&mut conn.clone(), "hits:GET /ping").await as u64 == early
    })
    .await;
    let late = ping(&demo, 50).await;
    demo.kill_9();
    fold_rest(&url, PREFIX).await;
    let stored = by_day(&mut conn, "hits:GET /ping").await as u64;
    assert!(stored >= early && stored <= early + late, "{stored}");
}

#[tokio::test]
async fn health_reports_an_outage_over_http() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(builder(&proxy.url()));
    let access = tower_pulse::admin::Access::open();
    let app = service.app.clone();
    let app = app.merge(service.pulse.mount("/pulse", access));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut client = Client::connect(address).await;
    for _ in 0..20 {
        assert_eq!(client.get("/page/0").await.status, 200);
    }
    service.settle().await;
    proxy.refuse(true);
    proxy.cut();
    for _ in 0..5 {
        assert_eq!(client.get("/page/0").await.status, 200);
    }
    until("it fails, and all is drained", async || {
        let health = service.health();
        health.flush.errors > 0 && health.recording.recorded == 25
    })
    .await;
    let health = client.json("/pulse/api/health").await;
    assert_eq!(health["recording"]["recorded"], 25);
    assert!(health["store"]["last_error"].is_string(), "{health}");
    assert!(
        health["flush"]["in_doubt_age_seconds"].is_number(),
        "{health}"
    );
    assert!(
        health["recording"]["pending_series"].as_u64() > Some(0),
        "{health}"
    );
    assert_eq!(health["completeness"], 1.0);
    proxy.heal();
    service.settle().await;
    let health = client.json("/pulse/api/health").await;
    assert_eq!(health["status"], "ok");
    assert!(
        health["store"]["last_error"].is_null()
            && health["flush"]["in_doubt_age_seconds"].is_null()
    );
    service.end_exactly(&server).await;
    serving.abort();
}
