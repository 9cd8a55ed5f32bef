//! Answers of a server that is not Redis, or of a manipulated Redis.

use tower_pulse_core::store::{Append, Query, Upkeep};
use tower_pulse_redis::RedisStore;

use crate::faults::service::{SHORT, Service, builder, options, without_flushes};
use crate::rig::log::Log;
use crate::rig::peer::Peer;
use crate::rig::reads::StoreReads;
use crate::rig::wait::until;

#[tokio::test]
async fn texts_of_the_peer_are_shown_on_one_short_line() {
    let long = "x".repeat(100_000);
    for answer in [
        format!("-ERR bad\n2026-11-22T00:00:00Z  WARN forged: \u{1b}[31m{long}\r\n"),
        format!("-NOPERM bad\nFORGED {long}\r\n"),
        format!("-FORGED\n{long}\r\n"),
        // The Redis client cannot parse this answer, and returns an error of several lines.
        format!("?FORGED\n{long}\r\n"),
        format!(":bad\nFORGED {long}\r\n"),
    ] {
        let (log, _guard) = Log::start();
        let peer = Peer::start(move |words| match &*words[0] {
            // A call without keys only checks that the script compiles.
            b"EVALSHA" if words[2] != b"0" => answer.clone(),
            b"INFO" => "$21\r\nredis_version:7.2.0\r\n\r\n".into(),
            _ => ":1\r\n".into(),
        })
        .await;
        let service = Service::new(without_flushes(&peer.url()));
        service.requests(3).await;
        let error = service.pulse.flush().await.unwrap_err();
        let has_failed = async || !service.health().warnings.is_empty();
        until("folding has failed", has_failed).await;
        let health = service.health();
        let mut texts = vec![error.to_string(), health.store.last_error.unwrap()];
        texts.extend(health.warnings);
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            texts.push(error.to_string());
            source = error.source();
        }
        for text in texts {
            assert!(!text.contains(char::is_control), "{text:?}");
            // The crate's own advice, such as the long rule for an ACL, has no limit.
            let start = text.split("ACL SETUSER").next().unwrap();
            assert!(start.chars().count() <= 1_000, "{text:.40}");
        }
        log.assert_whole_lines();
        assert!(log.text().len() < 20_000);
    }
}

#[tokio::test]
async fn unexpected_answers_make_flushes_fail_and_no_call_panic() {
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
        let peer = Peer::start(move |_| answer.clone()).await;
        let service = Service::new(builder(&peer.url()));
        service.requests(1).await;
        let _ = service.pulse.flush().await;
        let store = RedisStore::open(options(&peer.url(), SHORT)).unwrap();
        let _ = store.hello().await;
        let _ = store.status(7).await;
        let _ = store.fleet(7).await;
        let _ = store.counter("sales", 60).await;
        let _ = store.snapshot(7).await;
        assert!(service.health().flush.errors > 0);
    }
}
