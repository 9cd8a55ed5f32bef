//! What the API answers about the past, and about a present that goes on with it: every endpoint, with the parameters that
//! reach its fields. The answers in the fixtures are those of f6f1cea, the last commit before questions became types, which
//! was fed the same requests under the same clock, and asked the same.

use axum::Router;
use serde_json::{Map, Value};
use tower_pulse::admin::Access;
use tower_pulse::store::Store as Shared;

use crate::past::Time;
use crate::present::Present;
use crate::rig::asking;
use crate::{LAST, fixture};

const QUESTIONS: &[&str] = &[
    "overview",
    "overview?window=5m",
    "overview?window=24h",
    "paths?window=hour",
    "paths?window=15m&q=PRO&series=hits",
    "paths?window=1h&kind=all",
    "paths?window=1h&kind=timer&sort=max&series=p95",
    "paths?window=1h&sort=computing&order=asc&series=mean",
    "paths?window=1h&sort=changed&limit=2&offset=1",
    "paths?window=24h&kind=all",
    "paths?window=24h&status=new",
    "paths?window=24h&status=gone&sort=context",
    "paths?window=24h&status=up&sort=change",
    "paths?window=24h&status=down&sort=4xx",
    "paths?window=7d",
    "paths?window=30d",
    "paths?window=90d&sort=errors",
    "path?context=GET%20/products/%7Bid%7D",
    "path?context=GET%20/products/%7Bid%7D&window=24h",
    "path?context=GET%20/products/%7Bid%7D&window=5m&kind=http",
    "path?context=GET%20/basket&window=1h",
    "path?context=POST%20/checkout&window=5m",
    "path?context=POST%20/checkout&window=last_hour",
    "path?context=%3Cunmatched%3E&window=24h",
    "path?context=%3Call%3E&window=6h",
    "path?context=GET%20/unfolded&window=24h",
    "path?context=db:product&window=7d",
    "path?context=db:row&window=1h&kind=timer",
    "path?context=db:row",
    "profile?context=GET%20/products/%7Bid%7D",
    "profile?context=db:product&kind=timer",
    "profile",
    "fix_first",
    "fix_first?window=24h",
    "fix_first?window=1h&limit=2",
    "changes",
    "changes?kind=slower",
    "changes?kind=instance&limit=1",
    "changes?limit=3&offset=2",
    "marks",
    "deploy",
    "deploy?mark=1700000400-1.4.1",
    "deploy?mark=1700004180-1.4.2&limit=1&offset=1",
    "instances",
    "instances?window=24h",
    "instances?window=5m&context=GET%20/products/%7Bid%7D",
    "instances?limit=1&offset=1",
    "instance?instance=web-1&window=1h",
    "instance?instance=web-3",
    "instance?instance=web-3&window=5m&limit=1",
    "slowest",
    "slowest?limit=2",
    "slowest_requests",
    "slowest_requests?window=last_hour",
    "slowest_requests?window=both_hours",
    "slowest_requests?window=both_hours&context=POST%20/checkout&status=5xx",
    "slowest_requests?window=both_hours&q=bask&per_path=1&limit=1",
    "slowest_requests?window=both_hours&status=failed&instance=web-3",
    "rankings",
    "rankings?name=posts",
    "rankings?name=posts&limit=1&offset=1",
    "counters",
    "counters?precision=3600&series=true",
    "counters?precision=60&series=true&window=15m&q=sal&limit=1",
    "counters?offset=1",
    "counters?name=sales",
    "counters?name=sales&precision=86400",
    "counters?name=refunds&precision=5",
    "series",
    "series?metric=times&precision=21600",
    "series?metric=times&window=24h",
    "series?metric=hits&precision=1",
    "series?metric=errors&window=1h",
    "series?metric=outcomes&window=1h&context=POST%20/checkout",
    "series?metric=total&window=24h&context=GET%20/products/%7Bid%7D&precision=1800",
    "series?metric=mean&context=db:product&kind=timer",
    "series?metric=stddev",
    "series?metric=min&window=7d",
    "series?metric=max&from=1700000400&to=1700004000",
    "series?metric=p50",
    "series?metric=p95&window=30d&precision=86400",
    "series?metric=p99&context=GET%20/basket",
    "series?metric=error_share&precision=300",
    "series?metric=computing&window=1h",
    "series?metric=waiting&window=1h",
    "series?metric=longest_poll&window=1h",
    "heat_map",
    "heat_map?window=24h",
    "heat_map?window=1h&context=db:product&kind=timer&precision=300",
    "heat_map?from=1700000400&to=1700004000&context=GET%20/products/%7Bid%7D",
    "health",
    "health?part=status",
    "screen?ask=overview&ask=paths%3Fwindow%3D1h&ask=health%3Fpart%3Dstatus&ask=path",
];

/// Questions of rows, where the store has some.
const OF_ROWS: &[&str] = &["rows", "rows?name=stock&q=lat", "rows?limit=1&offset=1"];

