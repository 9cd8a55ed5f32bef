//! Marks made in code and over HTTP, and refused writes.

use std::time::Instant;

use axum::Router;
use serde_json::json;
use tower_pulse::admin::Access;
use tower_pulse::{AmendError, Clock, Pulse, StoreErrorKind};
use tower_pulse_core::store::marks;

use crate::changes::fleet::{Backend, START};
use crate::rig::asking::{self, Answer};
use crate::rig::fold::JournalKeys;
use crate::rig::reads::StoreOf;
use crate::rig::server::RedisServer;
use crate::rig::wait::{PATIENCE, look_until};

const TOKEN: (&str, &str) = ("authorization", "Bearer secret");
const JSON: (&str, &str) = ("content-type", "application/json");

fn app(backend: &Backend) -> (Pulse, Router) {
    let (clock, _) = Clock::manual(START);
    let (pulse, _tasks) = backend.builder().clock(clock).build_with_tasks().unwrap();
    let app = Router::new().merge(pulse.mount("/pulse", Access::token("secret")));
    (pulse, app)
}

async fn send(app: &Router, to: (&str, &str), headers: &[(&str, &str)], body: &str) -> Answer {
    asking::send(app, to.0, &format!("/pulse/api/{}", to.1), headers, body).await
}

async fn post(app: &Router, text: &str) -> Answer {
    let body = json!({ "text": text }).to_string();
    send(app, ("POST", "marks"), &[TOKEN, JSON], &body).await
}

async fn texts(app: &Router) -> Vec<String> {
    let listed = send(app, ("GET", "marks"), &[TOKEN], "").await.json();
    let marks = listed["marks"].as_array().into_iter().flatten();
    let mut texts: Vec<_> = marks
        .map(|mark| mark["text"].as_str().unwrap().to_owned())
        .collect();
    texts.sort_unstable();
    texts
}

async fn marks_are_made_listed_and_removed(backend: Backend) {
    let (pulse, app) = app(&backend);
    assert_eq!(texts(&app).await, [""; 0]);
    let quoted = "new index <b>\"on orders\"</b>";
    let first = pulse.mark(&format!("  {quoted} ")).await.unwrap();
    assert_eq!(&*first.text, quoted);
    for bad in ["", " ", "two\nlines", &"x".repeat(201)] {
        let error = pulse.mark(bad).await.unwrap_err().to_string();
        assert!(error.contains("1 to 200 bytes"), "{error}");
    }
    let made = post(&app, "campaign").await;
    let campaign = made.json();
    assert_eq!(
        (made.status.as_u16(), &campaign["at"]),
        (201, &json!(START))
    );
    assert_eq!(campaign["text"], "campaign");
    // Requests of the dashboard: without a proxy, and behind a proxy that replaces `host`.
    for (host, text) in [("shop.example", "page"), ("10.0.0.7:3000", "proxy")] {
        let own = [
            TOKEN,
            ("content-type", "application/json; charset=utf-8"),
            ("host", host),
            ("origin", "https://shop.example"),
            ("sec-fetch-site", "same-origin"),
        ];
        let body = json!({ "text": text }).to_string();
        let made = send(&app, ("POST", "marks"), &own, &body).await;
        assert_eq!(made.status, 201, "{host}");
    }
    assert_eq!(texts(&app).await, ["campaign", quoted, "page", "proxy"]);

    let id = campaign["id"].as_str().unwrap();
    let endpoint = format!("marks?id={id}");
    let remove = async || send(&app, ("DELETE", &endpoint), &[TOKEN], "").await;
    let removed = remove().await;
    assert_eq!((removed.status.as_u16(), &removed.json()), (200, &campaign));
    assert_eq!(remove().await.status, 404);
    assert_eq!(texts(&app).await, [quoted, "page", "proxy"]);
    let again = pulse.remove_mark(id).await;
    assert!(matches!(&again, Err(AmendError::NotFound(_))), "{again:?}");
    // Of two removals at the same time, exactly one succeeds.
    let (a, b) = tokio::join!(pulse.remove_mark(&first.id), pulse.remove_mark(&first.id));
    assert_ne!(a.is_ok(), b.is_ok(), "{a:?} {b:?}");
    assert_eq!(marks::list(&*pulse.backend()).await.unwrap().len(), 2);
}

