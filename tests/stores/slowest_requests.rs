//! The API's lists of a fleet's slowest requests, by path, instance and status, in memory and in Redis.

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{ManualClock, Pulse};

use crate::rig::asking;
use crate::stores::fixture::{Fixture, THIS_HOUR};

const REPORT: &str = "POST /report";
const USERS: &str = "GET /users/{id}";
const SEARCH: &str = "GET /search";

struct Fleet {
    pulses: [Pulse; 2],
    app: Router,
    manual_clock: ManualClock,
}

impl Fleet {
    fn new(fixture: &Fixture) -> Self {
        let instance = |name: &str| {
            let builder = Pulse::builder().store(fixture.store.clone());
            let builder = builder.clock(fixture.clock.clone()).instance(name);
            let (pulse, tasks) = builder.build_with_tasks().unwrap();
            let folding = tasks.into_iter().filter(|task| task.name() == "fold");
            folding.for_each(|task| drop(tokio::spawn(task)));
            pulse
        };
        let pulses = [instance("web-1"), instance("web-2")];
        let app = pulses[0].router(Access::open());
        let manual_clock = fixture.manual_clock.clone();
        Self {
            pulses,
            app,
            manual_clock,
        }
    }

    /// Records so many slow requests of one page that the list of all contexts has no other requests. Two other pages
    /// have a few faster requests.
    async fn record(&self) {
        let millis = Duration::from_millis;
        let [first, second] = &self.pulses;
        for seconds in 1..=120 {
            let duration = Duration::from_secs(seconds);
            first.record(REPORT, duration, StatusCode::OK);
            if seconds % 10 == 0 {
                self.flush().await;
            }
        }
        for n in 0..6 {
            first.record(USERS, millis(500 + n), StatusCode::OK);
        }
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        second.record(USERS, millis(700), unavailable);
        second.record(SEARCH, millis(300), StatusCode::NOT_FOUND);
        self.flush().await;
        for n in 1..=3 {
            second.record(USERS, millis(n), unavailable);
        }
        self.flush().await;
    }

    async fn flush(&self) {
        for pulse in &self.pulses {
            pulse.flush().await.unwrap();
        }
        self.manual_clock.advance(Duration::from_secs(1));
        for pulse in &self.pulses {
            pulse.simulation().drain();
        }
    }

    async fn ask(&self, query: &str) -> (StatusCode, Value) {
        asking::ask(&self.app, &format!("/api/slowest_requests?{query}")).await
    }

    /// The answer, and for each of its requests the first letter of the path and the duration in milliseconds.
    async fn listed(&self, query: &str) -> (Value, Vec<(char, u64)>) {
        let (status, answer) = self.ask(query).await;
        assert_eq!(status, 200, "{query}: {answer}");
        let requests = answer["requests"].as_array().unwrap().iter();
        let requests = requests.map(|request| {
            let letter = request["path"].as_str().unwrap().chars().nth(1).unwrap();
            let millis = 1e3 * request["duration"].as_f64().unwrap();
            (letter, millis.round() as u64)
        });
        let requests = requests.collect();
        (answer, requests)
    }
}

