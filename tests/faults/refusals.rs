//! A server that answers and refuses. Health says why and what to do, the service goes on, and no sample is
//! lost.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cmd;
use tower_pulse::Clock;
use tower_pulse::Condition;

use crate::hours::{now, with_clock};
use crate::rig::seed::seed;
use crate::rig::server::{RedisServer, issue, run};
use crate::rig::wait::until;
use crate::service::{PREFIX, Service, builder, context, counter, pause, without_flushes};

/// Under load, `refuse` makes the server refuse with all of the texts `said`, and `mend` makes it accept
/// calls again.
async fn refuses(
    server: &RedisServer,
    refuse: impl AsyncFnOnce(&mut MultiplexedConnection),
    said: &[&str],
    mend: impl AsyncFnOnce(&mut MultiplexedConnection),
) {
    let service = Service::new(builder(&server.url()));
    let load = service.load(seed());
    service.settle().await;
    let mut conn = server.connection().await;
    refuse(&mut conn).await;
    until(&format!("health tells of {said:?}"), async || {
        let error = service.health().store.last_error.unwrap_or_default();
        said.iter().all(|said| error.contains(said))
    })
    .await;
    let served = service.oracle.served();
    // What was served a moment ago is not drained yet.
    until("it serves, flushes fail, and samples wait", async || {
        let health = service.health();
        let is_serving = service.oracle.served() > served;
        is_serving && health.flush.errors > 0 && health.recording.pending_series > 0
    })
    .await;
    mend(&mut conn).await;
    load.stop().await;
    service.end_exactly(server).await;
}

/// The same, where a command or several lines of them refuse, and one mends.
async fn refuses_by(refuse: &str, said: &[&str], mend: &str) {
    let server = RedisServer::start().await;
    let refuse = async |conn: &mut MultiplexedConnection| {
        for command in refuse.lines() {
            let () = run(conn, command).await;
        }
    };
    refuses(&server, refuse, said, async |conn| run(conn, mend).await).await;
}

#[tokio::test]
async fn a_server_out_of_memory_loses_nothing() {
    let said = ["OOM", "raise maxmemory"];
    refuses_by("CONFIG SET maxmemory 1", &said, "CONFIG SET maxmemory 0").await;
}

#[tokio::test]
async fn a_read_only_server_loses_nothing() {
    let said = ["READONLY", "point the URL to the master"];
    refuses_by("REPLICAOF 127.0.0.1 1", &said, "REPLICAOF NO ONE").await;
}

#[tokio::test]
async fn a_server_with_too_few_replicas_loses_nothing() {
    let set = |n: u8| format!("CONFIG SET min-replicas-to-write {n}");
    refuses_by(&set(1), &["NOREPLICAS", "min-replicas-to-write"], &set(0)).await;
}

#[tokio::test]
async fn a_server_that_cannot_save_loses_nothing() {
    let server = RedisServer::builder().arg("--enable-protected-configs", "yes");
    let server = server.arg("--save", "3600 1").start().await;
    let set_dir = |dir: &std::path::Path| format!("CONFIG SET dir {}", dir.display());
    refuses(
        &server,
        async |conn| {
            let gone = server.dir().join("gone");
            std::fs::create_dir(&gone).unwrap();
            let () = run(conn, &set_dir(&gone)).await;
            std::fs::remove_dir(&gone).unwrap();
            run(conn, "BGSAVE").await
        },
        &["MISCONF", "free disk space"],
        async |conn| {
            let () = run(conn, &set_dir(server.dir())).await;
            until("a save succeeds", async || {
                let _ = cmd("BGSAVE").exec_async(&mut conn.clone()).await;
                let info = server.info("persistence").await;
                info["rdb_last_bgsave_status"] == "ok"
            })
            .await;
        },
    )
    .await;
}

#[tokio::test]
async fn a_server_without_free_connections_loses_nothing() {
    // Over one connection, as the server takes no further one.
    let refuse = "CONFIG SET maxclients 1\nCLIENT KILL TYPE normal SKIPME yes";
    // The end of the connection may overtake the answer.
    refuses_by(
        refuse,
        &["Redis at 127.0.0.1:"],
        "CONFIG SET maxclients 1000",
    )
    .await;
}

#[tokio::test]
async fn a_server_that_is_loading_loses_nothing() {
    let server = RedisServer::builder()
        .arg("--key-load-delay", "1000")
        .arg("--loading-process-events-interval-bytes", "1024")
        .start()
        .await;
    let service = Service::new(builder(&server.url()));
    let load = service.load(seed());
    until("there is much to load", async || {
        service.oracle.served() > 1_000
    })
    .await;
    load.stop().await;
    service.settle().await;
    let () = server.run("SAVE").await;
    server.kill_9();
    let load = service.load(seed());
    let loading = std::cell::Cell::new(false);
    let watch = async {
        loop {
            let error = service.health().store.last_error.unwrap_or_default();
            loading.set(loading.get() || error.contains("LOADING"));
            pause(5).await;
        }
    };
    tokio::select! {
        () = server.restart() => {}
        () = watch => {}
    }
    load.stop().await;
    service.end_exactly(&server).await;
    assert!(loading.get(), "LOADING was never reported");
    assert_eq!(service.health().flush.store_resets, 0);
}

