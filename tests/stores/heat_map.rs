//! Heat maps, in each store, against a plain list of all requests: no request is lost, each is in the row of its
//! duration, and the percentiles are those of the series.

use http::StatusCode;
use serde_json::{Value, json};
use tower_pulse_model::tier::{WIDTHS, tier_for};

use crate::fixture::{Fixture, MS, NOW};
use crate::rig::seed::seed;
use crate::windows::{OUTCOMES, Page, Served, name};

const CONTEXTS: usize = 2;

fn whose(context: Option<usize>) -> String {
    context.map_or_else(String::new, |at| {
        format!("context={}&", name(at).replace(' ', "+"))
    })
}

/// Asks for a heat map, and checks all of its slices. Returns how many requests it has.
async fn check(page: &Page, context: Option<usize>, window: &str) -> u64 {
    let uri = format!("/api/heat_map?{}{window}", whose(context));
    let answer = page.get(&uri).await;
    let number = |field: &str| answer[field].as_i64().unwrap();
    let (from, to, precision) = (number("from"), number("to"), number("precision"));
    let bounds: Vec<f64> = (answer["bounds"].as_array().unwrap().iter())
        .map(|bound| bound.as_f64().unwrap())
        .collect();
    assert!(bounds.len() <= 49 && bounds.is_sorted(), "{uri}: {answer}");
    let mut slices = answer["slices"].as_array().unwrap().iter().peekable();
    let mut all = 0;
    for start in (from..to).step_by(usize::try_from(precision).unwrap()) {
        let served = page.expected(context, start, start + precision);
        let Some(slice) = slices.next_if(|slice| slice["start"] == start) else {
            assert!(served.is_empty(), "{uri}: no slice at {start}");
            continue;
        };
        assert!(!served.is_empty(), "{uri}: {slice} without requests");
        let mut below = 0;
        for cell in slice["cells"].as_array().unwrap() {
            let (row, n) = (cell[0].as_u64().unwrap(), cell[1].as_u64().unwrap());
            let row = usize::try_from(row).unwrap();
            let (low, high) = (bounds[row], bounds[row + 1]);
            let within = |served: &&Served| (low..high).contains(&(served.nanos as f64 / 1e9));
            let expected = served.iter().filter(within).count() as u64;
            assert_eq!(n, expected, "{uri}: {low} to {high} of {slice}");
            // A percentile is in the cell in which so many of the requests are reached.
            for (name, q) in [("p50", 0.50), ("p95", 0.95), ("p99", 0.99)] {
                let rank = (q * served.len() as f64).ceil() as u64;
                if (below + 1..=below + n).contains(&rank) {
                    let percentile = slice[name].as_f64().unwrap();
                    assert!(
                        (low..high).contains(&percentile),
                        "{uri}: {name} of {slice}"
                    );
                }
            }
            below += n;
        }
        assert_eq!(below, served.len() as u64, "{uri}: {slice}");
        assert_eq!(slice["count"], below, "{uri}: {slice}");
        all += below;
    }
    assert_eq!(slices.next(), None, "{uri}: beyond the window");
    let series = format!("/api/series?metric=times&{}{window}", whose(context));
    let series = page.get(&series).await;
    let times = answer["slices"].as_array().unwrap().iter().map(|slice| {
        let fields = ["count", "mean", "p50", "p95", "p99"]
            .map(|field| (field.to_owned(), slice[field].clone()));
        json!([slice["start"], Value::Object(fields.into_iter().collect())])
    });
    assert_eq!(series["points"], Value::Array(times.collect()), "{uri}");
    for field in ["from", "to", "complete", "error", "not_running"] {
        assert_eq!(series[field], answer[field], "{uri}: {field}");
    }
    all
}

async fn heat_maps_show_what_was_served(mut fixture: Fixture, (steps, seed): (usize, u64)) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut page = Page::new(&fixture);
    let mut seen = 0;
    for _ in 0..steps {
        let wait = match rng.u32(..20) {
            0 => rng.i64(3_600..40_000),
            1..5 => rng.i64(60..2_400),
            _ => rng.i64(1..90),
        };
        fixture.advance(wait);
        let now = fixture.clock.now_seconds();
        // From 4 µs to 17 minutes now and then, and otherwise less than four octaves.
        let octaves = if rng.u32(..8) == 0 { 2..30 } else { 12..15 };
        let requests: Vec<Served> = (0..rng.usize(..12))
            .map(|_| Served {
                second: now - rng.i64(0..3),
                context: rng.usize(..CONTEXTS),
                nanos: 1_000 * (2u64.pow(rng.u32(octaves.clone())) * rng.u64(101..200) / 100) + 1,
                outcome: OUTCOMES[rng.usize(..4)],
            })
            .collect();
        page.serve(&mut fixture, &requests).await;
        let context = [None, Some(0), Some(1)][rng.usize(..3)];
        let windows = ["5m", "15m", "1h", "6h", "24h", "7d", "hour", "last_hour"];
        let window = windows[rng.usize(..windows.len())];
        seen += check(&page, context, &format!("window={window}")).await;
        // Each precision that fits, over what is kept of it.
        let precision = WIDTHS[rng.usize(..WIDTHS.len())];
        let tier = tier_for(precision).unwrap();
        let width = i64::from(precision);
        let most = (tier.span() - i64::from(tier.seconds) - width).min(340 * width);
        let from = now - rng.i64(1..most);
        check(
            &page,
            context,
            &format!("from={from}&precision={precision}"),
        )
        .await;
    }
    assert!(seen > 0);
}

/// A series that told the error of slices before its window, too.
#[tokio::test]
async fn a_series_tells_the_error_of_its_window() {
    heat_maps_show_what_was_served(Fixture::memory(), (200, 6_398_257_424_255_541_756)).await;
}

#[tokio::test]
async fn a_heat_map_is_bounded_and_says_what_is_wrong() {
    let mut fixture = Fixture::memory();
    let mut page = Page::new(&fixture);
    let empty = page.get("/api/heat_map").await;
    assert_eq!(empty["bounds"], json!([]));
    assert_eq!(empty["slices"], json!([]));
    let one = Served::new(NOW, 0, 20 * MS);
    page.serve(&mut fixture, &[one; 3]).await;
    fixture.advance(2);
    let answer = page.get("/api/heat_map?window=15m&context=GET+/0").await;
    assert_eq!(answer["precision"], 60);
    assert_eq!(answer["slices"][0]["start"], NOW);
    assert_eq!(answer["slices"][0]["cells"], json!([[0, 3]]), "one row");
    let bounds = &answer["bounds"];
    assert_eq!(bounds.as_array().unwrap().len(), 2);
    assert!(bounds[0].as_f64() <= Some(0.02), "{bounds}");
    assert!(bounds[1].as_f64() > Some(0.02), "{bounds}");
    let unknown = page.get("/api/heat_map?context=GET+/none").await;
    assert_eq!(unknown["slices"], json!([]), "as a series of it");
    for (query, parameter) in [
        ("window=24h&precision=60", "precision"),
        ("precision=5", "precision"),
        ("window=2h", "window"),
        ("context=", "context"),
    ] {
        let (status, refusal) = page.answer(&format!("/api/heat_map?{query}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}: {refusal}");
        assert_eq!(refusal["parameter"], parameter, "{query}: {refusal}");
    }
}

in_both!(heat_maps_show_what_was_served((200, seed()), (80, seed())));
