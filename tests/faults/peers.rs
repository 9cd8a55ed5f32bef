//! Answers of a peer that is not a Redis, or of a Redis that was tampered with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tower_pulse::StoreErrorKind;
use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse_core::store::{Append, Store};
use tower_pulse_model::context::{ContextId, Kind};

use crate::rig::log::Log;
use crate::rig::peer::{Answer, Peer, Script};
use crate::rig::reads::StoreReads;
use crate::rig::wait::until;
use crate::service::{Service, builder, with_response_timeout, without_flushes};

const HELLO: &str = "*3\r\n$1\r\ng\r\n:0\r\n:0\r\n";
const MIB: u64 = 1 << 20;

fn store(peer: &Peer, timeout: Duration) -> RedisStore {
    let options = RedisOptions::new(&peer.url()).unwrap();
    RedisStore::open(options.response_timeout(timeout)).unwrap()
}

/// A peer sends answers that never end, to every request or only to scripts. The kernel's buffers hold
/// somewhat more than the process reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_answer_is_given_up() {
    for flood in [
        Answer::Flood(b"$9999999999\r\n", b"A"),
        Answer::Flood(b"+", b"A"),
        Answer::Flood(b"-ERR ", b"A"),
        Answer::Flood(b"*999999999\r\n", b":1\r\n"),
        Answer::Flood(b"*999999999\r\n", b"*1\r\n:1\r\n"),
    ] {
        for is_greeting in [true, false] {
            let answer = flood.clone();
            let peer = match is_greeting {
                true => Peer::start(move |_| answer.clone()).await,
                false => Peer::start_with_scripts(move |_| answer.clone()).await,
            };
            let store = store(&peer, Duration::from_secs(5));
            let error = store.hello().await.unwrap_err();
            assert!(error.to_string().contains("MiB was given up"), "{error}");
            let most = peer.most_sent() / MIB;
            assert!(most <= 32, "{most} MiB of {flood:?} were taken");
        }
    }
}

/// A part of an answer takes memory, and more may come.
#[tokio::test]
async fn a_connection_with_bytes_under_way_is_given_up_at_the_first_timeout() {
    let peer = Peer::start_with_scripts(|_| "$100\r\nsome".into()).await;
    let store = store(&peer, Duration::from_millis(50));
    for connections in 1..4 {
        let error = store.hello().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
        assert_eq!(peer.connections(), connections);
    }
}

/// The answers of a large store are within the limits.
#[tokio::test]
async fn a_large_answer_is_read() {
    let generation = "g".repeat(1_000_000);
    let hello = format!("*3\r\n$1000000\r\n{generation}\r\n:0\r\n:0\r\n");
    let peer = Peer::start_with_scripts(move |_| hello.as_str().into()).await;
    let store = store(&peer, Duration::from_secs(5));
    for _ in 0..10 {
        assert_eq!(store.hello().await.unwrap().id, generation);
    }
    assert_eq!(peer.connections(), 1);
}

/// Three rounds of answers without progress count as failures. Health shows them, and the next round waits.
#[tokio::test]
async fn answers_without_progress_are_failures() {
    let turn = Arc::new(AtomicU64::new(0));
    let position = "$3\r\n5-1\r\n$3\r\n0-0\r\n:1\r\n";
    let answers: [Box<dyn Fn() -> Answer + Send + Sync>; 3] = [
        Box::new(|| "*1\r\n$5\r\nRESET\r\n".into()),
        Box::new(move || {
            format!("*4\r\n$9\r\nDUPLICATE\r\n{position}")
                .as_str()
                .into()
        }),
        Box::new(move || {
            let fence = turn.fetch_add(1, SeqCst) % 2 + 7;
            format!("*3\r\n$3\r\nGAP\r\n$1\r\n{fence}\r\n:1\r\n")
                .as_str()
                .into()
        }),
    ];
    for answer in answers {
        let (log, _guard) = Log::start();
        let appends = Arc::new(AtomicU64::new(0));
        let counted = appends.clone();
        let peer = Peer::start_with_scripts(move |script| match script {
            Script::Hello => HELLO.into(),
            Script::Append => {
                counted.fetch_add(1, SeqCst);
                answer()
            }
            Script::Acquire => "*1\r\n$4\r\nHELD\r\n".into(),
            Script::Other => "*1\r\n$5\r\nSTALE\r\n".into(),
        })
        .await;
        let service = Service::new(builder(&peer.url()));
        until("it has failed five times", async || {
            service.requests(1).await;
            service.health().flush.errors >= 5
        })
        .await;
        let health = service.health();
        let (appends, failures) = (appends.load(SeqCst), health.flush.errors);
        assert!(appends <= 5 * (failures + 1), "{appends} for {failures}");
        let error = health.store.last_error.clone().unwrap();
        assert!(error.contains("again and again"), "{error}");
        assert_eq!(health.recording.dropped, 0);
        let lines = log.text().lines().count() as u64;
        assert!(lines <= 5 * (failures + 2), "{lines} for {failures}");
        until("health is not ok", async || {
            service.requests(1).await;
            service.health().status.as_str() != "ok"
        })
        .await;
    }
}

