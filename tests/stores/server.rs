//! Servers that refuse writes, lose scripts, deny access, freeze or end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::rig::reads::{self, StoreReads};
use tower_pulse::{Clock, StoreErrorKind};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::{FencedBatch, Heartbeat, RankingQuery};
use tower_pulse_core::testing::TestFolder;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::ranking::RankingDelta;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::fixture::{Fixture, MERGED, MS, NOW, apply, call, spec};
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::until;

/// A call of two samples of one context.
fn two_samples(fixture: &Fixture, seq: u64) -> FencedBatch {
    call(
        "x",
        seq,
        fixture.batch(&[("GET /", Kind::Http, NOW, &[MS, 2 * MS])]),
    )
}

/// A store that waits so long for an answer, and three times as long for a connection.
fn store_with_timeout(url: &str, timeout: Duration, clock: Option<&Clock>) -> Arc<dyn Store> {
    let options = RedisOptions::new(url)
        .unwrap()
        .prefix("pulse:")
        .unwrap()
        .response_timeout(timeout)
        .connection_timeout(3 * timeout);
    with_clock(RedisStore::open(options).unwrap(), clock)
}

fn with_clock(store: RedisStore, clock: Option<&Clock>) -> Arc<dyn Store> {
    match clock {
        Some(clock) => Arc::new(store.with_clock(clock.clone())),
        None => Arc::new(store),
    }
}

fn redis_store(url: &str, prefix: &str, clock: Option<&Clock>) -> Arc<dyn Store> {
    with_clock(crate::fixture::redis_store(url, prefix), clock)
}

/// Checks that a server that refuses writes by the command `refuse` gives no answer by which an instance would start
/// anew or replay its calls: a replica that lags lacks what its primary has.
async fn assert_not_misled(refuse: &str) {
    let fixture = Fixture::redis().await;
    let server = fixture.server();
    fixture
        .writer
        .apply(&two_samples(&fixture, 1))
        .await
        .unwrap();
    let generation = fixture.store.hello().await.unwrap().id;
    let _: u64 = server.run("HSET pulse:pulse:state f:g garbage").await;
    let _: redis::Value = server.run(refuse).await;
    let mut gap = two_samples(&fixture, 9);
    gap.generation = generation;
    let mut reset = gap.clone();
    reset.generation = "another".into();
    let mut garbled = gap.clone();
    garbled.instance = "g".into();
    for call in [gap, reset, garbled] {
        let error = fixture.store.append(&call).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    }
}

#[tokio::test]
async fn a_replica_misleads_no_instance() {
    assert_not_misled("REPLICAOF 127.0.0.1 1").await;
}

#[tokio::test]
async fn a_server_without_its_replicas_misleads_no_instance() {
    assert_not_misled("CONFIG SET min-replicas-to-write 1").await;
}

/// Calls every method of a store.
async fn call_every_method(fixture: &Fixture, store: &Arc<dyn Store>) {
    let mut all = two_samples(fixture, 1);
    all.batch.count(&"sales".into(), NOW, 1);
    assert_eq!(apply(store, &all).await.unwrap(), MERGED);
    let mut again = two_samples(fixture, 2);
    for hours in [1, 2] {
        let requests = [("GET /", Kind::Http, NOW + hours * 3_600, &[MS][..])];
        again.batch.merge(fixture.batch(&requests));
    }
    apply(store, &again).await.unwrap();
    let heartbeat = Heartbeat {
        in_flight: 1,
        ..reads::heartbeat("x", NOW)
    };
    store.upkeep().heartbeat(&heartbeat).await.unwrap();
    assert_eq!(store.snapshot(NOW).await.unwrap().problems, []);
    store.context("GET /", NOW).await.unwrap().unwrap();
    store.counter("sales", 1).await.unwrap();
    store.records_of("GET /", 60, NOW).await.unwrap();
    assert_eq!(store.slowest_means().await.unwrap().len(), 1);
    for days in [0, 2, 9] {
        let mut pass = fixture.pass();
        pass.now += days * 86_400;
        let cleaned = store.upkeep().clean(&pass).await.unwrap().unwrap();
        assert_eq!(cleaned.skipped, None);
    }
    store.upkeep().deregister("x").await.unwrap();
    call_every_command_of_rankings(fixture, store).await;
}

