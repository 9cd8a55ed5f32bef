//! Answers that the dashboard cannot read: from another version of the service during a deploy, or from a login page.
//! The dashboard reports such an answer, keeps the shown data, and goes on.

use pulse_browser::page::Page;
use pulse_browser::proxy::ReverseProxy;
use pulse_browser::shop::Shop;
use serde_json::{Value, json};

use crate::until_polled;

const SAYS_UNEXPECTED: &str =
    "$('#status').dataset.status === 'unexpected' && /another version/.test($('#banner').innerText)
    && $('#banner').checkVisibility()";
const IS_WELL: &str = "$('#status').dataset.status === 'ok' && $('#banner').hidden
    && document.body.dataset.ready === 'true' && document.body.dataset.stale === undefined";
const RETRY: &str = "#banner button";

/// The screens, each with a question and a field of its answer that the screen needs.
const NEEDED: [(&str, &str, &str); 11] = [
    ("overview?range=1h", "overview", "window"),
    ("overview?range=1h&utc=1", "series", "points"),
    ("paths?range=1h", "paths", "paths"),
    (
        "path?context=GET%20%2Fproducts%2F%7Bid%7D&range=1h",
        "path",
        "window",
    ),
    ("slowest", "slowest_requests", "requests"),
    ("errors?range=1h", "errors", "kinds"),
    ("timers?range=1h", "paths", "paths"),
    ("counters?range=1h", "counters", "counters"),
    ("counters?range=1h&utc=1", "rows", "rows"),
    ("deploy", "deploy", "contexts"),
    ("health", "instances", "instances"),
];

/// A dashboard behind a proxy that alters no answers yet.
async fn open(fragment: &str) -> (ReverseProxy, Page) {
    let shop = Shop::with("slow_query").await;
    let proxy = ReverseProxy::start(shop.demo().address()).await;
    let page = Page::empty().await;
    // The dashboard logs a `TypeError` for an answer that it cannot draw.
    page.tolerate("console: TypeError");
    page.go(&proxy.screen(fragment)).await;
    page.until(IS_WELL).await;
    (proxy, page)
}

#[tokio::test]
async fn each_screen_reports_an_answer_without_a_needed_field() {
    /// Alters an answer's body: either a field that the screen needs, or the whole body.
    type Alteration = fn(&mut Value, &str);
    let alterations: [Alteration; 5] = [
        |body, field| _ = body.as_object_mut().expect("an object").remove(field),
        |body, _| *body = Value::Null,
        |body, _| *body = json!(5),
        |body, field| body[field] = Value::Null,
        |body, field| body[field] = json!(5),
    ];
    let (proxy, page) = open("overview").await;
    for (number, (fragment, question, field)) in NEEDED.into_iter().enumerate() {
        page.show(fragment).await;
        page.until(IS_WELL).await;
        page.until("$$('main tbody tr').length > 0").await;
        let tried = if number == 0 { 5 } else { 2 };
        for alter in alterations.into_iter().cycle().skip(number).take(tried) {
            proxy.alter_each(question, move |body| alter(body, field));
            page.poll().await;
            page.until(SAYS_UNEXPECTED).await;
            // The dashboard keeps the last data.
            page.until("$$('main tbody tr').length > 0").await;
            proxy.heal();
            page.click(RETRY).await;
            page.until(IS_WELL).await;
        }
    }
}

#[tokio::test]
async fn the_dashboard_reports_an_unreadable_answer_and_recovers_by_itself() {
    let (proxy, page) = open("overview").await;
    for body in [
        "null",
        "5",
        "{}",
        r#"{"answers":null}"#,
        r#"{"answers":5}"#,
        r#"{"answers":[]}"#,
        r#"{"answers":[null,null,null,null,null,null,null]}"#,
        r#"{"answers":[{},{},{},{},{},{},{}]}"#,
        r#"{"answers":[{"status":200"#,
        "<!doctype html><title>Log in</title><form>",
        "",
    ] {
        proxy.alter(|_, _| body.to_owned());
        page.poll().await;
        page.until(SAYS_UNEXPECTED).await;
        proxy.heal();
        page.click(RETRY).await;
        page.until(IS_WELL).await;
    }
    // A dashboard recovers without a click, even if its first answer could not be read.
    let first = Page::empty().await;
    first.tolerate("console: TypeError");
    proxy.alter_answers(|_, answers| answers.fill(json!({"status": 200, "body": {}})));
    first.load(&proxy.screen("paths?refresh=1")).await;
    page.poll().await;
    for page in [&page, &first] {
        page.until(SAYS_UNEXPECTED).await;
        page.hasten().await;
        until_polled(page, 2).await;
    }
    proxy.heal();
    page.until(IS_WELL).await;
    first.until(IS_WELL).await;
}

#[tokio::test]
async fn a_watched_path_is_shown_and_is_not_a_problem() {
    const WATCHED: &str = "$$('[data-panel=attention] li[data-kind^=maybe]')";
    const PROBLEMS: &str = "document.title
        + $$('[data-panel=attention] .changes li:not([data-kind^=maybe])').length";
    let (proxy, page) = open("overview?range=1h&refresh=1").await;
    let watch = |watched: Value| {
        proxy.alter_each("changes", move |body| body["watched"] = watched.clone());
    };
    // On a busy machine, the demo itself may list pages as likely slower (`watched`).
    watch(json!([]));
    page.until(&format!("{WATCHED}.length === 0")).await;
    let problems: String = page.eval(PROBLEMS).await;
    let since = 1_700_000_000;
    watch(json!([
        {"context": "GET /<b>&", "method": "GET", "path": "/<b>&", "since": since, "ratio": 1.8, "is_tail": false},
        {"context": "POST /checkout", "method": "POST", "path": "/checkout", "since": since, "ratio": 2, "is_tail": true},
    ]));
    page.until(&format!("{WATCHED}.length === 2")).await;
    let rows = format!(
        "{WATCHED}.map((row) => row.innerText + row.querySelector('a').getAttribute('href'))"
    );
    let rows: Vec<String> = page.eval(&rows).await;
    for (row, parts) in rows.iter().zip([
        ["maybe +80% slower", "/<b>&", "since", "#path?"],
        [
            "maybe 2.0× slower in its slowest tenth",
            "/checkout",
            "since",
            "context=POST+%2Fcheckout",
        ],
    ]) {
        assert!(parts.iter().all(|part| row.contains(part)), "{row:?}");
    }
    assert_eq!(page.eval::<String>(PROBLEMS).await, problems);
    watch(json!([]));
    page.until(&format!("{WATCHED}.length === 0")).await;
}
