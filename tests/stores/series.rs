//! Series over windows, in each store, against a plain list of all requests: every metric at every precision.

use serde_json::Value;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::HOUR;
use tower_pulse_model::tier::{WIDTHS, tier_for};

use crate::fixture::{Fixture, NOW};
use crate::rig::seed::seed;
use crate::windows::{OUTCOMES, Page, Served, name, near};

/// Metrics that counters have too.
const COUNTED: [&str; 5] = ["hits", "errors", "total", "mean", "error_share"];
const RECORDED: [&str; 7] = ["stddev", "min", "max", "p50", "p95", "p99", "outcomes"];
const CONTEXTS: usize = 2;

/// Checks the value of a slice in which some requests were served, sorted by their duration.
fn check_value(metric: &str, value: &Value, served: &[Served], error: f64) {
    let seconds = |served: &Served| served.nanos as f64 / 1e9;
    let count = served.len() as f64;
    let errors = served.iter().filter(|s| s.outcome == Outcome::ServerError);
    let errors = errors.count() as f64;
    let total: f64 = served.iter().map(seconds).sum();
    // Counters have whole microseconds.
    match metric {
        "hits" => assert_eq!(value, served.len()),
        "errors" => assert_eq!(value.as_f64(), Some(errors)),
        "total" => near(value, total, 1e-5),
        "mean" => near(value, total / count, 1e-5),
        "error_share" => near(value, errors / count, 1e-9),
        "stddev" => {
            let squares = served.iter().map(|s| (seconds(s) - total / count).powi(2));
            let deviation = (squares.sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
            let answer = value.as_f64().unwrap();
            assert!(
                (answer - deviation).abs() < 1e-6 + 1e-6 * deviation,
                "{answer} {deviation}"
            );
        }
        "outcomes" => {
            for (name, outcome) in [
                ("2xx", Outcome::Success),
                ("4xx", Outcome::ClientError),
                ("5xx", Outcome::ServerError),
                ("3xx", Outcome::Redirection),
            ] {
                let of_outcome = served.iter().filter(|s| s.outcome == outcome);
                assert_eq!(value[name], of_outcome.count(), "{name}");
            }
        }
        _ => {
            let (q, error) = match metric {
                "min" => (0.0, 0.0),
                "max" => (1.0, 0.0),
                quantile => (quantile[1..].parse::<f64>().unwrap() / 100.0, error),
            };
            let rank = ((q * count).ceil() as usize).max(1);
            near(value, seconds(&served[rank - 1]), error + 1e-9);
        }
    }
}

/// Asks for a series, and checks all of its points. Returns how many slices the window has.
async fn check_series(
    page: &Page,
    metric: &str,
    context: Option<usize>,
    query: &str,
    kept: bool,
) -> i64 {
    let whose = context.map_or_else(String::new, |at| {
        format!("&context={}", name(at).replace(' ', "+"))
    });
    let uri = format!("/api/series?metric={metric}{whose}&{query}");
    let answer = page.get(&uri).await;
    let number = |field: &str| answer[field].as_i64().unwrap();
    let (from, to, precision) = (number("from"), number("to"), number("precision"));
    assert_eq!((from % precision, to % precision), (0, 0), "{uri}");
    let error = answer["error"].as_f64().unwrap();
    assert!(error < 0.09, "{uri}: {error}");
    assert!((error == 0.0 || metric.starts_with('p')), "{uri}: {error}");
    if !kept {
        return (to - from) / precision;
    }
    let mut points = answer["points"].as_array().unwrap().iter().peekable();
    for start in (from..to).step_by(precision as usize) {
        let served = page.expected(context, start, start + precision);
        let point = points.next_if(|point| point[0] == start);
        match point {
            Some(point) if !served.is_empty() => check_value(metric, &point[1], &served, error),
            Some(point) => panic!("{uri}: {point} without requests"),
            None => {
                let has_errors = served.iter().any(|s| s.outcome == Outcome::ServerError);
                let is_zero = metric == "errors" && !has_errors;
                assert!(served.is_empty() || is_zero, "{uri}: no point at {start}");
            }
        }
    }
    assert_eq!(points.next(), None, "{uri}: beyond the window");
    (to - from) / precision
}

async fn series_show_what_was_served(mut fixture: Fixture, steps: usize) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let mut page = Page::new(&fixture);
    for _ in 0..steps {
        let wait = match rng.u32(..20) {
            0 => rng.i64(3_600..40_000),
            1..5 => rng.i64(60..2_400),
            _ => rng.i64(1..90),
        };
        fixture.advance(wait);
        let now = fixture.clock.now_seconds();
        let requests: Vec<Served> = (0..rng.usize(..12))
            .map(|_| Served {
                second: match rng.u32(..20) {
                    // None is ahead: a counter drops the slice that its newest one pushes out.
                    0 => now - rng.i64(0..1_500),
                    _ => now - rng.i64(0..3),
                },
                context: rng.usize(..CONTEXTS),
                nanos: 1_000 * (2u64.pow(rng.u32(4..22)) * rng.u64(100..200) / 100),
                outcome: OUTCOMES[rng.usize(..4)],
            })
            .collect();
        page.serve(&mut fixture, &requests).await;
        let metrics = [&COUNTED[..], &RECORDED].concat();
        let metric = metrics[rng.usize(..metrics.len())];
        let context = [None, Some(0), Some(1)][rng.usize(..3)];
        let windows = ["5m", "15m", "1h", "6h", "24h", "7d", "hour", "last_hour"];
        let window = windows[rng.usize(..windows.len())];
        let query = format!("window={window}");
        let points = check_series(&page, metric, context, &query, true).await;
        assert!(points <= 200, "{metric} {query}: {points} points");
        // Each precision, over what is kept of it.
        let records = WIDTHS.map(|width| {
            let tier = tier_for(width).unwrap();
            (width, tier.span() - i64::from(tier.seconds))
        });
        let mut kept = records.to_vec();
        if COUNTED.contains(&metric) {
            let counters = fixture.precisions.counters.iter();
            kept.extend(counters.map(|p| (p.seconds, p.span() - i64::from(p.seconds))));
        }
        let (precision, span) = kept[rng.usize(..kept.len())];
        let from = now - rng.i64(1..span);
        let to = (from + rng.i64(1..=span)).max(from + 1);
        // Rounded outward, the first slice may begin before what is kept.
        let is_kept = from.div_euclid(i64::from(precision)) * i64::from(precision) >= now - span;
        let query = format!("from={from}&to={to}&precision={precision}");
        check_series(&page, metric, context, &query, is_kept).await;
        check_series(
            &page,
            metric,
            context,
            &format!("from={from}&to={to}"),
            is_kept,
        )
        .await;
    }
}

