//! The answers about windows, in each store, against a plain list of all requests: counts, sums, outcomes and
//! coverage are exact, percentiles are within the stated error.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{Pulse, Task};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, Kind};
use tower_pulse_model::outcome::Outcome;

use crate::fixture::{Fixture, aggregate_of};
use crate::rig::asking;
use crate::rig::seed::seed;

pub const METRICS: [&str; 3] = ["hits", "mean", "p95"];
const WINDOWS: [&str; 8] = ["5m", "15m", "1h", "6h", "24h", "7d", "hour", "last_hour"];

/// One request.
#[derive(Clone, Copy)]
pub struct Served {
    pub second: i64,
    pub context: usize,
    pub nanos: u64,
    pub outcome: Outcome,
}

pub const OUTCOMES: [Outcome; 4] = [
    Outcome::Success,
    Outcome::Success,
    Outcome::ClientError,
    Outcome::ServerError,
];

pub fn name(context: usize) -> String {
    format!("GET /{context}")
}

impl Served {
    /// A success.
    pub fn new(second: i64, context: usize, nanos: u64) -> Self {
        Self {
            second,
            context,
            nanos,
            outcome: Outcome::Success,
        }
    }
}

/// A page of the store, and the requests that it must show.
pub struct Page {
    router: axum::Router,
    served: Vec<Served>,
    tasks: (Pulse, Vec<Task>),
}

impl Page {
    pub fn new(fixture: &Fixture) -> Self {
        Self::with_query_bytes(fixture, 64 << 20)
    }

    /// A page of which so many bytes are held.
    pub fn with_query_bytes(fixture: &Fixture, bytes: usize) -> Self {
        let builder = Pulse::builder().store(fixture.store.clone());
        let builder = builder.clock(fixture.clock.clone()).query_bytes(bytes);
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        Self {
            router: pulse.router(Access::open()),
            served: Vec::new(),
            tasks: (pulse, tasks),
        }
    }

    /// The page of a pulse that runs by itself.
    pub fn of(pulse: &Pulse) -> Self {
        Self {
            router: pulse.router(Access::open()),
            served: Vec::new(),
            tasks: (pulse.clone(), Vec::new()),
        }
    }

    pub fn pulse(&self) -> &Pulse {
        &self.tasks.0
    }

    /// The status and the text of an answer.
    pub async fn text(&self, uri: &str) -> (StatusCode, String) {
        asking::text(&self.router, uri).await
    }

    /// The status and the JSON of an answer.
    pub async fn answer(&self, uri: &str) -> (StatusCode, Value) {
        asking::ask(&self.router, uri).await
    }

    pub async fn get(&self, uri: &str) -> Value {
        asking::json(&self.router, uri).await
    }

    /// Serves some requests, and flushes them.
    pub async fn serve(&mut self, fixture: &mut Fixture, requests: &[Served]) {
        let mut batch = Batch::new(fixture.precisions.clone());
        for served in requests {
            let aggregate = aggregate_of(&[served.nanos], served.outcome);
            let context = name(served.context).into();
            batch.add(&context, Kind::Http, served.second, &aggregate);
            batch.add(&ALL.into(), Kind::All, served.second, &aggregate);
        }
        self.served.extend_from_slice(requests);
        while !batch.is_empty() {
            let part = batch.split(500);
            fixture.merge(part).await;
        }
    }

    /// The access times, in nanoseconds, and the errors of a context in a range of time.
    pub fn expected(&self, context: Option<usize>, from: i64, to: i64) -> Vec<Served> {
        let served = self.served.iter();
        let within = served.filter(|served| (from..to).contains(&served.second));
        let mut within: Vec<_> = within
            .filter(|served| context.is_none_or(|context| context == served.context))
            .copied()
            .collect();
        within.sort_unstable_by_key(|served| served.nanos);
        within
    }

