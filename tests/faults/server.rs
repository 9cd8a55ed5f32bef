//! Faults of the server: killed, restarted, emptied.

use std::time::Duration;

use tower_pulse::Clock;

use crate::hours::{now, with_clock};
use crate::rig::fold::JournalKeys;
use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::seed::seed;
use crate::rig::server::{RedisServer, issue, run};
use crate::rig::wait::until;
use crate::service::{
    PATIENT, PREFIX, Service, Stored, builder, pause, with_response_timeout, without_flushes,
};

#[tokio::test]
async fn a_killed_server_with_every_write_on_disk_loses_nothing() {
    let server = RedisServer::start_durable().await;
    let service = Service::new(builder(&server.url()));
    let seed = seed();
    let load = service.load(seed);
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..5 {
        pause(rng.u64(60..200)).await;
        server.kill_9();
        service.flush_failed().await;
        server.restart().await;
        service.flushed_again().await;
    }
    load.stop().await;
    service.end_exactly(&server).await;
    assert_eq!(service.health().flush.store_resets, 0);
}

#[tokio::test]
async fn flushed_scripts_are_loaded_again_under_load() {
    let server = RedisServer::start().await;
    let service = Service::new(with_response_timeout(&server.url(), PATIENT));
    let load = service.load(seed());
    let mut conn = server.connection().await;
    for _ in 0..20 {
        let () = issue(&mut conn, "SCRIPT", "FLUSH").await;
        service.flushed_again().await;
    }
    load.stop().await;
    service.end_exactly(&server).await;
    // Missing scripts cause no error.
    assert_eq!(service.health().flush.errors, 0);
}

/// The age up to which a generation is young: a failover may have caused its loss.
const YOUNG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_server_restarted_without_data_gets_only_new_samples() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (clock, hand) = Clock::manual(now());
    let service = Service::new(with_clock(&proxy.url(), &clock));
    service.requests(200).await;
    service.settle().await;
    hand.advance(YOUNG + Duration::from_secs(1));
    service.settle().await;
    let keys = JournalKeys::below(PREFIX);
    let fences = keys.fences(&mut server.connection().await).await;
    let before = service.oracle.served();

    // A call in doubt that was in fact appended.
    service.requests(50).await;
    proxy.swallow_replies(1.0, 1, Swallow::Cut);
    service.pulse.flush().await.unwrap_err();
    proxy.heal();
    server.kill_9();
    server.restart().await;
    service.requests(10).await;
    service.settle().await;

    let health = service.health();
    assert_eq!(health.flush.store_resets, 1);
    let warned = |text: &str| health.warnings.iter().any(|warning| warning.contains(text));
    assert!(warned("came back empty once"), "{:?}", health.warnings);
    assert!(warned("noeviction"), "{:?}", health.warnings);
    assert_eq!(warned("50 requests are lost"), health.flush.lost == 50);
    assert_ne!(keys.fences(&mut server.connection().await).await, fences);
    let stored = Stored::read(&mut server.connection().await).await;
    for (precision, hits) in &stored.hits {
        assert_eq!(
            *hits as u64,
            service.oracle.served() - before,
            "{precision}"
        );
    }
    assert_eq!(stored.statistics as u64, service.oracle.served() - before);

    // All later requests are counted.
    service.requests(40).await;
    service.settle().await;
    let stored = Stored::read(&mut server.connection().await).await;
    assert_eq!(stored.total() as u64, service.oracle.served() - before);
    assert_eq!(service.health().flush.store_resets, 1);
    service.pulse.shutdown().await.unwrap();
}

