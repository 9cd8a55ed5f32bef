//! `DEMO_INCIDENT`: change detection names what goes wrong in the past and goes on live, and nothing else.

use futures_util::future::join_all;
use serde_json::Value;

use super::history::the_past_goes_over_into_the_present;
use super::past::{Backend, DemoWithPast};

/// Seconds after the end of a minute at which it is judged.
const JUDGED_AFTER: u64 = 15;

/// Whether a change is one that is expected.
type Expected = fn(&Value) -> bool;

/// The incidents, and whether a change names one.
const INCIDENTS: [(&str, Expected); 5] = [
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
];

#[tokio::test]
async fn incidents_and_nothing_else_are_named_in_memory() {
    incidents_and_nothing_else_are_named(Backend::Memory).await;
}

#[tokio::test]
async fn incidents_and_nothing_else_are_named_in_redis() {
    incidents_and_nothing_else_are_named(Backend::Redis).await;
}

/// Waits for minutes, so this is one test in which all demos wait at once.
async fn incidents_and_nothing_else_are_named(backend: Backend) {
    let incidents = INCIDENTS.map(|incident| is_named(backend, incident));
    let ((), mut complaints, named) = tokio::join!(
        the_past_goes_over_into_the_present(backend),
        nothing_is_named(backend),
        join_all(incidents),
    );
    complaints.extend(named.concat());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The past is steady, and goes over into the present unnoticed. Returns the changes that are named all the same.
async fn nothing_is_named(backend: Backend) -> Vec<String> {
    let mut demo = backend.start(&[("DEMO_HISTORY", "90m")]).await;
    let marks = demo.get("marks").await;
    let marks = marks["marks"].as_array().unwrap();
    let seam = marks.iter().find(|mark| mark["version"].is_null()).unwrap();
    assert_eq!(seam["text"], "simulated traffic until here");
    let at = seam["at"].as_u64().unwrap();
    assert!(at.abs_diff(demo.seam) <= 5, "{at}, not {}", demo.seam);

    let mut complaints = Vec::new();
    for when in ["in the past", "after two minutes"] {
        for change in changes(&mut demo).await {
            complaints.push(format!("{backend:?}, {when}: {change:#}"));
        }
        two_live_minutes(&mut demo).await;
    }
    complaints
}

/// Returns what is wrong with the changes that are named.
async fn is_named(backend: Backend, (incident, expected): (&str, Expected)) -> Vec<String> {
    let env = [("DEMO_HISTORY", "90m"), ("DEMO_INCIDENT", incident)];
    let mut demo = backend.start(&env).await;
    let log = demo.demo.stderr();
    let begun = log.split("the incident began at Unix second ").nth(1);
    let begun = begun.and_then(|text| text.split(',').next()?.parse::<u64>().ok());
    let begun = begun.unwrap_or_else(|| panic!("{incident} has not begun: {log}"));
    assert!((420..600).contains(&(demo.seam - begun)), "{log}");

    let mut complaints = Vec::new();
    for when in ["at the start", "after two minutes"] {
        let changes = changes(&mut demo).await;
        let about = format!("{incident} from {begun} on, {backend:?}, {when}");
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
        two_live_minutes(&mut demo).await;
    }
    complaints
}

async fn changes(demo: &mut DemoWithPast) -> Vec<Value> {
    let changes = demo.get("changes").await;
    changes["changes"].as_array().unwrap().clone()
}

/// Waits until two minutes are judged that were lived through from their begin on.
async fn two_live_minutes(demo: &mut DemoWithPast) {
    let end = demo.first_live_minute() + 120;
    demo.wait_until(end + JUDGED_AFTER).await;
    let path = "/admin/pulse/api/changes";
    super::until(&mut demo.client, path, |changes| {
        changes["judged_until"].as_u64() >= Some(end)
    })
    .await;
}

fn is(change: &Value, kind: &str, context: &str) -> bool {
    change["kind"] == kind && change["context"] == context
}

fn has_suspect(change: &Value, is_it: impl Fn(&Value) -> bool) -> bool {
    change["suspects"].as_array().unwrap().iter().any(is_it)
}