/// The requests that write, with valid bodies.
const WRITES: [(&str, &str, &str); 3] = [
    ("POST", "marks", r#"{"text": "campaign"}"#),
    ("POST", "changes", r#"{"id": "1", "acknowledged": true}"#),
    ("DELETE", "marks?id=1", ""),
];

#[tokio::test]
async fn refused_writes_change_nothing() {
    let (pulse, app) = app(&Backend::memory());
    for (method, endpoint, body) in WRITES {
        let status = async |headers: &[(&str, &str)], body: &str| {
            let answer = send(&app, (method, endpoint), headers, body).await;
            assert!(answer.json()["error"].is_string(), "{endpoint}: {answer:?}");
            answer.status.as_u16()
        };
        assert_eq!(status(&[JSON], body).await, 401, "{endpoint}");
        let host = ("host", "shop.example");
        for foreign in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("origin", "https://shop.example:444"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let headers = [TOKEN, JSON, host, foreign];
            assert_eq!(status(&headers, body).await, 403, "{endpoint} {foreign:?}");
        }
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(17_000));
        assert_eq!(status(&[TOKEN, JSON], &large).await, 413, "{endpoint}");
        if method == "DELETE" {
            continue;
        }
        for other in ["text/plain", "application/x-www-form-urlencoded", ""] {
            let headers = [TOKEN, ("content-type", other)];
            assert_eq!(status(&headers, body).await, 415, "{endpoint} {other:?}");
        }
        assert_eq!(status(&[TOKEN], body).await, 415, "{endpoint}");
    }
    for (endpoint, bad) in [
        ("marks", ""),
        ("marks", "{"),
        ("marks", "[]"),
        ("marks", "\"text\""),
        ("marks", r#"{"text": 7}"#),
        ("marks", r#"{"txt": "x"}"#),
        ("marks", r#"{"text":"x","at":1}"#),
        ("changes", "[]"),
        ("changes", "{}"),
        ("changes", r#"{"id": "1"}"#),
        ("changes", r#"{"id": 1, "acknowledged": true}"#),
        ("changes", r#"{"id": "1", "acknowledged": "yes"}"#),
        ("changes", r#"{"id": "1", "acknowledged": true, "a": 1}"#),
    ] {
        let answer = send(&app, ("POST", endpoint), &[TOKEN, JSON], bad).await;
        assert_eq!(answer.status, 400, "{endpoint} {bad}");
    }
    for text in ["", "a\0b", &"x".repeat(201)] {
        let answer = post(&app, text).await;
        assert_eq!(answer.status, 400, "{text:?}");
        assert_eq!(answer.json()["parameter"], "text");
    }
    for endpoint in ["marks", "marks?id=", "marks?id=a&id=b"] {
        let answer = send(&app, ("DELETE", endpoint), &[TOKEN], "").await;
        assert_eq!(answer.status, 400, "{endpoint}");
    }
    for (endpoint, allow) in [
        ("marks", "GET, HEAD, POST, DELETE"),
        ("changes", "GET, HEAD, POST"),
    ] {
        let answer = send(&app, ("PUT", endpoint), &[TOKEN, JSON], "{}").await;
        assert_eq!(answer.status, 405);
        assert_eq!(answer.headers["allow"], allow);
    }
    assert_eq!(texts(&app).await, [""; 0]);
    pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_mark_made_while_redis_is_away_appears_once_redis_is_back() {
    let server = RedisServer::start_durable().await;
    let pulse = Pulse::builder().redis(server.url()).build().unwrap();
    let app = Router::new().merge(pulse.mount("/pulse", Access::token("secret")));
    assert_eq!(post(&app, "before").await.status, 201);
    server.kill_9();
    let (posted, made) = tokio::join!(post(&app, "posted"), pulse.mark("made"));
    assert_eq!(posted.status, 503);
    assert!(posted.text.contains("may still appear"), "{posted:?}");
    let error = made.unwrap_err();
    assert!(error.to_string().contains("may still appear"), "{error}");
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);

    server.restart().await;
    look_until(PATIENCE, async || {
        let _ = pulse.flush().await;
        match texts(&app).await {
            all if all == ["before", "made", "posted"] => Ok(()),
            others => Err(format!("{others:?}")),
        }
    })
    .await;
    assert_eq!(pulse.health().flush.lost_details, 0);
    pulse.shutdown().await.unwrap();
}

/// Another instance holds the lease, but does not fold.
#[tokio::test]
async fn a_mark_that_no_instance_folds_may_still_appear() {
    let backend = Backend::redis().await;
    let (pulse, app) = app(&backend);
    pulse.mark("before").await.unwrap();
    let mut conn = backend.server().connection().await;
    let keys = JournalKeys::below("pulse:");
    keys.stop_folding(&mut conn).await;
    let start = Instant::now();
    let error = pulse.mark("later").await.unwrap_err();
    assert!(error.to_string().contains("may still appear"), "{error}");
    assert!((4..PATIENCE.as_secs()).contains(&start.elapsed().as_secs()));
    assert_eq!(texts(&app).await, ["before"]);
    keys.free_lease(&mut conn).await;
    pulse.mark("newest").await.unwrap();
    let stored = marks::list(&*pulse.backend()).await.unwrap();
    assert_eq!(stored.len(), 3, "{stored:?}");
}

#[tokio::test]
async fn a_shutdown_refuses_marks_and_loses_none() {
    let (pulse, app) = app(&Backend::memory());
    let (made, ended) = tokio::join!(pulse.mark("last"), pulse.shutdown());
    ended.unwrap();
    made.unwrap();
    let error = pulse.mark("too late").await.unwrap_err();
    assert!(error.to_string().contains("shutdown"), "{error}");
    let refused = post(&app, "x").await;
    assert_eq!(refused.status, 503);
    assert!(!refused.text.contains("may still appear"), "{refused:?}");
    assert_eq!(texts(&app).await, ["last"]);
}

#[test]
fn a_mark_in_memory_needs_no_timers_of_tokio() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let (clock, _) = Clock::manual(START);
        let builder = Pulse::builder().clock(clock).app_version("1.4");
        let (pulse, _tasks) = builder.build_with_tasks().unwrap();
        pulse.simulation().heartbeat().await.unwrap();
        pulse.mark("new index").await.unwrap();
        let stored = marks::list(&*pulse.backend()).await.unwrap();
        assert_eq!(stored.len(), 2);
    });
}

in_both!(marks_are_made_listed_and_removed);
