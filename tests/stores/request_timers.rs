//! The timers within requests that `api/path` tells, in each store, against a plain list of all of them: counts and
//! sums are exact, also when slices have entered and left a window.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use http::StatusCode;
use serde_json::Value;
use tower_pulse::admin::Access;
use tower_pulse::{Pulse, Task};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::timer_sums::{MAX_TIMERS, OTHER, TimerSums};

use crate::fixture::{Fixture, aggregate_of};
use crate::rig::asking;
use crate::rig::seed::seed;

const CONTEXTS: usize = 3;
const TIMERS: usize = 5;

/// A request with its timers, or a timer that ended after its request.
#[derive(Clone)]
struct Served {
    second: i64,
    context: usize,
    /// `None` for late timers.
    nanos: Option<u64>,
    covered: u64,
    timers: Vec<(usize, TimerSums)>,
}

fn context(number: usize) -> String {
    format!("GET /{number}")
}

fn timer(number: usize) -> String {
    format!("db:{number}")
}

impl Served {
    fn random(rng: &mut fastrand::Rng, now: i64) -> Self {
        let nanos = (rng.u32(..4) > 0).then(|| rng.u64(1_000..1_000_000_000));
        let mut served = Self {
            second: now
                - if rng.u32(..10) == 0 {
                    rng.i64(0..3_000)
                } else {
                    0
                },
            context: rng.usize(..CONTEXTS),
            nanos,
            covered: nanos.map_or(0, |nanos| rng.u64(0..nanos)),
            timers: Vec::new(),
        };
        for _ in 0..rng.usize(..4).max(usize::from(nanos.is_none())) {
            let count = rng.u64(1..9);
            let sums = TimerSums {
                count,
                requests: u64::from(rng.bool()),
                sum: rng.u64(0..2_000_000_000),
                covered: served.covered / 2,
            };
            served.timers.push((rng.usize(..TIMERS), sums));
        }
        served
    }

    fn aggregate(&self) -> Aggregate {
        let mut aggregate = match self.nanos {
            Some(nanos) => aggregate_of(&[nanos], Outcome::Success),
            None => Aggregate::default(),
        };
        for (number, sums) in &self.timers {
            let id = RecordId::new(Kind::Timer, &timer(*number));
            aggregate.timers.add(id, sums);
        }
        if !self.timers.is_empty() {
            aggregate.timers.covered = self.covered;
        }
        aggregate
    }
}

struct Page {
    router: Router,
    served: Vec<Served>,
    _tasks: (Pulse, Vec<Task>),
}

impl Page {
    fn new(fixture: &Fixture) -> Self {
        let builder = Pulse::builder().store(fixture.store.clone());
        let builder = builder.clock(fixture.clock.clone());
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        Self {
            router: pulse.router(Access::open()),
            served: Vec::new(),
            _tasks: (pulse, tasks),
        }
    }

    async fn get(&self, uri: &str) -> (StatusCode, Value) {
        asking::ask(&self.router, uri).await
    }

    async fn serve(&mut self, fixture: &mut Fixture, served: Vec<Served>) {
        let mut batch = Batch::new(fixture.precisions.clone());
        for one in &served {
            let name = context(one.context).into();
            batch.add(&name, Kind::Http, one.second, &one.aggregate());
            for (number, _) in &one.timers {
                let own = aggregate_of(&[1_000], Outcome::Completed);
                batch.add(&timer(*number).into(), Kind::Timer, one.second, &own);
            }
        }
        self.served.extend(served);
        while !batch.is_empty() {
            fixture.merge(batch.split(500)).await;
        }
    }