    /// Checks the answer about a context in a window.
    fn check(&self, answer: &Value, context: Option<usize>, (from, to): (i64, i64), error: f64) {
        let expected = self.expected(context, from, to);
        let count = |outcomes: &[Outcome]| {
            let served = expected.iter();
            served.filter(|s| outcomes.contains(&s.outcome)).count() as u64
        };
        assert_eq!(answer["count"], expected.len(), "{context:?} {from} {to}");
        assert_eq!(answer["errors"], count(&[Outcome::ServerError]));
        for (name, outcome) in [
            ("2xx", Outcome::Success),
            ("4xx", Outcome::ClientError),
            ("5xx", Outcome::ServerError),
        ] {
            assert_eq!(answer["outcomes"][name], count(&[outcome]), "{name}");
        }
        let total: u64 = expected.iter().map(|served| served.nanos).sum();
        near(&answer["total"], total as f64 / 1e9, 1e-9);
        if expected.is_empty() {
            assert_eq!(answer["mean"], Value::Null);
            return;
        }
        near(
            &answer["mean"],
            total as f64 / 1e9 / expected.len() as f64,
            1e-9,
        );
        near(
            &answer["error_share"],
            count(&[Outcome::ServerError]) as f64 / expected.len() as f64,
            1e-9,
        );
        for (name, q) in [
            ("min", 0.0),
            ("p50", 0.5),
            ("p95", 0.95),
            ("p99", 0.99),
            ("max", 1.0),
        ] {
            let rank = ((q * expected.len() as f64).ceil() as usize).max(1);
            let exact = expected[rank - 1].nanos as f64 / 1e9;
            near(&answer[name], exact, error + 1e-9);
        }
    }

    /// Checks the series of a row.
    fn check_series(&self, row: &Value, context: usize, (of, metric): (&Value, &str), error: f64) {
        let number = |name: &str| of[name].as_i64().unwrap();
        let (from, to, width) = (number("from"), number("to"), number("precision"));
        let starts = (from..to).step_by(width as usize);
        let values = row["series"].as_array().unwrap();
        assert_eq!(values.len(), starts.clone().count());
        for (start, value) in starts.zip(values) {
            let expected = self.expected(Some(context), start, start + width);
            let total: u64 = expected.iter().map(|served| served.nanos).sum();
            let mean = total as f64 / 1e9 / expected.len() as f64;
            match (metric, expected.is_empty()) {
                ("hits", true) => assert!(value.is_null() || value == 0, "{row}"),
                (_, true) => assert!(value.is_null(), "{row}"),
                ("hits", false) => assert_eq!(value, expected.len(), "{row}"),
                // Rounded to three digits.
                ("mean", false) => near(value, mean, 0.005),
                _ => {
                    let rank = (0.95 * expected.len() as f64).ceil() as usize;
                    let exact = expected[rank - 1].nanos as f64 / 1e9;
                    near(value, exact, error + 0.005);
                }
            }
        }
    }

    /// Checks the answers about a window, with a series of one of [`METRICS`].
    pub async fn check_window(&self, query: &str, metric: &str) {
        let uri = format!("/api/paths?{query}&limit=100&series={metric}");
        let paths = self.get(&uri).await;
        let range = |answer: &Value| {
            (
                answer["from"].as_i64().unwrap(),
                answer["to"].as_i64().unwrap(),
            )
        };
        let (now, before) = (range(&paths), range(&paths["before"]));
        assert_eq!((before.1, before.1 - before.0), (now.0, now.1 - now.0));
        // Minutes are kept for two hours: an answer about an earlier window has the part that is kept, and says how much it is.
        let complete = |answer: &Value| answer["complete"].as_f64().unwrap();
        let is_kept = query.starts_with("window") || complete(&paths["before"]) >= 1.0;
        let error = paths["error"].as_f64().unwrap();
        assert!(error < 0.09, "{error}");
        for context in 0..CONTEXTS {
            let rows = paths["paths"].as_array().unwrap();
            let row = rows.iter().find(|row| row["context"] == name(context));
            let Some(row) = row else {
                assert!(self.expected(Some(context), now.0, now.1).is_empty());
                continue;
            };
            self.check(row, Some(context), now, error);
            self.check_series(row, context, (&paths["series"], metric), error);
            match &row["before"] {
                _ if !is_kept => {}
                Value::Null => assert!(self.expected(Some(context), before.0, before.1).is_empty()),
                answer => self.check(answer, Some(context), before, error),
            }
        }
        let overview = self.get(&format!("/api/overview?{query}")).await;
        if query.ends_with("hour") {
            let hour = match query {
                "window=hour" => &overview["hour"],
                _ => &overview["last_hour"],
            };
            let expected = self.expected(None, now.0, now.1);
            if !expected.is_empty() {
                assert_eq!(hour["start"], now.0);
                assert_eq!(hour["requests"], expected.len());
                // These are exact, as hours do not move.
                let bounds = [expected.first(), expected.last()];
                for (name, served) in ["min", "max"].into_iter().zip(bounds) {
                    near(&hour[name], served.unwrap().nanos as f64 / 1e9, 1e-12);
                }
            }
        }
        assert_eq!(range(&overview["window"]), now);
        self.check(&overview["window"], None, now, error);
        if is_kept {
            self.check(&overview["window"]["before"], None, before, error);
        }
    }
}