/// Adds, removes, drops, reads and expires.
async fn call_every_command_of_rankings(fixture: &Fixture, store: &Arc<dyn Store>) {
    let spec = spec(3_600, 2, 2);
    let folder = TestFolder::new(store.clone(), fixture.clock.clone(), "folder", 1_000);
    let generation = store.hello().await.unwrap().id;
    for seq in 1..=3 {
        let mut delta = RankingDelta::new(spec);
        let second = fixture.clock.now_seconds();
        (0..4).for_each(|id| delta.add(&id.to_string().into(), second, 1 + id));
        delta.remove(&"3".into());
        let mut batch = Batch::new(fixture.precisions.clone());
        batch.rankings.insert("posts".into(), delta);
        let mut call = call("rankings", seq, batch);
        call.generation.clone_from(&generation);
        store.append(&call).await.unwrap();
        assert!(folder.fold().await.unwrap());
        let query = RankingQuery {
            name: "posts".into(),
            now: second,
            offset: 0,
            limit: 10,
            ids: vec!["2".into()],
        };
        let page = store.query().ranking(&query).await.unwrap().unwrap();
        assert_eq!((page.total, page.places[0].unwrap().rank), (2, 0));
        assert_eq!(store.query().rankings().await.unwrap(), ["posts"]);
        fixture.advance(3_600);
        let later = RankingQuery {
            now: second + 3_600 * 2,
            ..query
        };
        assert_eq!(
            store.query().ranking(&later).await.unwrap().unwrap().total,
            0
        );
    }
    fixture.advance(9 * 3_600);
    folder.fold().await.unwrap();
    assert_eq!(store.query().rankings().await.unwrap(), [""; 0]);
    let quarantined = store
        .upkeep()
        .status(NOW)
        .await
        .unwrap()
        .exceptions
        .quarantined;
    assert_eq!(quarantined, 0);
    folder.release().await.unwrap();
}

#[tokio::test]
async fn the_acl_rule_in_the_error_is_sufficient() {
    for prefix in ["pulse:", "", "we[i]rd*?\\:"] {
        let fixture = Fixture::redis().await;
        let server = fixture.server();
        let () = server.run("ACL SETUSER app on >secret +ping").await;
        let url = format!("redis://app:secret@127.0.0.1:{}/2", server.port());
        let store = redis_store(&url, prefix, Some(&fixture.clock));
        let mut steps = Vec::new();
        // Permissions are given one by one; the error names the rule until all are there.
        for rights in ["+select", "+eval +evalsha ~pulse:*", "+@write"] {
            let error = apply(&store, &two_samples(&fixture, 1)).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Forbidden, "{error}");
            let text = error.to_string();
            assert!(text.contains("ACL SETUSER app ~"), "{text}");
            assert!(!format!("{text} {error:?} {}", store.describe()).contains("secret"));
            steps.push(text);
            let () = server.run(&format!("ACL SETUSER app {rights}")).await;
        }
        assert_eq!(server.run::<u64>("DBSIZE").await, 0);
        let () = server.run("ACL SETUSER app reset on >secret").await;
        let () = server.run(steps[2].split("with: ").nth(1).unwrap()).await;
        call_every_method(&fixture, &store).await;
        assert_eq!(store.warnings(), Vec::<String>::new());
    }
}

/// An application that had no rankings may have a rule without their keys.
#[tokio::test]
async fn a_folder_without_the_keys_of_rankings_changes_nothing() {
    let fixture = Fixture::redis().await;
    let server = fixture.server();
    let rule = "ACL SETUSER app on >secret +@all ~known: ~count:* ~stats:* ~slowest:* ~pulse:*";
    let () = server.run(rule).await;
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let store = redis_store(&url, "", Some(&fixture.clock));
    let mut first = two_samples(&fixture, 1);
    assert_eq!(apply(&store, &first).await.unwrap(), MERGED);
    let spec = spec(3_600, 2, 2);
    let mut delta = RankingDelta::new(spec);
    delta.add(&"7".into(), NOW, 1);
    (first.seq, first.previous) = (2, 1);
    first.batch.rankings.insert("posts".into(), delta);
    let error = apply(&store, &first).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Forbidden, "{error}");
    assert!(error.to_string().contains("~last_slot_*"), "{error}");
    let () = server
        .run("ACL SETUSER app ~slot_* ~stats_* ~last_slot_*")
        .await;
    let folder = TestFolder::new(store.clone(), fixture.clock.clone(), "folder", 1_000);
    assert!(folder.fold().await.unwrap());
    let score: f64 = server.run("ZSCORE stats_posts 7").await;
    assert_eq!(score, 1.0);
    let hits = store.counter("hits:GET /", 60).await.unwrap();
    assert_eq!(hits, [(NOW, 4)]);
}