/// Texts of the peer are shown on one line, and cut.
#[tokio::test]
async fn texts_of_the_peer_are_shown_on_one_short_line() {
    let long = "x".repeat(100_000);
    for answer in [
        format!("-ERR bad\n2026-11-22T00:00:00Z  WARN forged: \u{1b}[31m{long}\r\n"),
        format!("-NOPERM bad\nFORGED {long}\r\n"),
        format!("-OOM bad\nFORGED {long}\r\n"),
        format!("-FORGED\n{long}\r\n"),
        // The client reports on several lines where it stopped to understand the answer.
        format!("?FORGED\n{long}\r\n"),
        format!(":bad\nFORGED {long}\r\n"),
    ] {
        let (log, _guard) = Log::start();
        let text = answer.clone();
        let peer = Peer::start_with_scripts(move |_| text.as_str().into()).await;
        let service = Service::new(without_flushes(&peer.url()));
        service.requests(3).await;
        let error = service.pulse.flush().await.unwrap_err();
        until("folding has failed", async || {
            !service.health().warnings.is_empty()
        })
        .await;
        let health = service.health();
        let mut texts = vec![error.to_string(), health.store.last_error.clone().unwrap()];
        texts.extend(health.warnings);
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            texts.push(error.to_string());
            source = error.source();
        }
        for text in texts {
            assert!(!text.contains(char::is_control), "{text:?}");
            // The advice is the crate's own text; the rule for an ACL is the longest.
            let said = text.split("ACL SETUSER").next().unwrap();
            assert!(
                said.chars().count() <= 1_000,
                "{} of {answer:.40}",
                text.len()
            );
        }
        log.assert_whole_lines();
        assert!(log.text().len() < 20_000);
    }
}

/// The same holds for the version in INFO.
#[tokio::test]
async fn the_version_is_shown_on_one_short_line() {
    let version = format!("1\u{1b}[31m\u{202e}{}", "9".repeat(1_000));
    let info = format!("redis_version:{version}\r\nmaxmemory_policy:\u{1b}{version}\r\n");
    let info = format!("${}\r\n{info}\r\n", info.len());
    let peer = Peer::start(move |words| match &*words[0] {
        b"INFO" => info.as_str().into(),
        b"EVALSHA" => HELLO.into(),
        _ => ":1\r\n".into(),
    })
    .await;
    let store = Arc::new(store(&peer, Duration::from_secs(5)));
    store.hello().await.unwrap();
    let mut texts = store.warnings();
    texts.push(store.describe());
    assert!(texts.len() > 1, "{texts:?}");
    for text in texts {
        let is_plain = |c: char| !c.is_control() && c != '\u{202e}';
        assert!(text.chars().all(is_plain), "{text:?}");
        assert!(text.chars().count() < 1_500, "{}", text.len());
    }
}

