//! Connections that end, a server that freezes, and replies that are lost.

use std::time::Duration;

use super::Report;
use crate::faults::service::{PAGES, Pace, Service, builder, pause, without_flushes};
use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::server::RedisServer;
use crate::rig::wait::{until, until_within};

/// Kills connections and freezes the server, and then waits until at least `requests` are served.
pub async fn kills_and_freezes(
    kills: u64,
    freezes: u64,
    requests: u64,
    pace: Pace,
    seed: u64,
) -> Report {
    let mut rng = fastrand::Rng::with_seed(seed);
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(builder(&proxy.url()));
    let load = service.load_at(pace, seed);
    for kill in 0..kills {
        match rng.bool() {
            true => proxy.cut(),
            false => _ = server.kill_clients().await,
        }
        pause(rng.u64(5..40)).await;
        if kill * freezes / kills != (kill + 1) * freezes / kills {
            server.freeze();
            match rng.u32(..20) {
                0 => pause(700).await,
                _ => pause(rng.u64(5..200)).await,
            }
            server.thaw();
        }
    }
    // Freezes the server until a flush fails, and the service makes a new connection.
    let before = proxy.connections();
    server.freeze();
    service.flush_failed().await;
    let is_connected = async || proxy.connections() > before;
    until("there is a new connection", is_connected).await;
    server.thaw();
    let most = Duration::from_secs(600);
    until_within(most, "all requests are served", async || {
        service.oracle.served() >= requests
    })
    .await;
    load.stop().await;
    let mut report = Report::at_the_end(&service, &server).await;
    report.done = format!("{kills} connection kills and {freezes} freezes");
    report
}

/// Loses a fifth of the replies: the connection is cut, becomes silent, or ends in the middle of the reply.
pub async fn lost_replies(flushes: u64, seed: u64) -> Report {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(without_flushes(&proxy.url()));
    service.requests(PAGES).await;
    service.settle().await;
    for flush in 0..flushes {
        if flush % 20 == 0 {
            proxy.heal();
            match flush / 20 % 3 {
                0 => proxy.swallow_replies(0.2, seed ^ flush, Swallow::Cut),
                1 => proxy.swallow_replies(0.2, seed ^ flush, Swallow::Hang),
                _ => proxy.truncate(0.2, seed ^ flush),
            }
        }
        service.requests(100).await;
        let _ = service.pulse.flush().await;
    }
    proxy.heal();
    let (swallowed, truncated) = (proxy.swallowed(), proxy.truncated());
    let mut report = Report::at_the_end(&service, &server).await;
    report.done = format!(
        "{flushes} flushes, 20 % of replies lost ({swallowed} swallowed, {truncated} truncated)"
    );
    report.fault_if(swallowed == 0 || truncated == 0, "no reply was lost");
    report
}
