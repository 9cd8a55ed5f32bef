//! Faults of the server: its scripts or its data are lost, or it is away at the start.

use std::time::Duration;

use tower_pulse::Clock;

use crate::faults::service::{
    PATIENT, PREFIX, Service, Stored, builder, now, pause, with_clock, with_response_timeout,
};
use crate::rig::fold::JournalKeys;
use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

#[tokio::test]
async fn flushed_scripts_are_loaded_again_under_load() {
    let server = RedisServer::start().await;
    let service = Service::new(with_response_timeout(&server.url(), PATIENT));
    let load = service.load(seed());
    for _ in 0..20 {
        let () = server.run("SCRIPT FLUSH").await;
        service.flushed_again().await;
    }
    load.stop().await;
    service.end_exactly(&server).await;
    // Missing scripts cause no error.
    assert_eq!(service.health().flush.errors, 0);
}

/// A server that lost a young generation cannot be distinguished from a replica after a failover.
#[tokio::test]
async fn a_server_restarted_without_data_gets_all_samples_of_a_young_generation_again() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (clock, manual_clock) = Clock::manual(now());
    let service = Service::new(with_clock(&proxy.url(), &clock));
    let keys = JournalKeys::below(PREFIX);
    let mut conn = server.connection().await;
    let mut gone = 0;
    for (resets, age) in (1..).zip([0, 0, 61]) {
        service.requests(200).await;
        service.settle().await;
        manual_clock.advance(Duration::from_secs(age));
        service.settle().await;
        let (fences, flushed) = (keys.fences(&mut conn).await, service.oracle.served());
        // The server appends this call, but its reply is lost.
        service.requests(50).await;
        proxy.swallow_replies(1.0, resets, Swallow::Cut);
        service.pulse.flush().await.unwrap_err();
        proxy.heal();
        server.kill_9();
        server.restart().await;
        conn = server.connection().await;
        service.requests(10).await;
        service.settle().await;
        let health = service.health();
        assert_eq!(health.flush.store_resets, resets);
        assert!(health.flush.replayed > 0);
        let is_same = keys.fences(&mut conn).await == fences;
        if age == 0 {
            assert!(is_same);
            service.assert_exact(&server).await;
            continue;
        }
        assert!(!is_same);
        gone = flushed;
        let warns = |text: &str| health.warnings.iter().any(|warning| warning.contains(text));
        assert!(warns("came back empty 3 times"), "{:?}", health.warnings);
        assert!(warns("noeviction"), "{:?}", health.warnings);
        assert_eq!(warns("50 samples lost"), health.flush.lost == 50);
    }
    // All later requests are counted.
    service.requests(40).await;
    service.end().await;
    let stored = Stored::read(&mut conn).await;
    let expected = (service.oracle.served() - gone) as i64;
    for (precision, hits) in &stored.hits {
        assert_eq!(*hits, expected, "{precision}");
    }
    assert_eq!(stored.statistics, expected);
    assert_eq!(service.health().flush.store_resets, 3);
}

#[tokio::test]
async fn a_server_that_is_away_at_the_start_gets_all_samples_later() {
    let server = RedisServer::start().await;
    server.terminate();
    let service = Service::new(builder(&server.url()));
    let last_error = || service.health().store.last_error.unwrap_or_default();
    let is_reported = async || last_error().contains("cannot be reached");
    until("an idle service reports the error", is_reported).await;
    for _ in 0..50 {
        assert!(!last_error().is_empty());
        pause(10).await;
    }
    let load = service.load(seed());
    let samples_wait = async || service.health().recording.pending_series > 0;
    until("samples wait", samples_wait).await;
    let health = service.health();
    assert_eq!(health.status.as_str(), "down");
    assert_eq!(health.store.contact_age_seconds, None);
    server.restart().await;
    let has_recovered = async || service.health().status.as_str() == "ok";
    until("the service has recovered", has_recovered).await;
    load.stop().await;
    service.end_exactly(&server).await;
}
