//! Commands that the server denies during a connection, and a key that cleaning skips. Health names the remedy until
//! the fault ends, and does not blame another program.

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

/// A server with the user `app`, who may run all commands, and the options of this user.
async fn permitting_server() -> (RedisServer, MultiplexedConnection, RedisOptions) {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    let () = run(&mut conn, "ACL SETUSER app on nopass ~* +@all").await;
    let url = format!("redis://app:any@127.0.0.1:{}/", server.port());
    (server, conn, options(&url, PATIENT))
}

/// The warnings of health, and the store's last error.
fn texts_of(health: &Health) -> Vec<String> {
    let error = health.store.last_error.iter();
    health.warnings.iter().chain(error).cloned().collect()
}

/// Advances the clock second by second until the texts are as expected. Returns these texts.
async fn pass_until_texts(
    manual_clock: &ManualClock,
    goal: &str,
    mut texts: impl AsyncFnMut() -> Vec<String>,
    are_expected: impl Fn(&[String]) -> bool,
) -> Vec<String> {
    look_until(PATIENCE, async || {
        manual_clock.advance(SECOND);
        pause(20).await;
        let texts = texts().await;
        let have_passed = are_expected(&texts);
        let why = format!("{goal}: {texts:#?}");
        have_passed.then_some(texts).ok_or(why)
    })
    .await
}

/// Like [`pass_until_texts`], with the texts of a service's health.
async fn pass_until(
    service: &Service,
    manual_clock: &ManualClock,
    goal: &str,
    are_expected: impl Fn(&[String]) -> bool,
) -> Vec<String> {
    let texts = async || texts_of(&service.health());
    pass_until_texts(manual_clock, goal, texts, are_expected).await
}

/// Whether one of the texts has all of these words.
fn has_text(texts: &[String], words: &[&str]) -> bool {
    let has_words = |text: &String| words.iter().all(|word| text.contains(word));
    texts.iter().any(has_words)
}

/// Ends a service. Compares only counters by day, because slices of a second may have expired meanwhile.
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
async fn a_denied_xtrim_is_reported_and_the_journal_stays_within_its_bound() {
    let (_server, mut conn, options) = permitting_server().await;
    let (clock, manual_clock) = Clock::manual(now());
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
        manual_clock.advance(Duration::from_secs(1));
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
    let is_reported = |texts: &[String]| has_text(texts, &words);
    pass_until(&service, &manual_clock, "a warning", is_reported).await;

    // The full journal gets no entry, so there is no round. The journal must be trimmed without a round.
    let () = run(&mut conn, "ACL SETUSER app +xtrim").await;
    pass_until(&service, &manual_clock, "no warning", <[_]>::is_empty).await;
    let is_trimmed = async || entries(&mut conn.clone()).await == 0;
    until("the journal is trimmed", is_trimmed).await;
    let untrimmed: String = run(&mut conn, "HGET pulse:pulse:state untrimmed").await;
    assert_eq!(untrimmed, "");
    end_exactly(&service, &mut conn).await;
}

#[tokio::test]
async fn a_denied_command_of_a_script_is_named_and_no_other_program_is_blamed() {
    let (_server, mut conn, options) = permitting_server().await;
    // Only the instance has a manual clock: the store uses the server's own time.
    let store = RedisStore::open(options).unwrap();
    let (clock, manual_clock) = Clock::manual(now());
    let builder = Pulse::builder().store(Arc::new(store)).clock(clock);
    let service = Service::new(builder);
    service.requests(48).await;
    service.settle().await;
    for command in [
        "get", "persist", "time", "xadd", "xrange", "hincrby", "set", "evalsha", "zadd", "hset",
        "rename", "expire", "zcard", "zmscore",
    ] {
        let () = run(&mut conn, &format!("ACL SETUSER app -{command}")).await;
        service.requests(48).await;
        // Lets the instance ask for the lease again, as if another instance had folded meanwhile.
        let () = run(&mut conn, &format!("DEL {PREFIX}pulse:lease:fold")).await;
        let () = run(&mut conn, &format!("HSET {PREFIX}pulse:state v another")).await;
        let upper = command.to_uppercase();
        let texts = pass_until(&service, &manual_clock, command, |texts| {
            let name = format!("'{command}'");
            has_text(texts, &[&name, "ACL SETUSER app"])
                || has_text(texts, &[&upper, "ACL SETUSER app"])
        })
        .await;
        assert!(!has_text(&texts, &["another program"]), "{texts:#?}");
        assert!(!has_text(&texts, &["held something else"]), "{texts:#?}");
        let () = run(&mut conn, &format!("ACL SETUSER app +{command}")).await;
        pass_until(&service, &manual_clock, "no warning", <[_]>::is_empty).await;
        service.settle().await;
    }
    end_exactly(&service, &mut conn).await;
}

/// A proxy may answer any command with its own error.
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

async fn warnings_of(dashboard: &Dashboard) -> Vec<String> {
    let health = asking::json(&dashboard.router(Access::open()), "/api/health").await;
    serde_json::from_value(health["warnings"].clone()).unwrap()
}

/// Cleaning reports skipped keys only in the heartbeat of the instance that cleans.
#[tokio::test]
async fn a_dashboard_warns_of_a_key_that_cleaning_skips() {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    let (clock, manual_clock) = Clock::manual(now());
    let builder = with_clock(&server.url(), &clock).flush_interval(SECOND);
    let service = Service::new(builder.clean_interval(SECOND));
    service.requests(48).await;
    service.settle().await;
    let dashboard = Dashboard::builder().redis(server.url()).prefix(PREFIX);
    let dashboard = dashboard.clock(clock).build().unwrap();
    let words = ["cleaning skips", "bage` is not {precision}:{name}"];
    for (command, is_added) in [("ZADD", true), ("ZREM", false)] {
        let score = if is_added { "0 " } else { "" };
        let command = format!("{command} {PREFIX}known: {score}gar\u{7}bage");
        let () = run(&mut conn, &command).await;
        let are_expected = |texts: &[String]| has_text(texts, &words) == is_added;
        pass_until(&service, &manual_clock, &command, are_expected).await;
        let texts = async || warnings_of(&dashboard).await;
        let texts = pass_until_texts(&manual_clock, &command, texts, are_expected).await;
        assert!(!texts.concat().contains(char::is_control), "{texts:?}");
    }
    end_exactly(&service, &mut conn).await;
}
