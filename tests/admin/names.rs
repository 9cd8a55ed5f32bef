//! Names and texts with invisible characters.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};

use crate::admin::client_of;
use crate::rig::http::Response;

const NOW: i64 = 1_700_000_000;
/// Invisible characters. The first one reverses the text after it: `gpj` is shown as `jpg`.
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

fn text_without_hidden(asked: &str, answer: &Response) -> String {
    let text = answer.text();
    assert_eq!(answer.status, 200, "{asked}: {text}");
    let hidden = text.chars().find(|c| HIDDEN.contains(c));
    assert_eq!(hidden, None, "{asked}: {text:?}");
    text
}

#[tokio::test]
async fn hidden_characters_are_shown_escaped() {
    let (clock, manual_clock) = Clock::manual(NOW);
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
    // A heartbeat announces the version only after the version's mark is stored.
    pulse.simulation().heartbeat().await.unwrap();
    pulse.flush().await.unwrap();
    manual_clock.advance(Duration::from_secs(2));
    let mut client = client_of(&pulse, Access::open()).await;
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
        let text = text_without_hidden(ask, &answer);
        for name in names {
            assert!(text.contains(&json(name)), "{ask}: {text}");
        }
    }
    let page = text_without_hidden("the dashboard", &client.get("/pulse/").await);
    assert!(page.contains(&escaped("<title>shop")), "{page}");
    // An answer that repeats the caller's text also escapes this text.
    let uri = format!("/pulse/api/series?context={}", query(&spoof("none")));
    let echoed = text_without_hidden("series", &client.get(&uri).await);
    assert!(echoed.contains("\\u202e"), "{echoed}");
}
