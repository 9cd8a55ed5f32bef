//! The end of a service: in the middle of a flush, without a store, twice, without a shutdown, by a signal.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tower_pulse::{Clock, Pulse};
use tower_pulse_core::store::Query;
use tower_pulse_core::store::in_process::Access;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::{CounterQuery, Precisions};

use crate::rig::demo::{self, Demo};
use crate::rig::fold::fold_rest;
use crate::rig::http::Client;
use crate::rig::log::Log;
use crate::rig::proxy::Proxy;
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::{PATIENCE, until};
use crate::service::{
    PATIENT, PREFIX, Service, builder, by_day, with_response_timeout, without_flushes,
};

#[tokio::test]
async fn a_shutdown_in_the_middle_of_a_flush_loses_nothing() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    for asked in [true, false] {
        let builder = with_response_timeout(&proxy.url(), PATIENT);
        let service = Service::new(match asked {
            true => builder.flush_interval(Duration::from_secs(60)),
            false => builder,
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
        let () = server.run("FLUSHALL").await;
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
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(error.requests(), 48);
    assert!(error.to_string().contains("48 requests"), "{error}");
    let health = service.health();
    assert_eq!(health.flush.lost, 48);
    assert_eq!(health.recording.recorded, 48);
    assert_eq!(health.recording.pending_series, 0);
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
    let shutdown = async || (service.pulse.shutdown().await, service.health().flush.lost);
    let both: [_; 2] = tokio::join!(shutdown(), shutdown()).into();
    assert!(start.elapsed() < PATIENCE);
    // Neither ends before the work is done, and one of them tells what is lost.
    assert_eq!(both.each_ref().map(|(_, lost)| *lost), [10, 10]);
    let told = both.into_iter().filter_map(|(ended, _)| ended.err());
    let told: Vec<_> = told.map(|error| error.requests()).collect();
    assert_eq!(told, [10]);
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

/// Goes on with a flush until its call is under way, and no further.
async fn begin<T: std::fmt::Debug>(service: &Service, flush: impl Future<Output = T> + Unpin) {
    let under_way = until("a call is under way", async || {
        service.health().flush.in_doubt_age_seconds.is_some()
    });
    tokio::select! {
        ended = flush => panic!("it has ended: {ended:?}"),
        () = under_way => {}
    }
}

/// Whoever flushes himself may never go on with it.
#[tokio::test]
async fn a_shutdown_ends_in_time_while_a_flush_is_not_polled() {
    let (_server, _proxy, service) = unanswered().await;
    let mut held = Box::pin(service.pulse.flush());
    begin(&service, &mut held).await;
    let start = Instant::now();
    let error = service.pulse.shutdown().await.unwrap_err();
    assert_eq!(error.requests(), 7);
    assert!(start.elapsed() < PATIENCE);
    let lost = || {
        (
            service.health().flush.lost,
            service.health().flush.lost_additions,
        )
    };
    assert_eq!(lost(), (7, 7 * 3));
    // The flush is dropped, and a further shutdown gives up the same samples: they are counted once.
    drop(held);
    service.pulse.shutdown().await.unwrap_err();
    assert_eq!(lost(), (7, 7 * 3));
}

#[tokio::test]
async fn samples_of_a_dropped_flush_are_not_lost() {
    let (server, proxy, service) = unanswered().await;
    let mut held = Box::pin(service.pulse.flush());
    begin(&service, &mut held).await;
    service.pulse.shutdown().await.unwrap_err();
    drop(held);
    proxy.heal();
    service.end_exactly(&server).await;
}

/// In one process, nobody else folds what it has left.
#[tokio::test]
async fn what_a_dropped_pulse_has_recorded_in_memory_can_be_read() {
    let store = Arc::new(MemoryStore::new(Precisions::default(), Clock::system()));
    let pulse = Pulse::builder().store(store.clone()).build().unwrap();
    pulse.counter("sales").add(3);
    drop(pulse);
    let query = CounterQuery::new(["sales"], 86_400);
    until("what was sold can be read", async || {
        store.counters(&query).await.unwrap()[0].sum() == 3
    })
    .await;
}

/// A flush may have more to append than the journal has room for.
#[tokio::test]
async fn a_flush_in_memory_is_folded_in_parts_if_it_must_be() {
    let mut store = MemoryStore::new(Precisions::default(), Clock::system());
    store.journal_bytes = 10_000;
    let store = Arc::new(store);
    let builder = Pulse::builder().store(store.clone());
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let names: Vec<_> = (0..1_000).map(|number| format!("GET /{number}")).collect();
    for name in &names {
        pulse.record(name, Duration::from_millis(3), http::StatusCode::OK);
    }
    pulse.flush().await.unwrap();
    let counters = names.iter().map(|name| format!("hits:{name}"));
    let hits = store.counters(&CounterQuery::new(counters, 86_400)).await;
    assert!(hits.unwrap().iter().all(|hits| hits.sum() == 1));
    let journal = store.with(Access::Read, |state| Ok(state.kept.journal.clone()));
    let journal = journal.await.unwrap();
    assert_eq!(journal.progress.committed, journal.head);
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
    assert_eq!(health.recording.recorded, 100);
    assert_eq!(health.recording.dropped, 21);
    assert!((health.completeness - 100.0 / 121.0).abs() < 1e-9);
    service.pulse.shutdown().await.unwrap();
    service.pulse.flush().await.unwrap();
    let mut conn = server.connection().await;
    assert_eq!(by_day(&mut conn, "hits").await, 100);
}

#[test]
fn a_dropped_runtime_is_reported_and_hangs_nothing() {
    let (log, _guard) = Log::start();
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
    assert!(start.elapsed() < PATIENCE);
    let text = log.text();
    assert!(text.contains("shutdown().await"), "{text}");
    // A later shutdown does not hang either.
    assert!(service.health().recording.recorded >= 30);
    let start = Instant::now();
    let result = runtime().block_on(service.pulse.shutdown());
    assert_eq!(result.unwrap_err().requests(), 30);
    assert!(start.elapsed() < PATIENCE);
}

/// Sends requests on one connection until the server ends, and notes when each was answered.
async fn ping(demo: &Demo, answered: &Mutex<Vec<Instant>>) {
    let mut client = Client::connect(demo.address()).await;
    while let Ok(response) = client.try_request("GET", "/ping", &[], "").await {
        if response.status != 200 {
            break;
        }
        answered.lock().unwrap().push(Instant::now());
    }
}

#[tokio::test]
async fn sigterm_under_load_loses_nothing() {
    let server = RedisServer::start().await;
    let url = server.url();
    let env = [("REDIS_URL", &*url), ("DEMO_TRAFFIC", "off")];
    let demo = Demo::start(demo::built(), &env).await;
    let answered = Mutex::default();
    let ((), (), ()) = tokio::join!(ping(&demo, &answered), ping(&demo, &answered), async {
        until("there is load", async || {
            answered.lock().unwrap().len() > 200
        })
        .await;
        demo.signal("TERM");
        let exit = demo.wait_exit(PATIENCE).await;
        assert!(exit.is_some_and(|exit| exit.success()), "{}", demo.stderr());
    });
    fold_rest(&url, PREFIX).await;
    let found = by_day(&mut server.connection().await, "hits:GET /ping").await as u64;
    let answered = answered.into_inner().unwrap().len() as u64;
    // The last one of each connection may have been served and its answer cut off.
    assert!(
        (answered..=answered + 2).contains(&found),
        "{found} for {answered}"
    );
}

#[tokio::test]
async fn by_sigkill_at_most_one_interval_is_missing() {
    let interval = Duration::from_millis(300);
    let mut rng = fastrand::Rng::with_seed(seed());
    // At several moments of the interval.
    for _ in 0..4 {
        let server = RedisServer::start().await;
        let url = server.url();
        let millis = interval.as_millis().to_string();
        let env = [
            ("REDIS_URL", &*url),
            ("DEMO_TRAFFIC", "off"),
            ("PULSE_FLUSH_MS", &millis),
        ];
        let demo = Demo::start(demo::built(), &env).await;
        let answered = Mutex::<Vec<Instant>>::default();
        let ((), killed) = tokio::join!(ping(&demo, &answered), async {
            let start = Instant::now();
            let time = 3 * interval + interval.mul_f64(rng.f64());
            until("there is load for some intervals", async || {
                answered.lock().unwrap().len() > 200 && start.elapsed() > time
            })
            .await;
            let killed = Instant::now();
            demo.kill_9();
            killed
        });
        fold_rest(&url, PREFIX).await;
        let found = by_day(&mut server.connection().await, "hits:GET /ping").await as usize;
        let answered = answered.into_inner().unwrap();
        // As much again for a machine that is busy with other tests.
        let old = answered.partition_point(|at| *at + 2 * interval < killed);
        // The last one may have been served and its answer cut off.
        assert!(
            old > 0 && (old..=answered.len() + 1).contains(&found),
            "{found}, of {} that were answered, {old} of them two intervals before the end",
            answered.len()
        );
    }
}
