//! Answers of a peer that is not a Redis, or of a Redis that was tampered with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tower_pulse_core::store::{Append, Query, Upkeep};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::log::Log;
use crate::rig::peer::{Answer, Peer, Script};
use crate::rig::reads::StoreReads;
use crate::rig::wait::until;
use crate::service::{Service, builder, without_flushes};

const HELLO: &str = "*3\r\n$1\r\ng\r\n:0\r\n:0\r\n";

fn store(peer: &Peer, timeout: Duration) -> RedisStore {
    let options = RedisOptions::new(&peer.url()).unwrap();
    RedisStore::open(options.response_timeout(timeout)).unwrap()
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

/// Answers of every type, of which none is expected, are errors or read as empty.
#[tokio::test]
async fn answers_of_other_types_are_errors() {
    let answers = [
        "$-1",
        "*-1",
        "*0",
        ":-1",
        "+",
        "$0\r\n",
        "*1\r\n*0",
        "*2\r\n$-1\r\n:1",
        "_",
        "#t",
        ",1.5",
        "(12345678901234567890",
        "%1\r\n+a\r\n:1",
        "~1\r\n:1",
        "=7\r\ntxt:abc",
        "!5\r\nERR a",
        "*3\r\n$4\r\nDONE\r\n+x\r\n*0",
        "hello",
        "*x",
    ];
    for answer in answers {
        let answer = format!("{answer}\r\n");
        let peer = Peer::start(move |_| answer.as_str().into()).await;
        let service = Service::new(builder(&peer.url()));
        service.requests(1).await;
        let _ = service.pulse.flush().await;
        let store = store(&peer, Duration::from_secs(5));
        let _ = store.hello().await;
        let _ = store.status(7).await;
        let _ = store.fleet(7).await;
        let _ = store.counter("sales", 60).await;
        let _ = store.snapshot(7).await;
        assert!(service.health().flush.errors > 0);
    }
}