/// As after a failover to a replica without data, from which it cannot be distinguished.
#[tokio::test]
async fn a_server_restarted_while_its_generation_is_young_gets_all_samples_again() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(without_flushes(&proxy.url()));
    let keys = JournalKeys::below(PREFIX);
    for n in 1..=2 {
        service.requests(200).await;
        service.settle().await;
        let fences = keys.fences(&mut server.connection().await).await;
        service.requests(50).await;
        proxy.swallow_replies(1.0, n, Swallow::Cut);
        service.pulse.flush().await.unwrap_err();
        proxy.heal();
        server.kill_9();
        server.restart().await;
        service.settle().await;
        service.assert_exact(&server).await;
        let health = service.health();
        assert_eq!(health.flush.store_resets, n);
        assert_eq!(keys.fences(&mut server.connection().await).await, fences);
        assert!(health.flush.replayed > 0);
    }
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn emptying_the_server_under_load_doubles_nothing() {
    let server = RedisServer::start().await;
    let (clock, hand) = Clock::manual(now());
    let builder = with_clock(&server.url(), &clock).flush_interval(Duration::from_millis(20));
    let service = Service::new(builder);
    // Time passes, and now and then jumps by a minute.
    let ticking = tokio::spawn({
        let hand = hand.clone();
        async move {
            loop {
                pause(5).await;
                hand.advance(Duration::from_millis(5));
            }
        }
    });
    let seed = seed();
    let load = service.load(seed);
    let mut conn = server.connection().await;
    let mut rng = fastrand::Rng::with_seed(seed);
    // The instance knows the generation from here on.
    until("something is flushed", async || {
        service.health().flush.last_flush_age_seconds.is_some()
    })
    .await;
    for n in 1..=5 {
        // Requests that were served before a flush are in the store after it, and are gone when it is
        // emptied. Only requests between the two readings may or may not be there.
        hand.advance(YOUNG + Duration::from_secs(1));
        let flushed = service.oracle.served();
        service.settle().await;
        let () = run(&mut conn, "FLUSHALL").await;
        let emptied = service.oracle.served();
        let more = emptied + rng.u64(10..200);
        until("more is served", async || service.oracle.served() >= more).await;
        let served = service.oracle.served();
        service.settle().await;
        let total = Stored::read(&mut conn).await.total() as u64;
        assert!(
            total >= served - emptied,
            "{total} of {served} - {emptied}: some are missing"
        );
        let most = service.oracle.served() - flushed;
        assert!(total <= most, "{total} of {most}: some are doubled");
        assert_eq!(service.health().flush.store_resets, n);
    }
    // Without load no call is in doubt.
    load.stop().await;
    hand.advance(YOUNG + Duration::from_secs(1));
    service.settle().await;
    let before = service.oracle.served();
    let () = run(&mut conn, "FLUSHALL").await;
    service.requests(77).await;
    service.settle().await;
    let stored = Stored::read(&mut conn).await;
    assert_eq!(stored.total() as u64, service.oracle.served() - before);
    assert_eq!((stored.statistics, stored.all), (77, 77));
    service.pulse.shutdown().await.unwrap();
    ticking.abort();
}

#[tokio::test]
async fn a_server_that_is_away_at_the_start_gets_all_samples_later() {
    let server = RedisServer::start().await;
    server.terminate();
    let service = Service::new(builder(&server.url()));
    let load = service.load(seed());
    until("health tells it", async || {
        let health = service.health();
        let error = health.store.last_error.unwrap_or_default();
        error.contains("cannot be reached") && health.recording.pending_series > 0
    })
    .await;
    let health = service.health();
    assert_eq!(health.status.as_str(), "down");
    assert_eq!(health.store.contact_age_seconds, None);
    server.restart().await;
    until("it has recovered", async || {
        service.health().status.as_str() == "ok"
    })
    .await;
    load.stop().await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn an_idle_service_reports_why_its_store_is_down() {
    let server = RedisServer::start().await;
    server.terminate();
    let service = Service::new(builder(&server.url()));
    until("the error is reported", async || {
        service.health().store.last_error.is_some()
    })
    .await;
    for _ in 0..50 {
        assert!(service.health().store.last_error.is_some());
        pause(10).await;
    }
    server.restart().await;
    until("it is over", async || {
        let health = service.health();
        health.store.last_error.is_none() && health.status.as_str() == "ok"
    })
    .await;
    service.end_exactly(&server).await;
}
