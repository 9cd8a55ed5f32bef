//! Every endpoint refuses unknown parameters, repeated parameters, and numbers beyond their range.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;
use tower_pulse::query::{PathsQuery, QueryError, SlowestRequestsQuery};

use crate::admin::client_of;
use crate::rig::http::{Client, Response};

/// Questions to every endpoint, and the highest `limit` that each allows.
const QUESTIONS: [(&str, Option<usize>); 27] = [
    ("api/overview", None),
    ("api/paths", Some(1_000)),
    ("api/paths?series=hits", Some(100)),
    ("api/path?context=GET+/ping", None),
    ("api/outcome?outcome=4xx", Some(1_000)),
    ("api/errors", Some(1_000)),
    ("api/profile", None),
    ("api/fix_first", Some(100)),
    ("api/changes", Some(1_000)),
    ("api/marks", None),
    ("api/deploy", Some(1_000)),
    ("api/instances", Some(1_000)),
    ("api/instance?instance=web-1", Some(1_000)),
    ("api/slowest", Some(1_000)),
    ("api/slowest_requests", Some(100)),
    ("api/rankings", None),
    ("api/rankings?name=posts", Some(1_000)),
    ("api/rows", Some(1_000)),
    ("api/counters", Some(1_000)),
    ("api/counters?series=true", Some(100)),
    ("api/counters?name=hits", None),
    ("api/series", None),
    ("api/heat_map", None),
    ("api/health", None),
    ("api/health?part=status", None),
    ("api/screen?ask=health", None),
    ("metrics", None),
];

async fn served() -> (Client, Pulse) {
    let pulse = Pulse::builder().instance("web-1").build().unwrap();
    pulse.record("GET /ping", Duration::from_millis(3), StatusCode::OK);
    let ranking = pulse.ranking("posts").build().unwrap();
    ranking.add("one", 1);
    pulse.mark("new index").await.unwrap();
    pulse.flush().await.unwrap();
    pulse.simulation().heartbeat().await.unwrap();
    (client_of(&pulse, Access::open()).await, pulse)
}

/// The URL of a question with one more parameter.
fn with(question: &str, parameter: &str) -> String {
    let and = if question.contains('?') { '&' } else { '?' };
    format!("/pulse/{question}{and}{parameter}")
}