    /// Checks the answer about a context and a window. Returns how many requests and timers were in it.
    async fn check(&self, number: usize, query: &str) -> (u64, usize) {
        let uri = format!("/api/path?context=GET+/{number}&{query}");
        let (status, answer) = self.get(&uri).await;
        if status == StatusCode::NOT_FOUND {
            assert!(self.served.iter().all(|served| served.context != number));
            return (0, 0);
        }
        let window = &answer["window"];
        let time = |name: &str| window[name].as_i64().unwrap();
        let (from, to) = (time("from"), time("to"));
        let within = self
            .served
            .iter()
            .filter(|served| served.context == number && (from..to).contains(&served.second));
        let mut sums = Aggregate::default();
        for served in within {
            use tower_pulse_model::slices::Merge;
            sums.merge(&served.aggregate());
        }
        let requests = sums.times.count;
        assert_eq!(window["count"], requests, "{uri}");
        let rows = window["timers"].as_array().unwrap();
        let rows: BTreeMap<&str, &Value> = rows
            .iter()
            .map(|row| (row["timer"].as_str().unwrap(), row))
            .collect();
        let expected: BTreeMap<String, TimerSums> = (0..TIMERS)
            .map(|number| (timer(number), RecordId::new(Kind::Timer, &timer(number))))
            .filter_map(|(name, id)| Some((name, *sums.timers.get(id)?)))
            .collect();
        assert!(
            rows.keys().copied().eq(expected.keys().map(String::as_str)),
            "{uri}"
        );
        for (name, expected) in &expected {
            let row = rows[name.as_str()];
            assert_eq!(row["count"], expected.count, "{uri} {name}");
            assert_eq!(row["requests"], expected.requests, "{uri} {name}");
            let is_near = |field: &str, expected: Option<f64>| match (row[field].as_f64(), expected)
            {
                // JSON numbers are read with an error in the last digit.
                (Some(read), Some(expected)) => assert!(
                    (read - expected).abs() <= 1e-12 * expected,
                    "{uri} {name} {field}: {read} instead of {expected}"
                ),
                (read, expected) => assert_eq!(read, expected, "{uri} {name} {field}"),
            };
            is_near("total", Some(expected.sum as f64 / 1e9));
            let covered = expected
                .covered
                .min(sums.timers.covered)
                .min(sums.times.sum);
            is_near("covered", Some(covered as f64 / 1e9));
            let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
            is_near("per_request", ratio(expected.count, requests));
            is_near("share", ratio(covered, sums.times.sum));
        }
        (requests, expected.len())
    }
}

async fn windows_tell_the_timers_of_their_requests(mut fixture: Fixture, steps: usize) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let mut page = Page::new(&fixture);
    // A timer whose request was never recorded here: nothing else is in the window.
    let late = Served {
        second: fixture.clock.now_seconds(),
        context: 0,
        nanos: None,
        covered: 0,
        timers: vec![(
            0,
            TimerSums {
                count: 1,
                sum: 7,
                ..TimerSums::default()
            },
        )],
    };
    page.serve(&mut fixture, vec![late]).await;
    assert_eq!(page.check(0, "window=5m").await, (0, 1));
    for step in 0..steps {
        let wait = match rng.u32(..30) {
            0 => rng.u64(3_600..40_000),
            1..4 => rng.u64(60..2_400),
            _ => rng.u64(1..90),
        };
        fixture.manual_clock.advance(Duration::from_secs(wait));
        let now = fixture.clock.now_seconds();
        let served = (0..rng.usize(..4)).map(|_| Served::random(&mut rng, now));
        let served = served.collect();
        page.serve(&mut fixture, served).await;
        let window = ["5m", "15m", "1h", "24h"][step % 4];
        for number in 0..CONTEXTS {
            page.check(number, &format!("window={window}")).await;
        }
    }
}

/// A request of a second, within which timers of these names ran so many milliseconds.
fn request(timers: &[(&str, u64)], covered: u64) -> Aggregate {
    let mut aggregate = aggregate_of(&[1_000_000_000], Outcome::Success);
    aggregate.timers.covered = covered * 1_000_000;
    for (name, millis) in timers {
        let sums = TimerSums {
            count: 3,
            requests: 1,
            sum: 3 * millis * 1_000_000,
            covered: millis * 1_000_000,
        };
        aggregate
            .timers
            .add(RecordId::new(Kind::Timer, name), &sums);
    }
    aggregate
}

