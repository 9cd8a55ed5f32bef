//! A primary that Sentinels replace.

use tower_pulse::Condition;
use tower_pulse::StoreErrorKind;
use tower_pulse_core::store::Append;
use tower_pulse_redis::RedisOptions;

use crate::faults::service::{LIGHT, PREFIX, Service, Stored};
use crate::rig::seed::seed;
use crate::rig::sentinel::{SERVICE, Sentinels, Setup};
use crate::rig::wait::until;
use crate::topologies::place::{
    builder, end_exactly_behind, mapped, readable_again, sentinel_options, store, under_load,
};
use crate::topologies::trials;

#[tokio::test]
async fn a_failover_under_load_loses_nothing() {
    let sentinels = Sentinels::start().await;
    let builder = builder(sentinel_options(&sentinels), PREFIX);
    let (service, load) = under_load(builder, LIGHT, seed()).await;
    let primary = sentinels.fail_over().await;
    let port = sentinels.servers[primary].server.port();
    until("the service knows the new primary", async || {
        let description = service.health().store.description;
        description.contains(&format!("now 127.0.0.1:{port}"))
    })
    .await;
    service.flushed_again().await;
    readable_again(&service).await;

    // Without Sentinels, the service keeps the primary that was named last, and warns.
    sentinels.hold().await;
    let primary = sentinels.primary().await;
    service.flushed_again().await;
    sentinels.kill_sentinels();
    service.flushed_again().await;
    until("the service warns about the Sentinels", async || {
        let health = service.health();
        let is_named = |warning: &String| warning.contains("Sentinel");
        health.conditions.contains(&Condition::Sentinel) && health.warnings.iter().any(is_named)
    })
    .await;
    service.flushed_again().await;
    load.stop().await;
    service.end().await;
    let mut connection = sentinels.servers[primary].server.connection().await;
    service.assert_exact_in(Stored::read(&mut connection).await);
}

each_is_exact! {
    calls_that_a_primary_acknowledged_while_it_was_cut_off_are_replayed:
        trials::cut_off_primaries(1, LIGHT, seed());
}

/// When the frozen primary continues, it executes the calls that it has received. The calls do not change the
/// fleet's data, because this primary then becomes a replica.
#[tokio::test]
async fn a_frozen_primary_is_replaced() {
    let sentinels = Sentinels::start().await;
    let builder = builder(sentinel_options(&sentinels), PREFIX);
    let builder = builder.replay_bytes(32 << 20);
    let (service, load) = under_load(builder, LIGHT, seed()).await;
    let before = sentinels.primary().await;
    let frozen = &sentinels.servers[before].server;
    frozen.freeze();
    sentinels.another_primary(before).await;
    service.flushed_again().await;
    frozen.thaw();
    service.flushed_again().await;
    readable_again(&service).await;
    load.stop().await;
    end_exactly_behind(&service, &sentinels, PREFIX).await;
    assert_eq!(service.health().flush.store_resets, 0);
}

#[tokio::test]
async fn primary_and_sentinels_have_different_passwords() {
    let setup = Setup {
        server_password: Some("of-the-servers"),
        sentinel_password: Some("of-the-sentinels"),
        tls: None,
    };
    let sentinels = Sentinels::start_with(setup).await;
    let service_url = |password: &str| format!("redis://:{password}@{SERVICE}");
    let options = |password: &str, urls: Vec<String>| {
        let options = RedisOptions::sentinel(&service_url(password), urls).unwrap();
        mapped(options, sentinels.address_map())
    };
    let service = Service::new(builder(options("of-the-servers", sentinels.urls()), PREFIX));
    service.requests(30).await;
    end_exactly_behind(&service, &sentinels, PREFIX).await;

    let wrong_urls = sentinels.urls().into_iter();
    let wrong_urls = wrong_urls.map(|url| url.replace("of-the-sentinels", "hunter2"));
    for wrong in [
        options("hunter2", sentinels.urls()),
        options("of-the-servers", wrong_urls.collect()),
    ] {
        let error = store(wrong, PREFIX).hello().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Forbidden, "{error}");
        for secret in ["hunter2", "of-the-s"] {
            assert!(!error.to_string().contains(secret), "{error}");
        }
    }
    let unknown = RedisOptions::sentinel("another", sentinels.urls()).unwrap();
    let error = store(unknown, PREFIX).hello().await.unwrap_err();
    assert!(error.to_string().contains("another"), "{error}");
}
