//! Series and heat maps compared with a plain list of all requests, for every metric at every precision. No request is
//! lost, each request is in the row of its duration, and the percentiles of a heat map equal those of the series.

use fastrand::Rng;
use serde_json::{Value, json};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::{HOUR, Precision};
use tower_pulse_model::tier::{WIDTHS, tier_for};

use crate::stores::fixture::{Fixture, MS, NOW};
use crate::stores::windows::{
    CONTEXTS, Dashboard, Served, WINDOWS, name, near, number, percentile,
};

/// Metrics that both counters and records have, and metrics that only records have.
const COUNTED: &str = "hits errors total mean error_share";
const RECORDED: &str = "stddev min max p50 p95 p99 outcomes longest_poll";

/// Checks the value of a slice. `served` are the slice's requests, sorted by duration.
fn check_value(metric: &str, value: &Value, served: &[Served], error: f64) {
    let seconds = |served: &Served| served.nanos as f64 / 1e9;
    let count_of = |outcome| served.iter().filter(|s| s.outcome == outcome).count();
    let (count, errors) = (served.len() as f64, count_of(Outcome::ServerError) as f64);
    let total: f64 = served.iter().map(seconds).sum();
    // Counters have whole microseconds.
    let rounded = 1e-5 + 1e-6 * count / total;
    match metric {
        "hits" => assert_eq!(value, served.len()),
        "errors" => assert_eq!(value.as_f64(), Some(errors)),
        "total" => near(value, total, rounded),
        "mean" => near(value, total / count, rounded),
        "error_share" => near(value, errors / count, 1e-9),
        "stddev" => {
            let squares = served.iter().map(|s| (seconds(s) - total / count).powi(2));
            let deviation = (squares.sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
            let wrong = (value.as_f64().unwrap() - deviation).abs();
            // The sum of the squares is rounded.
            let allowed = 1e-6 + 1e-6 * deviation + 1e-7 * percentile(served, 1.0);
            assert!(wrong < allowed, "{value} {deviation}");
        }
        "outcomes" => {
            assert_eq!(value["2xx"], count_of(Outcome::Success));
            assert_eq!(value["4xx"], count_of(Outcome::ClientError));
            assert_eq!(value["5xx"], count_of(Outcome::ServerError));
            assert_eq!(value["3xx"], 0);
        }
        "longest_poll" => {
            let longest = served.iter().map(|served| served.polls()[0]).max();
            near(value, longest.unwrap() as f64 / 1e9, 1e-9);
        }
        "min" => near(value, percentile(served, 0.0), 1e-9),
        "max" => near(value, percentile(served, 1.0), 1e-9),
        quantile => {
            let q = quantile[1..].parse::<f64>().unwrap() / 100.0;
            near(value, percentile(served, q), error + 1e-9);
        }
    }
}

fn parameter(context: Option<usize>) -> String {
    context.map_or_else(String::new, |at| {
        format!("context={}&", name(at).replace(' ', "+"))
    })
}

/// Asks for a series, and checks its points if its slices are kept. Returns the number of slices of the window.
async fn check_series(
    dashboard: &Dashboard,
    metric: &str,
    context: Option<usize>,
    query: &str,
    is_kept: bool,
) -> i64 {
    let uri = format!("series?metric={metric}&{}{query}", parameter(context));
    let answer = dashboard.get(&uri).await;
    let [from, to, precision] = ["from", "to", "precision"].map(|field| number(&answer, field));
    assert_eq!((from % precision, to % precision), (0, 0), "{uri}");
    let error = answer["error"].as_f64().unwrap();
    assert!(error < 0.09, "{uri}: {error}");
    assert!((error == 0.0 || metric.starts_with('p')), "{uri}: {error}");
    let mut points = answer["points"].as_array().unwrap().iter().peekable();
    for start in (from..to).step_by(precision as usize).filter(|_| is_kept) {
        let served = dashboard.expected(context, start, start + precision);
        match points.next_if(|point| point[0] == start) {
            Some(point) if !served.is_empty() => check_value(metric, &point[1], &served, error),
            Some(point) => panic!("{uri}: {point} without requests"),
            None => {
                let has_errors = served.iter().any(|s| s.outcome == Outcome::ServerError);
                let is_zero = metric == "errors" && !has_errors;
                assert!(served.is_empty() || is_zero, "{uri}: no point at {start}");
            }
        }
    }
    assert!(!is_kept || points.next().is_none(), "{uri}: beyond");
    (to - from) / precision
}

async fn check_heat_map(dashboard: &Dashboard, context: Option<usize>, window: &str) {
    let uri = format!("heat_map?{}{window}", parameter(context));
    let answer = dashboard.get(&uri).await;
    let [from, to, precision] = ["from", "to", "precision"].map(|field| number(&answer, field));
    let bounds = answer["bounds"].as_array().unwrap().iter();
    let bounds: Vec<f64> = bounds.map(|bound| bound.as_f64().unwrap()).collect();
    assert!(bounds.len() <= 49 && bounds.is_sorted(), "{uri}: {answer}");
    let mut slices = answer["slices"].as_array().unwrap().iter().peekable();
    for start in (from..to).step_by(precision as usize) {
        let served = dashboard.expected(context, start, start + precision);
        let Some(slice) = slices.next_if(|slice| slice["start"] == start) else {
            assert!(served.is_empty(), "{uri}: no slice at {start}");
            continue;
        };
        assert!(!served.is_empty(), "{uri}: {slice} without requests");
        let mut below = 0;
        for cell in slice["cells"].as_array().unwrap() {
            let [row, n] = [0, 1].map(|at| cell[at].as_u64().unwrap());
            let row = row as usize;
            let within = bounds[row]..bounds[row + 1];
            let of_cell = |served: &&Served| within.contains(&(served.nanos as f64 / 1e9));
            let expected = served.iter().filter(of_cell).count() as u64;
            assert_eq!(n, expected, "{uri}: {within:?} of {slice}");
            // A percentile is in the cell that has the request of the percentile's rank.
            for (name, q) in [("p50", 0.50), ("p95", 0.95), ("p99", 0.99)] {
                let rank = (q * served.len() as f64).ceil() as u64;
                let is_reached = (below + 1..=below + n).contains(&rank);
                let is_within = within.contains(&slice[name].as_f64().unwrap());
                assert!(!is_reached || is_within, "{uri}: {name} of {slice}");
            }
            below += n;
        }
        assert_eq!(below, served.len() as u64, "{uri}: {slice}");
        assert_eq!(slice["count"], below, "{uri}: {slice}");
    }
    assert_eq!(slices.next(), None, "{uri}: beyond the window");
    let series = format!("series?metric=times&{}{window}", parameter(context));
    let series = dashboard.get(&series).await;
    let times = answer["slices"].as_array().unwrap().iter().map(|slice| {
        let fields = ["count", "mean", "p50", "p95", "p99"];
        let fields = fields.map(|field| (field.to_owned(), slice[field].clone()));
        json!([slice["start"], Value::Object(fields.into_iter().collect())])
    });
    assert_eq!(series["points"], Value::Array(times.collect()), "{uri}");
    for field in ["from", "to", "complete", "error", "not_running"] {
        assert_eq!(series[field], answer[field], "{uri}: {field}");
    }
}

/// Checks the list of counters. The list shows the last complete slice, the sum of all kept slices, and the rate of the
/// last minute.
async fn check_counters(dashboard: &Dashboard, fixture: &Fixture, precision: Precision) {
    let (now, width) = (fixture.now(), i64::from(precision.seconds));
    let uri = format!("counters?precision={width}");
    let answer = dashboard.get(&uri).await;
    let sales = |from, to| -> i64 {
        let served = dashboard.expected(None, from, to);
        served.iter().map(Served::sales).sum()
    };
    let Some(row) = answer["counters"].get(0) else {
        return assert!(dashboard.expected(None, 0, now + 1).is_empty(), "{uri}");
    };
    let kept = precision.slice(precision.cutoff(now)) + width;
    assert_eq!(row["sum"], sales(kept, now + 1), "{uri}");
    let from = number(&answer, "from");
    let began = fixture.status().await.created.unwrap();
    let seconds = (now - from.max(began)).max(1) as f64;
    near(&row["rate"], sales(from, now + 1) as f64 / seconds, 1e-9);
    let start = precision.slice(now - 1) - width;
    let last = (start + width > began).then(|| sales(start, start + width));
    assert_eq!(row["name"], "sales", "{uri}");
    assert_eq!(row["last"], json!(last), "{uri}");
}

pub async fn check(dashboard: &Dashboard, fixture: &Fixture, rng: &mut Rng) {
    let now = fixture.now();
    let metrics: Vec<_> = COUNTED.split(' ').chain(RECORDED.split(' ')).collect();
    let metric = metrics[rng.usize(..metrics.len())];
    let context = (rng.u32(..3) > 0).then(|| rng.usize(..CONTEXTS));
    let window = format!("window={}", WINDOWS[rng.usize(..WINDOWS.len())]);
    let points = check_series(dashboard, metric, context, &window, true).await;
    assert!(points <= 200, "{metric} {window}: {points} points");
    check_heat_map(dashboard, context, &window).await;
    // A random precision, within the time for which its slices are kept.
    let records = WIDTHS.map(|width| (width, tier_for(width).unwrap()));
    let mut kept = records.to_vec();
    let width = i64::from(kept[rng.usize(..kept.len())].0);
    let tier = tier_for(width as u32).unwrap();
    let span = tier.span() - i64::from(tier.seconds) - width;
    let from = now - rng.i64(1..span.min(340 * width));
    let query = format!("from={from}&precision={width}");
    check_heat_map(dashboard, context, &query).await;
    if COUNTED.split(' ').any(|counted| counted == metric) {
        kept.extend(fixture.precisions.counters.iter().map(|p| (p.seconds, *p)));
    }
    let counted = &fixture.precisions.counters;
    check_counters(dashboard, fixture, counted[rng.usize(..counted.len())]).await;
    let (precision, tier) = kept[rng.usize(..kept.len())];
    let (precision, span) = (i64::from(precision), tier.span() - i64::from(tier.seconds));
    let from = now - rng.i64(1..span);
    let to = from + rng.i64(1..=span);
    // The first slice contains `from`, so it may begin before the kept slices.
    let is_kept = from.div_euclid(precision) * precision >= now - span;
    let query = format!("from={from}&to={to}");
    check_series(dashboard, metric, context, &query, is_kept).await;
    let query = format!("{query}&precision={precision}");
    check_series(dashboard, metric, context, &query, is_kept).await;
}

#[tokio::test]
async fn a_series_has_its_window_and_null_for_time_that_is_not_recorded() {
    let mut fixture = Fixture::memory();
    let mut dashboard = Dashboard::new(&fixture);
    let request = Served::new(NOW, 0, 12_345_678);
    dashboard.serve(&mut fixture, &[request; 3]).await;
    fixture.advance(130);
    // NOW is the start of a minute.
    let answer = dashboard.get("series?window=15m&metric=p95").await;
    assert_eq!(answer["from"], NOW - 780);
    assert_eq!(answer["to"], NOW + 180);
    assert_eq!(answer["precision"], 60);
    assert_eq!(answer["points"].as_array().unwrap().len(), 1);
    let hour = dashboard.get("series?window=hour").await;
    let start = NOW - NOW % HOUR;
    assert_eq!(hour["from"], start);
    assert_eq!(hour["to"], start + HOUR);
    assert_eq!(hour["points"], json!([[NOW, 3]]));
    // Without a window, a series has all kept slices.
    let all = dashboard.get("series").await;
    assert_eq!(all["points"], hour["points"]);
    assert_eq!(all["from"], Value::Null);

    let answer = dashboard.get("paths?window=5m&series=hits").await;
    let (from, to) = (&answer["from"], &answer["to"]);
    let expected = json!({"metric": "hits", "precision": 60, "from": from, "to": to});
    assert_eq!(answer["series"], expected);
    let begin = ((NOW - number(&answer, "from")) / 60) as usize;
    let hits = answer["paths"][0]["series"].as_array().unwrap();
    let (before, since) = hits.split_at(begin);
    assert!(!before.is_empty() && before.iter().all(Value::is_null));
    assert_eq!(since, [3, 0, 0]);
    let mean = dashboard.get("paths?window=5m&series=mean").await;
    let mean = mean["paths"][0]["series"].as_array().unwrap();
    assert_eq!(mean[begin..], [json!(0.0123), Value::Null, Value::Null]);
    // The stated `error` is 0, because the window is empty: slices before the window do not count.
    fixture.advance(900);
    let empty = dashboard.get("series?window=5m&metric=p95").await;
    let expected = (&json!([]), &json!(0.0));
    assert_eq!((&empty["points"], &empty["error"]), expected);
}

#[tokio::test]
async fn a_heat_map_is_bounded() {
    let mut fixture = Fixture::memory();
    let mut dashboard = Dashboard::new(&fixture);
    // The slice of a skewed request has only the number of missing requests.
    let ahead = Served::new(NOW + 3 * HOUR, 0, MS);
    dashboard.serve(&mut fixture, &[ahead]).await;
    let empty = dashboard.get("heat_map").await;
    assert_eq!(empty["bounds"], json!([]));
    assert_eq!(empty["slices"], json!([]));
    let request = Served::new(NOW, 0, 20 * MS);
    dashboard.serve(&mut fixture, &[request; 3]).await;
    fixture.advance(2);
    let answer = dashboard.get("heat_map?window=15m&context=GET+/0").await;
    assert_eq!(answer["slices"][0]["cells"], json!([[0, 3]]), "one row");
    assert_eq!(answer["bounds"].as_array().unwrap().len(), 2);
    let unknown = dashboard.get("heat_map?context=GET+/none").await;
    assert_eq!(unknown["slices"], json!([]), "an unknown context");
    let (status, refused) = dashboard.answer("heat_map?window=24h&precision=60").await;
    assert_eq!(status, 400);
    assert_eq!(refused["parameter"], "precision");
}
