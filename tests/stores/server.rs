//! Servers that refuse, forget, forbid, freeze and go away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::cmd;
use tower_pulse::model::batch::Batch;
use tower_pulse::model::context::Kind;
use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse::store::{Appended, FencedBatch, Heartbeat, Store};
use tower_pulse::testing::TestFolder;
use tower_pulse::{Clock, StoreErrorKind};

use crate::bed::{Applied, Fixture, MS, Merged, NOW, apply, call};
use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

/// A call of one request.
fn one(bed: &Fixture, seq: u64) -> FencedBatch {
    call(
        "x",
        seq,
        bed.batch(&[("GET /", Kind::Http, NOW, &[MS, 2 * MS])]),
    )
}

async fn ask<T: redis::FromRedisValue>(server: &RedisServer, words: &[&str]) -> T {
    let mut command = cmd(words[0]);
    command.arg(&words[1..]);
    let mut connection = server.connection().await;
    command.query_async(&mut connection).await.unwrap()
}

/// A store that does not wait long.
fn impatient(url: &str, clock: Option<&Clock>) -> Arc<dyn Store> {
    let options = RedisOptions::new(url)
        .unwrap()
        .prefix("pulse:")
        .unwrap()
        .response_timeout(Duration::from_millis(100))
        .connection_timeout(Duration::from_millis(300));
    with_clock(RedisStore::open(options).unwrap(), clock)
}

fn with_clock(store: RedisStore, clock: Option<&Clock>) -> Arc<dyn Store> {
    match clock {
        Some(clock) => Arc::new(store.with_clock(clock.clone())),
        None => Arc::new(store),
    }
}

fn redis_store(url: &str, prefix: &str, clock: Option<&Clock>) -> Arc<dyn Store> {
    with_clock(crate::bed::redis_store(url, prefix), clock)
}

/// Makes the server refuse writes, and expects a call to fail with `advice` and nothing written,
/// and the same call to go through once the server is well.
async fn refused(sick: &[&str], well: &[&str], advice: &str) {
    let bed = Fixture::redis().await;
    let server = bed.server();
    let merged = Applied::Merged(Merged::default());
    assert_eq!(bed.writer.apply(&one(&bed, 1)).await.unwrap(), merged);
    let before = bed.store.counter("hits:GET /", 1).await.unwrap();
    let keys: u64 = ask(server, &["DBSIZE"]).await;
    let _: redis::Value = ask(server, sick).await;
    let mut second = one(&bed, 2);
    let other = bed.batch(&[("GET /other", Kind::Http, NOW, &[MS])]);
    second.batch.merge(other, &bed.precisions);
    let error = bed.writer.apply(&second).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains(advice), "{error}");
    assert_eq!(ask::<u64>(server, &["DBSIZE"]).await, keys);
    assert_eq!(bed.store.counter("hits:GET /", 1).await.unwrap(), before);
    let fence: String = ask(server, &["HGET", "pulse:pulse:state", "f:x"]).await;
    assert!(fence.starts_with("1 "), "{fence}");
    let _: redis::Value = ask(server, well).await;
    assert_eq!(bed.writer.apply(&second).await.unwrap(), merged);
    assert_eq!(bed.hours("GET /").await.0, Some(4.0));
}

#[tokio::test]
async fn out_of_memory_writes_nothing() {
    refused(
        &["CONFIG", "SET", "maxmemory", "1"],
        &["CONFIG", "SET", "maxmemory", "0"],
        "raise maxmemory",
    )
    .await;
}

#[tokio::test]
async fn without_its_replicas_it_writes_nothing() {
    refused(
        &["CONFIG", "SET", "min-replicas-to-write", "1"],
        &["CONFIG", "SET", "min-replicas-to-write", "0"],
        "min-replicas-to-write",
    )
    .await;
}

#[tokio::test]
async fn a_replica_writes_nothing() {
    refused(
        &["REPLICAOF", "127.0.0.1", "1"],
        &["REPLICAOF", "NO", "ONE"],
        "master",
    )
    .await;
}

