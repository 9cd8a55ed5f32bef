//! A server that refuses commands. Health gives the cause and the remedy, the service continues, and no sample is lost.

use std::time::Duration;

use tower_pulse::Clock;
use tower_pulse::Condition;

use crate::faults::service::{
    PAGES, PATIENT, PREFIX, Service, builder, by_day, context, now, options, pause, with_clocks,
    without_flushes,
};
use crate::rig::seed::seed;
use crate::rig::server::{RedisServer, issue, run};
use crate::rig::wait::until;

/// A command that makes a server refuse calls, parts of the error, and a command that ends the refusal. In the last
/// refusal, the server accepts no new connection, so the test sends all commands over one connection. The error may
/// then come from the ended connection, and lack the server's reason.
const REFUSALS: [(&str, [&str; 2], &str); 5] = [
    (
        "CONFIG SET min-replicas-to-write 1",
        ["NOREPLICAS", "min-replicas-to-write"],
        "CONFIG SET min-replicas-to-write 0",
    ),
    (
        "CONFIG SET maxmemory 1",
        ["OOM", "raise maxmemory"],
        "CONFIG SET maxmemory 0",
    ),
    (
        "REPLICAOF 127.0.0.1 1",
        ["READONLY", "point the URL to the primary"],
        "REPLICAOF NO ONE",
    ),
    (
        "BGSAVE",
        ["MISCONF", "free disk space"],
        "CONFIG SET stop-writes-on-bgsave-error no",
    ),
    (
        "CONFIG SET maxclients 1\nCLIENT KILL TYPE normal SKIPME yes",
        ["Redis at 127.0.0.1:", ""],
        "CONFIG SET maxclients 1000",
    ),
];

#[tokio::test]
async fn a_server_that_refuses_for_a_while_loses_nothing() {
    let server = RedisServer::start().await;
    // A directory with the name of the file makes each save fail.
    std::fs::create_dir(server.dir().join("dump.rdb")).unwrap();
    let service = Service::new(builder(&server.url()));
    let load = service.load(seed());
    service.settle().await;
    let mut conn = server.connection().await;
    // Redis 6.2 ignores this setting on its command line.
    let () = issue(&mut conn, "CONFIG", ("SET", "save", "3600 1")).await;
    for (refuse, texts, repair) in REFUSALS {
        let errors = service.health().flush.errors;
        for command in refuse.lines() {
            let () = run(&mut conn, command).await;
        }
        until(refuse, async || {
            let error = service.health().store.last_error.unwrap_or_default();
            texts.iter().all(|text| error.contains(text))
        })
        .await;
        let served = service.oracle.served();
        // Samples wait only after the next drain.
        until("flushes fail, and samples wait", async || {
            let health = service.health();
            let is_serving = service.oracle.served() > served;
            is_serving && health.flush.errors > errors && health.recording.pending_series > 0
        })
        .await;
        let () = run(&mut conn, repair).await;
        service.flushed_again().await;
    }
    load.stop().await;
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn samples_wait_for_a_server_that_is_loading() {
    let slow = RedisServer::builder().arg("--key-load-delay", "4000");
    let slow = slow.arg("--loading-process-events-interval-bytes", "1024");
    let server = slow.start().await;
    let service = Service::new(without_flushes(&server.url()));
    service.requests(PAGES).await;
    service.settle().await;
    let () = server.run("SAVE").await;
    server.kill_9();
    let load = service.load(seed());
    let refused = until("health says that the server is loading", async || {
        let _ = service.pulse.flush().await;
        let error = service.health().store.last_error.unwrap_or_default();
        error.contains("LOADING") && error.contains("it will be ready by itself")
    });
    tokio::join!(server.restart(), refused);
    load.stop().await;
    service.end_exactly(&server).await;
    assert_eq!(service.health().flush.store_resets, 0);
}

/// The number of warnings that a key holds something else.
fn warnings_about(service: &Service, key: &str) -> usize {
    let warnings = service.health().warnings;
    let text = format!("{key} holds something else");
    let about = warnings.iter().filter(|warning| warning.contains(&text));
    about.count()
}

/// If the table of a slice is missing, the slice's requests are missing from every window.
#[tokio::test]
async fn a_missing_table_of_records_is_reported_for_an_hour() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(now());
    let service = Service::new(with_clocks(options(&server.url(), PATIENT), &clock, &clock));
    service.requests(24).await;
    service.settle().await;
    let gone = format!("{PREFIX}pulse:r1:60:{}", now() / 60 * 60);
    let is_reported = async || {
        service.pulse.flush().await.unwrap();
        let warnings = service.health().warnings;
        warnings.iter().any(|warning| warning.contains(&gone))
    };
    manual_clock.advance(Duration::from_secs(60));
    pause(600).await;
    assert!(!is_reported().await);
    let () = server.run(&format!("DEL {gone}")).await;
    manual_clock.advance(Duration::from_secs(5));
    until("a warning names the table", is_reported).await;
    assert_eq!(service.health().conditions, [Condition::GoneTable]);
    manual_clock.advance(Duration::from_secs(3_590));
    pause(600).await;
    assert!(is_reported().await);
    manual_clock.advance(Duration::from_secs(10));
    until("the warning ends", async || !is_reported().await).await;
    service.pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn quarantined_keys_are_named_and_all_other_data_is_stored() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(now());
    let service = Service::new(with_clocks(options(&server.url(), PATIENT), &clock, &clock));
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
    // The flush reports at once that data was omitted.
    let error = service.pulse.flush().await.unwrap_err().to_string();
    assert!(error.contains("delete the key"), "{error}");
    service.settle().await;
    let health = service.health();
    assert!(health.conditions.contains(&Condition::QuarantinedKey));
    let named = &health.fold.quarantined_keys;
    for key in &poisoned {
        let count = warnings_about(&service, key);
        assert_eq!(count, 1, "{key}: {:?}", health.warnings);
        let is_named = named.iter().any(|p| p.key == *key && !p.reason.is_empty());
        assert!(is_named, "{key} not in {named:?}");
    }
    assert!(health.fold.quarantined >= 4);
    assert_eq!(health.store.last_error, None);
    assert_eq!(by_day(&mut conn, "hits").await, 240);

    // The warnings about these keys stay, even without new samples.
    for _ in 0..3 {
        manual_clock.advance(Duration::from_secs(5));
        service.pulse.flush().await.unwrap();
        pause(600).await;
    }
    service.pulse.flush().await.unwrap();
    let has_one = |key| warnings_about(&service, key) == 1;
    assert!(poisoned.iter().all(|key| has_one(key)));

    for key in &poisoned {
        let () = issue(&mut conn, "DEL", key).await;
    }
    manual_clock.advance(Duration::from_secs(5));
    until("the warnings about the keys end", async || {
        service.pulse.flush().await.unwrap();
        let health = service.health();
        let has_none = |key| warnings_about(&service, key) == 0;
        health.fold.quarantined_keys.is_empty() && poisoned.iter().all(|key| has_none(key))
    })
    .await;
    service.requests(240).await;
    service.settle().await;
    let name = format!("hits:{}", context(0));
    assert_eq!(by_day(&mut conn, &name).await, 10);
    assert_eq!(by_day(&mut conn, "hits").await, 480);
    service.pulse.shutdown().await.unwrap();
}
