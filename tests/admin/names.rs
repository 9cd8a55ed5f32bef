//! Names and texts with invisible characters, or with characters that change the direction of text.

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use serde_json::json;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Mark, Pulse};
use tower_pulse_model::mark::StoredMark;
use tower_pulse_model::pack::pack;

use crate::admin::serve;
use crate::rig::http::{Client, Response};
use crate::rig::server::{RedisServer, issue};

const NOW: i64 = 1_700_000_000;
/// Invisible characters. After the first one, `exe.jpg` is shown as `gpj.exe`.
const HIDDEN: [char; 8] = [
    '\u{202e}',
    '\u{2066}',
    '\u{200f}',
    '\u{61c}',
    '\u{feff}',
    '\u{200b}',
    '\u{2028}',
    '\u{e0041}',
];

fn spoof(name: &str) -> String {
    format!("{name}{}gpj", String::from_iter(HIDDEN))
}

fn escaped(name: &str) -> String {
    let hidden = HIDDEN.map(|c| c.escape_default().to_string());
    format!("{name}{}gpj", hidden.concat())
}

fn shows_all(what: &str, answer: &Response) -> String {
    let text = answer.text();
    assert_eq!(answer.status, 200, "{what}: {text}");
    let hidden = text.chars().find(|c| HIDDEN.contains(c));
    assert_eq!(hidden, None, "{what}: {text:?}");
    text
}

#[tokio::test]
async fn hidden_characters_are_shown_escaped() {
    let (clock, hand) = Clock::manual(NOW);
    let builder = Pulse::builder()
        .service(spoof("shop"))
        .instance(spoof("host"))
        .app_version(spoof("1.4"));
    let (pulse, _tasks) = builder.clock(clock).build_with_tasks().unwrap();
    pulse.simulation().heartbeat().await.unwrap();
    pulse.record(&spoof("GET /"), Duration::from_millis(3), StatusCode::OK);
    pulse.record_duration(&spoof("db"), Duration::from_millis(3));
    pulse.counter(&spoof("sales")).add(1);
    pulse
        .ranking(&spoof("posts"))
        .build()
        .unwrap()
        .add(&spoof("id"), 1);
    let mark = pulse.mark(&spoof("index")).await.unwrap();
    assert_eq!(*mark.text, escaped("index"));
    // A heartbeat announces the version only after the version's mark is stored, as it is by now.
    pulse.simulation().heartbeat().await.unwrap();
    pulse.flush().await.unwrap();
    hand.advance(Duration::from_secs(2));
    let app = Router::new().merge(pulse.mount("/pulse", Access::open()));
    let mut client = Client::connect(serve(app).await).await;
    let json = |text: &str| escaped(text).replace('\\', "\\\\");
    let query =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    for (ask, names) in [
        ("api/paths?kind=all", &["GET /", "db"][..]),
        ("api/slowest_requests", &["host"]),
        ("api/instances", &["host", "1.4"]),
        ("api/counters", &["sales"]),
        ("api/rankings", &["posts"]),
        (
            &format!("api/rankings?name={}", query(&escaped("posts"))),
            &["id"],
        ),
        ("api/marks", &["index", "version 1.4"]),
        ("api/health", &["host"]),
        ("metrics", &["GET /", "sales"]),
    ] {
        let answer = client.get(&format!("/pulse/{ask}")).await;
        let text = shows_all(ask, &answer);
        for name in names {
            assert!(text.contains(&json(name)), "{ask}: {text}");
        }
    }
    let page = shows_all("the dashboard", &client.get("/pulse/").await);
    assert!(page.contains(&escaped("<title>shop")), "{page}");
    // An answer that repeats the caller's text escapes it too.
    let uri = format!("/pulse/api/series?context={}", query(&spoof("none")));
    let echoed = shows_all("series", &client.get(&uri).await);
    assert!(echoed.contains("\\u202e"), "{echoed}");
}

/// Other programs write names without escaping them. The answers escape these names.
#[tokio::test]
async fn names_from_other_programs_are_escaped_in_answers() {
    let server = RedisServer::start().await;
    let (clock, _hand) = Clock::manual(NOW);
    let builder = Pulse::builder().redis(server.url()).prefix("");
    let (pulse, _tasks) = builder.clock(clock).build_with_tasks().unwrap();
    let mut redis = server.connection().await;
    let name = spoof("sales");
    let (key, known) = (format!("count:60:{name}"), format!("60:{name}"));
    let () = issue(&mut redis, "HSET", (key, NOW - 20, 7)).await;
    let () = issue(&mut redis, "ZADD", ("known:", 0, known)).await;
    let text = spoof("index");
    let mark: Mark = serde_json::from_value(json!({ "id": "1", "at": NOW, "text": text })).unwrap();
    let packed = pack(&StoredMark::from(mark));
    let () = issue(&mut redis, "HSET", ("pulse:marks1", "1", packed)).await;
    let app = Router::new().merge(pulse.mount("/pulse", Access::open()));
    let mut client = Client::connect(serve(app).await).await;
    for (ask, list, field, expected) in [
        ("counters?precision=60", "counters", "name", &name),
        ("marks", "marks", "text", &spoof("index")),
    ] {
        let answer = client.get(&format!("/pulse/api/{ask}")).await;
        assert!(shows_all(ask, &answer).contains("\\u202e"));
        assert_eq!(answer.json()[list][0][field], **expected);
    }
}