pub const CONTEXTS: usize = 4;

#[track_caller]
pub fn near(answer: &Value, expected: f64, error: f64) {
    let answer = answer
        .as_f64()
        .unwrap_or_else(|| panic!("{answer} instead of {expected}"));
    let ratio = if expected == 0.0 {
        1.0 + answer
    } else {
        answer / expected
    };
    assert!(
        (ratio - 1.0).abs() <= error,
        "{answer} instead of {expected}"
    );
}

/// Hours and days pass, with requests that are flushed late or by clocks ahead, and with outages.
async fn windows_show_what_was_served(fixture: Fixture, steps: usize) {
    let page = Page::new(&fixture);
    windows_of_page_show_what_was_served(fixture, page, steps, 0).await;
}

/// The same, now and then with a request of each of some other contexts.
async fn windows_of_page_show_what_was_served(
    mut fixture: Fixture,
    mut page: Page,
    steps: usize,
    others: usize,
) {
    let mut rng = fastrand::Rng::with_seed(seed());
    for step in 0..steps {
        let wait = match rng.u32(..20) {
            0 => rng.u64(3_600..40_000),
            1..5 => rng.u64(60..2_400),
            _ => rng.u64(1..90),
        };
        fixture.manual_clock.advance(Duration::from_secs(wait));
        let now = fixture.clock.now_seconds();
        let others = (0..others)
            .filter(|_| step % 5 == 0)
            .map(|other| Served::new(now, CONTEXTS + other, 1_000_000 * (1 + other as u64 % 7)));
        let mut requests: Vec<Served> = (0..rng.usize(..30))
            .map(|_| Served {
                second: match rng.u32(..20) {
                    0 => now - rng.i64(0..3_000),
                    1 => now + rng.i64(0..1_200),
                    _ => now - rng.i64(0..3),
                },
                context: rng.usize(..CONTEXTS),
                nanos: 1_000 * 2u64.pow(rng.u32(4..22)) * rng.u64(100..200) / 100,
                outcome: OUTCOMES[rng.usize(..4)],
            })
            .collect();
        requests.extend(others);
        page.serve(&mut fixture, &requests).await;
        let metric = METRICS[rng.usize(..METRICS.len())];
        if rng.u32(..3) > 0 {
            let window = WINDOWS[rng.usize(..WINDOWS.len())];
            page.check_window(&format!("window={window}"), metric).await;
        } else {
            let from = now - rng.i64(1..7_000);
            let to = (from + rng.i64(1..5_000)).max(from + 1);
            page.check_window(&format!("from={from}&to={to}"), metric)
                .await;
        }
    }
    for (window, metric) in WINDOWS.into_iter().zip(METRICS.into_iter().cycle()) {
        page.check_window(&format!("window={window}"), metric).await;
    }
}

#[tokio::test]
async fn windows_that_do_not_fit_together_show_what_was_served() {
    // About one window of them fits.
    let fixture = Fixture::memory();
    let page = Page::with_query_bytes(&fixture, 1 << 20);
    windows_of_page_show_what_was_served(fixture, page, 60, 150).await;
}