/// Panics unless the answer refuses the parameter, and its error contains all of `says`.
fn assert_refused(uri: &str, answer: &Response, parameter: &str, says: &[&str]) {
    assert_eq!(answer.status, 400, "{uri}: {}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["parameter"], parameter, "{uri}: {answer}");
    let error = answer["error"].as_str().unwrap();
    for part in says {
        assert!(error.contains(part), "{uri}: {error:?} lacks {part:?}");
    }
}

#[test]
fn every_endpoint_of_the_guide_is_asked() {
    let guide = include_str!("../../src/guide/api.md");
    let (_, table) = guide.split_once("# Endpoints").unwrap();
    let (table, _) = table.split_once("\n\n`window`").unwrap();
    let endpoints = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let endpoints: Vec<_> = endpoints
        .filter_map(|line| line.split('`').next())
        .collect();
    assert!(endpoints.len() > 20, "{endpoints:?}");
    for endpoint in endpoints {
        let asks = |(question, _): &(&str, _)| question.split('?').next() == Some(endpoint);
        assert!(QUESTIONS.iter().any(asks), "{endpoint} is not asked");
    }
}

#[tokio::test]
async fn a_parameter_that_an_endpoint_does_not_have_is_refused() {
    let (mut client, _pulse) = served().await;
    for (question, _) in QUESTIONS {
        let answer = client.get(&format!("/pulse/{question}")).await;
        assert_eq!(answer.status, 200, "{question}: {}", answer.text());
        for (unknown, name) in [
            ("limt=3", "limt"),
            ("Limit=3", "Limit"),
            ("unknown", "unknown"),
            ("%20=", " "),
            ("x%5B%5D=1", "x[]"),
        ] {
            let uri = with(question, unknown);
            assert_refused(&uri, &client.get(&uri).await, name, &[name, "allowed"]);
        }
        let Some((_, given)) = question.split_once('?') else {
            continue;
        };
        let name = given.split('=').next().unwrap();
        if name != "ask" {
            let uri = with(question, given);
            assert_refused(&uri, &client.get(&uri).await, name, &[name, "twice"]);
        }
    }
    for (question, name, says) in [
        (
            "api/paths?sorts=p95",
            "sorts",
            &["window", "sort, ", "limit"][..],
        ),
        ("api/marks?limit=3", "limit", &["no parameter is allowed"]),
        // `api/counters` lists the names that contain `q`, or returns the counter `name`: not both.
        ("api/counters?name=hits&q=x", "q", &["name or precision"]),
        ("api/rankings?limit=3", "limit", &["one ranking (name)"]),
        (
            "api/paths?kind=zqx",
            "kind",
            &["http", "timer", "all", "zqx"],
        ),
        ("api/paths?status=zqx", "status", &["gone", "any", "zqx"]),
        ("api/paths?series=zqx", "series", &["p95", "none", "zqx"]),
        ("api/paths?limit=zqx", "limit", &["whole number", "zqx"]),
        ("api/paths?window=9y", "window", &["5m", "9y"]),
        ("api/paths?from=zqx", "from", &["Unix seconds", "zqx"]),
        ("api/outcome?outcome=9xx", "outcome", &["5xx", "9xx"]),
        ("api/series?precision=7", "precision", &["is 7:", "60"]),
        (
            "metrics?names=otel",
            "names",
            &["must be pulse or opentelemetry, not otel"],
        ),
        ("api/counters?precision=7", "precision", &["is 7:", "60"]),
    ] {
        let answer = client.get(&format!("/pulse/{question}")).await;
        assert_refused(question, &answer, name, says);
    }
    // A link to the dashboard may have any query: other programs may add parameters to links.
    for path in ["/pulse?x=1", "/pulse/?x=1"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_request_that_writes_is_refused_with_an_unknown_parameter() {
    let (mut client, _pulse) = served().await;
    let json = [("content-type", "application/json")];
    for (method, question, body) in [
        ("POST", "api/marks", r#"{"text": "index"}"#),
        (
            "POST",
            "api/changes",
            r#"{"id": "1", "acknowledged": true}"#,
        ),
        ("DELETE", "api/marks?id=1", ""),
    ] {
        let uri = with(question, "x=1");
        let answer = client.request(method, &uri, &json, body).await;
        assert_refused(&uri, &answer, "x", &["x", "allowed"]);
    }
    let marks = client.json("/pulse/api/marks").await;
    assert_eq!(marks["marks"].as_array().unwrap().len(), 1, "{marks}");
}

#[tokio::test]
async fn a_number_beyond_its_range_is_refused() {
    let (mut client, _pulse) = served().await;
    let huge = "9".repeat(30);
    for (question, most) in QUESTIONS {
        let Some(most) = most else {
            let uri = with(question, "limit=1");
            assert_refused(&uri, &client.get(&uri).await, "limit", &["allowed"]);
            continue;
        };
        let answer = client.get(&with(question, &format!("limit={most}"))).await;
        assert_eq!(answer.status, 200, "{question}: {}", answer.text());
        let allowed = format!("0 to {most}");
        for given in [&(most + 1).to_string(), &huge] {
            let uri = with(question, &format!("limit={given}"));
            let says = [&**given, &allowed];
            assert_refused(&uri, &client.get(&uri).await, "limit", &says);
        }
    }
    for (question, name, given, allowed) in [
        ("api/paths", "offset", "1000000001", "0 to 1000000000"),
        ("api/changes", "offset", &*huge, "0 to 1000000000"),
        ("api/slowest_requests", "per_path", "0", "1 to 1000"),
        ("api/slowest_requests", "per_path", "1001", "1 to 1000"),
    ] {
        let uri = with(question, &format!("{name}={given}"));
        assert_refused(&uri, &client.get(&uri).await, name, &[given, allowed]);
    }
    let screen = client
        .json("/pulse/api/screen?ask=paths%3Flimit%3D1001&ask=health%3Fx&ask=health")
        .await;
    let statuses = [0, 1, 2].map(|at| screen["answers"][at]["status"].as_i64().unwrap());
    assert_eq!(statuses, [400, 400, 200], "{screen}");
}

#[tokio::test]
async fn questions_as_text_in_rust_have_the_answers_and_errors_of_the_api() {
    let (mut client, pulse) = served().await;
    let query = pulse.query();
    let of_query =
        |(question, _): &(&str, _)| !["api/screen?ask=health", "metrics"].contains(question);
    for (question, most) in QUESTIONS.into_iter().filter(of_query) {
        let answer = query.json(&question["api/".len()..]).await;
        assert!(answer.is_ok(), "{question}: {answer:?}");
        let too_many = most.map(|most| format!("limit={}", most + 1));
        for parameter in ["x=1"].into_iter().chain(too_many.as_deref()) {
            let uri = with(question, parameter);
            let refused = client.get(&uri).await;
            let error = query.json(&uri["/pulse/api/".len()..]).await.unwrap_err();
            let QueryError::Parameter { name, message, .. } = error else {
                panic!("{uri}")
            };
            let said = serde_json::json!({ "error": message, "parameter": name });
            assert_eq!(refused.json(), said, "{uri}");
        }
    }
    let (mut paths, mut slowest) = (PathsQuery::default(), SlowestRequestsQuery::default());
    (paths.limit, slowest.per_path) = (Some(1_001), Some(0));
    let refused = query.ask(&paths).await.unwrap_err().to_string();
    assert!(refused.contains("is 1001: allowed are 0 to"), "{refused}");
    let refused = query.ask(&slowest).await.unwrap_err().to_string();
    assert!(refused.contains("is 0: allowed are 1 to"), "{refused}");
    for question in ["", "nothing", "screen?ask=health", "api/health"] {
        let error = query.json(question).await.unwrap_err();
        assert!(matches!(error, QueryError::NotFound(_)), "{question}");
    }
}