async fn the_timers_of_an_hour_are_sorted_by_share(mut fixture: Fixture) {
    let page = Page::new(&fixture);
    let mut batch = Batch::new(fixture.precisions.clone());
    let now = fixture.clock.now_seconds();
    let timers = [("db", 250), ("\\<overflow>", 500), ("render", 125)];
    batch.add(&"GET /0".into(), Kind::Http, now, &request(&timers, 750));
    batch.add(&"GET /1".into(), Kind::Http, now, &request(&[], 0));
    for (name, _) in timers {
        let own = aggregate_of(&[1_000], Outcome::Completed);
        batch.add(&name.into(), Kind::Timer, now, &own);
    }
    let failed = aggregate_of(&[1_000; 3], Outcome::Failed);
    batch.add(&"db".into(), Kind::Timer, now, &failed);
    batch.add(
        &"GET /3".into(),
        Kind::Http,
        now,
        &request(&[("db", 750)], 750),
    );
    let names: Vec<_> = (0..20).map(|n| format!("unnamed {n}")).collect();
    let many: Vec<_> = names
        .iter()
        .zip(1..)
        .map(|(name, n)| (&**name, n))
        .collect();
    batch.add(&"GET /2".into(), Kind::Http, now, &request(&many, 5));
    fixture.merge(batch).await;

    let (_, answer) = page.get("/api/path?context=GET+/0").await;
    let rows = answer["timers"].as_array().unwrap();
    let shares: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["timer"].as_str().unwrap(),
                row["share"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        shares,
        [("\\<overflow>", 0.5), ("db", 0.25), ("render", 0.125)]
    );
    let expected = serde_json::json!({
        "timer": "db", "count": 3, "per_request": 3.0, "requests": 1,
        "total": 0.75, "covered": 0.25, "share": 0.25, "overlap": 0.5,
        "seconds_per_request": 0.25, "change": null,
        "errors": null, "error_share": null, "failing": false, "repeated": false,
    });
    assert_eq!(rows[1], expected);
    assert_eq!(answer["timed_share"], 0.75);
    assert_eq!(answer["untimed_share"], 0.25);

    let (_, none) = page.get("/api/path?context=GET+/1&window=5m").await;
    for answer in [&none, &none["window"]] {
        assert_eq!(answer["timers"], serde_json::json!([]));
        assert_eq!(answer["timed_share"], 0.0);
        assert_eq!(answer["untimed_share"], 1.0);
    }
    // The timer failed three times of four, wherever that was.
    let (_, window) = page.get("/api/path?context=GET+/0&window=5m").await;
    let rows = window["window"]["timers"].as_array().unwrap();
    assert_eq!(rows[1]["errors"], 3);
    assert_eq!(rows[1]["error_share"], 0.75);
    assert_eq!(rows[0]["errors"], 0);
    assert_eq!(rows[0]["failing"], false);
    assert_eq!(window["window"]["run_by"], serde_json::json!([]));

    let (_, timer) = page.get("/api/path?context=db&kind=timer&window=5m").await;
    let path = |name: &str, seconds: f64| {
        serde_json::json!({
            "context": name, "kind": "http", "method": "GET", "path": &name[4..],
            "requests": 1, "count": 3, "per_request": 3.0, "mean": seconds, "share": seconds,
            "seconds_per_request": seconds, "share_of_timer": seconds, "repeated": false,
        })
    };
    let expected = serde_json::json!([path("GET /3", 0.75), path("GET /0", 0.25)]);
    assert_eq!(timer["window"]["run_by"], expected);
    let (_, nowhere) = page
        .get("/api/path?context=db&kind=timer&from=1000&to=2000")
        .await;
    assert_eq!(nowhere["window"]["run_by"], serde_json::json!([]));
    let (_, timer) = page.get("/api/path?context=db&kind=timer").await;
    assert_eq!(timer["timers"], serde_json::json!([]));
    assert_eq!(timer["timed_share"], Value::Null);

    // Timers whose own contexts are gone have their ids, and the rest are others.
    let (_, many) = page.get("/api/path?context=GET+/2").await;
    let rows = many["timers"].as_array().unwrap();
    assert_eq!(rows.len(), MAX_TIMERS + 1);
    let others = rows.iter().find(|row| row["timer"] == OTHER).unwrap();
    assert_eq!(others["count"], 12);
    assert_eq!(others["total"], 0.03);
    assert_eq!(
        others["covered"], 0.005,
        "no more than all of them together"
    );
    let id = format!("<{}>", RecordId::new(Kind::Timer, "unnamed 19"));
    assert!(rows.iter().any(|row| row["timer"] == *id), "{many}");
}

in_both!(
    the_timers_of_an_hour_are_sorted_by_share,
    windows_tell_the_timers_of_their_requests(400, 150)
);