async fn slowest_requests_are_filtered(fixture: Fixture) {
    let fleet = Fleet::new(&fixture);
    let [first, second] = &fleet.pulses;
    fleet.record().await;
    let (all, requests) = fleet.listed("").await;
    assert_eq!((requests.len(), requests[99]), (100, ('r', 21_000)));
    let lists = |answer: &Value| (answer["lists"].clone(), answer["lists_in_all"].clone());
    assert_eq!(lists(&all), (json!(0), json!(0)));
    assert_eq!(all["instances"], json!(["web-1"]));

    // A limit for each path lets the answer have requests of all paths.
    let (answer, requests) = fleet.listed("per_path=2").await;
    let slowest = [('r', 120_000), ('r', 119_000)];
    let two = [&slowest[..], &[('u', 700), ('u', 505), ('s', 300)]].concat();
    assert_eq!(requests, two);
    assert_eq!(lists(&answer), (json!(3), json!(3)));
    assert_eq!(answer["instances"], json!(["web-1", "web-2"]));
    assert_eq!(answer["total"], 5);
    let (answer, limited) = fleet.listed("per_path=2&limit=3").await;
    assert_eq!((&limited[..], &answer["total"]), (&two[..3], &json!(5)));
    // The limit is above the length of a context's list. The other requests come from the list of all contexts.
    let (_, eight) = fleet.listed("per_path=8").await;
    let reports = eight.iter().filter(|(path, _)| *path == 'r');
    assert_eq!(reports.count(), 8);

    // By path: the five requests of the path's own list, although none is among the slowest of all contexts.
    let users = [('u', 700), ('u', 505), ('u', 504), ('u', 503), ('u', 502)];
    let (answer, requests) = fleet.listed("context=GET+/users/{id}").await;
    assert_eq!(requests, users);
    assert_eq!(lists(&answer), (json!(1), json!(1)));
    let reports = fleet.listed("context=POST+/report").await.1;
    assert_eq!(reports.len(), 100);

    // By status: failed requests have separate lists, because they are often fast.
    let failed = [('u', 700), ('u', 3), ('u', 2), ('u', 1)];
    for status in ["5xx", "503", "failed"] {
        let (answer, requests) = fleet.listed(&format!("status={status}")).await;
        assert_eq!(requests, failed, "{status}");
        assert_eq!(lists(&answer), (json!(1), json!(1)), "{status}");
        // The answer lists the instances that have requests of this status.
        assert_eq!(answer["instances"], json!(["web-2"]), "{status}");
    }
    for (query, expected) in [
        ("status=404", &[('s', 300)][..]),
        ("status=4xx&context=GET+/search", &[('s', 300)]),
        ("status=502", &[]),
        ("status=panicked", &[]),
        ("context=GET+/nothing", &[]),
        ("context=GET+/users/{id}&q=search", &[]),
        ("q=USERS", &users),
        ("instance=web-2", &[('u', 700), ('s', 300)]),
        ("instance=web-2&status=5xx&per_path=2", &failed[..2]),
        ("instance=web-1&status=5xx", &[]),
    ] {
        assert_eq!(fleet.listed(query).await.1, expected, "{query}");
    }

    // The limit for each path applies to both kept hours together.
    fleet.manual_clock.advance(Duration::from_secs(3_600));
    first.record(SEARCH, Duration::from_secs(200), StatusCode::OK);
    fleet.flush().await;
    let (answer, requests) = fleet.listed("window=6h&per_path=2").await;
    let both = [&[('s', 200_000)], &two[..]].concat();
    assert_eq!(requests, both);
    // Requests from before the last hour are not kept.
    assert_eq!(answer["from"], json!(THIS_HOUR));
    assert_eq!(answer["kept_since"], json!(THIS_HOUR));
    assert_eq!(answer["to"].as_i64().unwrap() % 60, 0);
    let before = format!("from={}&to={}", THIS_HOUR - 90_000, THIS_HOUR - 3_600);
    let slowest = [('s', 200_000), ('r', 120_000), ('u', 700)];
    for (query, expected) in [
        ("window=6h&per_path=1", &slowest[..]),
        ("window=hour&per_path=2", &both[..1]),
        ("window=last_hour&per_path=2", &two),
        // A window may be a part of an hour.
        ("window=5m&per_path=2", &both[..1]),
        (&before, &[]),
    ] {
        assert_eq!(fleet.listed(query).await.1, expected, "{query}");
    }

    // With any number of pages, at most as many lists are read as the answer has rows.
    for page in 0..150 {
        let (context, duration) = (format!("GET /page/{page}"), Duration::from_millis(page + 1));
        second.record(&context, duration, StatusCode::OK);
    }
    fleet.flush().await;
    let (answer, requests) = fleet.listed("per_path=1").await;
    let slowest = (0..99).map(|n| ('p', 150 - n));
    let slowest: Vec<_> = [('s', 200_000)].into_iter().chain(slowest).collect();
    assert_eq!(requests, slowest);
    assert_eq!(lists(&answer), (json!(100), json!(151)));

    for (status, says) in [
        ("6xx", "5xx"),
        ("99", "a status of 100 to 999"),
        ("+99", "a status of 100 to 999"),
        ("completed", "cancelled"),
    ] {
        let (code, answer) = fleet.ask(&format!("status={status}")).await;
        assert_eq!(code.as_u16(), 400, "{status}");
        assert_eq!(answer["parameter"], json!("status"), "{status}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(says), "{status}: {error}");
    }
}

in_both!(slowest_requests_are_filtered);