#[tokio::test]
async fn a_missing_wrong_or_superfluous_password_is_explained() {
    let server = RedisServer::builder().password("right").start().await;
    let fixture = Fixture::memory();
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
        // A word of the server's own answer.
        (format!("redis://:pair@127.0.0.1:{port}"), "percent-encoded"),
    ] {
        let store = redis_store(&url, "pulse:", None);
        let error = apply(&store, &two_samples(&fixture, 1)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Forbidden);
        let text = format!("{error} {error:?} {}", store.describe());
        assert!(text.contains(advice) && !text.contains("wrong@"), "{text}");
    }
    let store = redis_store(&server.url(), "pulse:", Some(&fixture.clock));
    call_every_method(&fixture, &store).await;
    let store = redis_store(&format!("redis://:any@127.0.0.1:{port}"), "pulse:", None);
    let () = issue(
        &mut server.connection().await,
        "CONFIG",
        &["SET", "requirepass", ""],
    )
    .await;
    let error = store.slowest_means().await.unwrap_err();
    assert!(error.to_string().contains("take it out"), "{error}");
}

#[tokio::test]
async fn a_frozen_server_delays_calls_by_their_timeouts_only() {
    // With a password, a connection is not made before the server has answered.
    let server = RedisServer::builder().password("secret").start().await;
    let fixture = Fixture::redis_with(server, "pulse:");
    let timeout = Duration::from_millis(100);
    let store = store_with_timeout(&fixture.server().url(), timeout, None);
    until("it answers", async || store.slowest_means().await.is_ok()).await;
    fixture.server().freeze();
    let start = Instant::now();
    for _ in 0..3 {
        let error = store.slowest_means().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    }
    // The third one has dropped the connection; those who ask together share one attempt, and do not make
    // a hundred of 100 ms one after the other, which would take ten seconds.
    let asking: Vec<_> = (0..100)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.slowest_means().await })
        })
        .collect();
    for call in asking {
        assert!(call.await.unwrap().is_err());
    }
    assert!(start.elapsed() < Duration::from_secs(10));
    fixture.server().thaw();
    until("it answers again", async || {
        store.slowest_means().await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn idle_keys_expire() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /", NOW, MS).await;
    fixture.advance(90);
    fixture.hit("GET /", NOW + 90, MS).await;
    let server = fixture.server();
    let ttl = |key: &'static str| async move {
        issue::<i64>(&mut server.connection().await, "TTL", key).await
    };
    let near = |ttl: i64, expected: i64| (expected - 10..=expected).contains(&ttl);
    assert!(near(ttl("pulse:count:1:hits:GET /").await, 120 + 600));
    let day = 122 * 86_400;
    assert!(near(ttl("pulse:count:86400:micros:GET /").await, day));
    // A minute that is not rolled up yet has the time to live of the coarsest tier.
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
    // Cleaning renews the time to live of counters with slices.
    let () = issue(
        &mut server.connection().await,
        "EXPIRE",
        ("pulse:count:60:hits:GET /", 99),
    )
    .await;
    let _ = fixture.clean().await;
    assert!(near(ttl("pulse:count:60:hits:GET /").await, 7_800));

    let options = RedisOptions::new(&server.url())
        .unwrap()
        .expire_idle_keys(false);
    let store = with_clock(RedisStore::open(options).unwrap(), Some(&fixture.clock));
    apply(&store, &two_samples(&fixture, 1)).await.unwrap();
    store
        .upkeep()
        .clean(&fixture.pass())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ttl("count:60:hits:GET /").await, -1);
    // Records expire all the same, as no other program writes them.
    assert!(near(ttl("pulse:r1:60:1700001000").await, 8_400));
}

/// Listing a counter and renewing its time to live at each new slice would cost too much.
#[tokio::test]
async fn a_counter_with_new_slices_is_listed_again_and_renewed_now_and_then() {
    const RENEWED_AFTER: i64 = 16;
    let mut fixture = Fixture::redis().await;
    let key = "pulse:count:1:hits:GET /";
    for second in 0..120 {
        fixture.hit("GET /", NOW + second, MS).await;
        fixture.advance(1);
    }
    // Each new slice pushes one out from now on. Another program interferes.
    let _: u64 = issue(
        &mut fixture.server().connection().await,
        "ZREM",
        ("pulse:known:", "1:hits:GET /"),
    )
    .await;
    let _: u64 = issue(
        &mut fixture.server().connection().await,
        "EXPIRE",
        (key, 60),
    )
    .await;
    for second in 120..120 + RENEWED_AFTER {
        fixture.hit("GET /", NOW + second, MS).await;
        fixture.advance(1);
    }
    let server = fixture.server();
    assert_eq!(
        issue::<u64>(&mut server.connection().await, "HLEN", key).await,
        120
    );
    let score: Option<f64> = issue(
        &mut server.connection().await,
        "ZSCORE",
        ("pulse:known:", "1:hits:GET /"),
    )
    .await;
    assert_eq!(score, Some(0.0));
    let left: i64 = issue(&mut server.connection().await, "TTL", key).await;
    assert!((700..=720).contains(&left), "{left}");
}

