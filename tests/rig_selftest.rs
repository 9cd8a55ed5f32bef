//! The rig's own tests: the faults that a test of something else would not miss if they did not happen, and the book's
//! functions, by which the crate's keys are judged.

#![allow(clippy::unwrap_used, reason = "test code: a panic is a failed test")]

use std::time::Duration;

use pulse_rig::book::*;
use pulse_rig::proxy::{Proxy, Swallow};
use pulse_rig::server::{RedisServer, connect};
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, cmd};

/// Long enough to see that no answer comes.
const SHORT: Duration = Duration::from_millis(60);

async fn through(proxy: &Proxy) -> MultiplexedConnection {
    connect(&redis::Client::open(proxy.url()).unwrap()).await
}

async fn ping(conn: &mut MultiplexedConnection) -> RedisResult<String> {
    cmd("PING").query_async(conn).await
}

async fn incr(conn: &mut MultiplexedConnection) -> RedisResult<i64> {
    cmd("INCR").arg("n").query_async(conn).await
}

async fn n(server: &RedisServer) -> Option<i64> {
    server.run("GET n").await
}

/// A server, a proxy before it, and a connection through it.
async fn behind_proxy() -> (RedisServer, Proxy, MultiplexedConnection) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let mut conn = through(&proxy).await;
    ping(&mut conn).await.unwrap();
    (server, proxy, conn)
}

#[tokio::test]
async fn a_black_hole_delivers_nothing_until_it_closes() {
    let (server, proxy, mut conn) = behind_proxy().await;
    proxy.black_hole(true);
    conn.set_response_timeout(SHORT);
    assert!(incr(&mut conn).await.unwrap_err().is_timeout());
    assert_eq!(n(&server).await, None);
    proxy.black_hole(false);
    conn.set_response_timeout(Duration::from_secs(10));
    assert_eq!(incr(&mut conn).await.unwrap(), 2, "the first one too");
}

#[tokio::test]
async fn a_swallowed_or_truncated_reply_is_that_of_a_command_that_was_executed() {
    let (server, proxy, mut conn) = behind_proxy().await;
    proxy.swallow_replies(1.0, 1, Swallow::Cut);
    assert!(incr(&mut conn).await.unwrap_err().is_connection_dropped());
    assert_eq!((n(&server).await, proxy.swallowed()), (Some(1), 1));
    proxy.heal();
    let mut conn = through(&proxy).await;
    proxy.swallow_replies(1.0, 1, Swallow::Hang);
    conn.set_response_timeout(SHORT);
    assert!(incr(&mut conn).await.unwrap_err().is_timeout());
    proxy.heal();
    assert!(incr(&mut conn).await.unwrap_err().is_timeout());
    assert_eq!((n(&server).await, proxy.swallowed()), (Some(3), 2));
    proxy.cut();
    let mut conn = through(&proxy).await;
    proxy.truncate(1.0, 1);
    assert!(incr(&mut conn).await.is_err());
    assert_eq!((n(&server).await, proxy.truncated()), (Some(4), 1));
}

#[tokio::test]
async fn counters_are_the_books() {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    for (now, hits) in [
        (1_336_376_410, 45),
        (1_336_376_405, 28),
        (1_336_376_399, 17),
    ] {
        update_counter(&mut conn, "", "hits", hits, now, &PRECISIONS).await;
    }
    let fives = get_counter(&mut conn, "", "hits", 5).await;
    assert_eq!(
        fives,
        [
            (1_336_376_395, 17),
            (1_336_376_405, 28),
            (1_336_376_410, 45)
        ]
    );
    let days = get_counter(&mut conn, "", "hits", 86_400).await;
    assert_eq!(days, [(1_336_348_800, 90)]);
    let known: Vec<(String, f64)> = server.run("ZRANGE known: 0 -1 WITHSCORES").await;
    let mut names = PRECISIONS.map(|p| (format!("{p}:hits"), 0.0)).to_vec();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(known, names);
}

#[tokio::test]
async fn statistics_agree_with_the_formulas() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (hour, next) = (hour_iso(1_336_376_410), hour_iso(1_336_376_410 + 3600));
    assert_eq!(hour, "2012-05-07T07:00:00");
    let values = [0.25, 1.5, 0.125, 4.0];
    for value in values {
        update_stats(conn, "", "Page", "AccessTime", value, &hour).await;
    }
    let stats = get_stats(conn, "", "Page", "AccessTime").await;
    let mean = values.iter().sum::<f64>() / 4.0;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 3.0;
    assert_eq!((stats.min, stats.max, stats.count), (0.125, 4.0, 4.0));
    assert_eq!(stats.average, mean);
    assert!((stats.stddev - variance.sqrt()).abs() < 1e-12);
    let totals = update_stats(conn, "", "Page", "AccessTime", 2.0, &next).await;
    assert_eq!(totals, (1.0, 2.0, 4.0));
    let last = get_stats(conn, "", "Page", "AccessTime:last").await;
    assert_eq!(last, stats);
    let starts = "MGET stats:Page:AccessTime:pstart stats:Page:AccessTime:start";
    let starts: (String, String) = server.run(starts).await;
    assert_eq!(starts, (hour, next));
    let keys: Vec<String> = server.run("KEYS *").await;
    assert_eq!(keys.len(), 4, "no temporary set is left: {keys:?}");
}
