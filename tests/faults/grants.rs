//! Commands that are denied during a connection, and a key that cleaning skips. Health names the remedy until the fault
//! ends, and does not blame another program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Dashboard, Health, ManualClock, Pulse};
use tower_pulse_core::store::{Store, Upkeep};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::faults::service::{
    PATIENT, PREFIX, Service, Stored, now, options, pause, with_clock, with_clocks,
};
use crate::rig::asking;
use crate::rig::peer::Peer;
use crate::rig::reads;
use crate::rig::server::{RedisServer, run};
use crate::rig::wait::{PATIENCE, look_until, until};

const SECOND: Duration = Duration::from_secs(1);

/// A server with the user `app`, who may do everything, and the options of that user.
async fn permitting() -> (RedisServer, MultiplexedConnection, RedisOptions) {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    let () = run(&mut conn, "ACL SETUSER app on nopass ~* +@all").await;
    let url = format!("redis://app:any@127.0.0.1:{}/", server.port());
    (server, conn, options(&url, PATIENT))
}

/// The warnings of health, and the store's last error.
fn told(health: &Health) -> Vec<String> {
    let error = health.store.last_error.iter();
    health.warnings.iter().chain(error).cloned().collect()
}

/// Passes seconds until the texts from `told` pass.
async fn pass_until_told(
    hand: &ManualClock,
    what: &str,
    mut told: impl AsyncFnMut() -> Vec<String>,
    condition: impl Fn(&[String]) -> bool,
) -> Vec<String> {
    look_until(PATIENCE, async || {
        hand.advance(SECOND);
        pause(20).await;
        let told = told().await;
        let is_so = condition(&told);
        let why = format!("{what}: {told:#?}");
        is_so.then_some(told).ok_or(why)
    })
    .await
}

/// Like [`pass_until_told`], with the texts of a service's health.
async fn pass_until(
    service: &Service,
    hand: &ManualClock,
    what: &str,
    condition: impl Fn(&[String]) -> bool,
) -> Vec<String> {
    pass_until_told(hand, what, async || told(&service.health()), condition).await
}

fn is_told(told: &[String], words: &[&str]) -> bool {
    told.iter()
        .any(|text| words.iter().all(|word| text.contains(word)))
}

/// Ends a service. Compares only counters by day, as slices of a second may have expired meanwhile.
async fn end_exactly(service: &Service, conn: &mut MultiplexedConnection) {
    service.end().await;
    service.assert_well();
    assert!((service.health().completeness - 1.0).abs() < f64::EPSILON);
    let stored = Stored::read(conn).await;
    let served = service.oracle.served() as i64;
    assert_eq!((stored.total(), stored.by_page()), (served, served));
}

async fn entries(conn: &mut MultiplexedConnection) -> u64 {
    run(conn, "XLEN pulse:pulse:journal").await
}

#[tokio::test]
async fn a_denied_xtrim_is_told_and_the_journal_stays_within_its_bound() {
    let (_server, mut conn, options) = permitting().await;
    let (clock, hand) = Clock::manual(now());
    let builder = with_clocks(options.journal_bytes(20_000), &clock, &clock);
    let service = Service::new(builder.flush_interval(SECOND));
    service.requests(48).await;
    service.settle().await;
    let () = run(&mut conn, "ACL SETUSER app -xtrim").await;
    const TRIMMED: &str = "HGET pulse:pulse:state trimmed";
    let before = run::<String>(&mut conn, TRIMMED).await;
    let mut flushes = 0;
    loop {
        service.requests(48).await;
        hand.advance(Duration::from_secs(1));
        match service.pulse.flush().await {
            Ok(()) => flushes += 1,
            Err(error) => {
                assert!(error.to_string().contains("full"), "{error}");
                break;
            }
        }
        assert!(flushes < 300, "the bound of the journal does not hold");
    }
    assert!(flushes > 1, "the journal is folded meanwhile");
    assert!(entries(&mut conn).await > 1);
    assert_eq!(run::<String>(&mut conn, TRIMMED).await, before);
    let words = ["XTRIM", "ACL SETUSER app +xtrim"];
    pass_until(&service, &hand, "it is told", |told| is_told(told, &words)).await;

    // The full journal gets no entry, so there is no round. The journal must be trimmed without one.
    let () = run(&mut conn, "ACL SETUSER app +xtrim").await;
    pass_until(&service, &hand, "it is quiet", <[_]>::is_empty).await;
    until("the journal is trimmed", async || {
        entries(&mut conn.clone()).await == 0
    })
    .await;
    let untrimmed: String = run(&mut conn, "HGET pulse:pulse:state untrimmed").await;
    assert_eq!(untrimmed, "");
    end_exactly(&service, &mut conn).await;
}

