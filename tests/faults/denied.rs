//! A server that denies access: one of an instance's tasks asks it again, by one command every two seconds, and all go
//! on once it gives in.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::hours::now;
use crate::rig::server::{RedisServer, run};
use crate::rig::wait::until;
use crate::service::{PREFIX, Service, Stored};

/// The time between two tries.
const TRY: Duration = Duration::from_secs(2);

/// More than an instance has tasks, each of which may be denied once before it waits with the others.
const TASKS: u64 = 8;

async fn acl(conn: &mut MultiplexedConnection, rule: &str) {
    run(conn, &format!("ACL SETUSER app {rule}")).await
}

/// A service whose clock the test moves, as the user `app`.
fn service(server: &RedisServer, password: &str) -> (Service, ManualClock) {
    let url = format!("redis://app:{password}@127.0.0.1:{}/", server.port());
    let (clock, hand) = Clock::manual(now());
    let options = RedisOptions::new(&url).unwrap().prefix(PREFIX).unwrap();
    let store = RedisStore::open(options).unwrap().with_clock(clock.clone());
    let builder = Pulse::builder().store(Arc::new(store)).clock(clock);
    (Service::new(builder.clean_interval(TRY)), hand)
}

/// How many commands the server has refused.
async fn refused(server: &RedisServer) -> u64 {
    let stats = server.info("commandstats").await;
    let fields = stats.values().flat_map(|stats| stats.split(','));
    let numbers = fields.filter_map(|field| {
        let (name, number) = field.split_once('=')?;
        let counts = ["rejected_calls", "failed_calls"].contains(&name);
        counts.then(|| number.parse::<u64>().unwrap())
    });
    numbers.sum()
}

/// How often a user has authenticated, which each new connection does.
async fn authenticated(server: &RedisServer) -> Option<String> {
    let stats = server.info("commandstats").await;
    let stats = stats.get("cmdstat_auth")?.split(',').next();
    stats.map(str::to_owned)
}

/// Passes the time between two tries, `tries` times, and waits for each. Returns how many commands were refused.
async fn try_again(server: &RedisServer, hand: &ManualClock, tries: u64) -> u64 {
    let first = refused(server).await;
    for _ in 0..tries {
        let before = refused(server).await;
        hand.advance(TRY);
        until("it tries again", async || refused(server).await > before).await;
    }
    refused(server).await - first
}

#[tokio::test]
async fn a_denial_is_tried_again_by_one_command_and_ends_for_all_tasks_at_once() {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    acl(&mut conn, "on >right ~* +@all").await;
    let (service, hand) = service(&server, "right");
    service.requests(48).await;
    service.settle().await;
    acl(&mut conn, "-@all").await;
    service.requests(100).await;
    // Each task is denied for itself, and the permissions are checked one by one, once.
    try_again(&server, &hand, 20).await;
    let connected = authenticated(&server).await;
    let cost = try_again(&server, &hand, 20).await;
    assert!(cost <= 20 + TASKS, "{cost} commands for 20 tries");
    assert_eq!(authenticated(&server).await, connected, "it connects again");
    assert_eq!(service.health().status.as_str(), "down");

    acl(&mut conn, "+@all").await;
    hand.advance(TRY);
    until("all of it can be read", async || {
        let stored = Stored::read(&mut conn.clone()).await;
        let health = service.health();
        stored.by_page() == 148
            && health.status.as_str() == "ok"
            && health.store.last_error.is_none()
    })
    .await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn a_wrong_password_is_tried_again_by_one_command() {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    acl(&mut conn, "on >right ~* +@all").await;
    let (service, hand) = service(&server, "wrong");
    service.requests(100).await;
    try_again(&server, &hand, 10).await;
    let cost = try_again(&server, &hand, 20).await;
    assert!(cost <= 20 + TASKS, "{cost} commands for 20 tries");
    acl(&mut conn, ">wrong").await;
    hand.advance(TRY);
    until("all of it can be read", async || {
        Stored::read(&mut conn.clone()).await.by_page() == 100
    })
    .await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_the_next_try() {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    acl(&mut conn, "on >right ~* +@all").await;
    let (service, hand) = service(&server, "right");
    service.requests(10).await;
    service.settle().await;
    acl(&mut conn, "-@all").await;
    service.requests(10).await;
    try_again(&server, &hand, 3).await;
    acl(&mut conn, "+@all").await;
    service.pulse.shutdown().await.unwrap();
    service.assert_exact(&server).await;
}
