//! `DEMO_HISTORY` and `DEMO_INCIDENT`: the simulated past, its changes, and the live shop after it. `tests/browser`
//! tests each incident, with a store in memory.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::rig::demo::{Demo, built};
use crate::rig::http::Client;
use crate::rig::process::TempDir;
use crate::rig::server::RedisServer;
use crate::rig::wait;

/// The time limit for recording the simulated past, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(600);
const MINUTES: u64 = 60;
/// The pages of the shop, and their requests per minute in the past.
const RATES: [(&str, f64); 8] = [
    ("GET /", 360.0),
    ("GET /products/{id}", 360.0),
    ("GET /api/v1/users/{id}", 210.0),
    ("GET /search", 180.0),
    ("GET /cart", 150.0),
    ("POST /cart/items", 90.0),
    ("POST /checkout", 90.0),
    ("GET /reports/daily", 24.0),
];

async fn start(env: &[(&str, &str)]) -> (Demo, Client) {
    let history = format!("{MINUTES}m");
    let env = [&[("DEMO_HISTORY", &*history)], env].concat();
    let demo = Demo::start_within(PATIENCE, built(), &[], &env).await;
    let client = Client::connect(demo.address()).await;
    (demo, client)
}

async fn start_without_traffic(env: &[(&str, &str)]) -> Demo {
    let env = [&[("DEMO_TRAFFIC", "off"), ("PULSE_FLUSH_MS", "100")], env].concat();
    Demo::start(built(), &env).await
}

async fn until(client: &mut Client, path: &str, is_expected: impl Fn(&Value) -> bool) {
    wait::look_until(wait::PATIENCE, async || {
        let answer = client.json(path).await;
        let result = is_expected(&answer).then_some(());
        result.ok_or_else(|| format!("{path} stays {answer:#}"))
    })
    .await;
}

fn row<'a>(paths: &'a Value, context: &str) -> Option<&'a Value> {
    let rows = paths["paths"].as_array().unwrap();
    rows.iter().find(|row| row["context"] == context)
}

async fn ask(client: &mut Client, path: &str) -> Value {
    client.json(&format!("/admin/pulse/api/{path}")).await
}

/// A Unix second that the demo logged after these words.
fn logged(demo: &Demo, words: &str) -> u64 {
    let log = demo.stderr();
    let second = log.split(words).nth(1);
    let second = second.and_then(|text| text.split([' ', ',']).next()?.parse().ok());
    second.unwrap_or_else(|| panic!("{words:?} is not in the log: {log}"))
}

