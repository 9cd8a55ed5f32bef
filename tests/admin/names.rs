//! Names and texts with characters that show nothing, or turn the direction of text.

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use redis::cmd;
use serde_json::json;
use tower_pulse::admin::Access;
use tower_pulse::{Builder, Clock, Mark, Pulse};
use tower_pulse_model::mark::StoredMark;
use tower_pulse_model::pack::pack;

use crate::serve;
use pulse_rig::http::{Client, Response};
use pulse_rig::server::RedisServer;

const NOW: i64 = 1_700_000_000;
/// `exe.jpg` is shown as `gpj.exe` after the first of them.
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

async fn what_is_hidden_is_shown(builder: Builder) {
    let (clock, hand) = Clock::manual(NOW);
    let builder = builder
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
    // From now on, it tells the version.
    pulse.simulation().heartbeat().await.unwrap();
    pulse.flush().await.unwrap();
    hand.advance(Duration::from_secs(2));
    let app = Router::new().merge(pulse.mount("/pulse", Access::open()));
    let mut client = Client::connect(serve(app).await).await;
    let json = |text: &str| escaped(text).replace('\\', "\\\\");
    let query =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    for (ask, name) in [
        ("api/paths?kind=all".to_owned(), "GET /"),
        ("api/paths?kind=all".to_owned(), "db"),
        ("api/slowest".to_owned(), "GET /"),
        ("api/slowest_requests".to_owned(), "host"),
        ("api/instances".to_owned(), "host"),
        ("api/instances".to_owned(), "1.4"),
        (
            format!("api/instance?instance={}", query(&escaped("host"))),
            "host",
        ),
        ("api/counters".to_owned(), "sales"),
        ("api/rankings".to_owned(), "posts"),
        (
            format!("api/rankings?name={}", query(&escaped("posts"))),
            "id",
        ),
        (
            format!("api/path?context={}", query(&escaped("GET /"))),
            "GET /",
        ),
        ("api/marks".to_owned(), "index"),
        ("api/marks".to_owned(), "version 1.4"),
        ("api/health".to_owned(), "host"),
        ("metrics".to_owned(), "GET /"),
        ("metrics".to_owned(), "sales"),
    ] {
        let answer = client.get(&format!("/pulse/{ask}")).await;
        let text = shows_all(&ask, &answer);
        assert!(text.contains(&json(name)), "{ask}: {text}");
    }
    let page = shows_all("the page", &client.get("/pulse/").await);
    assert!(page.contains(&escaped("<title>shop")), "{page}");
    // What a caller gives comes back escaped as well.
    let echoed = client
        .get(&format!(
            "/pulse/api/series?context={}",
            query(&spoof("nobody"))
        ))
        .await;
    assert!(shows_all("series", &echoed).contains("\\u202e"));
}

#[tokio::test]
async fn what_is_hidden_is_shown_in_memory() {
    what_is_hidden_is_shown(Pulse::builder()).await;
}

#[tokio::test]
async fn what_is_hidden_is_shown_in_redis() {
    let server = RedisServer::start().await;
    what_is_hidden_is_shown(Pulse::builder().redis(server.url())).await;
}

/// Other programs write names as they are. A question with such a name is answered.
#[tokio::test]
async fn what_others_wrote_is_escaped_where_it_is_answered() {
    let server = RedisServer::start().await;
    let (clock, _hand) = Clock::manual(NOW);
    let builder = Pulse::builder().redis(server.url()).prefix("");
    let (pulse, _tasks) = builder.clock(clock).build_with_tasks().unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let name = spoof("sales");
    let (key, known) = (format!("count:60:{name}"), format!("60:{name}"));
    cmd("HSET")
        .arg(key)
        .arg(NOW - 20)
        .arg(7)
        .exec_async(&mut redis)
        .await
        .unwrap();
    cmd("ZADD")
        .arg("known:")
        .arg(0)
        .arg(known)
        .exec_async(&mut redis)
        .await
        .unwrap();
    let text = spoof("index");
    let mark: Mark = serde_json::from_value(json!({ "id": "1", "at": NOW, "text": text })).unwrap();
    cmd("HSET")
        .arg("pulse:marks1")
        .arg("1")
        .arg(pack(&StoredMark::from(mark)))
        .exec_async(&mut redis)
        .await
        .unwrap();
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
