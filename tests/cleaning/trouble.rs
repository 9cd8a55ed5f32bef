//! Passes that are interrupted: the lease is lost, the server dies, or the instance shuts down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::Pulse;
use tower_pulse_core::store::Upkeep;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::cleaning::raw_redis::{KNOWN, LEASE, PREFIX, key, known_members, slices, write};
use crate::rig::proxy::Proxy;
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::{PATIENCE, until};
use crate::stores::fixture::{THIS_HOUR, pass_of};

/// The number of counters without live slices. For them, a pass needs dozens of answers, which take [`LATENCY`] each.
const DEAD: usize = 3_000;

/// Writes counters with slices from long ago.
const FILL: &str = "
for n = 1, tonumber(ARGV[2]) do
  for i = 1000, 1029 do redis.call('HSET', ARGV[1] .. n, i, 1) end
  redis.call('ZADD', KEYS[1], 0, '1:dead-' .. n)
end";

const LATENCY: Duration = Duration::from_millis(50);

/// A server with [`DEAD`] counters without live slices and one counter with slices in the far future. The slow proxy in
/// front of the server makes a pass last long enough to be interrupted.
async fn server(is_durable: bool) -> (RedisServer, Proxy, BTreeMap<i64, i64>) {
    let server = match is_durable {
        true => RedisServer::start_durable().await,
        false => RedisServer::start().await,
    };
    let conn = &mut server.connection().await;
    let fill = (FILL, 1, KNOWN, key(1, "dead-"), DEAD);
    let () = issue(conn, "EVAL", fill).await;
    let future = 40_000_000_000;
    let live = (0..10).map(|i| (future + i, i)).collect();
    write(conn, 1, "live", &live).await;
    let proxy = Proxy::start(server.port()).await;
    proxy.delay(LATENCY);
    (server, proxy, live)
}

fn store(url: &str) -> RedisStore {
    let options = RedisOptions::new(url).unwrap().prefix(PREFIX);
    RedisStore::open(options.response_timeout(Duration::from_secs(5))).unwrap()
}

fn instance(url: &str) -> Pulse {
    let builder = Pulse::builder().store(Arc::new(store(url)));
    let builder = builder.clean_interval(Duration::from_secs(1));
    builder.build().unwrap()
}

async fn lease(server: &RedisServer) -> Option<String> {
    issue(&mut server.connection().await, "GET", LEASE).await
}

/// Waits until a pass has removed some counters, but not all.
async fn until_mid_pass(server: &RedisServer) {
    let conn = &mut server.connection().await;
    until("a pass is under way", async || {
        let left = known_members(conn).await.len();
        assert!(left > 1, "the pass is over already");
        left <= DEAD
    })
    .await;
}

/// Waits until all counters without live slices are gone, and checks that the live counter is unchanged.
async fn assert_clean(server: &RedisServer, live: &BTreeMap<i64, i64>) {
    let conn = &mut server.connection().await;
    until("all counters without live slices are gone", async || {
        let left = known_members(conn).await.len();
        assert!(left > 0, "the live counter is gone");
        left == 1
    })
    .await;
    assert_eq!(&slices(conn, 1, "live").await, live);
}

#[tokio::test]
async fn a_lease_that_is_lost_ends_the_pass() {
    let (server, proxy, live) = server(false).await;
    let slow = store(&proxy.url());
    let pass = |instance: &str| pass_of(instance, THIS_HOUR, 60);
    let pass_a = pass("a");
    let a = tokio::spawn(async move { slow.clean(&pass_a).await });
    until_mid_pass(&server).await;
    assert_eq!(lease(&server).await.unwrap(), "a");
    // The lease expires during the pass, and another instance acquires it.
    let conn = &mut server.connection().await;
    let _: () = issue(conn, "SET", (LEASE, "other", "EX", 15)).await;
    let before = known_members(conn).await.len();
    assert_eq!(a.await.unwrap().unwrap(), None);
    let after = known_members(conn).await.len();
    assert!(before - after <= 100 && after > 1, "{before}, {after}");
    assert_eq!(lease(&server).await.unwrap(), "other");
    let _: i64 = issue(conn, "DEL", LEASE).await;
    let b = store(&server.url());
    let cleaned = b.clean(&pass("b")).await.unwrap().unwrap();
    assert_eq!(cleaned.counters as usize, after - 1);
    assert_clean(&server, &live).await;
}

#[tokio::test]
async fn the_lease_of_a_dead_instance_stays_until_it_expires() {
    let (server, proxy, live) = server(false).await;
    let slow = store(&proxy.url());
    let mut pass = pass_of("a", THIS_HOUR, 60);
    let dying = tokio::spawn({
        let pass = pass.clone();
        async move { slow.clean(&pass).await }
    });
    until_mid_pass(&server).await;
    dying.abort();
    let conn = &mut server.connection().await;
    let left: i64 = issue(conn, "PTTL", LEASE).await;
    assert!((1..=75_000).contains(&left), "{left}");
    let other = store(&server.url());
    let dead = std::mem::replace(&mut pass.instance, "b".into());
    assert_eq!(other.clean(&pass).await.unwrap(), None);
    assert_eq!(lease(&server).await.unwrap(), dead);
    let _: i64 = issue(conn, "PEXPIRE", (LEASE, 1)).await;
    until("the lease is free", async || lease(&server).await.is_none()).await;
    assert!(other.clean(&pass).await.unwrap().is_some());
    assert_clean(&server, &live).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_is_cleaned_after_its_restart() {
    let (server, proxy, live) = server(true).await;
    let pulse = instance(&proxy.url());
    until_mid_pass(&server).await;
    server.kill_9();
    until("the pass has failed", async || {
        let warnings = pulse.health().warnings;
        warnings.iter().any(|text| text.contains("cleaning fails"))
    })
    .await;
    proxy.heal();
    server.restart().await;
    assert_clean(&server, &live).await;
    let is_done = async || pulse.health().cleaning.passes > 0;
    until("a pass is done", is_done).await;
    pulse.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_does_not_wait_for_the_end_of_a_pass() {
    for is_frozen in [false, true] {
        let (server, proxy, _) = server(false).await;
        let pulse = instance(&proxy.url());
        let has_begun = async || lease(&server).await.is_some();
        until("a pass is under way", has_begun).await;
        if is_frozen {
            server.freeze();
        }
        let shutdown = tokio::time::timeout(PATIENCE, pulse.shutdown()).await;
        assert!(shutdown.is_ok(), "the shutdown does not end");
        if is_frozen {
            server.thaw();
        }
        let left = known_members(&mut server.connection().await).await;
        assert!(left.len() > 1, "the shutdown waits for the end of the pass");
    }
}