#[tokio::test]
async fn a_series_tells_its_window_and_how_much_of_it_was_recorded() {
    let mut fixture = Fixture::memory();
    let mut page = Page::new(&fixture);
    let one = Served::new(NOW, 0, 1_000_000);
    page.serve(&mut fixture, &[one; 3]).await;
    fixture.advance(600);
    // NOW is at the turn of a minute.
    let answer = page.get("/api/series?window=15m&metric=p95").await;
    assert_eq!(answer["from"], Value::from(NOW - 300));
    assert_eq!(answer["to"], Value::from(NOW + 660));
    assert_eq!(answer["precision"], 60);
    near(&answer["complete"], 600.0 / 900.0, 1e-9);
    assert_eq!(
        answer["points"].as_array().unwrap().len(),
        1,
        "no points without requests"
    );
    let hour = page.get("/api/series?window=hour").await;
    let start = NOW - NOW % HOUR;
    assert_eq!(hour["from"], Value::from(start));
    assert_eq!(hour["to"], Value::from(start + HOUR));
    assert_eq!(hour["points"], serde_json::json!([[NOW, 3]]));
    let empty = page.get("/api/series?window=5m&metric=outcomes").await;
    assert_eq!(empty["points"], serde_json::json!([]));
    assert_eq!(empty["error"], Value::from(0.0));
    // Without a window everything is as it was.
    let all = page.get("/api/series").await;
    assert_eq!(all["points"], hour["points"]);
    assert_eq!(all["from"], Value::Null);
}

in_both!(series_show_what_was_served(300, 120));
