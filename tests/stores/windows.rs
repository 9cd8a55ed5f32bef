//! The answers about windows in memory and in Redis, compared with a plain list of all requests. Counts, sums,
//! outcomes, polls and timers are exact, and percentiles are within the stated error.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use http::StatusCode;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{Pulse, Task};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, Kind, RecordId};
use tower_pulse_model::measures::Measure;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slices::Merge;
use tower_pulse_model::tally::{Kinds, MAX_KINDS, MAX_WINDOW_KEYS};
use tower_pulse_model::timer_sums::TimerSums;

use crate::rig::asking;
use crate::rig::seed::seed;
use crate::stores::fixture::{Fixture, MS, NOW, aggregate_of};
use crate::stores::series;

pub const METRICS: [&str; 3] = ["hits", "mean", "p95"];
pub const WINDOWS: [&str; 8] = ["5m", "15m", "1h", "6h", "24h", "7d", "hour", "last_hour"];
/// The number of contexts of random requests.
pub const CONTEXTS: usize = 4;
const TIMERS: usize = 5;

const OUTCOMES: [Outcome; 4] = [
    Outcome::Success,
    Outcome::Success,
    Outcome::ClientError,
    Outcome::ServerError,
];

#[derive(Clone, Copy)]
pub struct Served {
    pub second: i64,
    pub context: usize,
    pub nanos: u64,
    pub outcome: Outcome,
}

pub fn name(context: usize) -> String {
    format!("GET /{context}")
}

impl Served {
    pub fn new(second: i64, context: usize, nanos: u64) -> Self {
        Self {
            second,
            context,
            nanos,
            outcome: Outcome::Success,
        }
    }

    pub fn random(rng: &mut Rng, second: i64) -> Self {
        // One request in eight takes 4 µs to 18 minutes, the others 4 to 33 ms.
        let exponents = if rng.u32(..8) == 0 { 2..30 } else { 12..15 };
        Self {
            second,
            context: rng.usize(..CONTEXTS),
            nanos: 1_000 * (2u64.pow(rng.u32(exponents)) * rng.u64(101..200) / 100) + 1,
            outcome: OUTCOMES[rng.usize(..4)],
        }
    }

    /// The nanoseconds of the longer of two polls, of both together, and of the waits.
    pub fn polls(&self) -> [u64; 3] {
        let longest = (self.nanos / 8_000 * (1 + self.nanos % 5)).max(1) * 1_000;
        let computed = longest + longest / 2;
        [longest, computed, self.nanos - computed]
    }

    pub fn sales(&self) -> i64 {
        self.nanos as i64 % 108 - 9
    }

    /// The timer within the request, and its sums.
    fn timer(&self) -> (RecordId, TimerSums) {
        let timer = TimerSums {
            count: 1 + self.nanos % 8,
            requests: 1,
            sum: 2 * self.nanos,
            covered: self.nanos / 3,
        };
        (timer_id(self.nanos as usize % TIMERS), timer)
    }

    fn code(&self) -> u16 {
        let codes = match self.outcome {
            Outcome::Success => [200, 200, 201],
            Outcome::ClientError => [401, 404, 429],
            _ => [500, 502, 503],
        };
        codes[self.choice()]
    }

    /// The kind of error that the service names. A success may have a kind as well.
    fn kind(&self) -> Option<&'static str> {
        let kinds = match self.outcome {
            Outcome::Success => [Some("stale"), None, None],
            Outcome::ClientError => [Some("no_token"), None, Some("rate_limit")],
            _ => [Some("db_timeout"), Some("panic at src/orders.rs:88"), None],
        };
        kinds[self.choice()]
    }

    fn choice(&self) -> usize {
        self.nanos as usize / 1_000 % 3
    }

    fn aggregate(&self, has_timer: bool) -> Aggregate {
        let mut sums = aggregate_of(&[self.nanos], self.outcome);
        (sums.codes, sums.kinds) = Default::default();
        sums.codes.add(self.code(), 1);
        if let Some(kind) = self.kind() {
            sums.kinds.add(kind.into(), 1);
        }
        let [longest, computed, waited] = self.polls();
        sums.measures.add(Measure::LongestPoll, longest);
        sums.measures.add(Measure::PollTime, computed);
        sums.measures.add(Measure::Waited, waited);
        sums.measures.add(Measure::Polls, 2);
        if has_timer {
            let (id, timer) = self.timer();
            sums.timers.add(id, &timer);
            sums.timers.covered = timer.covered;
        }
        sums
    }
}

