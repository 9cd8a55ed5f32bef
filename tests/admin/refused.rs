//! Every endpoint refuses unknown, repeated and invalid parameters. The same question in Rust fails with the same
//! error.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;
use tower_pulse::query::{PathsQuery, QueryError, SlowestRequestsQuery};

use crate::admin::client_of;
use crate::rig::http::{Client, Response};

/// Questions to every endpoint, each with the highest allowed `limit`, or `None` if `limit` is not allowed.
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

struct Served {
    client: Client,
    pulse: Pulse,
}

async fn served() -> Served {
    let pulse = Pulse::builder().instance("web-1").build().unwrap();
    pulse.record("GET /ping", Duration::from_millis(3), StatusCode::OK);
    let ranking = pulse.ranking("posts").build().unwrap();
    ranking.add("one", 1);
    pulse.mark("new index").await.unwrap();
    pulse.flush().await.unwrap();
    pulse.simulation().heartbeat().await.unwrap();
    let client = client_of(&pulse, Access::open()).await;
    Served { client, pulse }
}

impl Served {
    async fn get(&mut self, question: &str) -> Response {
        self.client.get(&format!("/pulse/{question}")).await
    }

    /// Panics unless the API and Rust refuse the parameter with the same error.
    async fn check(&mut self, question: &str, parameter: &str, says: &[&str]) {
        let answer = self.get(question).await;
        assert_refused(question, &answer, parameter, says);
        if let Some(in_rust) = in_rust(question) {
            let error = self.pulse.query().json(in_rust).await.unwrap_err();
            let QueryError::Parameter { name, message, .. } = error else {
                panic!("{question}")
            };
            let expected = json!({ "error": message, "parameter": name });
            assert_eq!(answer.json(), expected, "{question}");
        }
    }
}

/// The question as it is asked in Rust; `None` if only the API answers it.
fn in_rust(question: &str) -> Option<&str> {
    let question = question.strip_prefix("api/")?;
    (!question.starts_with("screen")).then_some(question)
}

fn with(question: &str, parameter: &str) -> String {
    let and = if question.contains('?') { '&' } else { '?' };
    format!("{question}{and}{parameter}")
}

