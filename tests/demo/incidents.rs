//! `DEMO_INCIDENT`: change detection names what goes wrong in the past and goes on live, and nothing else. These are the
//! incidents in Redis; those in memory are read from the page, in `tests/browser`.

use std::time::Duration;

use serde_json::Value;

use super::past::{Backend, DemoWithPast, PATIENCE};

/// Whether a change is one that is expected.
type Expected = fn(&Value) -> bool;

/// The incidents, and whether a change names one.
const INCIDENTS: [(&str, Expected); 9] = [
    ("slow_query", |change| {
        is(change, "slower", "GET /search")
            && has_suspect(change, |suspect| suspect["timer"] == "db:search")
    }),
    ("bad_deploy", |change| {
        is(change, "slower", "GET /products/{id}")
            && has_suspect(change, |suspect| suspect["version"] == "1.4.2")
    }),
    // All pages of the instance are slow, so each may be named, and the fleet with it.
    ("bad_instance", |change| {
        change["instance"] == "web-3"
            || has_suspect(change, |suspect| suspect["instance"] == "web-3")
    }),
    ("errors", |change| is(change, "failing", "POST /checkout")),
    ("surge", |change| {
        is(change, "surging", "GET /products/{id}")
    }),
    BUSY_HOST,
    QUEUE,
    REPEATED,
    BLOCKING,
];

/// Every change is about the instance, and its machine is suspected.
const BUSY_HOST: (&str, Expected) = ("busy_host", |change| {
    let is_about = change["instance"] == "web-3"
        || has_suspect(change, |suspect| suspect["instance"] == "web-3");
    is_about
        && has_suspect(change, |suspect| {
            suspect["kind"] == "machine" && suspect["delay"].as_f64() > Some(0.03)
        })
});
const QUEUE: (&str, Expected) = ("queue", |change| {
    is(change, "slower", "<queue>") && has_suspect(change, |suspect| suspect["timer"] == "queue")
});
const REPEATED: (&str, Expected) = ("repeated", |change| {
    is(change, "slower", "GET /cart")
        && has_suspect(change, |suspect| suspect["timer"] == "db:find_item")
});

const BLOCKING: (&str, Expected) = ("blocking", |change| {
    is(change, "slower", "POST /cart/items")
        && has_suspect(change, |suspect| {
            suspect["kind"] == "computing" && suspect["longest"].as_f64() > Some(0.08)
        })
});

/// Those that only the process can tell of, where a fleet shares a store.
async fn what_the_process_tells_is_named(backend: Backend) {
    let mut complaints = Vec::new();
    for incident in [BUSY_HOST, QUEUE, REPEATED, BLOCKING] {
        complaints.extend(is_named(backend, incident).await);
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The others in memory are read from the page, in `tests/browser`.
#[tokio::test]
async fn what_the_process_tells_is_named_in_memory() {
    what_the_process_tells_is_named(Backend::Memory).await;
}

#[tokio::test]
async fn what_the_process_tells_is_named_in_a_file() {
    what_the_process_tells_is_named(Backend::File).await;
}

#[tokio::test]
async fn nothing_is_named_in_memory() {
    let complaints = nothing_is_named(Backend::Memory).await;
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[tokio::test]
async fn incidents_and_nothing_else_are_named_in_redis() {
    let mut complaints = nothing_is_named(Backend::Redis).await;
    for incident in INCIDENTS {
        complaints.extend(is_named(Backend::Redis, incident).await);
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The past is steady. Returns the changes that are named all the same.
async fn nothing_is_named(backend: Backend) -> Vec<String> {
    let mut demo = backend.start(&[("DEMO_HISTORY", "90m")]).await;
    let marks = demo.get("marks").await;
    let marks = marks["marks"].as_array().unwrap();
    let seam = marks.iter().find(|mark| mark["version"].is_null()).unwrap();
    assert_eq!(seam["text"], "simulated traffic until here");
    let at = seam["at"].as_u64().unwrap();
    assert!(at.abs_diff(demo.seam) <= 5, "{at}, not {}", demo.seam);
    let changes = changes(&mut demo).await;
    let complaint = |change: &Value| format!("{backend:?}, without an incident: {change:#}");
    changes.iter().map(complaint).collect()
}

/// Returns what is wrong with the changes that are named right after the start.
async fn is_named(backend: Backend, (incident, expected): (&str, Expected)) -> Vec<String> {
    let env = [("DEMO_HISTORY", "90m"), ("DEMO_INCIDENT", incident)];
    let mut demo = backend.start(&env).await;
    let log = demo.demo.stderr();
    let begun = log.split("the incident began at Unix second ").nth(1);
    let begun = begun.and_then(|text| text.split(',').next()?.parse::<u64>().ok());
    let begun = begun.unwrap_or_else(|| panic!("{incident} has not begun: {log}"));
    // The past catches up with the clock, which goes on while it is recorded.
    let ago = Duration::from_secs(demo.seam - begun);
    let most = Duration::from_secs(600) + PATIENCE;
    assert!((Duration::from_secs(420)..most).contains(&ago), "{log}");

    let mut complaints = Vec::new();
    let changes = changes(&mut demo).await;
    let about = format!("{incident} from {begun} on, {backend:?}");
    if changes.is_empty() {
        complaints.push(format!("{about}: nothing"));
    }
    for change in changes {
        let since = change["since"].as_u64().unwrap();
        let is_right = expected(&change) && since.abs_diff(begun) <= 120;
        if !is_right || !change["ended"].is_null() {
            complaints.push(format!("{about}: {change:#}"));
        }
    }
    complaints
}

async fn changes(demo: &mut DemoWithPast) -> Vec<Value> {
    let changes = demo.get("changes").await;
    changes["changes"].as_array().unwrap().clone()
}

fn is(change: &Value, kind: &str, context: &str) -> bool {
    change["kind"] == kind && change["context"] == context
}

fn has_suspect(change: &Value, is_it: impl Fn(&Value) -> bool) -> bool {
    change["suspects"].as_array().unwrap().iter().any(is_it)
}
