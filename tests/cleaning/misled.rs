//! Conditions that must not mislead a cleaner: a clock that is ahead, members that are not names, a lease that never
//! expires.

use crate::rig::reads::StoreOf;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redis::aio::MultiplexedConnection;
use redis::cmd;
use tower_pulse::Condition;
use tower_pulse::Pulse;
use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse_core::store::Upkeep;
use tower_pulse_core::store::{Pass, PassRecord};

use crate::raw_redis::{LEASE, PREFIX, known_members, slices, write};
use crate::rig::log::Log;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

const DAY: i64 = 86_400;

fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_secs() as i64
}

fn store(server: &RedisServer) -> RedisStore {
    let options = RedisOptions::new(&server.url()).unwrap();
    let options = options.prefix(PREFIX).unwrap();
    RedisStore::open(options.response_timeout(Duration::from_secs(5))).unwrap()
}

fn pass(now: i64) -> Pass {
    Pass {
        instance: "a".to_owned(),
        now,
        interval: 1,
        ranking_retention: DAY,
        context_retention: 7 * DAY,
    }
}

async fn zadd(conn: &mut MultiplexedConnection, key: &str, score: i64, member: &[u8]) {
    let mut zadd = cmd("ZADD");
    zadd.arg(format!("{PREFIX}{key}")).arg(score).arg(member);
    zadd.exec_async(conn).await.unwrap();
}

async fn members(conn: &mut MultiplexedConnection, key: &str) -> Vec<Vec<u8>> {
    let mut members = cmd("ZRANGE");
    members.arg(format!("{PREFIX}{key}")).arg(0).arg(-1);
    members.query_async(conn).await.unwrap()
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
    assert_eq!(
        (cleaned.slices, cleaned.contexts, cleaned.instances),
        (0, 0, 0)
    );
    assert_eq!(slices(conn, 1, "hits").await, live);
    assert_eq!(members(conn, "pulse:contexts").await, [b"GET /"]);
    // The pass does not stop other instances from cleaning.
    let last = store.last_pass().await.unwrap().unwrap();
    assert!(last.number <= now + 60, "{last:?}");
}

#[tokio::test]
async fn contexts_that_cannot_be_forgotten_do_not_delay_others() {
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
    }
    let cleaned = store(&server).clean(&pass(now)).await.unwrap().unwrap();
    assert_eq!(cleaned.contexts, 20);
    let reported = cleaned.problems.iter().map(|problem| &*problem.key);
    assert!(reported.clone().all(|key| key.ends_with("pulse:contexts")));
    assert!(reported.count() > 0);
    assert_eq!(members(conn, "pulse:contexts").await.len(), 40);
}

#[tokio::test]
async fn the_counters_of_all_are_never_forgotten() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let now = now();
    let live = BTreeMap::from([(now - now % DAY, 50)]);
    write(conn, 86_400, "hits", &live).await;
    zadd(conn, "pulse:contexts", 0, b"<all>").await;
    let cleaned = store(&server).clean(&pass(now)).await.unwrap().unwrap();
    assert_eq!(cleaned.contexts, 0);
    assert_eq!(slices(conn, 86_400, "hits").await, live);
    assert_eq!(known_members(conn).await.len(), 1);
}

/// The book's functions list a context in the ranking only. Cleaning forgets its statistics all the same.
#[tokio::test]
async fn contexts_that_only_the_ranking_names_are_forgotten() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (now, old) = (now(), "2020-01-02T03:00:00");
    zadd(conn, "slowest:AccessTime", 1, b"/book").await;
    zadd(conn, "stats:/book:AccessTime", 1, b"count").await;
    let mut set = cmd("SET");
    set.arg(format!("{PREFIX}stats:/book:AccessTime:start"));
    set.arg(old).exec_async(conn).await.unwrap();
    let store = store(&server);
    let cleaned = store.clean(&pass(now - 61)).await.unwrap().unwrap();
    assert_eq!((cleaned.ranks, cleaned.contexts), (1, 0));
    let cleaned = store.clean(&pass(now)).await.unwrap().unwrap();
    assert_eq!(cleaned.contexts, 1);
    for key in ["slowest:AccessTime", "stats:/book:AccessTime"] {
        assert_eq!(members(conn, key).await, [[0u8; 0]; 0], "{key}");
    }
}