fn assert_refused(question: &str, answer: &Response, parameter: &str, says: &[&str]) {
    assert_eq!(answer.status, 400, "{question}: {}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["parameter"], parameter, "{question}: {answer}");
    let error = answer["error"].as_str().unwrap();
    for part in says {
        assert!(error.contains(part), "{question}: {error:?} lacks {part:?}");
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
async fn unknown_repeated_and_invalid_parameters_are_refused() {
    let mut served = served().await;
    for (question, _) in QUESTIONS {
        let answer = served.get(question).await;
        assert_eq!(answer.status, 200, "{question}: {}", answer.text());
        for (unknown, name) in [
            ("limt=3", "limt"),
            ("Limit=3", "Limit"),
            ("unknown", "unknown"),
            ("%20=", " "),
            ("x%5B%5D=1", "x[]"),
        ] {
            let question = with(question, unknown);
            served.check(&question, name, &[name, "allowed"]).await;
        }
        let given = question.split_once('?').map(|(_, given)| given);
        if let Some(given) = given.filter(|given| !given.starts_with("ask=")) {
            let name = given.split('=').next().unwrap();
            let question = with(question, given);
            served.check(&question, name, &[name, "twice"]).await;
        }
    }
    for (question, name, says) in [
        ("api/paths?sorts=p95", "sorts", &["sort, ", "limit"][..]),
        ("api/marks?limit=3", "limit", &["no parameter is allowed"]),
        // `api/counters` lists the names that contain `q`, or returns the counter `name`: not both.
        ("api/counters?name=hits&q=x", "q", &["name or precision"]),
        ("api/counters?name=", "name", &[]),
        ("api/counters?precision=7", "precision", &["is 7:", "60"]),
        ("api/rankings?limit=3", "limit", &["one ranking (name)"]),
        ("api/rankings?name=", "name", &[]),
        ("api/paths?kind=zqx", "kind", &["http", "all", "zqx"]),
        ("api/paths?status=zqx", "status", &["gone", "any", "zqx"]),
        ("api/paths?series=zqx", "series", &["p95", "none", "zqx"]),
        ("api/paths?limit=zqx", "limit", &["whole number", "zqx"]),
        ("api/paths?window=9y", "window", &["5m", "9y"]),
        ("api/paths?window=1h&from=5", "from", &[]),
        ("api/paths?from=zqx", "from", &["Unix seconds", "zqx"]),
        ("api/paths?from=5&to=5", "from", &[]),
        ("api/paths?from=99999999999", "from", &[]),
        ("api/paths?to=5", "to", &[]),
        ("api/paths?sort=name", "sort", &[]),
        ("api/paths?order=up", "order", &[]),
        ("api/paths?q=%ff", "q", &[]),
        ("api/path", "context", &[]),
        ("api/path?context=", "context", &[]),
        ("api/outcome?outcome=9xx", "outcome", &["5xx", "9xx"]),
        ("api/series?metric=p42", "metric", &[]),
        ("api/series?precision=7", "precision", &["is 7:", "60"]),
        ("api/series?metric=p95&precision=1", "precision", &[]),
        ("metrics?names=otel", "names", &["pulse or open", "otel"]),
    ] {
        served.check(question, name, says).await;
    }
    // A link to the dashboard may have any query, because other programs add parameters to links.
    for path in ["/pulse?x=1", "/pulse/?x=1"] {
        assert_eq!(served.client.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_write_with_an_unknown_parameter_is_refused() {
    let mut served = served().await;
    let json = [("content-type", "application/json")];
    for (method, question, body) in [
        ("POST", "marks?x=1", r#"{"text": "index"}"#),
        ("POST", "changes?x=1", "{}"),
        ("DELETE", "marks?id=1&x=1", ""),
    ] {
        let uri = format!("/pulse/api/{question}");
        let answer = served.client.request(method, &uri, &json, body).await;
        assert_refused(question, &answer, "x", &["x", "allowed"]);
    }
    let marks = served.get("api/marks").await.json();
    assert_eq!(marks["marks"].as_array().unwrap().len(), 1, "{marks}");
}

#[tokio::test]
async fn a_number_beyond_its_range_is_refused() {
    let mut served = served().await;
    let huge = "9".repeat(30);
    for (question, most) in QUESTIONS {
        let Some(most) = most else {
            let question = with(question, "limit=1");
            served.check(&question, "limit", &["allowed"]).await;
            continue;
        };
        let answer = served.get(&with(question, &format!("limit={most}"))).await;
        assert_eq!(answer.status, 200, "{question}: {}", answer.text());
        let allowed = format!("0 to {most}");
        for given in [&(most + 1).to_string(), &huge] {
            let question = with(question, &format!("limit={given}"));
            served.check(&question, "limit", &[given, &allowed]).await;
        }
    }
    for (question, name, given, allowed) in [
        ("api/paths", "offset", "1000000001", "0 to 1000000000"),
        ("api/changes", "offset", &*huge, "0 to 1000000000"),
        ("api/slowest_requests", "per_path", "0", "1 to 1000"),
        ("api/slowest_requests", "per_path", "1001", "1 to 1000"),
    ] {
        let question = with(question, &format!("{name}={given}"));
        served.check(&question, name, &[given, allowed]).await;
    }
}

#[tokio::test]
async fn questions_in_rust_are_answered_or_refused() {
    let served = served().await;
    let query = served.pulse.query();
    for question in QUESTIONS
        .iter()
        .filter_map(|(question, _)| in_rust(question))
    {
        let answer = query.json(question).await;
        assert!(answer.is_ok(), "{question}: {answer:?}");
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
