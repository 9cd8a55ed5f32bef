//! What the API answers about the past.

use serde_json::{Map, Value};
use tower_pulse::admin::Access;
use tower_pulse::store::Store as Shared;

use crate::past::{Time, instance, settle};
use crate::rig::asking;
use crate::{LAST, fixture};

const QUESTIONS: [&str; 24] = [
    "overview?window=24h",
    "paths?window=hour",
    "paths?window=1h&kind=all",
    "paths?window=24h&kind=all",
    "paths?window=7d",
    "paths?window=30d",
    "path?context=GET%20/products/%7Bid%7D&window=24h",
    "path?context=db:product&window=7d",
    "profile?context=GET%20/products/%7Bid%7D",
    "profile",
    "fix_first?window=24h",
    "changes",
    "marks",
    "deploy",
    "instances?window=24h",
    "instance?instance=web-1&window=1h",
    "slowest",
    "slowest_requests?window=both_hours",
    "rankings",
    "rankings?name=posts",
    "counters?precision=3600&series=true",
    "counters?name=sales&precision=86400",
    "series?metric=times&precision=21600",
    "heat_map?window=24h",
];

/// The answers, after all that waits is folded.
pub async fn ask(store: &Shared) -> Value {
    let time = Time::to_read();
    let pulse = instance(store, &time, "1.4.2");
    settle(&pulse).await;
    let app = pulse.router(Access::open());
    let mut answers = Map::new();
    for question in QUESTIONS {
        let mut answer = asking::json(&app, &format!("/api/{question}")).await;
        forget_names(&mut answer);
        answers.insert(question.to_owned(), answer);
    }
    pulse.shutdown().await.unwrap();
    Value::Object(answers)
}

/// Random names are different each time.
fn forget_names(answer: &mut Value) {
    match answer {
        Value::Object(fields) => fields.values_mut().for_each(forget_names),
        Value::Array(values) => values.iter_mut().for_each(forget_names),
        Value::String(text) => {
            *text = String::from_utf8(crate::mask::masked(text.as_bytes())).unwrap();
        }
        _ => {}
    }
}

/// Fails unless each field that the last version answered has the same value. Later versions may answer more.
pub fn assert_as_before(name: &str, answers: &Value) {
    let before = std::fs::read(fixture(LAST, name)).unwrap();
    let before: Value = serde_json::from_slice(&before).unwrap();
    let mut differences = Vec::new();
    compare(&before, answers, "", &mut differences);
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
                compare(
                    value,
                    now.get(name).unwrap_or(&Value::Null),
                    &place,
                    differences,
                );
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (at, (before, now)) in before.iter().zip(now).enumerate() {
                compare(before, now, &format!("{place}[{at}]"), differences);
            }
        }
        _ if before == now || is_nearly(before, now) => {}
        _ => differences.push(format!("{place}: {before} before, {now} now")),
    }
}

/// The sums of numbers with a fraction may have been added up in another order.
fn is_nearly(before: &Value, now: &Value) -> bool {
    let (Some(before), Some(now)) = (before.as_f64(), now.as_f64()) else {
        return false;
    };
    (before - now).abs() <= 1e-12 * before.abs()
}
