//! The end of a service: during a flush, while the store never answers, by two shutdowns, and without a shutdown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tower_pulse::{Clock, Pulse};
use tower_pulse_core::store::Query;
use tower_pulse_core::store::in_process::StateAccess;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::{CounterQuery, Precisions};

use crate::faults::service::{PATIENT, Service, builder, by_day, with_response_timeout};
use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;
use crate::rig::wait::{PATIENCE, until};

#[tokio::test]
async fn a_shutdown_in_the_middle_of_a_flush_loses_nothing() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(with_response_timeout(&proxy.url(), PATIENT));
    service.requests(100).await;
    service.settle().await;
    proxy.delay(Duration::from_millis(60));
    service.requests(100).await;
    let is_in_progress = async || service.health().flush.in_doubt_age_seconds.is_some();
    until("a call is in progress", is_in_progress).await;
    let (flushed, ended) = tokio::join!(service.pulse.flush(), service.pulse.shutdown());
    flushed.unwrap();
    ended.unwrap();
    proxy.heal();
    service.assert_exact(&server).await;
    assert_eq!(service.health().recording.pending_series, 0);
}

#[tokio::test]
async fn a_shutdown_with_a_store_that_never_answers_ends_in_time() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(builder(&proxy.url()).shutdown_timeout(Duration::from_millis(200)));
    service.requests(48).await;
    service.settle().await;
    proxy.black_hole(true);
    service.requests(24).await;
    let is_in_doubt = async || service.health().flush.in_doubt_age_seconds.is_some();
    until("a call is in doubt", is_in_doubt).await;
    service.requests(24).await;
    let start = Instant::now();
    let shutdown = async || (service.pulse.shutdown().await, service.health().flush.lost);
    let both: [_; 2] = tokio::join!(shutdown(), shutdown()).into();
    assert!(start.elapsed() < PATIENCE);
    // Neither shutdown ends before the loss is known, and only one of them reports the loss.
    assert_eq!(both.each_ref().map(|(_, lost)| *lost), [48, 48]);
    let errors = both.into_iter().filter_map(|(ended, _)| ended.err());
    let reported: Vec<_> = errors.map(|error| error.requests()).collect();
    assert_eq!(reported, [48]);
    let health = service.health();
    assert_eq!((health.flush.lost, health.recording.recorded), (48, 48));
    assert!((health.completeness - 0.5).abs() < f64::EPSILON);
    let warnings = health.warnings.concat();
    let loss = "48 samples, 144 in additions";
    assert!(warnings.contains(loss), "{warnings}");
}

/// A dropped `Pulse` in memory must fold its samples, because no other instance can.
#[tokio::test]
async fn samples_of_a_dropped_pulse_in_memory_can_be_read() {
    let store = Arc::new(MemoryStore::new(Precisions::default(), Clock::system()));
    let pulse = Pulse::builder().store(store.clone()).build().unwrap();
    pulse.counter("sales").add(3);
    drop(pulse);
    let query = CounterQuery::new(["sales"], 86_400);
    let is_counted = async || store.counters(&query).await.unwrap()[0].sum() == 3;
    until("the counter can be read", is_counted).await;
}

/// The flush is larger than the journal's limit.
#[tokio::test]
async fn a_large_flush_in_memory_is_folded_in_parts() {
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
    let journal = store.with(StateAccess::Read, |state| Ok(state.kept.journal.clone()));
    let journal = journal.await.unwrap();
    assert_eq!(journal.progress.committed, journal.head);
}

#[tokio::test]
async fn a_second_shutdown_succeeds_and_later_samples_are_dropped() {
    let server = RedisServer::start().await;
    let service = Service::new(builder(&server.url()));
    let posts = service.pulse.ranking("posts").build().unwrap();
    service.requests(100).await;
    let (first, second) = tokio::join!(service.pulse.shutdown(), service.pulse.shutdown());
    first.unwrap();
    second.unwrap();
    service.assert_exact(&server).await;
    // The service still answers.
    service.requests(20).await;
    service.pulse.timer("job").stop();
    service.pulse.counter("sold").add(1_000);
    posts.add("7", 5);
    let health = service.health();
    let recording = health.recording;
    assert_eq!((recording.recorded, recording.dropped), (100, 21));
    let additions = (recording.recorded_additions, recording.dropped_additions);
    assert_eq!(additions, (300, 20 * 3 + 1_005));
    assert_eq!((health.flush.lost, health.flush.lost_additions), (0, 0));
    // Relatively more additions than requests were dropped, so the additions determine the completeness.
    assert!((health.completeness - 300.0 / 1_365.0).abs() < 1e-9);
    service.pulse.shutdown().await.unwrap();
    service.pulse.flush().await.unwrap();
    assert_eq!(by_day(&mut server.connection().await, "hits").await, 100);
}