/// Counts requests by a key: the largest count first, then by key.
fn tally(served: &[Served], key: impl Fn(&Served) -> Option<String>) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::new();
    for key in served.iter().filter_map(key) {
        *counts.entry(key).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

fn check_tallies(answer: &Value, served: &[Served]) {
    let codes = tally(served, |request| Some(request.code().to_string()));
    let kinds = tally(served, |request| request.kind().map(str::to_owned));
    for (field, name, counts) in [("codes", "code", codes), ("kinds", "kind", kinds)] {
        let counts = counts.iter();
        let rows = counts.map(|(key, count)| json!({ name: key, "count": count }));
        assert_eq!(answer[field], Value::from_iter(rows));
    }
}

fn timer_id(timer: usize) -> RecordId {
    RecordId::new(Kind::Timer, &format!("db:{timer}"))
}

/// The seconds within which a share of the requests ended. The requests are sorted by duration.
pub fn percentile(served: &[Served], q: f64) -> f64 {
    let rank = ((q * served.len() as f64).ceil() as usize).max(1);
    served[rank - 1].nanos as f64 / 1e9
}

pub fn number(answer: &Value, field: &str) -> i64 {
    answer[field].as_i64().unwrap()
}

fn row_of(rows: &Value, context: usize) -> Option<&Value> {
    let mut rows = rows.as_array().unwrap().iter();
    rows.find(|row| row["context"] == name(context))
}

fn range(answer: &Value) -> (i64, i64) {
    (number(answer, "from"), number(answer, "to"))
}

/// The number of requests in a histogram.
fn counted(histogram: &Value) -> i64 {
    let buckets = histogram.as_array().unwrap().iter();
    buckets.map(|bucket| bucket[2].as_i64().unwrap()).sum()
}

/// A dashboard of the store, and the requests that the dashboard must show.
pub struct Dashboard {
    router: axum::Router,
    served: Vec<Served>,
    has_timers: bool,
    pulse: Pulse,
    _tasks: Vec<Task>,
}

impl Dashboard {
    pub fn new(fixture: &Fixture) -> Self {
        Self::with_query_bytes(fixture, 64 << 20)
    }

    pub fn with_query_bytes(fixture: &Fixture, bytes: usize) -> Self {
        let builder = Pulse::builder().store(fixture.store.clone());
        let builder = builder.clock(fixture.clock.clone()).query_bytes(bytes);
        let (pulse, _tasks) = builder.build_with_tasks().unwrap();
        Self {
            router: pulse.router(Access::open()),
            served: Vec::new(),
            has_timers: false,
            pulse,
            _tasks,
        }
    }

    /// The status and the JSON of the answer to a question, such as `paths?window=1h`.
    pub async fn answer(&self, question: &str) -> (StatusCode, Value) {
        asking::ask(&self.router, &format!("/api/{question}")).await
    }

    /// The JSON of an answer, whose status must be 200.
    pub async fn get(&self, question: &str) -> Value {
        asking::json(&self.router, &format!("/api/{question}")).await
    }

    /// Sends requests to the store, and folds them.
    pub async fn serve(&mut self, fixture: &mut Fixture, requests: &[Served]) {
        let mut batch = Batch::new(fixture.precisions.clone());
        for served in requests {
            let sums = served.aggregate(self.has_timers);
            let context = name(served.context).into();
            batch.add(&context, Kind::Http, served.second, &sums);
            batch.add(&ALL.into(), Kind::All, served.second, &sums);
            batch.count(&"sales".into(), served.second, served.sales());
            if self.has_timers {
                let own = aggregate_of(&[1_000], Outcome::Completed);
                let timer = format!("db:{}", served.nanos as usize % TIMERS);
                batch.add(&timer.into(), Kind::Timer, served.second, &own);
            }
        }
        self.served.extend_from_slice(requests);
        while !batch.is_empty() {
            let part = batch.split(500);
            fixture.merge(part).await;
        }
    }

    /// The requests of a context in a range of time, sorted by their duration.
    pub fn expected(&self, context: Option<usize>, from: i64, to: i64) -> Vec<Served> {
        let is_within = |served: &&Served| {
            (from..to).contains(&served.second) && context.is_none_or(|at| at == served.context)
        };
        let mut within: Vec<_> = self.served.iter().filter(is_within).copied().collect();
        within.sort_unstable_by_key(|served| served.nanos);
        within
    }

    fn check(&self, answer: &Value, context: Option<usize>, (from, to): (i64, i64), error: f64) {
        let expected = self.expected(context, from, to);
        let count = |outcome| expected.iter().filter(|s| s.outcome == outcome).count();
        let errors = count(Outcome::ServerError);
        assert_eq!(answer["count"], expected.len(), "{context:?} {from} {to}");
        assert_eq!(answer["errors"], errors);
        assert_eq!(answer["outcomes"]["2xx"], count(Outcome::Success));
        assert_eq!(answer["outcomes"]["4xx"], count(Outcome::ClientError));
        assert_eq!(answer["outcomes"]["5xx"], errors);
        let sum = |of: fn(&Served) -> u64| expected.iter().map(of).sum::<u64>() as f64 / 1e9;
        let (total, requests) = (sum(|served| served.nanos), expected.len() as f64);
        near(&answer["total"], total, 1e-9);
        if expected.is_empty() {
            assert_eq!(answer["mean"], Value::Null);
            return;
        }
        near(&answer["mean"], total / requests, 1e-9);
        near(&answer["error_share"], errors as f64 / requests, 1e-9);
        let names = ["min", "p50", "p95", "p99", "max"];
        for (name, q) in names.iter().zip([0.0, 0.5, 0.95, 0.99, 1.0]) {
            near(&answer[*name], percentile(&expected, q), error + 1e-9);
        }
        let polls = &answer["polls"];
        let computed = sum(|served| served.polls()[1]);
        near(&polls["computing"], computed / requests, 1e-9);
        near(&polls["mean"], computed / requests / 2.0, 1e-9);
        let waited = sum(|served| served.polls()[2]);
        near(&polls["waiting"], waited / requests, 1e-9);
        // The longest poll of the window before is unknown once slices have left that window.
        if !polls["longest"].is_null() {
            let longest = expected.iter().map(|served| served.polls()[0]).max();
            near(&polls["longest"], longest.unwrap() as f64 / 1e9, 1e-9);
        }
    }

    fn check_series(&self, row: &Value, context: usize, (of, metric): (&Value, &str), error: f64) {
        let ((from, to), width) = (range(of), number(of, "precision"));
        let starts = (from..to).step_by(width as usize);
        let values = row["series"].as_array().unwrap();
        assert_eq!(values.len(), starts.clone().count());
        for (start, value) in starts.zip(values) {
            let expected = self.expected(Some(context), start, start + width);
            let total: u64 = expected.iter().map(|served| served.nanos).sum();
            match (metric, expected.is_empty()) {
                ("hits", true) => assert!(value.is_null() || value == 0, "{row}"),
                (_, true) => assert!(value.is_null(), "{row}"),
                ("hits", false) => assert_eq!(value, expected.len(), "{row}"),
                // A mean in a series is rounded to three digits.
                ("mean", false) => near(value, total as f64 / 1e9 / expected.len() as f64, 0.005),
                _ => near(value, percentile(&expected, 0.95), error + 0.005),
            }
        }
    }

    /// Checks the codes, the kinds of errors and the timers of a context in a window.
    async fn check_path(&self, context: usize, query: &str) {
        let uri = format!("path?context=GET+/{context}&{query}");
        let (status, answer) = self.answer(&uri).await;
        if status == StatusCode::NOT_FOUND {
            assert!(self.served.iter().all(|served| served.context != context));
            return;
        }
        let window = &answer["window"];
        let (from, to) = range(window);
        let expected = self.expected(Some(context), from, to);
        check_tallies(window, &expected);
        assert_eq!(counted(&window["histogram"]), expected.len() as i64);
        let mut hours = [&answer["hour"], &answer["last_hour"]].into_iter();
        if let Some(hour) = hours.find(|hour| hour.is_object()) {
            let start = number(hour, "start");
            check_tallies(&answer, &self.expected(Some(context), start, start + 3_600));
        }
        let mut sums = Aggregate::default();
        for served in expected {
            sums.merge(&served.aggregate(true));
        }
        let requests = sums.times.count;
        assert_eq!(window["count"], requests, "{uri}");
        let rows = window["timers"].as_array().unwrap();
        let mut known = 0;
        for timer in 0..TIMERS {
            let name = format!("db:{timer}");
            let row = rows.iter().find(|row| row["timer"] == name);
            let Some(expected) = sums.timers.get(timer_id(timer)) else {
                assert_eq!(row, None, "{uri}");
                continue;
            };
            known += 1;
            let row = row.unwrap_or(&Value::Null);
            assert_eq!(row["count"], expected.count, "{uri} {timer}");
            assert_eq!(row["requests"], expected.requests, "{uri} {timer}");
            near(&row["total"], expected.sum as f64 / 1e9, 1e-9);
            near(&row["covered"], expected.covered as f64 / 1e9, 1e-9);
            let per_request = expected.count as f64 / requests as f64;
            near(&row["per_request"], per_request, 1e-9);
            let share = expected.covered as f64 / sums.times.sum as f64;
            near(&row["share"], share, 1e-9);
        }
        assert_eq!(rows.len(), known, "{uri}");
    }

    /// Checks the answers about a window, with a series of one of [`METRICS`].
    pub async fn check_window(&self, query: &str, metric: &str) {
        let uri = format!("paths?{query}&limit=100&series={metric}&q=get+/");
        let paths = self.get(&uri).await;
        let (now, before) = (range(&paths), range(&paths["before"]));
        assert_eq!((before.1, before.1 - before.0), (now.0, now.1 - now.0));
        // Minutes are kept for two hours. If only a part of the window before is kept, the answer is about that part,
        // and `complete` is the part's share.
        let complete = paths["before"]["complete"].as_f64().unwrap();
        let is_kept = query.starts_with("window") || complete >= 1.0;
        let error = paths["error"].as_f64().unwrap();
        assert!(error < 0.09, "{error}");
        for context in 0..CONTEXTS {
            let Some(row) = row_of(&paths["paths"], context) else {
                assert!(self.expected(Some(context), now.0, now.1).is_empty());
                continue;
            };
            self.check(row, Some(context), now, error);
            check_tallies(row, &self.expected(Some(context), now.0, now.1));
            assert!(row["count"] == 0 || row["polls"]["longest"].is_number());
            self.check_series(row, context, (&paths["series"], metric), error);
            match &row["before"] {
                _ if !is_kept => {}
                Value::Null => assert!(self.expected(Some(context), before.0, before.1).is_empty()),
                answer => self.check(answer, Some(context), before, error),
            }
        }
        let overview = self.get(&format!("overview?{query}")).await;
        let hour = query.strip_prefix("window=").unwrap_or_default();
        let expected = self.expected(None, now.0, now.1);
        if let (true, [first, .., last]) = (hour.ends_with("hour"), &expected[..]) {
            let hour = &overview[hour];
            assert_eq!(hour["start"], now.0);
            assert_eq!(hour["requests"], expected.len());
            // The minimum and the maximum are exact, because the bounds of an hour are fixed.
            near(&hour["min"], first.nanos as f64 / 1e9, 1e-12);
            near(&hour["max"], last.nanos as f64 / 1e9, 1e-12);
        }
        assert_eq!(range(&overview["window"]), now);
        self.check(&overview["window"], None, now, error);
        if is_kept {
            self.check(&overview["window"]["before"], None, before, error);
        }
    }

    /// Checks the answers about a window that is compared with the time from `from` to `to`. This time is kept in
    /// slices of `width` seconds.
    async fn check_against(&self, query: &str, (from, to): (i64, i64), width: i64) {
        let paths = self.get(&format!("paths?{query}")).await;
        let (now, before) = (range(&paths), range(&paths["before"]));
        assert_eq!((before.0 % width, before.1 % width), (0, 0), "{query}");
        let is_around = (before.0..before.0 + width).contains(&from)
            && (before.1 - width + 1..=before.1).contains(&to);
        assert!(is_around, "{query}: {before:?}");
        let error = paths["error"].as_f64().unwrap();
        let per_second = |of: &Value, covered: &Value| {
            number(of, "count") as f64 / number(covered, "recorded_seconds") as f64
        };
        for context in 0..CONTEXTS {
            let row = row_of(&paths["paths"], context).unwrap();
            self.check(row, Some(context), now, error);
            self.check(&row["before"], Some(context), before, error);
            assert_eq!((row.get("codes"), row.get("kinds")), (None, None));
            let ratio = per_second(row, &paths) / per_second(&row["before"], &paths["before"]);
            // A week ago, the service began within the slice of six hours. If at most half of that slice was recorded,
            // there is no ratio.
            match paths["before"]["complete"].as_f64().unwrap() > 0.5 {
                true => near(&row["change"]["count"], ratio, 1e-9),
                false => assert_eq!((width, &row["change"]["count"]), (21_600, &Value::Null)),
            }

            let uri = format!("path?context=GET+/{context}&{query}");
            let path = self.get(&uri).await;
            let window = &path["window"];
            assert_eq!((range(window), range(&window["before"])), (now, before));
            let counted = counted(&window["histogram_before"]);
            assert_eq!(counted, number(&row["before"], "count"), "{query}");
            assert_eq!(window["change"], row["change"], "{query}");
            let first = self.get(&format!("fix_first?{query}")).await;
            let first = row_of(&first["rows"], context).unwrap();
            assert_eq!(first["ratio"], row["change"]["mean"]);
        }
        let overview = self.get(&format!("overview?{query}")).await;
        self.check(&overview["window"], None, now, error);
        self.check(&overview["window"]["before"], None, before, error);
    }

    async fn check_outcome(&self, query: &str) {
        let uri = format!("outcome?outcome=5xx&limit=2&{query}");
        let answer = self.get(&uri).await;
        let (from, to) = range(&answer);
        let mut expected = Vec::new();
        for context in 0..CONTEXTS {
            let served = self.expected(Some(context), from, to);
            let is_failed = |request: &&Served| request.outcome == Outcome::ServerError;
            let failed = served.iter().filter(is_failed).count();
            expected.push((failed, name(context), served.len()));
        }
        expected.retain(|(failed, ..)| *failed > 0);
        expected.sort_by(|(a, of_a, _), (b, of_b, _)| b.cmp(a).then_with(|| of_a.cmp(of_b)));
        assert_eq!(answer["total"], expected.len(), "{uri}");
        let rows = answer["paths"].as_array().unwrap();
        assert_eq!(rows.len(), expected.len().min(2), "{uri}");
        for (row, (failed, name, requests)) in rows.iter().zip(expected) {
            let fields = (&row["context"], &row["count"]);
            assert_eq!(fields, (&json!(name), &json!(failed)), "{uri}");
            near(&row["share"], failed as f64 / requests as f64, 1e-9);
        }
    }

    /// Checks the kinds of errors, and the paths of each kind.
    async fn check_errors(&self, query: &str) {
        let answer = self.get(&format!("errors?limit=3&{query}")).await;
        let (from, to) = range(&answer);
        let all = self.expected(None, from, to);
        let kinds = tally(&all, |request| request.kind().map(str::to_owned));
        assert_eq!(answer["total"], kinds.len(), "{query}");
        let rows = answer["kinds"].as_array().unwrap();
        assert_eq!(rows.len(), kinds.len().min(3), "{query}");
        for (row, (kind, count)) in rows.iter().zip(kinds) {
            let fields = (&row["kind"], &row["count"]);
            assert_eq!(fields, (&json!(kind), &json!(count)), "{query}");
            near(&row["share"], count as f64 / all.len() as f64, 1e-9);
            let has_kind = |one: &Served| one.kind() == Some(&*kind);
            let paths = tally(&all, |one| has_kind(one).then(|| name(one.context)));
            let listed = row["paths"].as_array().unwrap().iter();
            let listed = listed.map(|path| json!([path["context"], path["count"]]));
            let expected = paths.iter().map(|(name, count)| json!([name, count]));
            assert!(listed.eq(expected.take(3)), "{query}: {row}");
        }
    }

    async fn check_order(&self, sort: &str) {
        let answer = self.get(&format!("paths?window=5m&sort={sort}")).await;
        let rows = answer["paths"].as_array().unwrap().iter();
        let key = sort.trim_end_matches("_poll");
        let keys: Vec<_> = rows.map(|row| row["polls"][key].as_f64()).collect();
        assert!(keys.is_sorted_by(|a, b| a >= b), "{sort}: {keys:?}");
    }
}

#[track_caller]
pub fn near(answer: &Value, expected: f64, error: f64) {
    let answer = answer
        .as_f64()
        .unwrap_or_else(|| panic!("{answer} instead of {expected}"));
    let wrong = (answer - expected).abs();
    let most = error * if expected == 0.0 { 1.0 } else { expected.abs() };
    assert!(wrong <= most, "{answer} instead of {expected}");
}

/// Hours and days pass, and some requests are flushed late. In the second half, some clocks are ahead. `bytes` is the
/// dashboard's `query_bytes`. In every fifth step, `others` further contexts have a request each.
async fn windows_show_what_was_served(
    mut fixture: Fixture,
    (steps, bytes, others): (usize, usize, usize),
) {
    let mut dashboard = Dashboard::with_query_bytes(&fixture, bytes);
    dashboard.has_timers = true;
    let mut rng = Rng::with_seed(seed());
    for step in 0..steps {
        fixture.advance(match rng.u32(..20) {
            0 => rng.i64(3_600..40_000),
            1..5 => rng.i64(60..2_400),
            _ => rng.i64(1..90),
        });
        let now = fixture.now();
        // A counter keeps a fixed number of slices, so a slice from a clock that is ahead removes a slice that a window
        // still shows. Therefore, series are checked only before clocks are ahead.
        let has_series = step < steps / 2;
        // In the second half, samples may come after their half hour was rolled up.
        let longest_delay = if has_series { 1_500 } else { 3_000 };
        let mut requests: Vec<Served> = (0..rng.usize(..30))
            .map(|_| {
                let second = match rng.u32(..20) {
                    0 => now - rng.i64(0..longest_delay),
                    1 if !has_series => now + rng.i64(0..1_200),
                    _ => now - rng.i64(0..3),
                };
                Served::random(&mut rng, second)
            })
            .collect();
        let others = (0..others)
            .filter(|_| step % 5 == 0)
            .map(|other| Served::new(now, CONTEXTS + other, MS * (1 + other as u64 % 7)));
        requests.extend(others);
        dashboard.serve(&mut fixture, &requests).await;
        let metric = METRICS[rng.usize(..METRICS.len())];
        let window = format!("window={}", WINDOWS[rng.usize(..WINDOWS.len())]);
        if rng.u32(..3) > 0 {
            dashboard.check_window(&window, metric).await;
        } else {
            let from = now - rng.i64(1..7_000);
            let between = format!("from={from}&to={}", from + rng.i64(1..5_000));
            dashboard.check_window(&between, metric).await;
        }
        let order = ["longest_poll", "computing", "waiting"][step % 3];
        dashboard.check_order(order).await;
        if has_series {
            series::check(&dashboard, &fixture, &mut rng).await;
        }
        dashboard.check_path(step % CONTEXTS, &window).await;
        dashboard.check_outcome(&window).await;
        dashboard.check_errors(&window).await;
    }
    for (window, metric) in WINDOWS.into_iter().zip(METRICS.into_iter().cycle()) {
        let window = format!("window={window}");
        dashboard.check_window(&window, metric).await;
    }
}

/// The compared times are kept in slices of a minute, half an hour or six hours.
pub async fn a_window_is_compared_with_any_other(fixture: &mut Fixture) {
    let mut dashboard = Dashboard::new(fixture);
    let mut rng = Rng::with_seed(seed());
    let (hour, day) = (3_600, 86_400);
    for later in [0, 6 * day, day - hour, hour] {
        fixture.advance(later);
        let now = fixture.now();
        let seconds: Vec<_> = (0..300).map(|_| now - rng.i64(0..1_500)).collect();
        let seconds = seconds.into_iter();
        let served = seconds.map(|second| Served::random(&mut rng, second));
        dashboard.serve(fixture, &served.collect::<Vec<_>>()).await;
    }
    let now = fixture.now();
    let between = format!("from={}&to={}", now - 1_400, now - 100);
    for (window, from, to) in [
        ("window=1h", now - hour, now),
        (&between, now - 1_400, now - 100),
    ] {
        for (against, ago, width) in [
            ("yesterday", day, 1_800),
            ("week_ago", 7 * day, 21_600),
            (&(from - day + 600).to_string(), day - 600, 1_800),
            (&(from - hour).to_string(), hour, 60),
        ] {
            let query = format!("{window}&against={against}");
            let compared = (from - ago, to - ago);
            dashboard.check_against(&query, compared, width).await;
        }
        let uri = format!("paths?{window}");
        let before = dashboard.get(&format!("{uri}&against=before")).await;
        assert_eq!(before, dashboard.get(&uri).await);
    }
}

#[tokio::test]
async fn an_error_about_a_window_that_does_not_fit_names_the_setting() {
    let mut fixture = Fixture::memory();
    let mut dashboard = Dashboard::with_query_bytes(&fixture, 1 << 20);
    let large = [64 << 20, 1 << 40].map(|bytes| Dashboard::with_query_bytes(&fixture, bytes));
    let served: Vec<_> = (0..5_000).map(|n| Served::new(NOW, n, MS)).collect();
    dashboard.serve(&mut fixture, &served[..50]).await;
    let count = async |dashboard: &Dashboard, window: &str| {
        let answer = dashboard.get(&format!("overview?window={window}")).await;
        number(&answer["window"], "count")
    };
    assert_eq!(count(&dashboard, "5m").await, 50);
    // Now there are a hundred times as many contexts.
    dashboard.serve(&mut fixture, &served[50..]).await;
    fixture.advance(2);
    for uri in [
        "overview?window=5m",
        "paths?window=7d",
        "path?window=1h&context=GET+/7",
    ] {
        let (status, answer) = dashboard.answer(uri).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{uri}");
        let error = answer["error"].as_str().unwrap();
        let says = "the window of 5001 contexts does not fit into";
        assert!(error.starts_with(says), "{error}");
        assert!(error.contains("`query_bytes`"), "{error}");
    }
    for large in &large {
        assert_eq!(count(large, "5m").await, 5_000);
        assert_eq!(count(large, "7d").await, 5_000);
    }
}

#[tokio::test]
async fn a_window_with_many_kinds_names_some_and_counts_all() {
    let mut fixture = Fixture::memory();
    let dashboard = Dashboard::new(&fixture);
    for minute in 0..40i64 {
        let mut sums = aggregate_of(&[MS; 10], Outcome::ServerError);
        // Each minute has the kind `lasting`, and eight kinds of its own.
        sums.kinds = Kinds::default();
        sums.kinds.add("lasting".into(), 2);
        for n in 0..8 {
            sums.kinds.add(format!("{minute} {n}").into(), 1);
        }
        let mut batch = Batch::new(fixture.precisions.clone());
        batch.add(&"GET /0".into(), Kind::Http, fixture.now(), &sums);
        batch.add(&ALL.into(), Kind::All, fixture.now(), &sums);
        fixture.merge(batch).await;
        fixture.advance(60);
        let path = dashboard.get("path?context=GET+/0&window=15m").await;
        let (window, errors) = (&path["window"], dashboard.get("errors?window=15m").await);
        let (from, to) = range(window);
        let minutes = (0..=minute).filter(|at| (from..to).contains(&(NOW + 60 * at)));
        let requests = 10 * minutes.count() as i64;
        let code = json!([{ "code": "503", "count": requests }]);
        assert_eq!(window["codes"], code, "{minute}");
        for (kinds, most) in [
            (&window["kinds"], MAX_KINDS),
            (&errors["kinds"], MAX_WINDOW_KEYS),
        ] {
            let kinds = kinds.as_array().unwrap();
            let counted: i64 = kinds.iter().map(|row| number(row, "count")).sum();
            assert_eq!(counted, requests, "{minute}");
            assert!(kinds.len() <= most + 1, "{minute}: {}", kinds.len());
        }
    }
}

#[tokio::test]
async fn rows_compare_with_the_window_before() {
    let mut fixture = Fixture::memory();
    let mut dashboard = Dashboard::new(&fixture);
    let served = |context, ago: i64, millis: u64| Served::new(NOW - ago, context, millis * MS);
    let mut requests = vec![served(2, 90, 3), served(3, 500, 3)];
    for n in 0..30 {
        // These requests are twice as slow as before, and half of them are errors.
        let mut slower = served(0, 90 + n, 20);
        if n % 2 > 0 {
            slower.outcome = Outcome::ServerError;
        }
        let before = [0, 1].map(|context| served(context, 400 + n, 10));
        requests.extend([slower, served(1, 90 + n, 5)].into_iter().chain(before));
    }
    dashboard.serve(&mut fixture, &requests).await;
    for (query, expected) in [
        ("sort=change", "0 1 2"),
        ("sort=change&order=asc", "1 0 2"),
        ("sort=share", "0 1 2"),
        ("sort=error_share&limit=1", "0"),
        ("status=new", "2"),
        ("status=gone", "3"),
        ("status=up", "0"),
        ("status=down", "1"),
    ] {
        let answer = dashboard.get(&format!("paths?window=5m&{query}")).await;
        let rows = answer["paths"].as_array().unwrap().iter();
        let names: Vec<_> = rows.map(|row| row["context"].as_str().unwrap()).collect();
        let expected: Vec<_> = expected.split(' ').map(|at| format!("GET /{at}")).collect();
        assert_eq!(names, expected, "{query}");
    }
    let answer = dashboard.get("paths?window=5m&status=up").await;
    let row = &answer["paths"][0];
    near(&row["change"]["mean"], 2.0, 1e-9);
    near(&row["change"]["p50"], 2.0, 0.1);
    assert_eq!(
        row["change"]["error_share"],
        Value::Null,
        "no errors before"
    );
    near(&row["error_share"], 0.5, 1e-9);
    near(&row["share"], 0.600 / 0.753, 1e-9);
    let gone = dashboard.get("paths?window=5m&status=gone").await;
    assert_eq!(gone["paths"][0]["count"], 0);
    assert_eq!(gone["paths"][0]["before"]["count"], 1);
}

#[tokio::test]
async fn health_has_the_memory_of_recorder_and_reader() {
    let mut fixture = Fixture::memory();
    let mut dashboard = Dashboard::new(&fixture);
    let mut last = [0; 2];
    for contexts in [0, 500] {
        let served: Vec<_> = (0..contexts).map(|n| Served::new(NOW, n, MS)).collect();
        dashboard.serve(&mut fixture, &served).await;
        for context in (0..contexts).map(name) {
            let duration = Duration::from_millis(1);
            dashboard.pulse.record(&context, duration, StatusCode::OK);
        }
        fixture.advance(2);
        dashboard.get("paths?window=5m").await;
        let cost = dashboard.get("health").await["cost"].take();
        let bytes = ["recorder_bytes", "reader_bytes"].map(|field| number(&cost, field));
        for (last, bytes) in last.iter_mut().zip(bytes) {
            let least = *last + contexts as i64 * 200;
            assert!(bytes > least && bytes < 32 << 20, "{bytes} after {last}");
            *last = bytes;
        }
        assert!(cost["task_seconds_per_minute"].is_number(), "{cost}");
    }
}

#[tokio::test]
async fn windows_show_what_was_served_if_all_windows_fit_into_query_bytes() {
    windows_show_what_was_served(Fixture::memory(), (80, 64 << 20, 0)).await;
}

in_both!(windows_show_what_was_served(
    // About one window fits into these bytes.
    (80, 1 << 20, 150),
    (100, 64 << 20, 0)
));