#[tokio::test]
async fn a_command_that_a_script_is_denied_is_named_and_no_other_program_is_blamed() {
    let (_server, mut conn, options) = permitting().await;
    // The store uses the server's own time.
    let store = RedisStore::open(options).unwrap();
    let (clock, hand) = Clock::manual(now());
    let builder = Pulse::builder().store(Arc::new(store)).clock(clock);
    let service = Service::new(builder);
    service.requests(48).await;
    service.settle().await;
    let of_scripts = ["get", "persist", "time", "xadd", "xrange", "hincrby", "set"];
    let of_keys = [
        "evalsha", "zadd", "hset", "rename", "expire", "zcard", "zmscore",
    ];
    for command in of_scripts.into_iter().chain(of_keys) {
        let () = run(&mut conn, &format!("ACL SETUSER app -{command}")).await;
        service.requests(48).await;
        // Lets the instance ask for the lease again, as if another instance had folded meanwhile.
        let () = run(&mut conn, &format!("DEL {PREFIX}pulse:lease:fold")).await;
        let () = run(&mut conn, &format!("HSET {PREFIX}pulse:state v another")).await;
        let upper = command.to_uppercase();
        let told = pass_until(&service, &hand, command, |told| {
            let name = format!("'{command}'");
            is_told(told, &[&name, "ACL SETUSER app"])
                || is_told(told, &[&upper, "ACL SETUSER app"])
        })
        .await;
        assert!(!is_told(&told, &["another program"]), "{told:#?}");
        assert!(!is_told(&told, &["held something else"]), "{told:#?}");
        let () = run(&mut conn, &format!("ACL SETUSER app +{command}")).await;
        pass_until(&service, &hand, "it is quiet", <[_]>::is_empty).await;
        service.settle().await;
    }
    end_exactly(&service, &mut conn).await;
}

/// For example, a proxy may answer any command with an error of its own.
#[tokio::test]
async fn an_error_that_is_not_about_the_type_of_a_key_deletes_nothing() {
    let deleted = Arc::new(AtomicBool::new(false));
    let seen = deleted.clone();
    let peer = Peer::start(move |words| match &*words[0] {
        b"INFO" => "$21\r\nredis_version:7.2.0\r\n\r\n".into(),
        b"DEL" if !words[1].ends_with(b":probe") => {
            seen.store(true, SeqCst);
            ":1\r\n".into()
        }
        b"HSET" | b"ZADD" | b"HSCAN" | b"HMGET" | b"GETRANGE" => {
            "-ERR no backend is available\r\n".into()
        }
        _ => ":1\r\n".into(),
    })
    .await;
    let store = RedisStore::open(options(&peer.url(), PATIENT)).unwrap();
    let heartbeat = reads::heartbeat("a", now());
    let error = store.heartbeat(&heartbeat).await.unwrap_err().to_string();
    assert!(error.contains("no backend is available"), "{error}");
    store.status(now()).await.unwrap_err();
    assert!(!deleted.load(SeqCst));
    assert_eq!(store.warnings(), Vec::<String>::new());
}

/// The warnings of a dashboard.
async fn told_by(dashboard: &Dashboard) -> Vec<String> {
    let health = asking::json(&dashboard.router(Access::open()), "/api/health").await;
    serde_json::from_value(health["warnings"].clone()).unwrap()
}

/// Cleaning reports skipped keys only in the heartbeat of the instance that cleans.
#[tokio::test]
async fn a_key_that_cleaning_skips_is_told_by_a_dashboard() {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    let (clock, hand) = Clock::manual(now());
    let builder = with_clock(&server.url(), &clock).flush_interval(SECOND);
    let service = Service::new(builder.clean_interval(SECOND));
    service.requests(48).await;
    service.settle().await;
    let dashboard = Dashboard::builder().redis(server.url()).prefix(PREFIX);
    let dashboard = dashboard.clock(clock).build().unwrap();
    let words = ["cleaning skips", "bage` is not {precision}:{name}"];
    for (command, is_there) in [("ZADD", true), ("ZREM", false)] {
        let score = if is_there { "0 " } else { "" };
        let command = format!("{command} {PREFIX}known: {score}gar\u{7}bage");
        let () = run(&mut conn, &command).await;
        let is_so = |told: &[String]| is_told(told, &words) == is_there;
        pass_until(&service, &hand, &command, is_so).await;
        let told = async || told_by(&dashboard).await;
        let told = pass_until_told(&hand, &command, told, is_so).await;
        assert!(!told.concat().contains(char::is_control), "{told:?}");
    }
    end_exactly(&service, &mut conn).await;
}