fn texts<'a>(rows: &'a [Value], field: &str) -> BTreeSet<&'a str> {
    rows.iter()
        .map(|row| row[field].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn the_past_is_recorded_and_has_no_change() {
    let directory = TempDir::new("demo-past");
    let file = directory.path().join("pulse.redb");
    let (demo, mut client) = start(&[("PULSE_FILE", file.to_str().unwrap())]).await;
    let past_end = logged(&demo, "before Unix second ");
    // The simulation may end in the middle of a minute.
    let to = past_end / 60 * 60;
    let hour = format!("paths?limit=100&from={}&to={to}", to - 3_600);
    let past = ask(&mut client, &hour).await;
    assert_eq!(past["total"], RATES.len(), "{past:#}");
    for (context, rate) in RATES {
        let count = row(&past, context).unwrap()["count"].as_f64().unwrap();
        let expected = rate * 60.0;
        let difference = (count - expected).abs();
        assert!(difference < 5.0 * expected.sqrt(), "{context}: {count}");
    }
    let day = ask(&mut client, "overview?window=24h").await;
    let total: f64 = RATES.iter().map(|(_, rate)| rate * MINUTES as f64).sum();
    let count = day["window"]["count"].as_f64().unwrap();
    assert!((count / total - 1.0).abs() < 0.1, "{count} of {total}");
    assert_eq!(day["instances"], 4);
    let mut slowest = Vec::new();
    for window in ["hour", "last_hour"] {
        let path = format!("slowest_requests?window={window}");
        let mut answer = ask(&mut client, &path).await;
        slowest.append(answer["requests"].as_array_mut().unwrap());
    }
    let instances = ["web-1", "web-2", "web-3", "web-4"];
    assert_eq!(texts(&slowest, "instance"), instances.into());
    assert_eq!(ask(&mut client, "health").await["instance"], "web-1");
    let report = ask(&mut client, "path?context=GET%20/search&window=1h").await;
    let timers = report["window"]["timers"].as_array().unwrap();
    let timers = texts(timers, "timer");
    assert_eq!(timers, ["db:search", "template:results"].into());

    let marks = ask(&mut client, "marks").await;
    let marks = marks["marks"].as_array().unwrap();
    let mark = marks.iter().find(|mark| mark["version"].is_null()).unwrap();
    assert_eq!(mark["text"], "simulated traffic until here");
    let at = mark["at"].as_u64().unwrap();
    assert!(at.abs_diff(past_end) <= 5, "{at}, not {past_end}");
    let changes = ask(&mut client, "changes").await;
    assert_eq!(changes["changes"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn all_changes_in_redis_are_about_the_incident() {
    let redis = RedisServer::start().await;
    let env = [("REDIS_URL", &*redis.url()), ("DEMO_INCIDENT", "busy_host")];
    let (demo, mut client) = start(&env).await;
    let begun = logged(&demo, "the incident began at Unix second ");
    let changes = ask(&mut client, "changes").await;
    let changes = changes["changes"].as_array().unwrap();
    assert!(!changes.is_empty(), "nothing since {begun}");
    for change in changes {
        let since = change["since"].as_u64().unwrap();
        let is_ongoing = since.abs_diff(begun) <= 120 && change["ended"].is_null();
        let suspects = change["suspects"].as_array().unwrap();
        let is_about = |row: &Value| row["instance"] == "web-3";
        let is_machine = |suspect: &Value| {
            suspect["kind"] == "machine" && suspect["delay"].as_f64() > Some(0.03)
        };
        let is_named = is_about(change) || suspects.iter().any(is_about);
        let is_expected = is_named && suspects.iter().any(is_machine);
        assert!(is_ongoing && is_expected, "since {begun}: {change:#}");
    }
}

#[tokio::test]
async fn a_past_is_simulated_only_in_an_empty_store_that_can_be_reached() {
    let redis = RedisServer::start().await;
    let path = "/admin/pulse/api/paths?window=1h";
    for history in [None, Some("30m")] {
        let history = history.map(|history| ("DEMO_HISTORY", history));
        let url = redis.url();
        let env = [("REDIS_URL", &*url)].into_iter().chain(history);
        let demo = start_without_traffic(&env.collect::<Vec<_>>()).await;
        let mut client = Client::connect(demo.address()).await;
        if history.is_none() {
            client.get("/ping").await;
        } else {
            let log = demo.stderr();
            assert!(log.contains("the simulated past is left out"), "{log}");
            assert!(log.contains("set another PULSE_PREFIX"), "{log}");
        }
        let is_counted =
            |paths: &Value| paths["total"] == 1 && row(paths, "GET /ping").unwrap()["count"] == 1;
        until(&mut client, path, is_counted).await;
    }
    let env = [
        ("REDIS_URL", "redis://127.0.0.1:1/"),
        ("DEMO_HISTORY", "30m"),
    ];
    let demo = start_without_traffic(&env).await;
    let log = demo.stderr();
    assert!(log.contains("the simulated past is left out"), "{log}");
    let mut client = Client::connect(demo.address()).await;
    assert_eq!(client.get("/ping").await.status, 200);
}

#[tokio::test]
async fn an_incident_without_a_past_begins_at_the_start() {
    let demo = Demo::start(built(), &[("DEMO_INCIDENT", "surge")]).await;
    let mut client = Client::connect(demo.address()).await;
    // The usual rate is 24 requests per second, and the surge adds 30.
    until(&mut client, "/admin/pulse/api/overview", |overview| {
        overview["instances"] == 4 && overview["requests_per_second"].as_f64() > Some(40.0)
    })
    .await;
}
