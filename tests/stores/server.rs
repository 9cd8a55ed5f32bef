//! Servers that refuse writes, deny access or freeze, and the keys that a store leaves in them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tower_pulse::StoreErrorKind;
use tower_pulse_core::store::{FencedBatch, RankingQuery, Store};
use tower_pulse_model::context::Kind;
use tower_pulse_model::ranking::RankingDelta;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::instances::TestFolder;
use crate::rig::process::TempDir;
use crate::rig::reads::{self, StoreReads};
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::stores::fixture::{Fixture, MS, MergeReport, NOW, apply, call, redis_store, spec};

fn two_samples(fixture: &Fixture, seq: u64) -> FencedBatch {
    let batch = fixture.batch(&[("GET /", Kind::Http, NOW, &[MS, 2 * MS])]);
    call("x", seq, batch)
}

fn with_clock(store: RedisStore, fixture: &Fixture) -> Arc<dyn Store> {
    Arc::new(store.with_clock(fixture.clock.clone()))
}

fn store_at(url: &str, prefix: &str, fixture: &Fixture) -> Arc<dyn Store> {
    with_clock(redis_store(url, prefix), fixture)
}

/// A server that refuses writes may be a replica that lacks newer data. If it answered that its state or calls are
/// missing, the instance would start again or replay calls.
#[tokio::test]
async fn a_server_that_refuses_writes_answers_appends_with_an_error() {
    for refuse in [
        "REPLICAOF 127.0.0.1 1",
        "CONFIG SET min-replicas-to-write 1",
    ] {
        let fixture = Fixture::redis().await;
        let first = two_samples(&fixture, 1);
        fixture.writer.apply(&first).await.unwrap();
        let () = fixture.run("HSET pulse:pulse:state f:g garbage").await;
        let gap = FencedBatch {
            generation: fixture.store.hello().await.unwrap().id,
            ..two_samples(&fixture, 9)
        };
        let () = fixture.run(refuse).await;
        let mut reset = gap.clone();
        reset.generation = "another".into();
        let mut garbled = gap.clone();
        garbled.instance = "g".into();
        for call in [gap, reset, garbled] {
            let error = fixture.store.append(&call).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
        }
    }
}

async fn call_every_method(fixture: &Fixture, store: &Arc<dyn Store>) {
    let mut all = two_samples(fixture, 1);
    all.batch.count(&"sales".into(), NOW, 1);
    let applied = apply(store, &all).await.unwrap();
    assert_eq!(applied, MergeReport::default());
    let mut again = two_samples(fixture, 2);
    for hours in [1, 2] {
        let requests = [("GET /", Kind::Http, NOW + hours * 3_600, &[MS][..])];
        again.batch.merge(fixture.batch(&requests));
    }
    apply(store, &again).await.unwrap();
    let (upkeep, query) = (store.upkeep(), store.query());
    let heartbeat = reads::heartbeat("x", NOW);
    upkeep.heartbeat(&heartbeat).await.unwrap();
    assert_eq!(store.snapshot(NOW).await.unwrap().problems, []);
    store.context("GET /", NOW).await.unwrap().unwrap();
    store.counter("sales", 1).await.unwrap();
    store.records_of("GET /", 60, NOW).await.unwrap();
    assert_eq!(store.slowest_means().await.unwrap().len(), 1);
    for days in [0, 2, 9] {
        let mut pass = fixture.pass();
        pass.now += days * 86_400;
        let cleaned = upkeep.clean(&pass).await.unwrap().unwrap();
        assert_eq!(cleaned.skipped, None);
    }
    upkeep.deregister("x").await.unwrap();
    // Adds ids to a ranking, and removes, drops, reads and expires ids.
    let folder = TestFolder::new(store.clone(), fixture.clock.clone(), "folder", 1_000);
    let generation = store.hello().await.unwrap().id;
    for seq in 1..=3 {
        let (now, mut delta) = (fixture.now(), RankingDelta::new(spec(3_600, 2, 2)));
        (0..4).for_each(|id| delta.add(&id.to_string().into(), now, 1 + id));
        delta.remove(&"3".into());
        let mut call = call("rankings", seq, fixture.batch(&[]));
        call.batch.rankings.insert("posts".into(), delta);
        call.generation.clone_from(&generation);
        store.append(&call).await.unwrap();
        assert!(folder.fold().await.unwrap());
        let mut asked = RankingQuery {
            name: "posts".into(),
            now,
            limit: 10,
            ids: vec!["2".into()],
            ..RankingQuery::default()
        };
        let page = query.ranking(&asked).await.unwrap().unwrap();
        assert_eq!((page.total, page.places[0].unwrap().rank), (2, 0));
        assert_eq!(query.rankings().await.unwrap(), ["posts"]);
        fixture.advance(3_600);
        asked.now += 2 * 3_600;
        assert_eq!(query.ranking(&asked).await.unwrap().unwrap().total, 0);
    }
    fixture.advance(9 * 3_600);
    folder.fold().await.unwrap();
    assert_eq!(query.rankings().await.unwrap(), [""; 0]);
    let status = upkeep.status(NOW).await.unwrap();
    assert_eq!(status.exceptions.quarantined, 0);
    folder.release().await.unwrap();
}