/// All that a store is asked for.
async fn use_all(bed: &Fixture, store: &Arc<dyn Store>) {
    let mut all = one(bed, 1);
    all.batch.count(&bed.precisions, &"sales".into(), NOW, 1);
    let merged = Applied::Merged(Merged::default());
    assert_eq!(apply(store, &all).await.unwrap(), merged);
    let mut again = one(bed, 2);
    for hours in [1, 2] {
        let requests = [("GET /", Kind::Http, NOW + hours * 3_600, &[MS][..])];
        again.batch.merge(bed.batch(&requests), &bed.precisions);
    }
    apply(store, &again).await.unwrap();
    let heartbeat = Heartbeat {
        instance: "x".into(),
        at: NOW,
        in_flight: 1,
        dropped: 0,
    };
    store.heartbeat(&heartbeat).await.unwrap();
    assert_eq!(store.snapshot(NOW).await.unwrap().problems, []);
    store.context("GET /", NOW).await.unwrap().unwrap();
    store.counter("sales", 1).await.unwrap();
    store.records("GET /", 60, NOW).await.unwrap();
    assert_eq!(store.slowest().await.unwrap().len(), 1);
    for days in [0, 2, 9] {
        let mut pass = bed.pass();
        pass.now += days * 86_400;
        let cleaned = store.clean(&pass).await.unwrap().unwrap();
        assert_eq!(cleaned.problems, []);
    }
    store.last_pass().await.unwrap().unwrap();
    store.deregister("x").await.unwrap();
}