#[tokio::test]
async fn counters_stay_small() {
    let mut fixture = Fixture::redis().await;
    for second in 0..300 {
        fixture.hit("GET /", NOW + second, MS).await;
        fixture.advance(1);
    }
    let server = fixture.server();
    let key = "pulse:count:1:hits:GET /";
    assert_eq!(
        issue::<u64>(&mut server.connection().await, "HLEN", key).await,
        120
    );
    let encoding: String = issue(&mut server.connection().await, "OBJECT", ("ENCODING", key)).await;
    assert!(
        encoding == "listpack" || encoding == "ziplist",
        "{encoding}"
    );
}

#[tokio::test]
async fn a_store_describes_its_server_and_warns_of_eviction() {
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
    let fixture = Fixture::memory();
    apply(&store, &two_samples(&fixture, 1)).await.unwrap();
    assert!(store.describe().starts_with("redis ") || store.describe().starts_with("valkey "));
    let warnings = store.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("allkeys-lru") && warnings[0].contains("noeviction"));
}

#[tokio::test]
async fn the_error_of_a_cluster_node_is_explained() {
    let server = RedisServer::builder()
        .arg("--cluster-enabled", "yes")
        .start()
        .await;
    let store = redis_store(&server.url(), "pulse:", None);
    let error = apply(&store, &two_samples(&Fixture::memory(), 1))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("`redis_cluster`"), "{error}");
}

#[tokio::test]
async fn the_error_of_a_server_without_a_free_connection_is_explained() {
    let fixture = Fixture::redis().await;
    let _held = fixture.server().connection().await;
    let () = fixture.server().run("CONFIG SET maxclients 1").await;
    let error = fixture
        .writer
        .apply(&two_samples(&fixture, 1))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("maxclients"), "{error}");
}

#[tokio::test]
async fn records_stay_small() {
    let mut fixture = Fixture::redis().await;
    for second in 0..150 {
        for millis in [1, 7, 20] {
            fixture.hit("GET /", NOW + second, millis * MS).await;
        }
        fixture.advance(1);
    }
    let mut connection = fixture.server().connection().await;
    for slice in [NOW, NOW + 60, NOW + 120] {
        let fields: Vec<Vec<u8>> = issue(
            &mut connection,
            "HVALS",
            format!("pulse:pulse:r1:60:{slice}"),
        )
        .await;
        assert_eq!(fields.len(), 1);
        assert!(fields[0].len() < 60, "{} bytes", fields[0].len());
    }
    let minutes = fixture.records("GET /", 60).await;
    let counts: Vec<_> = minutes.iter().map(|(_, s)| s.histogram.count()).collect();
    assert_eq!(counts, [180, 180, 90]);
    let hour = fixture.context("GET /").await.hour.unwrap();
    assert_eq!(hour.aggregate.histogram.count(), 450);
    assert_eq!(hour.aggregate.outcomes.counts.iter().sum::<u64>(), 450);
}

#[tokio::test]
async fn nothing_outside_the_prefix_is_touched() {
    let mut fixture = Fixture::redis_with(RedisServer::start().await, "pulse:{shop}:");
    let mut connection = fixture.server().connection().await;
    for key in ["known:", "count:1:hits", "pulse:known:", "pulse:contexts"] {
        let () = issue(&mut connection, "SET", (key, "mine")).await;
    }
    fixture.hit("GET /", NOW, MS).await;
    for days in [1, 9] {
        let mut pass = fixture.pass();
        pass.now += days * 86_400;
        fixture.store.upkeep().clean(&pass).await.unwrap().unwrap();
    }
    let keys: Vec<String> = fixture.server().run("KEYS *").await;
    let outside = keys.iter().filter(|key| !key.starts_with("pulse:{shop}:"));
    assert_eq!(outside.count(), 4, "{keys:?}");
}