#[tokio::test]
async fn the_acl_rule_in_the_error_is_sufficient() {
    for prefix in ["pulse:", "", "we[i]rd*?\\:"] {
        let fixture = Fixture::redis().await;
        let () = fixture.run("ACL SETUSER app on >secret +ping").await;
        let port = fixture.server().port();
        let url = format!("redis://app:secret@127.0.0.1:{port}/2");
        let store = store_at(&url, prefix, &fixture);
        let mut errors = Vec::new();
        // The error names the whole rule, whichever permissions the user already has.
        for rights in ["+select", "+eval +evalsha ~pulse:*", "+@write"] {
            let error = apply(&store, &two_samples(&fixture, 1)).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Forbidden, "{error}");
            let text = error.to_string();
            assert!(text.contains("ACL SETUSER app ~"), "{text}");
            assert!(!format!("{text} {error:?} {}", store.describe()).contains("secret"));
            errors.push(text);
            let () = fixture.run(&format!("ACL SETUSER app {rights}")).await;
        }
        assert_eq!(fixture.run::<u64>("DBSIZE").await, 0);
        let () = fixture.run("ACL SETUSER app reset on >secret").await;
        let () = fixture.run(errors[2].split("with: ").nth(1).unwrap()).await;
        call_every_method(&fixture, &store).await;
        assert_eq!(store.warnings(), Vec::<String>::new());
    }
}

/// The ACL rule of an application may date from before the application had rankings.
#[tokio::test]
async fn a_folder_without_the_keys_of_rankings_changes_nothing() {
    let fixture = Fixture::redis().await;
    let rule = "ACL SETUSER app on >secret +@all ~known: ~count:* ~stats:* ~slowest:* ~pulse:*";
    let () = fixture.run(rule).await;
    let url = format!("redis://app:secret@127.0.0.1:{}", fixture.server().port());
    let store = store_at(&url, "", &fixture);
    apply(&store, &two_samples(&fixture, 1)).await.unwrap();
    let mut delta = RankingDelta::new(spec(3_600, 2, 2));
    delta.add(&"7".into(), NOW, 1);
    let mut second = two_samples(&fixture, 2);
    second.batch.rankings.insert("posts".into(), delta);
    let error = apply(&store, &second).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Forbidden, "{error}");
    assert!(error.to_string().contains("~last_slot_*"), "{error}");
    let keys = "ACL SETUSER app ~slot_* ~stats_* ~last_slot_*";
    let () = fixture.run(keys).await;
    let folder = TestFolder::new(store.clone(), fixture.clock.clone(), "folder", 1_000);
    assert!(folder.fold().await.unwrap());
    assert_eq!(fixture.run::<f64>("ZSCORE stats_posts 7").await, 1.0);
    let hits = store.counter("hits:GET /", 60).await.unwrap();
    assert_eq!(hits, [(NOW, 4)]);
}

#[tokio::test]
async fn a_missing_wrong_or_superfluous_password_is_explained() {
    let server = RedisServer::builder().password("right").start().await;
    let fixture = Fixture::memory();
    let port = server.port();
    for (password, advice) in [
        ("", "redis://:PASSWORD@host"),
        (":wrong@", "percent-encoded"),
        // This password is a word of the server's own error ("username-password pair").
        (":pair@", "percent-encoded"),
    ] {
        let url = format!("redis://{password}127.0.0.1:{port}");
        let store = store_at(&url, "p:", &fixture);
        let error = apply(&store, &two_samples(&fixture, 1)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Forbidden);
        let text = format!("{error} {error:?} {}", store.describe());
        assert!(text.contains(advice) && !text.contains("wrong@"), "{text}");
    }
    let store = store_at(&server.url(), "pulse:", &fixture);
    store.hello().await.unwrap();
    let () = server.run("CONFIG SET requirepass ").await;
    let url = format!("redis://:any@127.0.0.1:{port}");
    let error = store_at(&url, "pulse:", &fixture).slowest_means().await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("take it out"), "{error}");
}

#[tokio::test]
async fn a_frozen_server_delays_calls_by_their_timeouts_only() {
    // With a password, the server must answer before a connection is made.
    let server = RedisServer::builder().password("secret").start().await;
    let timeout = Duration::from_millis(100);
    let options = RedisOptions::new(&server.url()).unwrap();
    let options = options.response_timeout(timeout);
    let store = RedisStore::open(options.connection_timeout(3 * timeout)).unwrap();
    let answers = async || store.slowest_means().await.is_ok();
    until("an answer", async || answers().await).await;
    server.freeze();
    let start = Instant::now();
    for _ in 0..3 {
        let error = store.slowest_means().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    }
    // The third timeout has closed the connection. Callers at the same time share one attempt to connect: a hundred
    // attempts in turn would take longer than ten seconds.
    let asking = futures_util::future::join_all((0..100).map(|_| store.slowest_means()));
    assert!(asking.await.iter().all(Result::is_err));
    assert!(start.elapsed() < Duration::from_secs(10));
    server.thaw();
    until("another answer", async || answers().await).await;
}