#[tokio::test]
async fn the_acl_line_of_the_error_is_all_that_is_needed() {
    for prefix in ["pulse:", "", "we[i]rd*?\\:"] {
        let bed = Fixture::redis().await;
        let server = bed.server();
        let _: () = ask(server, &["ACL", "SETUSER", "app", "on", ">secret", "+ping"]).await;
        let url = format!("redis://app:secret@127.0.0.1:{}/2", server.port());
        let store = redis_store(&url, prefix, Some(&bed.clock));
        let mut steps = Vec::new();
        // Rights are given one by one until everything is allowed.
        for rights in [
            &["+select"][..],
            &["+eval", "+evalsha", "~pulse:*"],
            &["+@write"],
        ] {
            let error = apply(&store, &one(&bed, 1)).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Forbidden, "{error}");
            let text = error.to_string();
            assert!(text.contains("ACL SETUSER app ~"), "{text}");
            assert!(!format!("{text} {error:?} {}", store.describe()).contains("secret"));
            steps.push(text);
            let mut command = vec!["ACL", "SETUSER", "app"];
            command.extend(rights);
            let _: () = ask(server, &command).await;
        }
        assert_eq!(ask::<u64>(server, &["DBSIZE"]).await, 0);
        let _: () = ask(server, &["ACL", "SETUSER", "app", "reset", "on", ">secret"]).await;
        let line = steps[2].split("with: ").nth(1).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let _: () = ask(server, &words).await;
        use_all(&bed, &store).await;
        assert_eq!(store.warnings(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn passwords() {
    let server = RedisServer::builder().password("right").start().await;
    let bed = Fixture::memory();
    let port = server.port();
    for (url, advice) in [
        (
            format!("redis://127.0.0.1:{port}"),
            "redis://:PASSWORD@host",
        ),
        (
            format!("redis://:wrong@127.0.0.1:{port}"),
            "percent-encoded",
        ),
    ] {
        let store = redis_store(&url, "pulse:", None);
        let error = apply(&store, &one(&bed, 1)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Forbidden);
        let text = format!("{error} {error:?} {}", store.describe());
        assert!(text.contains(advice) && !text.contains("wrong@"), "{text}");
    }
    let store = redis_store(&server.url(), "pulse:", Some(&bed.clock));
    use_all(&bed, &store).await;
    let store = redis_store(&format!("redis://:any@127.0.0.1:{port}"), "pulse:", None);
    let _: () = redis::cmd("CONFIG")
        .arg(&["SET", "requirepass", ""])
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    let error = store.slowest().await.unwrap_err();
    assert!(error.to_string().contains("take it out"), "{error}");
}

#[tokio::test]
async fn a_flushed_script_is_sent_again() {
    let mut bed = Fixture::redis().await;
    let generation = bed.store.hello().await.unwrap().id;
    bed.hit("GET /", NOW, MS).await;
    let _: () = ask(bed.server(), &["SCRIPT", "FLUSH"]).await;
    bed.hit("GET /", NOW, MS).await;
    let _: () = ask(bed.server(), &["FLUSHALL"]).await;
    let mut next = call("a", 3, Batch::default());
    next.generation = generation;
    assert_eq!(bed.writer.apply(&next).await.unwrap(), Applied::Reset);
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again() {
    let bed = Fixture::redis_with(
        RedisServer::builder()
            .arg("--appendonly", "yes")
            .start()
            .await,
        "pulse:",
    );
    let merged = Applied::Merged(Merged::default());
    assert_eq!(bed.writer.apply(&one(&bed, 1)).await.unwrap(), merged);
    bed.server().terminate();
    for _ in 0..2 {
        let error = bed.writer.apply(&one(&bed, 2)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    }
    assert!(bed.store.snapshot(NOW).await.is_err());
    bed.server().restart().await;
    // The connection that folds finds out by an error.
    let _ = bed.writer.folder.fold().await;
    assert_eq!(bed.writer.apply(&one(&bed, 2)).await.unwrap(), merged);
    bed.server().kill_clients().await;
    // Each of three connections finds out by an error.
    let mut errors = 0;
    while bed.writer.apply(&one(&bed, 3)).await.is_err() {
        errors += 1;
        assert!(errors <= 3);
    }
    assert!(bed.writer.folder.fold().await.unwrap());
    let _ = bed.store.snapshot(NOW).await;
    assert_eq!(bed.hours("GET /").await.0, Some(6.0));
}

#[tokio::test]
async fn a_lost_reply_is_no_second_append() {
    let bed = Fixture::redis().await;
    let proxy = Proxy::start(bed.server().port()).await;
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let store = impatient(&url, Some(&bed.clock));
    let merged = Applied::Merged(Merged::default());
    assert_eq!(apply(&store, &one(&bed, 1)).await.unwrap(), merged);
    let generation = store.hello().await.unwrap().id;
    for (seq, how) in [(2, Swallow::Cut), (3, Swallow::Hang)] {
        let mut call = one(&bed, seq);
        call.generation.clone_from(&generation);
        proxy.swallow_replies(1.0, 7, how);
        let error = store.append(&call).await.unwrap_err();
        assert!(
            matches!(
                error.kind(),
                StoreErrorKind::Unreachable | StoreErrorKind::TimedOut
            ),
            "{error}"
        );
        proxy.heal();
        let mut answers = Vec::new();
        while !matches!(answers.last(), Some(Ok(_))) {
            answers.push(store.append(&call).await);
            // A connection that hangs is dropped after three timeouts.
            assert!(answers.len() <= 4, "{answers:?}");
        }
        let answer = answers.pop().unwrap().unwrap();
        assert!(
            matches!(answer, Appended::Duplicate(_)),
            "{how:?}: {answer:?}"
        );
    }
    assert!(bed.writer.folder.fold().await.unwrap());
    assert_eq!(bed.hours("GET /").await.0, Some(6.0));
}

#[tokio::test]
async fn a_frozen_server_holds_nobody_up() {
    // With a password, a connection is not made before the server has answered.
    let server = RedisServer::builder().password("secret").start().await;
    let bed = Fixture::redis_with(server, "pulse:");
    let store = impatient(&bed.server().url(), None);
    store.slowest().await.unwrap();
    bed.server().freeze();
    let start = Instant::now();
    for _ in 0..3 {
        let error = store.slowest().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    }
    // The third one has dropped the connection; those who ask together share one attempt, and do not make
    // a hundred of 100 ms one after the other.
    let asking: Vec<_> = (0..100)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.slowest().await })
        })
        .collect();
    for asked in asking {
        assert!(asked.await.unwrap().is_err());
    }
    assert!(start.elapsed() < Duration::from_secs(5));
    bed.server().thaw();
    until("it answers again", async || store.slowest().await.is_ok()).await;
}

#[tokio::test]
async fn keys_expire_when_nothing_comes_any_more() {
    let mut bed = Fixture::redis().await;
    bed.hit("GET /", NOW, MS).await;
    bed.advance(90);
    bed.hit("GET /", NOW + 90, MS).await;
    let server = bed.server();
    let ttl = |key: &'static str| async move { ask::<i64>(server, &["TTL", key]).await };
    let near = |ttl: i64, expected: i64| (expected - 10..=expected).contains(&ttl);
    assert!(near(ttl("pulse:count:1:hits:GET /").await, 120 + 600));
    let day = 122 * 86_400;
    assert!(near(ttl("pulse:count:86400:micros:GET /").await, day));
    // A minute that is not rolled up yet waits for it as long as the widest slices are kept.
    let widest = 60 * 21_600 + 2 * 21_600;
    assert!(near(ttl("pulse:pulse:r1:60:1700001060").await, widest));
    assert!(near(ttl("pulse:pulse:r1:60:1700001000").await, 8_400));
    let half_hours = 98 * 1_800 + 2 * 1_800;
    assert!(near(
        ttl("pulse:pulse:r1:1800:1700001000").await,
        half_hours
    ));
    assert!(near(ttl("pulse:pulse:r1:21600:1699984800").await, widest));
    assert_eq!(ttl("pulse:pulse:state").await, -1);
    assert_eq!(ttl("pulse:stats:GET /:AccessTime").await, -1);
    assert_eq!(ttl("pulse:known:").await, -1);
    // The cleaner prolongs what is alive.
    let _: () = ask(server, &["EXPIRE", "pulse:count:60:hits:GET /", "99"]).await;
    let _ = bed.store.clean(&bed.pass()).await.unwrap().unwrap();
    assert!(near(ttl("pulse:count:60:hits:GET /").await, 7_800));

    let options = RedisOptions::new(&server.url())
        .unwrap()
        .expire_idle_keys(false);
    let store = with_clock(RedisStore::open(options).unwrap(), Some(&bed.clock));
    apply(&store, &one(&bed, 1)).await.unwrap();
    store.clean(&bed.pass()).await.unwrap().unwrap();
    assert_eq!(ttl("count:60:hits:GET /").await, -1);
    // Records are nobody else's.
    assert!(near(ttl("pulse:r1:60:1700001000").await, 8_400));
}

#[tokio::test]
async fn counters_stay_small() {
    let mut bed = Fixture::redis().await;
    for second in 0..300 {
        bed.hit("GET /", NOW + second, MS).await;
        bed.advance(1);
    }
    let server = bed.server();
    let key = "pulse:count:1:hits:GET /";
    assert_eq!(ask::<u64>(server, &["HLEN", key]).await, 120);
    let encoding: String = ask(server, &["OBJECT", "ENCODING", key]).await;
    assert!(
        encoding == "listpack" || encoding == "ziplist",
        "{encoding}"
    );
}

#[tokio::test]
async fn what_the_server_is() {
    let server = RedisServer::builder()
        .arg("--maxmemory-policy", "allkeys-lru")
        .start()
        .await;
    let store = redis_store(&server.url(), "pulse:{a}:", None);
    let place = format!(
        "redis at 127.0.0.1:{}/0 (prefix \"pulse:{{a}}:\")",
        server.port()
    );
    assert_eq!(store.describe(), place);
    let bed = Fixture::memory();
    apply(&store, &one(&bed, 1)).await.unwrap();
    assert!(store.describe().starts_with("redis ") || store.describe().starts_with("valkey "));
    let warnings = store.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("allkeys-lru") && warnings[0].contains("noeviction"));
}

