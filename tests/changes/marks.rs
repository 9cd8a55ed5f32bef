//! Marks, made in code and over HTTP.

use crate::rig::asking;
use crate::rig::reads::StoreOf;
use std::time::{Duration, Instant};

use axum::Router;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{AmendError, Clock, Pulse, StoreErrorKind};
use tower_pulse_core::store::marks;

use crate::fleet::{Backend, START};
use crate::rig::fold::JournalKeys;
use crate::rig::server::RedisServer;
use crate::rig::wait::look_until;

struct Answer {
    status: u16,
    allow: Option<String>,
    body: Value,
}

async fn send(app: &Router, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    send_with(app, (method, ""), headers, body).await
}

/// Sends a request with a query.
async fn send_with(
    app: &Router,
    (method, query): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let uri = format!("/pulse/api/marks{query}");
    let answer = asking::send(app, method, &uri, headers, body).await;
    let allow = answer.headers.get("allow");
    Answer {
        status: answer.status.as_u16(),
        allow: allow.map(|allow| allow.to_str().unwrap().to_owned()),
        body: answer.json(),
    }
}

fn app(backend: &Backend) -> (Pulse, Router) {
    let (clock, _) = Clock::manual(START);
    let (pulse, _tasks) = backend.builder().clock(clock).build_with_tasks().unwrap();
    let app = Router::new().merge(pulse.mount("/pulse", Access::token("secret")));
    (pulse, app)
}

const TOKEN: (&str, &str) = ("authorization", "Bearer secret");
const JSON: (&str, &str) = ("content-type", "application/json");