/// Questions that are refused, each with the parameter that is wrong.
const REFUSED: &[&str] = &[
    "nothing",
    "overview?window=8h",
    "paths?limit=101&series=hits",
    "paths?sort=size",
    "path",
    "path?context=nowhere",
    "path?context=db:row&kind=http",
    "instance?instance=web-9",
    "counters?name=nothing",
    "counters?name=sales&q=s",
    "counters?precision=7",
    "rankings?name=nothing",
    "deploy?mark=nothing",
    "changes?kind=slow",
    "changes?kind=slower&kind=faster",
    "series?metric=size",
    "series?metric=p95&precision=5",
    "series?from=1700091300&to=1700091200",
    "series?to=1700091200",
    "series?from=1700091200&window=1h",
    "slowest_requests?status=2x",
    "slowest_requests?per_path=0",
    "slowest?limit=-1",
    "rows?name=nothing",
    "health?part=some",
    "marks?limit=1",
    "screen",
    "screen?ask=screen",
];

/// The answers, after all that waits is folded.
pub async fn ask(store: &Shared, time: &Time, with_rows: bool) -> Value {
    let present = Present::record(store, time, with_rows).await;
    let app = present.pulses[0].router(Access::open());
    let mut answers = Map::new();
    let rows = OF_ROWS.iter().filter(|_| with_rows);
    for question in QUESTIONS.iter().chain(rows) {
        let answer = asking::json(&app, &format!("/api/{question}")).await;
        answers.insert((*question).to_owned(), answer);
    }
    for question in REFUSED {
        let (status, mut answer) = asking::ask(&app, &format!("/api/{question}")).await;
        // The text is for people.
        answer["error"].take();
        answer["status"] = status.as_u16().into();
        answers.insert((*question).to_owned(), answer);
    }
    let mark = write(&app, "POST", "marks", r#"{"text": "by hand"}"#).await;
    let id = mark["id"].as_str().unwrap().to_owned();
    answers.insert("POST marks".to_owned(), mark);
    let removed = write(&app, "DELETE", &format!("marks?id={id}"), "").await;
    answers.insert("DELETE marks".to_owned(), removed);
    let given_back = r#"{"id": "taken", "taken": false}"#;
    let change = write(&app, "POST", "changes", given_back).await;
    answers.insert("POST changes".to_owned(), change);
    drop(present.rows);
    for pulse in &present.pulses {
        pulse.shutdown().await.unwrap();
    }
    let mut answers = Value::Object(answers);
    forget_names(&mut answers);
    answers
}

async fn write(app: &Router, method: &str, endpoint: &str, body: &str) -> Value {
    let headers = [("content-type", "application/json")];
    let uri = format!("/api/{endpoint}");
    let answer = asking::send(app, method, &uri, &headers, body).await;
    assert!(answer.status.is_success(), "{answer:?}");
    answer.json()
}

/// What differs by the machine and the version, and texts for people.
const NOT_COMPARED: [&str; 3] = ["description", "last_fold_seconds", "warnings"];

/// Random names are different each time.
fn forget_names(answer: &mut Value) {
    match answer {
        Value::Object(fields) => {
            for (name, value) in fields {
                match NOT_COMPARED.contains(&&**name) {
                    true => *value = Value::Null,
                    false => forget_names(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(forget_names),
        Value::String(text) if *text == env!("CARGO_PKG_VERSION") => *answer = Value::Null,
        Value::String(text) => {
            *text = String::from_utf8(crate::mask::masked(text.as_bytes())).unwrap();
        }
        _ => {}
    }
}

/// Fails unless each field that f6f1cea answered is there, with the same value. Later versions may answer more.
pub fn assert_as_before(name: &str, answers: &Value) {
    let before = std::fs::read(fixture(LAST, name)).unwrap();
    let before: Value = serde_json::from_slice(&before).unwrap();
    // A number that was read may differ from its text in the last digit.
    let now = serde_json::to_vec(answers).unwrap();
    let now: Value = serde_json::from_slice(&now).unwrap();
    let mut differences = Vec::new();
    compare(&before, &now, "", &mut differences);
    assert!(
        differences.is_empty(),
        "of what {LAST} has stored, this version answers something else:\n{}",
        differences.join("\n")
    );
}

fn compare(before: &Value, now: &Value, place: &str, differences: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in before {
                let place = format!("{place} {name}");
                match now.get(name) {
                    Some(now) => compare(value, now, &place, differences),
                    None => differences.push(format!("{place}: {value} before, and missing now")),
                }
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (at, (before, now)) in before.iter().zip(now).enumerate() {
                compare(before, now, &format!("{place}[{at}]"), differences);
            }
        }
        _ if before == now => {}
        _ => differences.push(format!("{place}: {before} before, {now} now")),
    }
}

/// The names of all endpoints of questions.
macro_rules! names {
    ($(
        $(#[$when:meta])*
        $name:literal $(with $given:literal)? => $question:ident, $function:ident, $answer:ident
        $(, less $parameter:literal $remedy:literal)?
        $(, points $points:expr)?;
    )+) => {
        [$($name),+]
    };
}

#[test]
fn every_question_of_the_table_is_asked() {
    let asked: Vec<_> = QUESTIONS.iter().chain(OF_ROWS).collect();
    for name in tower_pulse_core::questions!(names) {
        let is_asked = |of: &&&str| of.split('?').next() == Some(name);
        assert!(asked.iter().any(is_asked), "{name}");
    }
}
