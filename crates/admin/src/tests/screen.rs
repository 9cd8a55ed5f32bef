//! `api/screen`: several questions in one request.

use std::time::Duration;

use serde_json::json;

use super::store::FaultMode;
use super::*;

/// The URL with these questions, each byte escaped.
fn screen(asks: &[&str]) -> String {
    let encoded = |byte| format!("%{byte:02X}");
    let encoded = |ask: &str| -> String { ask.bytes().map(encoded).collect() };
    let asks = asks.iter().map(|ask| format!("ask={}", encoded(ask)));
    format!("/api/screen?{}", asks.collect::<Vec<_>>().join("&"))
}

fn statuses(answer: &Value) -> [Value; 3] {
    [0, 1, 2].map(|at| answer["answers"][at]["status"].clone())
}

/// A question for every endpoint, and questions that are refused.
#[cfg(feature = "rankings")]
const ASKS: [&str; 16] = [
    "overview?window=1h",
    "paths?window=1h&sort=p95&limit=2",
    "path?context=GET+/ping&window=hour",
    "changes",
    "marks",
    "slowest?limit=1",
    "slowest_requests?window=last_hour",
    "counters?name=sales&precision=5",
    "counters?q=o",
    "rankings?name=posts",
    "series?metric=p95&window=1h",
    "health",
    "deploy",
    "paths?window=yesterday",
    "path?context=nobody",
    "paths?q=%zz",
];

#[cfg(feature = "rankings")]
#[tokio::test]
async fn each_answer_equals_that_of_its_endpoint() {
    let router = fixture().router;
    let screen = json(&router, &screen(&ASKS)).await;
    let answers = screen["answers"].as_array().expect("answers");
    assert_eq!(answers.len(), ASKS.len());
    let mut statuses = Vec::new();
    for (ask, answer) in ASKS.iter().zip(answers) {
        let single = get(&router, &format!("/api/{ask}")).await;
        let mut answer = answer.clone();
        let mut body = single.json();
        if *ask == "health" {
            // The figures of the process have changed between the two answers.
            for body in [&mut body, &mut answer["body"]] {
                assert!(body["cost"].take().is_object(), "{ask}");
            }
        }
        if single.status == 200 {
            let as_of = body.as_object_mut().expect("an object").remove("as_of");
            assert_eq!(as_of.as_ref(), Some(&screen["as_of"]), "{ask}");
        }
        statuses.push(single.status.as_u16());
        let expected = json!({"status": single.status.as_u16(), "body": body});
        assert_eq!(answer, expected, "{ask}");
    }
    assert_eq!(statuses[..12], [200; 12]);
    assert_eq!(statuses[12..], [404, 400, 404, 400]);
}

#[tokio::test]
async fn an_invalid_question_does_not_affect_the_others() {
    let router = fixture().router;
    for (ask, status, parameter) in [
        ("screen", 400, json!("ask")),
        ("screen?ask=health", 400, json!("ask")),
        (&format!("paths?q={}", "x".repeat(4_096)), 400, json!("ask")),
        (&format!("paths?q={}", "x".repeat(1_025)), 400, json!("q")),
        ("paths?limit=x", 400, json!("limit")),
        ("", 404, Value::Null),
        ("metrics", 404, Value::Null),
        ("/api/paths", 404, Value::Null),
        ("../assets/app.js", 404, Value::Null),
        ("paths/", 404, Value::Null),
    ] {
        let answer = json(&router, &screen(&["slowest", ask, "health"])).await;
        let expected = [200, status, 200];
        assert_eq!(statuses(&answer), expected, "{ask}");
        let body = &answer["answers"][1]["body"];
        assert!(body["error"].is_string(), "{ask}");
        assert_eq!(body["parameter"], parameter, "{ask}");
    }
    for uri in [
        "/api/screen".to_owned(),
        screen(&["health"; 17]),
        "/api/screen?ask=%zz".to_owned(),
    ] {
        assert_eq!(error(&router, &uri, 400).await["parameter"], "ask", "{uri}");
    }
    assert_eq!(get(&router, "/api/screen/").await.status, 404);
    let post = call(&router, Method::POST, "/api/screen?ask=marks").await;
    assert_eq!(post.status, 405);
}

#[tokio::test]
async fn an_unchanged_screen_is_not_sent_again() {
    let fixture = fixture();
    let uri = screen(&["slowest", "paths?window=last_hour", "path?context=nobody"]);
    let first = get(&fixture.router, &uri).await;
    let etag = first.header("etag").to_owned();
    let ask = async |uri: &str| super::ask(&fixture.router, uri, &[("if-none-match", &etag)]).await;
    fixture.manual_clock.advance(Duration::from_secs(2));
    let later = get(&fixture.router, &uri).await;
    assert_ne!(first.json()["as_of"], later.json()["as_of"]);
    let again = ask(&uri).await;
    assert_eq!((again.status.as_u16(), again.length), (304, 0));
    assert_eq!(again.header("etag"), etag);
    // The same questions in another order have another answer.
    let other = screen(&["paths?window=last_hour", "slowest", "path?context=nobody"]);
    assert_eq!(ask(&other).await.status, 200);
    fixture.store.set(FaultMode::Failing);
    fixture.manual_clock.advance(Duration::from_secs(2));
    assert_eq!(ask(&uri).await.status, 200);
}

#[tokio::test]
async fn each_answer_says_that_the_store_is_away() {
    let fixture = fixture();
    fixture.store.set(FaultMode::Failing);
    // An invalid question is refused without a read of the store.
    let uri = screen(&["overview", "health", "paths?limit=1001"]);
    let answer = json(&fixture.router, &uri).await;
    assert_eq!(statuses(&answer), [503, 200, 400]);
    let answer = json(&fixture.router, &screen(&["overview", "paths"])).await;
    assert_eq!(answer["as_of"], Value::Null);
    fixture.store.set(FaultMode::Fine);
    fixture.manual_clock.advance(Duration::from_secs(1));
    let answer = json(&fixture.router, &screen(&["overview"])).await;
    assert_eq!(answer["answers"][0]["status"], 200);
    assert_eq!(answer["as_of"], NOW);
}

/// The questions wait for the store at the same time.
#[tokio::test]
async fn a_screen_waits_two_seconds_for_a_store_that_hangs() {
    let fixture = fixture();
    fixture.store.set(FaultMode::Hanging);
    let uri = screen(&["slowest", "health", "counters"]);
    let router = fixture.router.clone();
    let asking = tokio::spawn(async move { json(&router, &uri).await });
    let settle = async || {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    };
    for millis in [1_999, 1] {
        settle().await;
        assert!(!asking.is_finished());
        fixture.manual_clock.advance(Duration::from_millis(millis));
    }
    settle().await;
    assert!(asking.is_finished());
    let answer = asking.await.expect("no panic");
    assert_eq!(statuses(&answer), [503, 200, 503]);
}
