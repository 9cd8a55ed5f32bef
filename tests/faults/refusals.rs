//! A server that answers and refuses. Health says why and what to do, the service goes on, and no sample is
//! lost.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cmd;
use tower_pulse::Clock;
use tower_pulse::Condition;
use tower_pulse::store::redis::{RedisOptions, RedisStore};

use crate::hours::{now, with_clock};
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::service::{PREFIX, Service, builder, context, counter, pause, without_flushes};

async fn config(conn: &mut MultiplexedConnection, name: &str, value: &str) {
    let mut command = cmd("CONFIG");
    command.arg("SET").arg(name).arg(value);
    command.exec_async(conn).await.unwrap();
}

async fn command(conn: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = cmd(words[0]);
    command.arg(&words[1..]).exec_async(conn).await.unwrap();
}

/// Under load, `refuse` makes the server refuse with all of the texts `said`, and `mend` makes it accept
/// calls again.
async fn refuses(
    server: RedisServer,
    refuse: impl AsyncFnOnce(&RedisServer, &mut MultiplexedConnection),
    said: &[&str],
    mend: impl AsyncFnOnce(&RedisServer, &mut MultiplexedConnection),
) {
    let service = Service::new(builder(&server.url()));
    let load = service.load(seed());
    service.settle().await;
    let mut conn = server.connection().await;
    refuse(&server, &mut conn).await;
    until(&format!("health tells of {said:?}"), async || {
        let error = service.health().store.last_error.unwrap_or_default();
        said.iter().all(|said| error.contains(said))
    })
    .await;
    let served = service.oracle.served();
    until("it goes on serving", async || {
        service.oracle.served() > served
    })
    .await;
    // What was served a moment ago is not drained yet.
    until("flushes fail, and samples wait", async || {
        let health = service.health();
        health.flush.errors > 0 && health.recording.pending_series > 0
    })
    .await;
    mend(&server, &mut conn).await;
    load.stop().await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn a_server_out_of_memory_loses_nothing() {
    refuses(
        RedisServer::start().await,
        async |_, conn| config(conn, "maxmemory", "1").await,
        &["OOM", "raise maxmemory"],
        async |_, conn| config(conn, "maxmemory", "0").await,
    )
    .await;
}

#[tokio::test]
async fn a_read_only_server_loses_nothing() {
    refuses(
        RedisServer::start().await,
        async |_, conn| command(conn, &["REPLICAOF", "127.0.0.1", "1"]).await,
        &["READONLY", "point the URL to the master"],
        async |_, conn| command(conn, &["REPLICAOF", "NO", "ONE"]).await,
    )
    .await;
}

#[tokio::test]
async fn a_server_with_too_few_replicas_loses_nothing() {
    refuses(
        RedisServer::start().await,
        async |_, conn| config(conn, "min-replicas-to-write", "1").await,
        &["NOREPLICAS", "min-replicas-to-write"],
        async |_, conn| config(conn, "min-replicas-to-write", "0").await,
    )
    .await;
}

#[tokio::test]
async fn a_server_that_cannot_save_loses_nothing() {
    let server = RedisServer::builder().arg("--enable-protected-configs", "yes");
    refuses(
        server.start().await,
        async |server, conn| {
            config(conn, "save", "3600 1").await;
            let gone = server.dir().join("gone");
            std::fs::create_dir(&gone).unwrap();
            config(conn, "dir", gone.to_str().unwrap()).await;
            std::fs::remove_dir(&gone).unwrap();
            command(conn, &["BGSAVE"]).await;
        },
        &["MISCONF", "free disk space"],
        async |server, conn| {
            config(conn, "dir", server.dir().to_str().unwrap()).await;
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
    refuses(
        RedisServer::start().await,
        async |_, conn| {
            config(conn, "maxclients", "1").await;
            // Over this connection, as the server takes no further one.
            command(conn, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        },
        // The end of the connection may overtake the answer.
        &["Redis at 127.0.0.1:"],
        async |_, conn| config(conn, "maxclients", "1000").await,
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
    command(&mut server.connection().await, &["SAVE"]).await;
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
async fn a_missing_password_is_reported() {
    let server = RedisServer::builder().password("hunter2").start().await;
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let service = Service::new(without_flushes(&url));
    service.requests(50).await;
    service.pulse.flush().await.unwrap_err();
    let health = service.health();
    assert_eq!(health.status.as_str(), "down");
    let error = health.store.last_error.unwrap();
    assert!(error.contains("put it into the URL"), "{error}");
    let mut conn = server.connection().await;
    config(&mut conn, "requirepass", "").await;
    service.settle().await;
    assert_eq!(service.health().status.as_str(), "ok");

    // A wrong password is not shown.
    config(&mut conn, "requirepass", "hunter2").await;
    let url = format!("redis://:hunter3@127.0.0.1:{}/", server.port());
    let wrong = Service::new(without_flushes(&url));
    wrong.requests(1).await;
    wrong.pulse.flush().await.unwrap_err();
    let health = wrong.health();
    let error = health.store.last_error.clone().unwrap();
    assert!(error.contains("password is wrong"), "{error}");
    assert!(!format!("{health:?} {:?}", wrong.pulse).contains("hunter3"));
}

#[tokio::test]
async fn missing_permissions_are_reported_with_the_acl_rule() {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    let allow_no_scripts = "+@all -eval -evalsha";
    let mut rule = vec!["ACL", "SETUSER", "app", "on", ">hunter2", "~*"];
    rule.extend(allow_no_scripts.split(' '));
    command(&mut conn, &rule).await;

    let url = format!("redis://app:hunter2@127.0.0.1:{}/", server.port());
    // The retry goes by the clock of the pulse; the server has its own time.
    let (clock, hand) = Clock::manual(now());
    let options = RedisOptions::new(&url).unwrap().prefix(PREFIX).unwrap();
    let store = RedisStore::open(options).unwrap();
    let builder = tower_pulse::Pulse::builder().store(Arc::new(store));
    let service = Service::new(builder.clock(clock));
    service.requests(60).await;
    until("a flush has failed", async || {
        let has_failed = service.health().flush.errors > 0;
        if !has_failed {
            hand.advance(Duration::from_secs(1));
        }
        has_failed
    })
    .await;
    let health = service.health();
    assert_eq!(health.status.as_str(), "down");
    let error = health.store.last_error.unwrap();
    assert!(!error.contains("hunter2"));

    // Tries that fail lose nothing.
    for _ in 0..5 {
        service.requests(10).await;
        hand.advance(Duration::from_secs(1));
        until("they are drained", async || {
            let health = service.health();
            health.recording.recorded == service.oracle.served()
        })
        .await;
    }
    assert!(service.health().store.last_error.is_some());

    // The ACL rule in the message is sufficient.
    let rule = &error[error.find("ACL SETUSER app").expect("a rule")..];
    command(&mut conn, &["ACL", "SETUSER", "app", "resetkeys", "-@all"]).await;
    command(&mut conn, &rule.split_whitespace().collect::<Vec<_>>()).await;
    hand.advance(Duration::from_secs(2));
    until("it has recovered", async || {
        let health = service.health();
        health.status.as_str() == "ok" && health.store.last_error.is_none()
    })
    .await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn revoked_permissions_are_reported() {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    command(
        &mut conn,
        &["ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all"],
    )
    .await;
    let url = format!("redis://app:any@127.0.0.1:{}/", server.port());
    let service = Service::new(without_flushes(&url));
    service.requests(30).await;
    service.settle().await;
    for taken in [
        "-evalsha", "-get", "-set", "-hincrby", "-zadd", "-hset", "-rename",
    ] {
        service.requests(30).await;
        command(&mut conn, &["ACL", "SETUSER", "app", taken]).await;
        // A busy machine may not answer in time at first.
        until("the error names the rule", async || {
            let error = service.pulse.flush().await.expect_err(taken).to_string();
            error.contains("ACL SETUSER app")
        })
        .await;
        command(&mut conn, &["ACL", "SETUSER", "app", "+@all"]).await;
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
    command(&mut server.connection().await, &["DEL", &gone]).await;
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
        command(&mut conn, &["RPUSH", key, "poison"]).await;
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
    let named: Vec<_> = health
        .fold
        .quarantined_keys
        .iter()
        .map(|p| &p.key)
        .collect();
    for key in &poisoned {
        assert!(named.contains(&key), "{key} not in {named:?}");
    }
    let reasons: Vec<_> = health
        .fold
        .quarantined_keys
        .iter()
        .map(|p| &p.reason)
        .collect();
    assert!(reasons.iter().all(|reason| !reason.is_empty()));
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
        command(&mut conn, &["DEL", key]).await;
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
