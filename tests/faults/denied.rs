//! While a server denies access, one task of an instance tries one command every two seconds. All tasks continue once
//! the server allows access.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tower_pulse::{Clock, ManualClock};

use crate::faults::service::{PATIENT, Service, Stored, now, options, with_clocks};
use crate::rig::server::{RedisServer, run};
use crate::rig::wait::until;

const TRY: Duration = Duration::from_secs(2);

/// More than the number of an instance's tasks that send commands. Each task may be denied once before it waits with
/// the other tasks.
const TASKS: u64 = 8;

async fn acl(conn: &mut MultiplexedConnection, rule: &str) {
    run(conn, &format!("ACL SETUSER app {rule}")).await
}

/// A server with the user `app`, and a service that connects as this user with `password`. The test moves the service's
/// clock.
async fn service(password: &str) -> (RedisServer, MultiplexedConnection, Service, ManualClock) {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    acl(&mut conn, "on >right ~* +@all").await;
    let url = format!("redis://app:{password}@127.0.0.1:{}/", server.port());
    let (clock, manual_clock) = Clock::manual(now());
    let builder = with_clocks(options(&url, PATIENT), &clock, &clock).clean_interval(TRY);
    let service = Service::new(builder.flush_interval(Duration::from_secs(1)));
    (server, conn, service, manual_clock)
}

async fn refused(server: &RedisServer) -> u64 {
    let stats = server.info("commandstats").await;
    let fields = stats.values().flat_map(|stats| stats.split(','));
    let numbers = fields.filter_map(|field| {
        let (name, number) = field.split_once('=')?;
        let is_refusal = ["rejected_calls", "failed_calls"].contains(&name);
        is_refusal.then(|| number.parse::<u64>().unwrap())
    });
    numbers.sum()
}

/// Advances the clock by [`TRY`] and waits for the next try, `tries` times. Returns the number of refused commands.
async fn try_again(server: &RedisServer, manual_clock: &ManualClock, tries: u64) -> u64 {
    let first = refused(server).await;
    for _ in 0..tries {
        let before = refused(server).await;
        manual_clock.advance(TRY);
        until("another try", async || refused(server).await > before).await;
    }
    refused(server).await - first
}

#[tokio::test]
async fn after_a_denial_one_task_tries_again_and_success_ends_the_wait_of_all_tasks() {
    for (password, denied, allowed) in [("right", "-@all", "+@all"), ("wrong", "+@all", ">wrong")] {
        let (server, mut conn, service, manual_clock) = service(password).await;
        if password == "right" {
            service.requests(48).await;
            service.settle().await;
        }
        acl(&mut conn, denied).await;
        service.requests(100).await;
        // The first 20 tries are not measured, because each task is denied once and each permission is checked once.
        try_again(&server, &manual_clock, 20).await;
        // Counts connections by AUTH, which each new connection sends.
        let connected = server.info("commandstats").await.remove("cmdstat_auth");
        let cost = try_again(&server, &manual_clock, 20).await;
        assert!(cost <= 20 + TASKS, "{cost} commands for 20 tries");
        if password == "right" {
            let connects = server.info("commandstats").await.remove("cmdstat_auth");
            assert_eq!(connects, connected, "new connections");
        }
        assert_eq!(service.health().status.as_str(), "down");

        acl(&mut conn, allowed).await;
        manual_clock.advance(TRY);
        until("all requests can be read", async || {
            let stored = Stored::read(&mut conn.clone()).await;
            let health = service.health();
            stored.by_page() as u64 == service.oracle.served()
                && health.status.as_str() == "ok"
                && health.store.last_error.is_none()
        })
        .await;
        service.end_exactly(&server).await;
    }
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_the_next_try() {
    let (server, mut conn, service, manual_clock) = service("right").await;
    service.requests(10).await;
    service.settle().await;
    acl(&mut conn, "-@all").await;
    service.requests(10).await;
    try_again(&server, &manual_clock, 3).await;
    acl(&mut conn, "+@all").await;
    service.pulse.shutdown().await.unwrap();
    service.assert_exact(&server).await;
}