#[tokio::test]
async fn a_cluster_node_is_named() {
    let server = RedisServer::builder()
        .arg("--cluster-enabled", "yes")
        .start()
        .await;
    let store = redis_store(&server.url(), "pulse:", None);
    let error = apply(&store, &one(&Fixture::memory(), 1))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("`cluster` layout"), "{error}");
}

#[tokio::test]
async fn a_server_without_a_free_connection() {
    let bed = Fixture::redis().await;
    let _held = bed.server().connection().await;
    let _: () = ask(bed.server(), &["CONFIG", "SET", "maxclients", "1"]).await;
    let error = bed.writer.apply(&one(&bed, 1)).await.unwrap_err();
    assert!(error.to_string().contains("maxclients"), "{error}");
}

#[tokio::test]
async fn records_stay_small() {
    let mut bed = Fixture::redis().await;
    for second in 0..150 {
        for millis in [1, 7, 20] {
            bed.hit("GET /", NOW + second, millis * MS).await;
        }
        bed.advance(1);
    }
    let mut connection = bed.server().connection().await;
    for slice in [NOW, NOW + 60, NOW + 120] {
        let mut get = cmd("HVALS");
        get.arg(format!("pulse:pulse:r1:60:{slice}"));
        let fields: Vec<Vec<u8>> = get.query_async(&mut connection).await.unwrap();
        assert_eq!(fields.len(), 1);
        assert!(fields[0].len() < 60, "{} bytes", fields[0].len());
    }
    let now = bed.clock.now_seconds();
    let minutes = bed.store.records("GET /", 60, now).await.unwrap();
    let counts: Vec<_> = minutes.iter().map(|(_, s)| s.histogram.count()).collect();
    assert_eq!(counts, [180, 180, 90]);
    let hour = bed.context("GET /").await.hour.unwrap();
    assert_eq!(hour.spread.histogram.count(), 450);
    assert_eq!(hour.spread.tally.outcomes.iter().sum::<u64>(), 450);
}