#[tokio::test]
async fn a_window_that_does_not_fit_by_itself_names_the_setting() {
    let mut fixture = Fixture::memory();
    let mut page = Page::with_query_bytes(&fixture, 1 << 20);
    let large = [64 << 20, 1 << 40].map(|bytes| Page::with_query_bytes(&fixture, bytes));
    let serve = |contexts: std::ops::Range<usize>| {
        let served = contexts.map(|context| Served::new(crate::fixture::NOW, context, 1_000_000));
        served.collect::<Vec<_>>()
    };
    page.serve(&mut fixture, &serve(0..50)).await;
    assert_eq!(
        page.get("/api/overview?window=5m").await["window"]["count"],
        50
    );
    // A hundred times as many.
    page.serve(&mut fixture, &serve(50..5_000)).await;
    fixture.manual_clock.advance(Duration::from_secs(2));
    for uri in [
        "/api/overview?window=5m",
        "/api/paths?window=7d",
        "/api/path?window=1h&context=GET+/7",
    ] {
        let (status, answer) = page.answer(uri).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{uri}");
        let error = answer["error"].as_str().unwrap();
        assert!(
            error.starts_with("the window of 5001 contexts does not fit into")
                && error.contains("`query_bytes`"),
            "{error}"
        );
    }
    for large in large {
        for window in ["5m", "7d"] {
            let answer = large.get(&format!("/api/overview?window={window}")).await;
            assert_eq!(answer["window"]["count"], 5_000);
        }
    }
}

#[tokio::test]
async fn a_window_tells_which_part_of_it_was_recorded() {
    let mut fixture = Fixture::memory();
    let mut page = Page::new(&fixture);
    let one = Served::new(crate::fixture::NOW, 0, 1_000_000);
    page.serve(&mut fixture, &[one]).await;
    for (passed, complete) in [
        (60, 60.0 / 3_600.0),
        (1_740, 0.5),
        (1_800, 1.0),
        (3_720, 1.0),
    ] {
        fixture.manual_clock.advance(Duration::from_secs(passed));
        let answer = page.get("/api/paths?window=1h").await;
        near(&answer["complete"], complete, 1e-9);
    }
    let answer = page.get("/api/paths?window=1h").await;
    near(&answer["before"]["complete"], 1.0, 1e-9);
    let hour = page.get("/api/paths?window=last_hour").await;
    near(&hour["complete"], 1.0, 1e-9);
    // Slices of six hours: the store was created within the first that has records.
    let now = fixture.clock.now_seconds();
    for question in [
        "paths?window=7d",
        "series?metric=p95&window=7d",
        "paths?window=6h",
    ] {
        let answer = page.get(&format!("/api/{question}")).await;
        let from = answer["from"].as_i64().expect("the start of the window");
        let recorded = (now - crate::fixture::NOW) as f64;
        near(&answer["complete"], recorded / (now - from) as f64, 1e-9);
    }
    // Ten hits in a tenth of the time are ten times the rate.
    let mut fixture = Fixture::memory();
    let mut page = Page::new(&fixture);
    page.serve(&mut fixture, &[one; 100]).await;
    fixture.manual_clock.advance(Duration::from_secs(600));
    let later = Served {
        second: crate::fixture::NOW + 600,
        ..one
    };
    page.serve(&mut fixture, &[later; 50]).await;
    let answer = page.get("/api/paths?window=5m").await;
    let row = &answer["paths"][0];
    assert_eq!(row["count"], Value::from(50));
    assert_eq!(row["before"]["count"], Value::from(100));
    near(&row["change"]["count"], 0.5, 1e-9);
}

#[tokio::test]
async fn a_series_tells_no_requests_from_nothing_recorded() {
    let mut fixture = Fixture::memory();
    let mut page = Page::new(&fixture);
    let one = Served::new(crate::fixture::NOW, 0, 12_345_678);
    page.serve(&mut fixture, &[one, one]).await;
    fixture.manual_clock.advance(Duration::from_secs(130));
    let answer = page.get("/api/paths?window=5m&series=hits").await;
    let (from, to) = (&answer["from"], &answer["to"]);
    let expected = json!({"metric": "hits", "precision": 60, "from": from, "to": to});
    assert_eq!(answer["series"], expected);
    let begin = (crate::fixture::NOW - from.as_i64().unwrap()) / 60;
    let values = |answer: &Value| answer["paths"][0]["series"].as_array().unwrap().clone();
    let hits = values(&answer);
    let (before, since) = hits.split_at(begin as usize);
    assert!(!before.is_empty(), "{hits:?}");
    assert!(before.iter().all(Value::is_null), "{hits:?}");
    assert_eq!(since, [2, 0, 0]);
    let mean = values(&page.get("/api/paths?window=5m&series=mean").await);
    assert_eq!(
        mean[begin as usize..],
        [json!(0.0123), Value::Null, Value::Null]
    );
    let none = page.get("/api/paths?window=5m").await;
    assert!(none.get("series").is_none() && none["paths"][0].get("series").is_none());
    let (status, refused) = page.answer("/api/paths?series=p98").await;
    assert_eq!(status.as_u16(), 400);
    assert_eq!(refused["parameter"], "series");
}