async fn marks_are_made_and_listed(backend: Backend) {
    let (pulse, app) = app(&backend);
    let listed = async || send(&app, "GET", &[TOKEN], "").await.body["marks"].clone();
    assert_eq!(listed().await, json!([]));
    let first = pulse
        .mark("  new index <b>\"on orders\"</b> ")
        .await
        .unwrap();
    assert_eq!(&*first.text, "new index <b>\"on orders\"</b>");
    for bad in ["", " ", "two\nlines", &"x".repeat(201)] {
        let error = pulse.mark(bad).await.unwrap_err().to_string();
        assert!(error.contains("1 to 200 bytes"), "{error}");
    }

    let own = [
        TOKEN,
        ("content-type", "application/json; charset=utf-8"),
        ("host", "shop.example"),
        ("origin", "https://shop.example"),
        ("sec-fetch-site", "same-origin"),
    ];
    let made = send(&app, "POST", &own, r#"{"text": "campaign"}"#).await;
    assert_eq!((made.status, &made.body["text"]), (201, &json!("campaign")));
    assert_eq!(made.body["at"], json!(START));
    let marks = listed().await;
    let ids: Vec<_> = (marks.as_array().unwrap().iter())
        .map(|mark| mark["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&first.id.to_string()));
    assert!(ids.contains(&made.body["id"].as_str().unwrap().to_owned()));

    // A proxy has replaced `Host`; the browser says that its own page asks.
    let behind_proxy = own.map(|(name, value)| match name {
        "host" => (name, "10.0.0.7:3000"),
        _ => (name, value),
    });
    let made = send(&app, "POST", &behind_proxy, r#"{"text": "proxy"}"#).await;
    assert_eq!(made.status, 201);
}

async fn what_is_no_mark_is_refused(backend: Backend) {
    let (pulse, app) = app(&backend);
    let mark = r#"{"text": "campaign"}"#;
    let post = async |headers: &[(&str, &str)], body: &str| send(&app, "POST", headers, body).await;
    assert_eq!(post(&[JSON], mark).await.status, 401);
    for foreign in [
        [("host", "shop.example"), ("origin", "https://evil.example")],
        [("host", "shop.example"), ("origin", "null")],
        [
            ("host", "shop.example"),
            ("origin", "https://shop.example:444"),
        ],
        [("host", "shop.example"), ("sec-fetch-site", "cross-site")],
        [("host", "shop.example"), ("sec-fetch-site", "same-site")],
    ] {
        let answer = post(&[&[TOKEN, JSON][..], &foreign].concat(), mark).await;
        assert_eq!(answer.status, 403, "{foreign:?}");
    }
    for other in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let answer = post(&[TOKEN, ("content-type", other)], mark).await;
        assert_eq!(answer.status, 415, "{other:?}");
    }
    assert_eq!(post(&[TOKEN], mark).await.status, 415);
    for bad in [
        "",
        "{",
        "[]",
        "\"text\"",
        r#"{"text": 7}"#,
        r#"{"txt": "x"}"#,
        r#"{"text":"x","at":1}"#,
    ] {
        assert_eq!(post(&[TOKEN, JSON], bad).await.status, 400, "{bad}");
    }
    for text in ["", "a\\u0000b", &"x".repeat(201)] {
        let answer = post(&[TOKEN, JSON], &format!(r#"{{"text":"{text}"}}"#)).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.body["parameter"], json!("text"));
    }
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(17_000));
    assert_eq!(post(&[TOKEN, JSON], &large).await.status, 413);
    for method in ["PUT", "PATCH"] {
        let answer = send(&app, method, &[TOKEN, JSON], mark).await;
        let allow = answer.allow.as_deref();
        assert_eq!(answer.status, 405);
        assert_eq!(allow, Some("GET, HEAD, POST, DELETE"));
    }
    let marks = send(&app, "GET", &[TOKEN], "").await.body;
    assert_eq!(marks["marks"], json!([]));
    drop(pulse);
}

async fn a_mark_is_removed(backend: Backend) {
    let (pulse, app) = app(&backend);
    let [first, second, third] = ["first", "second & third", "last"];
    let mut ids = Vec::new();
    for text in [first, second, third] {
        ids.push(pulse.mark(text).await.unwrap().id);
    }
    let listed = async || {
        let answer = send(&app, "GET", &[TOKEN], "").await;
        let mut texts: Vec<_> = texts(&answer).into_iter().map(str::to_owned).collect();
        texts.sort();
        texts
    };
    assert_eq!(listed().await, [first, third, second]);
    let remove = async |id: &str, headers: &[(&str, &str)]| {
        let query = format!("?id={id}");
        send_with(&app, ("DELETE", &query), headers, "").await
    };
    for (headers, status) in [
        (&[][..], 401),
        (&[TOKEN, ("sec-fetch-site", "cross-site")], 403),
        (
            &[
                TOKEN,
                ("host", "a.example"),
                ("origin", "https://b.example"),
            ],
            403,
        ),
    ] {
        assert_eq!(remove(&ids[1], headers).await.status, status);
    }
    for (query, status) in [
        ("", 400),
        ("?id=", 400),
        ("?id=none", 404),
        ("?id=a&id=b", 400),
    ] {
        let answer = send_with(&app, ("DELETE", query), &[TOKEN], "").await;
        assert_eq!(answer.status, status, "{query}");
        assert!(answer.body["error"].is_string());
    }
    assert_eq!(listed().await.len(), 3);

    let removed = remove(&ids[1], &[TOKEN]).await;
    assert_eq!(removed.status, 200);
    assert_eq!(removed.body["text"], json!(second));
    assert_eq!(listed().await, [first, third]);
    assert_eq!(remove(&ids[1], &[TOKEN]).await.status, 404);
    let removed = pulse.remove_mark(&ids[0]).await.unwrap();
    assert_eq!(&*removed.text, first);
    let again = pulse.remove_mark(&ids[0]).await;
    assert!(matches!(&again, Err(AmendError::NotFound(_))), "{again:?}");
    // Of two at once, one has removed it.
    let (a, b) = tokio::join!(pulse.remove_mark(&ids[2]), pulse.remove_mark(&ids[2]));
    assert_eq!(
        usize::from(a.is_ok()) + usize::from(b.is_ok()),
        1,
        "{a:?} {b:?}"
    );
    let stored = marks::list(&*pulse.backend()).await.unwrap();
    assert_eq!(stored, []);
    // As many as ever have room, and the folder knows of the removal.
    for n in 0..50 {
        pulse.mark(&format!("new {n}")).await.unwrap();
    }
    let stored = marks::list(&*pulse.backend()).await.unwrap();
    assert_eq!(stored.len(), 50);
    assert!(stored.iter().all(|mark| mark.text.starts_with("new ")));
}

/// Within which a mark must be there.
const PATIENCE: Duration = Duration::from_secs(60);

fn texts(answer: &Answer) -> Vec<&str> {
    let marks = answer.body["marks"].as_array().unwrap().iter();
    marks.map(|mark| mark["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_mark_that_was_made_while_redis_is_away_appears_once_it_is_back() {
    let server = RedisServer::start_durable().await;
    let pulse = Pulse::builder().redis(server.url()).build().unwrap();
    let app = Router::new().merge(pulse.mount("/pulse", Access::token("secret")));
    let post = async |text: &str| {
        let body = json!({ "text": text }).to_string();
        send(&app, "POST", &[TOKEN, JSON], &body).await
    };
    assert_eq!(post("before").await.status, 201);
    server.kill_9();
    let start = Instant::now();
    let (posted, made) = tokio::join!(post("posted"), pulse.mark("made"));
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(posted.status, 503);
    let error = posted.body["error"].as_str().unwrap();
    assert!(error.contains("may still appear"), "{error}");
    let error = made.unwrap_err();
    assert!(error.to_string().contains("may still appear"), "{error}");
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);

    server.restart().await;
    let listed = look_until(PATIENCE, async || {
        let _ = pulse.flush().await;
        let listed = send(&app, "GET", &[TOKEN], "").await;
        match listed.status {
            200 if texts(&listed).len() == 3 => Ok(listed),
            status => Err(format!("{status}: {}", listed.body)),
        }
    });
    let listed = listed.await;
    let mut listed = texts(&listed);
    listed.sort_unstable();
    assert_eq!(listed, ["before", "made", "posted"]);
    assert_eq!(pulse.health().flush.lost_details, 0);
    pulse.shutdown().await.unwrap();
}

/// Another instance holds the lease, and folds nothing.
#[tokio::test]
async fn a_mark_that_nobody_folds_may_still_appear() {
    let backend = Backend::redis().await;
    let (pulse, _) = app(&backend);
    pulse.mark("before").await.unwrap();
    let mut conn = backend.server().connection().await;
    let keys = JournalKeys::below("pulse:");
    keys.stop_folding(&mut conn).await;
    let start = Instant::now();
    let error = pulse.mark("later").await.unwrap_err();
    assert!(error.to_string().contains("may still appear"), "{error}");
    assert!((4..PATIENCE.as_secs()).contains(&start.elapsed().as_secs()));
    let stored = async || -> Vec<String> {
        let stored = marks::list(&*pulse.backend()).await.unwrap();
        let mut texts: Vec<_> = stored.iter().map(|mark| mark.text.to_string()).collect();
        texts.sort_unstable();
        texts
    };
    assert_eq!(stored().await, ["before"]);
    keys.free_lease(&mut conn).await;
    pulse.mark("newest").await.unwrap();
    assert_eq!(stored().await, ["before", "later", "newest"]);
}

async fn a_shutdown_refuses_marks_and_loses_none(backend: Backend) {
    let (pulse, app) = app(&backend);
    let (made, ended) = tokio::join!(pulse.mark("last"), pulse.shutdown());
    ended.unwrap();
    made.unwrap();
    let error = pulse.mark("too late").await.unwrap_err();
    assert!(error.to_string().contains("shutdown"), "{error}");
    let late = send(&app, "POST", &[TOKEN, JSON], r#"{"text":"x"}"#).await;
    assert_eq!(late.status, 503);
    let error = late.body["error"].as_str().unwrap();
    assert!(!error.contains("may still appear"), "{error}");
    let listed = send(&app, "GET", &[TOKEN], "").await;
    assert_eq!(texts(&listed), ["last"]);
}

/// In one process neither a runtime's timer nor a clock that goes on is needed.
#[test]
fn a_mark_in_memory_needs_no_timer() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (clock, _) = Clock::manual(START);
        let builder = Pulse::builder().clock(clock).app_version("1.4");
        let (pulse, _tasks) = builder.build_with_tasks().unwrap();
        pulse.simulation().heartbeat().await.unwrap();
        pulse.mark("new index").await.unwrap();
        let stored = marks::list(&*pulse.backend()).await.unwrap();
        assert_eq!(stored.len(), 2);
    });
}

in_both!(
    a_mark_is_removed,
    marks_are_made_and_listed,
    what_is_no_mark_is_refused,
    a_shutdown_refuses_marks_and_loses_none
);