#[tokio::test]
async fn one_of_many_cleans() {
    let bed = Fixture::redis().await;
    let url = bed.server().url();
    let stores: Vec<_> = (0..6).map(|_| redis_store(&url, "pulse:", None)).collect();
    for (n, store) in stores.iter().enumerate() {
        let mut call = one(&bed, 1);
        call.generation = store.hello().await.unwrap().id;
        call.instance = n.to_string();
        store.append(&call).await.unwrap();
    }
    // Meanwhile all of them write: what is being emptied must not lose what is added.
    let cleaning = stores.into_iter().enumerate().map(|(n, store)| {
        let (mut pass, batch) = (bed.pass(), one(&bed, 1).batch);
        (pass.now, pass.instance) = (NOW + 600, n.to_string());
        tokio::spawn(async move {
            let mut call = call(&n.to_string(), 2, batch);
            call.generation = store.hello().await.unwrap().id;
            let folder = TestFolder::new(store.clone(), Clock::system(), &n.to_string(), 1_000);
            let mut done = 0;
            for seq in 2..40 {
                (call.seq, call.previous) = (seq, seq - 1);
                let appended = store.append(&call).await.unwrap();
                assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
                // Another one may hold the lease.
                let _ = folder.fold().await.unwrap();
                if seq % 7 == 0 {
                    done += u32::from(store.clean(&pass).await.unwrap().is_some());
                }
            }
            done
        })
    });
    let mut done = 0;
    for cleaner in cleaning.collect::<Vec<_>>() {
        done += cleaner.await.unwrap();
    }
    assert_eq!(done, 1);
    let _: u64 = ask(bed.server(), &["DEL", "pulse:pulse:lease:fold"]).await;
    assert!(bed.writer.folder.fold().await.unwrap());
    let hits = bed.store.counter("hits:GET /", 3_600).await.unwrap();
    assert_eq!(hits.iter().map(|(_, n)| n).sum::<i64>(), 6 * 2 * 39);
    let known: Option<f64> = ask(bed.server(), &["ZSCORE", "pulse:known:", "1:hits:GET /"]).await;
    assert_eq!(known, Some(0.0), "what has samples is known");
}

#[tokio::test]
async fn a_lease_that_is_another_ones_is_left_alone() {
    let mut bed = Fixture::redis().await;
    bed.hit("GET /", NOW - 10_000, MS).await;
    let server = bed.server();
    let lease = "pulse:pulse:lease:clean";
    let _: () = ask(server, &["SET", lease, "7:other", "EX", "60"]).await;
    assert_eq!(bed.store.clean(&bed.pass()).await.unwrap(), None);
    assert_eq!(ask::<String>(server, &["GET", lease]).await, "7:other");
    let _: u64 = ask(server, &["DEL", lease]).await;
    assert!(bed.store.clean(&bed.pass()).await.unwrap().is_some());
    assert_eq!(ask::<Option<String>>(server, &["GET", lease]).await, None);
}

#[tokio::test]
async fn nothing_outside_the_prefix_is_touched() {
    let mut bed = Fixture::redis_with(RedisServer::start().await, "pulse:{shop}:");
    let mut connection = bed.server().connection().await;
    for key in ["known:", "count:1:hits", "pulse:known:", "pulse:contexts"] {
        let set = cmd("SET").arg(key).arg("mine").clone();
        set.exec_async(&mut connection).await.unwrap();
    }
    bed.hit("GET /", NOW, MS).await;
    for days in [1, 9] {
        let mut pass = bed.pass();
        pass.now += days * 86_400;
        bed.store.clean(&pass).await.unwrap().unwrap();
    }
    let keys: Vec<String> = ask(bed.server(), &["KEYS", "*"]).await;
    let outside = keys.iter().filter(|key| !key.starts_with("pulse:{shop}:"));
    assert_eq!(outside.count(), 4, "{keys:?}");
}
