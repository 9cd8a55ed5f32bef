//! Faults of the network.

use std::time::Duration;

use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::{PATIENCE, until};
use crate::service::{PATIENT, Service, pause, with_response_timeout, without_flushes};

/// A response timeout that faults soon exceed.
const SHORT: Duration = Duration::from_millis(150);

struct Setting {
    server: RedisServer,
    proxy: Proxy,
    service: Service,
    seed: u64,
}

impl Setting {
    /// A service that reaches its server through a proxy, and has flushed once.
    async fn new(timeout: Duration) -> Self {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port()).await;
        let service = Service::new(with_response_timeout(&proxy.url(), timeout));
        service.requests(30).await;
        service.settle().await;
        Self {
            server,
            proxy,
            service,
            seed: seed(),
        }
    }

    /// Lets `fault` happen under load, and mends the network: nothing is lost.
    async fn under_load(self, fault: impl AsyncFnOnce(&Self)) {
        let load = self.service.load(self.seed);
        fault(&self).await;
        self.proxy.heal();
        load.stop().await;
        self.service.end_exactly(&self.server).await;
    }

    /// Waits until at least three replies were disturbed, of flushes too.
    async fn disturbed(&self, count: fn(&Proxy) -> u64) {
        until("replies were disturbed, of flushes too", async || {
            count(&self.proxy) >= 3 && self.service.health().flush.errors > 0
        })
        .await;
    }

    async fn reconnected(&self, before: u64) {
        until("there is a new connection", async || {
            self.proxy.connections() > before
        })
        .await;
    }
}

#[tokio::test]
async fn connections_killed_under_load_lose_nothing() {
    let killed = async |of: &Setting| {
        for n in 0..25 {
            match n % 2 {
                0 => of.proxy.cut(),
                _ => _ = of.server.kill_clients().await,
            }
            of.service.flushed_again().await;
        }
        until(
            "connections were killed in the middle of a flush",
            async || {
                of.proxy.cut();
                of.proxy.connections() > 5 && of.service.health().flush.errors > 0
            },
        )
        .await;
    };
    Setting::new(SHORT).await.under_load(killed).await;
}

#[tokio::test]
async fn a_server_that_freezes_under_load_loses_nothing() {
    let frozen = async |of: &Setting| {
        for millis in [50, 180, 350] {
            of.server.freeze();
            pause(millis).await;
            of.server.thaw();
            of.service.flushed_again().await;
        }
        // Long enough to give the connection up.
        let before = of.proxy.connections();
        of.server.freeze();
        of.service.flush_failed().await;
        of.reconnected(before).await;
        of.server.thaw();
        of.service.flushed_again().await;
    };
    Setting::new(SHORT).await.under_load(frozen).await;
}

#[tokio::test]
async fn swallowed_replies_on_a_cut_connection_lose_nothing() {
    let swallowed = async |of: &Setting| {
        of.proxy.swallow_replies(0.2, of.seed, Swallow::Cut);
        of.disturbed(Proxy::swallowed).await;
    };
    Setting::new(SHORT).await.under_load(swallowed).await;
}

#[tokio::test]
async fn swallowed_replies_on_a_mute_connection_lose_nothing() {
    let swallowed = async |of: &Setting| {
        of.proxy.swallow_replies(0.2, of.seed, Swallow::Hang);
        of.disturbed(Proxy::swallowed).await;
    };
    Setting::new(SHORT).await.under_load(swallowed).await;
}

#[tokio::test]
async fn truncated_replies_lose_nothing() {
    let truncated = async |of: &Setting| {
        of.proxy.truncate(0.2, of.seed);
        of.disturbed(Proxy::truncated).await;
    };
    Setting::new(SHORT).await.under_load(truncated).await;
}

#[tokio::test]
async fn replies_in_single_bytes_lose_nothing() {
    let sliced = async |of: &Setting| {
        of.proxy.slice(true);
        for _ in 0..3 {
            of.service.flushed_again().await;
        }
    };
    Setting::new(PATIENT).await.under_load(sliced).await;
}

#[tokio::test]
async fn a_network_that_swallows_all_traffic_for_a_while_loses_nothing() {
    let away = async |of: &Setting| {
        of.proxy.black_hole(true);
        until("health has noticed", async || {
            of.service.health().flush.in_doubt_age_seconds > Some(0.5)
        })
        .await;
        assert!(of.service.health().recording.pending_series > 0);
        of.proxy.black_hole(false);
        of.service.flushed_again().await;
    };
    Setting::new(SHORT).await.under_load(away).await;
}

#[tokio::test]
async fn a_connection_that_never_answers_again_is_made_anew() {
    let setting = Setting::new(SHORT).await;
    let before = setting.proxy.connections();
    // The present connection is mute from now on; new connections work.
    setting
        .proxy
        .swallow_replies(1.0, setting.seed, Swallow::Hang);
    setting.service.requests(5).await;
    until("its request is swallowed", async || {
        setting.proxy.swallowed() > 0
    })
    .await;
    setting.proxy.heal();
    let renewed = async |of: &Setting| {
        of.reconnected(before).await;
        of.service.flushed_again().await;
    };
    setting.under_load(renewed).await;
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
    let far = async |of: &Setting| {
        of.proxy.delay(Duration::from_millis(25));
        for _ in 0..3 {
            let flush = tokio::time::timeout(PATIENCE, of.service.settle());
            flush.await.unwrap();
        }
    };
    Setting::new(PATIENT).await.under_load(far).await;
}
