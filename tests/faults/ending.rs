//! How it ends: in the middle of a flush, without a store, twice, not at all, by a signal.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::rig::demo::{self, Demo};
use crate::rig::fold::fold_rest;
use crate::rig::http::Client;
use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::service::{PREFIX, Service, builder, by_day, by_hand, pause};

#[tokio::test]
async fn in_the_middle_of_a_flush() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    for asked in [true, false] {
        let service = Service::new(match asked {
            true => by_hand(&proxy.url()),
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
            service.health().in_doubt_age.is_some()
        })
        .await;
        service.pulse.shutdown().await.unwrap();
        flush.await.unwrap().unwrap();
        proxy.heal();
        service.assert_exact(&server).await;
        assert_eq!(service.health().pending, 0);
        redis::cmd("FLUSHALL")
            .exec_async(&mut server.connection().await)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn with_the_store_away() {
    let server = RedisServer::start().await;
    let timeout = Duration::from_millis(300);
    let service = Service::new(builder(&server.url()).shutdown_timeout(timeout));
    service.requests(48).await;
    service.settle().await;
    server.terminate();
    service.requests(24).await;
    until("a call is in doubt", async || {
        service.health().in_doubt_age.is_some()
    })
    .await;
    service.requests(24).await;
    let start = Instant::now();
    let error = service.pulse.shutdown().await.unwrap_err();
    assert!(start.elapsed() < timeout + Duration::from_millis(500));
    assert_eq!(error.requests(), 48);
    assert!(error.to_string().contains("48 requests"), "{error}");
    let health = service.health();
    assert_eq!((health.lost, health.recorded, health.pending), (48, 48, 0));
    assert!((health.completeness - 0.5).abs() < 1e-9);
    // A second one has nothing to add.
    service.pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn with_a_store_that_never_answers() {
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
    assert_eq!(service.health().lost, 10);
}

/// A shutdown does not wait longer.
const TIMEOUT: Duration = Duration::from_millis(300);

/// A service with seven requests to flush to a server that never answers.
async fn unanswered() -> (RedisServer, Proxy, Service) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(by_hand(&proxy.url()).shutdown_timeout(TIMEOUT));
    service.requests(10).await;
    service.settle().await;
    proxy.black_hole(true);
    service.requests(7).await;
    (server, proxy, service)
}

/// Whoever flushes himself may never go on with it.
#[tokio::test]
async fn while_somebody_holds_a_flush() {
    let (_server, _proxy, service) = unanswered().await;
    let mut held = Box::pin(service.pulse.flush());
    let polled = tokio::time::timeout(Duration::from_millis(20), &mut held).await;
    polled.unwrap_err();
    let start = Instant::now();
    let error = service.pulse.shutdown().await.unwrap_err();
    assert_eq!(error.requests(), 7);
    assert!(start.elapsed() < TIMEOUT + Duration::from_secs(1));
    assert_eq!(service.health().lost, 7);
    // It was only given up as long as nobody went on with it.
    drop(held);
    service.pulse.shutdown().await.unwrap_err();
    assert_eq!(service.health().lost, 7);
}

#[tokio::test]
async fn after_somebody_held_a_flush() {
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
async fn twice_and_what_comes_afterwards_is_dropped() {
    let server = RedisServer::start().await;
    let service = Service::new(builder(&server.url()));
    service.requests(100).await;
    let (first, second) = tokio::join!(service.pulse.shutdown(), service.pulse.shutdown());
    first.unwrap();
    second.unwrap();
    service.assert_exact(&server).await;
    // The service still serves.
    service.requests(20).await;
    service.pulse.timer("late").stop();
    let health = service.health();
    assert_eq!((health.recorded, health.dropped), (100, 21));
    assert!((health.completeness - 100.0 / 121.0).abs() < 1e-9);
    service.pulse.shutdown().await.unwrap();
    service.pulse.flush().await.unwrap();
    let mut conn = server.connection().await;
    assert_eq!(by_day(&mut conn, "hits").await, 100);
}

/// What is logged.
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
fn with_a_runtime_that_is_dropped() {
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
        // Nobody is there at this port.
        let one = runtime();
        let service = one.block_on(async {
            let service = Service::new(by_hand("redis://127.0.0.1:1/"));
            service.requests(30).await;
            service
        });
        let start = Instant::now();
        drop(one);
        assert!(start.elapsed() < Duration::from_secs(1));
        let text = log.text();
        assert!(text.contains("shutdown().await"), "{text}");
        // Nothing hangs afterwards either.
        assert!(service.health().recorded >= 30);
        let start = Instant::now();
        let result = runtime().block_on(service.pulse.shutdown());
        assert_eq!(result.unwrap_err().requests(), 30);
        assert!(start.elapsed() < Duration::from_secs(2));
    });
}

/// Requests on one connection until the server ends. Returns how many were answered, and when the
/// last `within` began how many had been.
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
async fn by_sigterm_under_load() {
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
    let found = by_day(&mut server.connection().await, "hits:GET /ping").await as u64;
    // The last one of each connection may have been served and its answer cut off.
    assert!(
        found >= a + b && found <= a + b + 2,
        "{found} for {a} + {b}"
    );
}

#[tokio::test]
async fn by_sigkill_at_most_one_interval_is_missing() {
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
    let found = by_day(&mut conn, "hits:GET /ping").await as u64;
    assert!(found >= early && found <= early + late, "{found}");
}

#[tokio::test]
async fn health_tells_it_over_http() {
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
        health.flush_errors > 0 && health.recorded == 25
    })
    .await;
    let health = client.json("/pulse/api/health").await;
    assert_eq!(health["recorded"], 25);
    assert!(health["last_error"].is_string(), "{health}");
    assert!(health["in_doubt_age"].is_number(), "{health}");
    assert!(health["pending"].as_u64() > Some(0), "{health}");
    assert_eq!(health["completeness"], 1.0);
    proxy.heal();
    service.settle().await;
    let health = client.json("/pulse/api/health").await;
    assert_eq!(health["status"], "ok");
    assert!(health["last_error"].is_null() && health["in_doubt_age"].is_null());
    service.end_exactly(&server).await;
    serving.abort();
}
