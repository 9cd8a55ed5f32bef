//! A caller in Rust, an endpoint and the page give the same figures.

use pulse_browser::page::Page;
use pulse_browser::rig::http::Client;
use pulse_browser::service::Service;
use serde_json::Value;
use tower_pulse::query::{Answer, ChangesQuery, Kind, PathQuery, PathsQuery, Window};

use crate::column;

/// An answer as an endpoint writes it.
fn json<T: serde::Serialize>(answer: &Answer<T>) -> Value {
    // Through the text, as what the endpoint answers: reading it may change the last digit of a figure.
    let text = serde_json::to_string(answer).expect("it is written");
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
        "ms" => 1e-3,
        "%" => 1e-2,
        "min" | "min/min" => 60.0,
        _ => 1.0,
    };
    number * factor
}

/// Fails unless the page shows a figure, to the three digits that it shows.
fn assert_shown(text: &str, figure: Option<f64>) {
    let Some(figure) = figure else {
        assert_eq!(text, "–");
        return;
    };
    let shown = shown(text);
    let most = 0.0051 * figure.abs() + 1e-12;
    assert!((shown - figure).abs() <= most, "{text}, not {figure}");
}

#[tokio::test]
async fn a_caller_an_endpoint_and_the_page_give_the_same_figures() {
    // Its clock stands still, so that all ask at the same moment.
    let service = Service::with_quiet_minutes().await;
    let query = service.pulse().query();
    let mut client = Client::connect(service.address()).await;
    let mut endpoint = async |uri: &str| client.json(&format!("/admin/pulse/api/{uri}")).await;
    let window: Window = "1h".parse().expect("a window");

    let text = async |question: &str| -> Value {
        let answer = query.json(question).await.expect("an answer");
        serde_json::from_str(&answer).expect("it is read")
    };

    let overview = text("overview?window=1h").await;
    assert_eq!(endpoint("overview?window=1h").await, overview);
    let mut rows = PathsQuery::default();
    rows.window = window;
    let paths = query.ask(&rows).await.expect("an answer");
    assert_eq!(endpoint("paths?window=1h").await, json(&paths));
    let mut one = PathQuery::default();
    one.context = "GET /".to_string();
    one.window = Some(window);
    one.kind = Some(Kind::Http);
    let path = query.ask(&one).await.expect("an answer");
    let uri = "path?window=1h&kind=http&context=GET%20%2F";
    assert_eq!(endpoint(uri).await, json(&path));
    let first = text("fix_first?window=1h").await;
    assert_eq!(endpoint("fix_first?window=1h").await, first);
    let changes = query
        .ask(&ChangesQuery::default())
        .await
        .expect("an answer");
    assert_eq!(endpoint("changes").await, json(&changes));

    let all = &overview["window"];
    assert_eq!(all["count"], 78);
    assert_eq!(paths.paths[0].now.count, 78);
    let page = Page::open(&service.url("/admin/pulse#overview?range=1h")).await;
    page.until_shown("table[data-table=fix-first] tbody tr")
        .await;
    let tile = async |name: &str| page.text(&format!("[data-tile={name}] .value")).await;
    for (name, figure) in [
        ("requests", "count"),
        ("mean", "mean"),
        ("p50", "p50"),
        ("p95", "p95"),
        ("p99", "p99"),
        ("errors", "error_share"),
    ] {
        assert_shown(&tile(name).await, all[figure].as_f64());
    }
    let label = page.text("[data-tile=p95] h3").await;
    let error = format!("±{:.1}%", 100.0 * all["error"].as_f64().expect("a number"));
    assert!(label.contains(&error), "{label}, not {error}");
    let row = &first["rows"][0];
    for name in ["share", "per_minute", "saved_per_minute", "mean", "p95"] {
        let shown = &column(&page, "fix-first", name).await[0];
        assert_shown(shown, row[name].as_f64());
    }

    page.show("paths?range=1h").await;
    page.until_shown("table[data-table=paths] tbody tr").await;
    let row = &paths.paths[0];
    for (name, figure) in [
        ("count", Some(row.now.count as f64)),
        ("mean", row.now.times.mean),
        ("p95", row.now.times.p95),
        ("max", row.now.times.max),
        (
            "change",
            row.change.as_ref().and_then(|change| change.times.mean),
        ),
    ] {
        assert_shown(&column(&page, "paths", name).await[0], figure);
    }
    page.end().await;
}
