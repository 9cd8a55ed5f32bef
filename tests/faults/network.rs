//! Faults of the network.

use std::time::Duration;

use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::{PATIENCE, until};
use crate::service::{PATIENT, Service, pause, with_response_timeout, without_flushes};

struct Setting {
    server: RedisServer,
    proxy: Proxy,
    service: Service,
    seed: u64,
}

/// A service that reaches its server through a proxy, and has flushed once.
async fn setting() -> Setting {
    setting_with_timeout(Duration::from_millis(150)).await
}

/// Like [`setting`], with this response timeout.
async fn setting_with_timeout(timeout: Duration) -> Setting {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(with_response_timeout(&proxy.url(), timeout));
    service.requests(30).await;
    service.settle().await;
    Setting {
        server,
        proxy,
        service,
        seed: seed(),
    }
}

#[tokio::test]
async fn connections_killed_under_load_lose_nothing() {
    let Setting {
        server,
        proxy,
        service,
        seed,
    } = setting().await;
    let load = service.load(seed);
    for n in 0..25 {
        match n % 2 {
            0 => proxy.cut(),
            _ => _ = server.kill_clients().await,
        }
        service.flushed_again().await;
    }
    until(
        "connections were killed in the middle of a flush",
        async || {
            proxy.cut();
            proxy.connections() > 5 && service.health().flush.errors > 0
        },
    )
    .await;
    load.stop().await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn a_server_that_freezes_under_load_loses_nothing() {
    let Setting {
        server,
        proxy,
        service,
        seed,
    } = setting().await;
    let load = service.load(seed);
    for millis in [50, 180, 350] {
        server.freeze();
        pause(millis).await;
        server.thaw();
        service.flushed_again().await;
    }
    // Long enough to give the connection up.
    let before = proxy.connections();
    server.freeze();
    service.flush_failed().await;
    until("there is a new connection", async || {
        proxy.connections() > before
    })
    .await;
    server.thaw();
    service.flushed_again().await;
    load.stop().await;
    service.end_exactly(&server).await;
}

async fn swallowed(then: Swallow) {
    let Setting {
        server,
        proxy,
        service,
        seed,
    } = setting().await;
    let load = service.load(seed);
    proxy.swallow_replies(0.2, seed, then);
    until("replies were swallowed, of flushes too", async || {
        proxy.swallowed() >= 3 && service.health().flush.errors > 0
    })
    .await;
    proxy.heal();
    load.stop().await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn swallowed_replies_on_a_cut_connection_lose_nothing() {
    swallowed(Swallow::Cut).await;
}

#[tokio::test]
async fn swallowed_replies_on_a_mute_connection_lose_nothing() {
    swallowed(Swallow::Hang).await;
}

#[tokio::test]
async fn truncated_replies_lose_nothing() {
    let Setting {
        server,
        proxy,
        service,
        seed,
    } = setting().await;
    let load = service.load(seed);
    proxy.truncate(0.2, seed);
    until("replies were truncated, of flushes too", async || {
        proxy.truncated() >= 3 && service.health().flush.errors > 0
    })
    .await;
    proxy.heal();
    load.stop().await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn replies_in_single_bytes_lose_nothing() {
    let Setting {
        server,
        proxy,
        service,
        seed,
    } = setting_with_timeout(PATIENT).await;
    proxy.slice(true);
    let load = service.load(seed);
    for _ in 0..3 {
        service.flushed_again().await;
    }
    load.stop().await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn a_network_that_swallows_all_traffic_for_a_while_loses_nothing() {
    let Setting {
        server,
        proxy,
        service,
        seed,
    } = setting().await;
    let load = service.load(seed);
    proxy.black_hole(true);
    until("health has noticed", async || {
        service.health().flush.in_doubt_age_seconds > Some(0.5)
    })
    .await;
    assert!(service.health().recording.pending_series > 0);
    proxy.black_hole(false);
    service.flushed_again().await;
    load.stop().await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn a_connection_that_never_answers_again_is_made_anew() {
    let Setting {
        server,
        proxy,
        service,
        seed,
    } = setting().await;
    let before = proxy.connections();
    // The present connection is mute from now on; new connections work.
    proxy.swallow_replies(1.0, seed, Swallow::Hang);
    service.requests(5).await;
    until("its request is swallowed", async || proxy.swallowed() > 0).await;
    proxy.heal();
    let load = service.load(seed);
    until("there is a new connection", async || {
        proxy.connections() > before
    })
    .await;
    service.flushed_again().await;
    load.stop().await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn a_call_whose_answer_is_lost_is_merged_once() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(without_flushes(&proxy.url()));
    service.requests(100).await;
    service.settle().await;
    for then in [Swallow::Cut, Swallow::Hang] {
        service.requests(7).await;
        proxy.swallow_replies(1.0, 1, then);
        service.pulse.flush().await.unwrap_err();
        let health = service.health();
        assert!(health.flush.in_doubt_age_seconds.is_some() && health.store.last_error.is_some());
        assert_eq!(health.recording.recorded, service.oracle.served());
        proxy.heal();
        proxy.cut();
        // Later samples are not merged into the call in doubt.
        service.requests(7).await;
        service.settle().await;
        service.assert_exact(&server).await;
    }
    service.end_exactly(&server).await;
}

/// Samples that come during a flush wait for the next one; a shutdown flushes all of them.
#[tokio::test]
async fn a_flush_over_a_long_way_ends_under_load() {
    let Setting {
        server,
        proxy,
        service,
        seed,
    } = setting_with_timeout(PATIENT).await;
    proxy.delay(Duration::from_millis(25));
    let load = service.load(seed);
    for _ in 0..3 {
        let flush = tokio::time::timeout(PATIENCE, service.settle());
        flush.await.unwrap();
    }
    load.stop().await;
    service.end_exactly(&server).await;
}
