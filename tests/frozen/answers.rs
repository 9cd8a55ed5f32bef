//! The API's answers about the past and the present, from every endpoint. The fixtures have the expected answers.

use axum::Router;
use http::StatusCode;
use serde_json::{Map, Value};
use tower_pulse::admin::Access;
use tower_pulse::store::Store as StoreHandle;

use crate::frozen::past::Time;
use crate::frozen::present::Present;
use crate::frozen::{LAST, fixture};
use crate::rig::asking;

/// The answers of a fixture, by question. To add a question when a new version is frozen, first give the question the
/// answer `null`.
fn before(name: &str) -> Map<String, Value> {
    serde_json::from_slice(&std::fs::read(fixture(LAST, name)).unwrap()).unwrap()
}

/// Records the present, and asks all questions of a fixture.
pub async fn ask(name: &str, store: &StoreHandle, time: &Time) -> Value {
    let present = Present::record(store, time, name == "redis.json").await;
    let app = present.pulses[0].router(Access::open());
    let mut answers = before(name);
    // A question with a space is a request that writes, and is asked below.
    let asked = answers.iter_mut();
    for (question, answer) in asked.filter(|(name, _)| !name.contains(' ')) {
        let (status, read) = asking::ask(&app, &format!("/api/{question}")).await;
        *answer = read;
        if status != StatusCode::OK {
            // The text of an error is for people, and may change.
            answer["error"].take();
            answer["status"] = status.as_u16().into();
        }
    }
    let mark = write(&app, "POST", "marks", r#"{"text": "by hand"}"#).await;
    let id = mark["id"].as_str().unwrap().to_owned();
    answers.insert("POST marks".to_owned(), mark);
    let removed = write(&app, "DELETE", &format!("marks?id={id}"), "").await;
    answers.insert("DELETE marks".to_owned(), removed);
    let withdrawn = r#"{"id": "taken", "acknowledged": false}"#;
    let change = write(&app, "POST", "changes", withdrawn).await;
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

/// The text of a fixture: one answer per line.
pub fn to_lines(answers: &Value) -> String {
    let answers = answers.as_object().unwrap().iter();
    let lines = answers.map(|(question, answer)| format!("{question:?}:{answer}"));
    format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"))
}

/// Fields that differ between machines and versions, and texts for people.
const NOT_COMPARED: [&str; 4] = ["cost", "description", "last_fold_seconds", "warnings"];

/// Masks random names, and removes the values that are not compared.
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
            *text = String::from_utf8(crate::frozen::mask::masked(text.as_bytes())).unwrap();
        }
        _ => {}
    }
}

/// Fails unless the answers have each field of the fixture, with the same value. Later versions may add fields.
pub fn assert_as_before(name: &str, answers: &Value) {
    let before = Value::Object(before(name));
    // Reading a number from its text may change the last digit, so both sides are read from text.
    let now = serde_json::to_vec(answers).unwrap();
    let now: Value = serde_json::from_slice(&now).unwrap();
    let mut differences = Vec::new();
    compare(&before, &now, "", &mut differences);
    assert!(
        differences.is_empty(),
        "this version has other answers about the data of {LAST}:\n{}",
        differences.join("\n")
    );
}

fn compare(before: &Value, now: &Value, path: &str, differences: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in before {
                let path = format!("{path} {name}");
                match now.get(name) {
                    Some(now) => compare(value, now, &path, differences),
                    None => differences.push(format!("{path}: {value} before, and missing now")),
                }
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (at, (before, now)) in before.iter().zip(now).enumerate() {
                compare(before, now, &format!("{path}[{at}]"), differences);
            }
        }
        _ if before == now => {}
        _ => differences.push(format!("{path}: {before} before, {now} now")),
    }
}

macro_rules! listed {
    ($(
        $(#[$when:meta])*
        $name:literal $(with $given:literal)? => $question:ident, $function:path, $answer:ident
        $(, less $parameter:literal $remedy:literal)?
        $(, points $points:expr)?;
    )+) => {
        &[$(($name, stringify!($answer))),+]
    };
}

/// The endpoint and the object of each answer.
pub fn objects() -> &'static [(&'static str, &'static str)] {
    tower_pulse_core::questions!(listed)
}

#[test]
fn every_question_of_the_table_is_asked() {
    let asked = before("redis.json");
    for (name, _) in objects() {
        let mut asked = asked.keys().filter_map(|key| key.split('?').next());
        assert!(asked.any(|endpoint| endpoint == *name), "{name}");
    }
}