#[tokio::test]
async fn rows_compare_with_the_window_before() {
    let mut fixture = Fixture::memory();
    let mut page = Page::new(&fixture);
    let served = |context, ago: i64, millis: u64, outcome| Served {
        second: crate::fixture::NOW - ago,
        context,
        nanos: millis * 1_000_000,
        outcome,
    };
    let mut requests = vec![
        served(2, 90, 3, Outcome::Success),
        served(3, 500, 3, Outcome::Success),
    ];
    for n in 0..30 {
        // Twice as slow as before, and half of the requests are errors.
        requests.push(served(0, 400 + n, 10, Outcome::Success));
        requests.push(served(
            0,
            90 + n,
            20,
            if n % 2 == 0 {
                Outcome::Success
            } else {
                Outcome::ServerError
            },
        ));
        requests.push(served(1, 400 + n, 10, Outcome::Success));
        requests.push(served(1, 90 + n, 5, Outcome::Success));
    }
    page.serve(&mut fixture, &requests).await;
    let contexts = async |query: &str| -> Vec<String> {
        let answer = page.get(&format!("/api/paths?window=5m&{query}")).await;
        let rows = answer["paths"].as_array().unwrap().iter();
        rows.map(|row| row["context"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        contexts("sort=change").await,
        ["GET /0", "GET /1", "GET /2"]
    );
    assert_eq!(
        contexts("sort=change&order=asc").await,
        ["GET /1", "GET /0", "GET /2"]
    );
    assert_eq!(contexts("sort=share").await, ["GET /0", "GET /1", "GET /2"]);
    assert_eq!(contexts("sort=error_share").await[0], "GET /0");
    assert_eq!(contexts("status=new").await, ["GET /2"]);
    assert_eq!(contexts("status=gone").await, ["GET /3"]);
    assert_eq!(contexts("status=up").await, ["GET /0"]);
    assert_eq!(contexts("status=down").await, ["GET /1"]);
    let answer = page.get("/api/paths?window=5m&status=up").await;
    let row = &answer["paths"][0];
    near(&row["change"]["mean"], 2.0, 1e-9);
    near(&row["change"]["p50"], 2.0, 0.1);
    assert_eq!(
        row["change"]["error_share"],
        Value::Null,
        "there were none before"
    );
    near(&row["error_share"], 0.5, 1e-9);
    near(&row["share"], 0.600 / 0.753, 1e-9);
    let gone = page.get("/api/paths?window=5m&status=gone").await;
    assert_eq!(gone["paths"][0]["count"], Value::from(0));
    assert_eq!(gone["paths"][0]["before"]["count"], Value::from(1));
    // The store is as old as the clock: nothing before was recorded.
    let (from, to) = (
        answer["from"].as_i64().unwrap(),
        answer["to"].as_i64().unwrap(),
    );
    assert_eq!((to - from) % 60, 0);
    let path = page.get("/api/path?context=GET+/0&window=5m").await;
    assert_eq!(path["window"]["count"], 30);
    assert_eq!(path["window"]["before"]["count"], 30);
    let counted = |histogram: &Value| -> u64 {
        let buckets = histogram.as_array().unwrap().iter();
        buckets.map(|bucket| bucket[2].as_u64().unwrap()).sum()
    };
    assert_eq!(counted(&path["window"]["histogram"]), 30);
    assert_eq!(counted(&path["window"]["histogram_before"]), 30);
}

in_both!(windows_show_what_was_served(400, 150));