#[tokio::test]
async fn a_lease_that_never_expires_is_taken() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let store = store(&server);
    for (at, command) in ["SET", "LPUSH"].into_iter().enumerate() {
        let mut take = cmd(command);
        take.arg(LEASE).arg("stale").exec_async(conn).await.unwrap();
        let pass = pass(now() - 100 + 50 * at as i64);
        assert!(store.clean(&pass).await.unwrap().is_some(), "{command}");
    }
}

#[tokio::test]
async fn health_reports_a_pass_that_fails() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let set = async |conn: &mut MultiplexedConnection, replicas: usize| {
        let mut set = cmd("CONFIG");
        set.arg("SET").arg("min-replicas-to-write").arg(replicas);
        set.exec_async(conn).await.unwrap();
    };
    set(conn, 1).await;
    let pulse = Pulse::builder()
        .store(Arc::new(store(&server)))
        .clean_interval(Duration::from_secs(1));
    let pulse = pulse.build().unwrap();
    until("health reports it", async || {
        let health = pulse.health();
        // Heartbeats have the same cause, which is told once.
        health.conditions.contains(&Condition::Cleaning) && health.warnings.len() == 1
    })
    .await;
    set(conn, 0).await;
    until("cleaning goes on", async || {
        pulse.health().warnings.is_empty()
    })
    .await;
    pulse.shutdown().await.unwrap();
}

/// Writes problems as a pass would, and returns the texts of health and of the last pass before and after the next
/// pass.
async fn with_problems(problems: &str) -> [Vec<String>; 2] {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let mut set = cmd("HSET");
    set.arg(format!("{LEASE}:last"));
    set.arg("number").arg(now()).arg("at").arg(now());
    set.arg("instance").arg("x\nFORGED instance");
    set.arg("problems").arg(problems);
    set.exec_async(conn).await.unwrap();
    let (log, _guard) = Log::start();
    let pulse = Pulse::builder()
        .store(Arc::new(store(&server)))
        .clean_interval(Duration::from_secs(1));
    let pulse = pulse.build().unwrap();
    let shown = |last: &PassRecord| {
        let mut shown = pulse.health().warnings;
        let problems = last.cleaned.problems.iter();
        shown.extend(problems.map(|p| format!("{} {}", p.key, p.reason)));
        shown.push(last.instance.clone());
        shown
    };
    let last = pulse.backend().last_pass().await.unwrap().unwrap();
    let before = shown(&last);
    until("a pass of its own is done", async || {
        // The key may be missing for a moment.
        let last = pulse.backend().last_pass().await.unwrap();
        last.is_some_and(|last| !last.instance.contains("FORGED"))
    })
    .await;
    until("the cleaner has read it", async || {
        !log.text().is_empty() || pulse.health().warnings.is_empty()
    })
    .await;
    let last = pulse.backend().last_pass().await.unwrap().unwrap();
    let after = shown(&last);
    pulse.shutdown().await.unwrap();
    log.assert_whole_lines();
    [before, after]
}

#[tokio::test]
async fn forged_problems_are_shown_on_one_line_and_removed() {
    let seen = now() + 387_420_489;
    let forged = format!("{seen}\u{1f}count:60:zz\u{1f}y\nFORGED line\u{1e}");
    let [before, after] = with_problems(&forged).await;
    assert!(before.iter().any(|text| text.contains("FORGED line")));
    for text in before.iter().chain(&after) {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    assert!(
        !after.iter().any(|text| text.contains("FORGED line")),
        "{after:?}"
    );
}

#[tokio::test]
async fn long_problems_are_cut() {
    let seen = now();
    // Problems of five megabytes are neither read nor kept, as no pass writes that much.
    for (length, stay) in [(10_000, true), (100_000, false)] {
        let long = "x".repeat(length / 2);
        let one = format!("{seen}\u{1f}pulse:count:86400:{long}\u{1f}{long}\u{1e}");
        let [before, after] = with_problems(&one.repeat(50)).await;
        assert_eq!((before.len() > 50, after.len() > 50), (stay, stay));
        for texts in [before, after] {
            let bytes: usize = texts.iter().map(String::len).sum();
            assert!(bytes < 100_000, "{bytes}");
        }
    }
}

/// A name of 30 MiB, in any of the keys that a pass reads, does not stop the rest of the pass.
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
        let keys: Vec<_> = cleaned.problems.iter().map(|p| &*p.key).collect();
        assert_eq!(keys, [format!("{PREFIX}{key}")]);
        assert_eq!(cleaned.instances, 1);
        assert!(store.last_pass().await.unwrap().is_some());
    }
}