/// Checks that a key expires after `expected` seconds, or never if `expected` is -1.
async fn assert_ttl(fixture: &Fixture, key: &str, expected: i64) {
    let ttl: i64 = fixture.issue("TTL", key).await;
    let range = expected - if expected < 0 { 0 } else { 20 }..=expected;
    assert!(range.contains(&ttl), "{key}: {ttl}, not {expected}");
}

#[tokio::test]
async fn idle_keys_expire() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /", NOW, MS).await;
    fixture.advance(90);
    fixture.hit("GET /", NOW + 90, MS).await;
    // A minute that is not rolled up yet has the time to live of the coarsest tier.
    let widest = 60 * 21_600 + 2 * 21_600;
    for (key, seconds) in [
        ("pulse:count:1:hits:GET /", 120 + 600),
        ("pulse:count:86400:micros:GET /", 122 * 86_400),
        ("pulse:pulse:r1:60:1700001060", widest),
        ("pulse:pulse:r1:60:1700001000", 8_400),
        ("pulse:pulse:r1:1800:1700001000", 98 * 1_800 + 2 * 1_800),
        ("pulse:pulse:r1:21600:1699984800", widest),
        ("pulse:pulse:state", -1),
        ("pulse:stats:GET /:AccessTime", -1),
        ("pulse:known:", -1),
    ] {
        assert_ttl(&fixture, key, seconds).await;
    }
    // Cleaning renews the time to live of counters with slices.
    let key = "pulse:count:60:hits:GET /";
    let () = fixture.issue("EXPIRE", (key, 99)).await;
    let _ = fixture.clean().await;
    assert_ttl(&fixture, key, 7_800).await;

    let options = RedisOptions::new(&fixture.server().url()).unwrap();
    let store = RedisStore::open(options.expire_idle_keys(false)).unwrap();
    let store = with_clock(store, &fixture);
    apply(&store, &two_samples(&fixture, 1)).await.unwrap();
    let cleaned = store.upkeep().clean(&fixture.pass()).await.unwrap();
    assert!(cleaned.is_some());
    assert_ttl(&fixture, "count:60:hits:GET /", -1).await;
    // Records expire with either value of the setting, because no other program writes records.
    assert_ttl(&fixture, "pulse:r1:60:1700001000", 8_400).await;
}

/// Listing a counter again and renewing its time to live at each new slice would cost too much.
#[tokio::test]
async fn counters_and_records_stay_small_and_are_renewed_from_time_to_time() {
    const RENEWED_AFTER: i64 = 16;
    let mut fixture = Fixture::redis().await;
    let (key, member) = ("pulse:count:1:hits:GET /", "1:hits:GET /");
    for second in 0..150 {
        if second == 150 - RENEWED_AFTER {
            // At this time, each new slice pushes out an old slice. Another program changes the keys.
            let () = fixture.issue("ZREM", ("pulse:known:", member)).await;
            let () = fixture.issue("EXPIRE", (key, 60)).await;
        }
        let times = [MS, 7 * MS, 20 * MS];
        let batch = fixture.batch(&[("GET /", Kind::Http, NOW + second, &times)]);
        fixture.merge_whole(batch).await;
        fixture.advance(1);
    }
    assert_eq!(fixture.issue::<u64>("HLEN", key).await, 120);
    let score: Option<f64> = fixture.issue("ZSCORE", ("pulse:known:", member)).await;
    assert_eq!(score, Some(0.0));
    assert_ttl(&fixture, key, 720).await;
    let encoding: String = fixture.issue("OBJECT", ("ENCODING", key)).await;
    assert!(["listpack", "ziplist"].contains(&&*encoding), "{encoding}");
    for slice in [NOW, NOW + 60, NOW + 120] {
        let values = format!("HVALS pulse:pulse:r1:60:{slice}");
        let fields: Vec<Vec<u8>> = fixture.run(&values).await;
        assert_eq!(fields.len(), 1);
        assert!(fields[0].len() < 60, "{} bytes", fields[0].len());
    }
    let minutes = fixture.records("GET /", 60).await;
    let counts: Vec<_> = minutes.iter().map(|(_, s)| s.histogram.count()).collect();
    assert_eq!(counts, [180, 180, 90]);
}

#[tokio::test]
async fn a_store_works_over_a_unix_socket() {
    let directory = TempDir::new("socket");
    let path = directory.path().join("redis.sock");
    let path = path.to_str().unwrap();
    let server = RedisServer::builder().arg("--unixsocket", path);
    let _server = server.start().await;
    let fixture = Fixture::memory();
    let store = store_at(&format!("unix://{path}"), "pulse:", &fixture);
    apply(&store, &two_samples(&fixture, 1)).await.unwrap();
    assert_eq!(store.counter("hits:GET /", 1).await.unwrap(), [(NOW, 2)]);
}
