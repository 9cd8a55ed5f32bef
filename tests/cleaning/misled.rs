//! A cleaner is not misled by a clock that is ahead, members that are no names, a lease that never expires, or a
//! missing key.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use tower_pulse::Clock;
use tower_pulse_core::store::{Pass, Upkeep};
use tower_pulse_redis::RedisStore;

use crate::cleaning::raw_redis::{LEASE, PREFIX, known_members, slices, write};
use crate::rig::server::{RedisServer, issue};
use crate::stores::fixture::{Fixture, NOW, pass_of, redis_store};

const DAY: i64 = 86_400;

fn now() -> i64 {
    Clock::system().now_seconds()
}

fn store(server: &RedisServer) -> RedisStore {
    redis_store(&server.url(), PREFIX)
}

fn pass(now: i64) -> Pass {
    pass_of("a", now, 1)
}

async fn zadd(conn: &mut MultiplexedConnection, key: &str, score: i64, member: &[u8]) {
    let () = issue(conn, "ZADD", (format!("{PREFIX}{key}"), score, member)).await;
}

async fn members(conn: &mut MultiplexedConnection, key: &str) -> Vec<Vec<u8>> {
    issue(conn, "ZRANGE", (format!("{PREFIX}{key}"), 0, -1)).await
}

#[tokio::test]
async fn a_clock_that_is_days_ahead_removes_no_live_data() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let now = now();
    let live: BTreeMap<i64, i64> = (0..10).map(|i| (now - i, 1)).collect();
    write(conn, 1, "hits", &live).await;
    zadd(conn, "pulse:contexts", now, b"GET /").await;
    zadd(conn, "pulse:instances", now, b"b").await;
    let store = store(&server);
    let cleaned = store.clean(&pass(now + 9 * DAY)).await.unwrap().unwrap();
    assert_eq!((cleaned.slices, cleaned.contexts), (0, 0));
    assert_eq!(slices(conn, 1, "hits").await, live);
    assert_eq!(members(conn, "pulse:contexts").await, [b"GET /"]);
    assert_eq!(members(conn, "pulse:instances").await, [b"b"]);
}

#[tokio::test]
async fn contexts_that_stay_do_not_delay_others() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let now = now();
    for n in 0..20u8 {
        zadd(conn, "pulse:contexts", now - 9 * DAY, &[0xff, n]).await;
        let both = format!("both {n}");
        zadd(conn, "pulse:contexts", now - 9 * DAY, both.as_bytes()).await;
        zadd(conn, "pulse:timers", now, both.as_bytes()).await;
        let old = format!("old {n}");
        zadd(conn, "pulse:contexts", now - 8 * DAY, old.as_bytes()).await;
        zadd(conn, "slowest:AccessTime", 1, old.as_bytes()).await;
    }
    let cleaned = store(&server).clean(&pass(now)).await.unwrap().unwrap();
    assert_eq!(cleaned.contexts, 40);
    let left = members(conn, "pulse:contexts").await;
    assert!(left.len() == 20 && left.iter().all(|name| name.starts_with(b"both")));
    assert_eq!(members(conn, "slowest:AccessTime").await, [[0u8; 0]; 0]);
}

#[tokio::test]
async fn the_counters_of_all_requests_are_never_forgotten() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let now = now();
    let live = BTreeMap::from([(now - now % DAY, 50)]);
    write(conn, 86_400, "hits", &live).await;
    write(conn, 86_400, "micros:<all>", &live).await;
    zadd(conn, "pulse:contexts", 0, b"<all>").await;
    let cleaned = store(&server).clean(&pass(now)).await.unwrap().unwrap();
    assert_eq!(cleaned.contexts, 0);
    for counter in ["hits", "micros:<all>"] {
        assert_eq!(slices(conn, 86_400, counter).await, live);
    }
    assert_eq!(known_members(conn).await.len(), 2);
}

/// The functions of *Redis in Action* list a context only in the ranking. Cleaning still removes the context's
/// statistics.
#[tokio::test]
async fn contexts_that_only_the_ranking_names_are_forgotten() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (now, old) = (now(), "2020-01-02T03:00:00");
    zadd(conn, "slowest:AccessTime", 1, b"/book").await;
    zadd(conn, "stats:/book:AccessTime", 1, b"count").await;
    let start = format!("{PREFIX}stats:/book:AccessTime:start");
    let () = issue(conn, "SET", (start, old)).await;
    let store = store(&server);
    let cleaned = store.clean(&pass(now - 6 * DAY)).await.unwrap().unwrap();
    assert_eq!(cleaned.contexts, 0);
    assert_eq!(members(conn, "slowest:AccessTime").await, [[0u8; 0]; 0]);
    let cleaned = store.clean(&pass(now)).await.unwrap().unwrap();
    assert_eq!(cleaned.contexts, 1);
    for key in ["slowest:AccessTime", "stats:/book:AccessTime"] {
        assert_eq!(members(conn, key).await, [[0u8; 0]; 0], "{key}");
    }
}

#[tokio::test]
async fn a_lease_that_never_expires_is_replaced() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let store = store(&server);
    for (at, command) in ["SET", "LPUSH"].into_iter().enumerate() {
        let () = issue(conn, "DEL", LEASE).await;
        let _: redis::Value = issue(conn, command, (LEASE, "stale")).await;
        let pass = pass(now() - 100 + 50 * at as i64);
        assert!(store.clean(&pass).await.unwrap().is_some(), "{command}");
    }
}

#[tokio::test]
async fn a_name_that_is_too_large_stops_no_pass() {
    for key in [
        "known:",
        "slowest:AccessTime",
        "pulse:contexts",
        "pulse:timers",
    ] {
        let server = RedisServer::start().await;
        let conn = &mut server.connection().await;
        let now = now();
        zadd(conn, key, 0, &vec![b'x'; 30 << 20]).await;
        zadd(conn, "pulse:instances", now - DAY, b"dead").await;
        let store = store(&server);
        let cleaned = store.clean(&pass(now)).await.unwrap().unwrap();
        let skipped = cleaned.skipped.map(|skipped| skipped.key);
        assert_eq!(skipped.is_some(), key == "known:", "{skipped:?}");
        assert_eq!(members(conn, "pulse:instances").await, [[0u8; 0]; 0]);
    }
}

#[tokio::test]
async fn a_counter_whose_key_has_expired_leaves_the_list() {
    let mut fixture = Fixture::redis().await;
    let listed = async |fixture: &Fixture| -> Option<f64> {
        fixture.run("ZSCORE pulse:known: 1:sales").await
    };
    for _ in 0..2 {
        // The second addition creates the counter again.
        fixture.count(NOW, &[("sales", 1)]).await;
        assert!(listed(&fixture).await.is_some());
        assert_eq!(fixture.counter("sales", 1).await, [(NOW, 1)]);
        let () = fixture.run("DEL pulse:count:1:sales").await;
        let _ = fixture.clean().await;
        assert_eq!(listed(&fixture).await, None);
        fixture.advance(60);
    }
}
