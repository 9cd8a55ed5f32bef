//! The Rust API, the endpoints and the page give the same figures.

use pulse_browser::page::Page;
use pulse_browser::rig::http::Client;
use pulse_browser::service::Service;
use serde_json::Value;
use tower_pulse::query::{Answer, ChangesQuery, Kind, PathQuery, PathsQuery};

use crate::column;

/// The JSON that an endpoint would send for an answer.
fn json<T: serde::Serialize>(answer: &Answer<T>) -> Value {
    // The answer is written and read as text, as over HTTP, because that may change the last digit of a figure.
    let text = serde_json::to_string(answer).expect("an answer can be written");
    serde_json::from_str(&text).expect("it is read")
}

/// The number that a text of the page begins with, in seconds if it has a unit of time, and in shares if it has `%`.
fn shown(text: &str) -> f64 {
    let text = text.replace('\u{202f}', " ");
    let end = text.find(|c: char| !c.is_ascii_digit() && !". ".contains(c));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let number: f64 = number.replace(' ', "").parse().expect(&text);
    let factor = match unit.split_whitespace().next().unwrap_or_default() {
        "ns" => 1e-9,
        "µs" => 1e-6,
        "ms" | "ms/min" => 1e-3,
        "%" => 1e-2,
        "min" | "min/min" => 60.0,
        _ => 1.0,
    };
    number * factor
}

/// Panics unless the text of the page equals a figure, to three digits.
fn assert_shown(text: &str, figure: &Value) {
    let Some(figure) = figure.as_f64() else {
        assert_eq!(text, "–");
        return;
    };
    let shown = shown(text);
    let most = 0.0051 * figure.abs() + 1e-12;
    assert!((shown - figure).abs() <= most, "{text}, not {figure}");
}

#[tokio::test]
async fn a_caller_an_endpoint_and_the_page_give_the_same_figures() {
    // The service's clock stands still, so all questions are asked at the same moment.
    let service = Service::with_quiet_minutes(true).await;
    let query = service.pulse().query();
    let mut client = Client::connect(service.address()).await;
    let mut both = async |uri: &str| -> Value {
        let answer = query.json(uri).await.expect("an answer");
        let answer = serde_json::from_str(&answer).expect("it is read");
        let endpoint = client.json(&format!("/admin/pulse/api/{uri}")).await;
        assert_eq!(endpoint, answer, "{uri}");
        answer
    };
    let overview = both("overview?window=1h").await;
    let first = both("fix_first?window=1h").await;
    let typed = (both("paths?window=1h").await, both("changes").await);
    let mut rows = PathsQuery::default();
    rows.window = "1h".parse().expect("a window");
    let paths = query.ask(&rows).await.expect("an answer");
    let changes = query.ask(&ChangesQuery::default()).await;
    let changes = changes.expect("an answer");
    assert_eq!(typed, (json(&paths), json(&changes)));
    let mut one = PathQuery::default();
    one.context = "GET /".to_string();
    one.window = Some(rows.window);
    one.kind = Some(Kind::Http);
    let path = query.ask(&one).await.expect("an answer");
    let uri = "path?window=1h&kind=http&context=GET%20%2F";
    assert_eq!(both(uri).await, json(&path));

    let all = &overview["window"];
    assert_eq!(all["count"], 78);
    assert_eq!(paths.paths[0].now.count, 78);
    let page = Page::open(&service.screen("overview?range=1h")).await;
    page.until_shown("table[data-table=fix-first] tbody tr")
        .await;
    for (name, figure) in [
        ("requests", "count"),
        ("mean", "mean"),
        ("p50", "p50"),
        ("p95", "p95"),
        ("p99", "p99"),
        ("errors", "error_share"),
    ] {
        let tile = page.text(&format!("[data-tile={name}] .value")).await;
        assert_shown(&tile, &all[figure]);
    }
    let label = page.text("[data-tile=p95] h3").await;
    let error = format!("±{:.1}%", 100.0 * all["error"].as_f64().expect("a number"));
    assert!(label.contains(&error), "{label}, not {error}");
    for name in ["share", "per_minute", "saved_per_minute", "mean", "p95"] {
        let shown = &column(&page, "fix-first", name).await[0];
        assert_shown(shown, &first["rows"][0][name]);
    }
    let won = &column(&page, "fix-first", "won_per_minute").await[0];
    let per_minute = first["rows"][0]["per_minute"].as_f64().expect("a number");
    assert_shown(won, &(per_minute / 2.0).into());

    page.show("paths?range=1h").await;
    page.until_shown("table[data-table=paths] tbody tr").await;
    let row = &typed.0["paths"][0];
    for name in ["mean", "p95", "max"] {
        assert_shown(&column(&page, "paths", name).await[0], &row[name]);
    }
    let per_minute = 60.0 * row["per_second"].as_f64().expect("a rate");
    let shown = &column(&page, "paths", "count").await[0];
    assert_shown(shown, &per_minute.into());
    let change = &column(&page, "paths", "change").await[0];
    assert_shown(change, &row["change"]["mean"]);
}