#[tokio::test]
async fn revoked_permissions_are_reported() {
    let server = RedisServer::start().await;
    let () = server.run("ACL SETUSER app on nopass ~* +@all").await;
    let url = format!("redis://app:any@127.0.0.1:{}/", server.port());
    let service = Service::new(without_flushes(&url));
    service.requests(30).await;
    service.settle().await;
    for taken in [
        "-evalsha",
        "-get",
        "-set",
        "-hincrby",
        "-zadd",
        "-hset",
        "-rename",
        "-expire",
        "-zcard",
        "-zmscore",
        "-zremrangebyrank",
    ] {
        service.requests(30).await;
        let () = server.run(&format!("ACL SETUSER app {taken}")).await;
        // A busy machine may not answer in time at first.
        until("the error names the rule", async || {
            let error = service.pulse.flush().await.expect_err(taken).to_string();
            error.contains("ACL SETUSER app")
        })
        .await;
        let () = server.run("ACL SETUSER app +@all").await;
        service.settle().await;
    }
    service.end_exactly(&server).await;
}

/// How many warnings name a key that holds something else.
fn told(service: &Service, key: &str) -> usize {
    let warnings = service.health().warnings;
    let named = format!("{key} holds something else");
    warnings.iter().filter(|it| it.contains(&named)).count()
}

/// A slice whose table is gone was told by nothing, and its requests were missing from every window.
#[tokio::test]
async fn a_table_of_records_that_is_gone_is_told_for_an_hour() {
    let server = RedisServer::start().await;
    let (clock, hand) = Clock::manual(now());
    let service = Service::new(with_clock(&server.url(), &clock));
    service.requests(24).await;
    service.settle().await;
    let gone = format!("{PREFIX}pulse:r1:60:{}", now() / 60 * 60);
    let is_told = async || {
        service.pulse.flush().await.unwrap();
        let warnings = service.health().warnings;
        warnings.iter().any(|it| it.contains(&gone))
    };
    hand.advance(Duration::from_secs(60));
    pause(600).await;
    assert!(!is_told().await);
    let () = server.run(&format!("DEL {gone}")).await;
    hand.advance(Duration::from_secs(5));
    until("the table is told", is_told).await;
    assert_eq!(service.health().conditions, [Condition::GoneTable]);
    hand.advance(Duration::from_secs(3_590));
    pause(600).await;
    assert!(is_told().await);
    hand.advance(Duration::from_secs(10));
    until("it is told no more", async || !is_told().await).await;
    service.pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn quarantined_keys_are_named_and_all_other_data_is_stored() {
    let server = RedisServer::start().await;
    // The clock stands still, so that the slices are known.
    let (clock, hand) = Clock::manual(now());
    let service = Service::new(with_clock(&server.url(), &clock));
    let mut conn = server.connection().await;
    let key = |name: &str| format!("{PREFIX}{name}");
    let hits = key(&format!("count:86400:hits:{}", context(0)));
    let stats = key(&format!("stats:{}:AccessTime", context(1)));
    let start = key(&format!("stats:{}:AccessTime:start", context(2)));
    let records = key(&format!("pulse:r1:60:{}", now() / 60 * 60));
    let poisoned = [hits, stats, start, records];
    for key in &poisoned {
        let () = issue(&mut conn, "RPUSH", (key, "poison")).await;
    }
    service.requests(240).await;
    // The flush says at once that something is dropped.
    let error = service.pulse.flush().await.unwrap_err().to_string();
    assert!(error.contains("delete the key"), "{error}");
    service.settle().await;
    let health = service.health();
    assert!(health.conditions.contains(&Condition::QuarantinedKey));
    for key in &poisoned {
        assert_eq!(told(&service, key), 1, "{key}: {:?}", health.warnings);
    }
    let named = &health.fold.quarantined_keys;
    for key in &poisoned {
        let is_named = named.iter().any(|p| p.key == *key && !p.reason.is_empty());
        assert!(is_named, "{key} not in {named:?}");
    }
    assert!(health.fold.quarantined >= 4);
    assert_eq!(health.store.last_error, None);
    assert_eq!(counter(&mut conn, "hits", 86_400).await, 240);
    for page in 1..4 {
        let name = format!("hits:{}", context(page));
        assert_eq!(counter(&mut conn, &name, 86_400).await, 10);
    }

    // Keys that are not mended stay told although nobody writes them.
    for _ in 0..3 {
        hand.advance(Duration::from_secs(5));
        service.pulse.flush().await.unwrap();
        pause(600).await;
    }
    service.pulse.flush().await.unwrap();
    assert!(poisoned.iter().all(|key| told(&service, key) == 1));

    // After the keys are deleted, new samples are accepted, and the keys are told no more.
    for key in &poisoned {
        let () = issue(&mut conn, "DEL", key).await;
    }
    hand.advance(Duration::from_secs(5));
    until("the keys are quiet", async || {
        service.pulse.flush().await.unwrap();
        let health = service.health();
        let is_quiet = |key| told(&service, key) == 0;
        health.fold.quarantined_keys.is_empty() && poisoned.iter().all(|key| is_quiet(key))
    })
    .await;
    service.requests(240).await;
    service.settle().await;
    let name = format!("hits:{}", context(0));
    assert_eq!(counter(&mut conn, &name, 86_400).await, 10);
    assert_eq!(counter(&mut conn, &name, 3_600).await, 20);
    assert_eq!(counter(&mut conn, "hits", 86_400).await, 480);
    let quarantined = service.health().fold.quarantined;
    service.requests(24).await;
    service.settle().await;
    assert_eq!(service.health().fold.quarantined, quarantined);
    service.pulse.shutdown().await.unwrap();
}
