//! Pages that are likely slower, of which it is not certain yet.

use pulse_browser::altering_proxy::AlteringProxy;
use pulse_browser::page::Page;
use pulse_browser::shop::Shop;
use serde_json::{Value, json};

const WATCHED: &str = "document.querySelectorAll('[data-panel=attention] li[data-kind^=maybe]')";
const PROBLEMS: &str = "[document.title, document.querySelectorAll('[data-panel=attention] .changes li:not([data-kind^=maybe])').length].join()";

/// Replaces what is watched in the answer about changes.
fn with_watched(questions: &[&str], body: &str, watched: &Value) -> String {
    let mut all: Value = serde_json::from_str(body).expect("the service answers JSON");
    let at = questions.iter().position(|one| *one == "changes");
    all["answers"][at.expect("it asks for changes")]["body"]["watched"] = watched.clone();
    all.to_string()
}

#[tokio::test]
async fn a_page_that_is_watched_is_shown_and_is_no_problem() {
    let shop = Shop::with("slow_query").await;
    let proxy = AlteringProxy::start(shop.demo().address()).await;
    // On a busy machine the demo itself may have pages that are likely slower.
    proxy.alter(|questions, body| with_watched(questions, body, &json!([])));
    let page = Page::empty().await;
    page.go(&proxy.screen("overview?range=1h&refresh=1")).await;
    page.until_screen("overview").await;
    let none = format!("{WATCHED}.length === 0");
    page.until("nothing is watched", &none).await;
    let problems: String = page.eval(PROBLEMS).await;

    let rows = [("GET /<b>&", 1.8, false), ("POST /checkout", 2.0, true)];
    let rows = rows.map(|(context, ratio, is_tail)| {
        let (method, path) = context.split_once(' ').expect("a method");
        json!({"context": context, "method": method, "path": path, "since": 1_700_000_000, "ratio": ratio, "is_tail": is_tail})
    });
    let watched = json!(rows);
    proxy.alter(move |questions, body| with_watched(questions, body, &watched));
    page.until("two pages are watched", &format!("{WATCHED}.length === 2"))
        .await;
    let texts: Vec<String> = page
        .eval(&format!("[...{WATCHED}].map((row) => row.innerText)"))
        .await;
    for (text, parts) in texts.iter().zip([
        ["maybe +80% slower", "/<b>&", "since"],
        ["maybe 2.0× slower at its tail", "/checkout", "since"],
    ]) {
        assert!(parts.iter().all(|part| text.contains(part)), "{text:?}");
    }
    let href: String = page
        .eval(&format!(
            "{WATCHED}[1].querySelector('a').getAttribute('href')"
        ))
        .await;
    assert!(
        href.starts_with("#path?") && href.contains("context=POST+%2Fcheckout"),
        "{href}"
    );
    assert_eq!(page.eval::<String>(PROBLEMS).await, problems);

    proxy.alter(|questions, body| with_watched(questions, body, &json!([])));
    page.until("nothing is watched any more", &none).await;
    page.end().await;
}