#[tokio::test]
async fn a_service_goes_on_after_a_flood() {
    let is_hostile = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let hostile = is_hostile.clone();
    let peer = Peer::start_with_scripts(move |script| match script {
        _ if hostile.load(SeqCst) => Answer::Flood(b"$9999999999\r\n", b"A"),
        Script::Hello => HELLO.into(),
        Script::Append => "*4\r\n$4\r\nDONE\r\n$3\r\n5-1\r\n$3\r\n5-1\r\n:1\r\n".into(),
        _ => "*1\r\n$4\r\nHELD\r\n".into(),
    })
    .await;
    let options = with_response_timeout(&peer.url(), Duration::from_secs(2));
    let service = Service::new(options.flush_interval(Duration::from_millis(20)));
    service.requests(3).await;
    until("it has failed", async || service.health().flush.errors > 1).await;
    let error = service.health().store.last_error.unwrap();
    assert!(error.contains("MiB was given up"), "{error}");
    is_hostile.store(false, SeqCst);
    until("it goes on", async || {
        let health = service.health();
        health.recording.pending_series == 0 && health.store.last_error.is_none()
    })
    .await;
}

/// A key whose answer takes too long is left out, like one that is too large.
#[tokio::test]
async fn a_key_that_takes_too_long_is_left_out() {
    let slow = "pulse:r1:60:1699999980";
    let peer = Peer::start(move |words| match &*words[0] {
        b"INFO" => "$-1\r\n".into(),
        b"HGET" | b"HMGET" if words[1] == slow.as_bytes() => {
            Answer::Bytes([b"$9999999\r\n", &vec![b'x'; MIB as usize][..]].concat())
        }
        _ => ":1\r\n".into(),
    })
    .await;
    let store = store(&peer, Duration::from_secs(1));
    for _ in 0..3 {
        let records = store.records_in(&page(), 60, 1_700_000_000).await.unwrap();
        assert_eq!(records, []);
    }
    let warnings = store.warnings();
    assert!(
        warnings.iter().any(|text| text.contains(slow)),
        "{warnings:?}"
    );
    assert!(peer.connections() <= 6, "{}", peer.connections());
}

/// The one context that is read.
fn page() -> [ContextId; 1] {
    [ContextId::new(Kind::Http, "GET /")]
}

/// If every key seems to be too large, the keys are not read one by one each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_all_too_large_are_read_once_a_minute() {
    let peer = Peer::start(|words| match &*words[0] {
        b"INFO" => "$-1\r\n".into(),
        b"ZREVRANGE" => "*1\r\n$1\r\na\r\n".into(),
        b"GETRANGE" | b"ZRANGE" | b"HGET" | b"HMGET" => Answer::Flood(b"$9999999999\r\n", b"A"),
        _ => ":1\r\n".into(),
    })
    .await;
    let store = store(&peer, Duration::from_secs(5));
    // The keys of one context are left out, one by one, and then no request is sent for them.
    let snapshot = store.snapshot(7).await.unwrap();
    assert!(!snapshot.problems.is_empty());
    // The second pass reads the fields of the keys that were too large in the first one.
    assert!(!store.snapshot(7).await.unwrap().problems.is_empty());
    let connections = peer.connections();
    assert!(connections <= 40, "{connections}");
    for _ in 0..5 {
        assert!(!store.snapshot(7).await.unwrap().problems.is_empty());
    }
    assert!(
        peer.connections() <= connections + 1,
        "{connections} {}",
        peer.connections()
    );
    // The number of requests is bounded.
    let peer = Peer::start(|words| match &*words[0] {
        b"HGET" | b"HMGET" => Answer::Flood(b"$9999999999\r\n", b"A"),
        _ => ":1\r\n".into(),
    })
    .await;
    let store = self::store(&peer, Duration::from_secs(5));
    store
        .records_in(&page(), 60, 1_700_000_000)
        .await
        .unwrap_err();
    let connections = peer.connections();
    assert!(connections <= 40, "{connections}");
    for _ in 0..5 {
        store
            .records_in(&page(), 60, 1_700_000_000)
            .await
            .unwrap_err();
    }
    let more = peer.connections() - connections;
    assert!(more <= 10, "{more}");
}
