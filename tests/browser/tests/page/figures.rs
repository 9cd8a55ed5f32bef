//! The Rust API, the endpoints and the dashboard give the same figures.

use pulse_browser::page::Page;
use pulse_browser::rig::http::Client;
use pulse_browser::service::Service;
use serde_json::Value;
use tower_pulse::query::PathsQuery;

use crate::column;

/// The number at the start of a text: in seconds if a unit of time follows, and as a share if `%` follows.
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

/// Panics unless the text shows the figure, to half a percent.
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
async fn a_caller_an_endpoint_and_the_dashboard_give_the_same_figures() {
    // The service's clock stands still, so all questions are asked at the same moment.
    let service = Service::with_quiet_minutes(true).await;
    let query = service.pulse().query();
    let mut client = Client::connect(service.address()).await;
    let mut both = async |uri: &str| -> Value {
        let answer = query.json(uri).await.expect("an answer");
        let answer = serde_json::from_str(&answer).expect("JSON");
        let endpoint = client.json(&format!("/admin/pulse/api/{uri}")).await;
        assert_eq!(endpoint, answer, "{uri}");
        answer
    };
    let overview = both("overview?window=1h").await;
    let first = both("fix_first?window=1h").await;
    let paths = both("paths?window=1h").await;
    let mut question = PathsQuery::default();
    question.window = "1h".parse().expect("a window");
    let typed = query.ask(&question).await.expect("an answer");
    assert_eq!(typed.paths[0].now.count, 78);
    // The answer is written and read as text, as over HTTP, because text may change the last digit of a figure.
    let text = serde_json::to_string(&typed).expect("an answer can be written");
    let typed: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(typed, paths);

    let all = &overview["window"];
    assert_eq!(all["count"], 78);
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
    let row = &paths["paths"][0];
    for name in ["mean", "p95", "max"] {
        assert_shown(&column(&page, "paths", name).await[0], &row[name]);
    }
    let per_minute = 60.0 * row["per_second"].as_f64().expect("a rate");
    let shown = &column(&page, "paths", "count").await[0];
    assert_shown(shown, &per_minute.into());
    let change = &column(&page, "paths", "change").await[0];
    assert_shown(change, &row["change"]["mean"]);
}
