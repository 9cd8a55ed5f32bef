//! Answers in a form that the page does not know: those of another version of the service during a deploy, or of a page
//! to log in. They are told, they spoil nothing that was shown before, and the page goes on.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pulse_browser::altering_proxy::AlteringProxy;
use pulse_browser::page::Page;
use pulse_browser::shop::Shop;
use serde_json::{Value, json};

const IS_TOLD: &str = "document.querySelector('#status').dataset.status === 'unexpected'
    && /form/.test(document.querySelector('#banner').innerText) && document.querySelector('#banner').checkVisibility()";
const IS_WELL: &str = "document.querySelector('#status').dataset.status === 'ok'
    && document.querySelector('#banner').hidden && document.body.dataset.ready === 'true'
    && document.body.dataset.stale === undefined";
const RETRY: &str = "#banner button";

/// The screens, and in each a question with a field of its answer that the screen cannot do without.
const NEEDED: [(&str, &str, &str); 10] = [
    ("overview?range=1h", "overview", "window"),
    ("overview?range=1h&utc=1", "series", "points"),
    ("paths?range=1h", "paths", "paths"),
    (
        "path?context=GET%20%2Fproducts%2F%7Bid%7D&range=1h",
        "path",
        "window",
    ),
    ("slowest", "slowest_requests", "requests"),
    ("timers?range=1h", "paths", "paths"),
    ("counters?range=1h", "counters", "counters"),
    ("counters?range=1h", "rows", "rows"),
    ("deploy", "deploy", "contexts"),
    ("health", "instances", "instances"),
];

/// A page at a proxy before a demo of which nothing changes.
async fn open(fragment: &str) -> (AlteringProxy, Page) {
    let shop = Shop::with("slow_query").await;
    let proxy = AlteringProxy::start(shop.demo().address()).await;
    let page = Page::empty().await;
    // What cannot be drawn may be a defect of the page: the console has it.
    page.tolerate("console: TypeError");
    page.go(&proxy.screen(fragment)).await;
    page.until("the page is well", IS_WELL).await;
    (proxy, page)
}

/// A change of an answer's body, in which the field is one that the screen needs.
type Change = fn(&mut Value, &str);

/// Replaces what one question was answered.
fn with_body(
    questions: &[&str],
    true_body: &str,
    question: &str,
    change: Change,
    field: &str,
) -> String {
    let mut all: Value = serde_json::from_str(true_body).expect("the service answers JSON");
    let at = questions.iter().position(|one| *one == question);
    let at = at.unwrap_or_else(|| panic!("{question} is not asked: {questions:?}"));
    change(&mut all["answers"][at]["body"], field);
    all.to_string()
}

#[tokio::test]
async fn an_answer_without_what_a_screen_needs_is_told_on_each_screen() {
    let changes: [(&str, Change); 5] = [
        ("null", |body, _| *body = Value::Null),
        ("a number", |body, _| *body = json!(5)),
        ("a missing field", |body, field| {
            body.as_object_mut().expect("an object").remove(field);
        }),
        ("a field that is null", |body, field| {
            body[field] = Value::Null
        }),
        ("a field that is a number", |body, field| {
            body[field] = json!(5)
        }),
    ];
    let screens = NEEDED.map(async |(fragment, question, field)| {
        let (proxy, page) = open(fragment).await;
        let has_rows = "document.querySelectorAll('main tbody tr').length > 0";
        page.until("the screen has rows", has_rows).await;
        for (name, change) in changes {
            let about = format!("{fragment}: {name} in place of {question}.{field}");
            proxy.alter(move |questions, body| with_body(questions, body, question, change, field));
            page.until(&about, IS_TOLD).await;
            assert!(
                page.eval::<bool>(has_rows).await,
                "{about}: the last data stays"
            );
            proxy.heal();
            page.click(RETRY).await;
            page.until(&format!("{about}: the page is well again"), IS_WELL)
                .await;
        }
        page.end().await;
    });
    join_all(screens).await;
}

#[tokio::test]
async fn what_is_no_answer_at_all_is_told() {
    let (proxy, page) = open("overview?refresh=1").await;
    let bodies = [
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
    ];
    for body in bodies {
        proxy.alter(|_, _| body.to_owned());
        page.until(&format!("{body:?} is told"), IS_TOLD).await;
        proxy.heal();
        page.click(RETRY).await;
        page.until("the page is well again", IS_WELL).await;
    }
    page.end().await;
}

#[tokio::test]
async fn the_page_goes_on_by_itself() {
    let shop = Shop::with("slow_query").await;
    let pages = [false, true].map(async |is_first| {
        let proxy = AlteringProxy::start(shop.demo().address()).await;
        let page = Page::empty().await;
        page.tolerate("console: TypeError");
        let url = proxy.screen("paths?refresh=1");
        if !is_first {
            page.go(&url).await;
        }
        let empty: fn(&mut Value, &str) = |body, _| *body = json!({});
        proxy.alter(move |questions, body| with_body(questions, body, "paths", empty, ""));
        if is_first {
            page.load(&url).await;
        }
        page.until("the page tells it", IS_TOLD).await;
        let altered = proxy.altered();
        let start = Instant::now();
        while proxy.altered() < altered + 2 {
            assert!(start.elapsed().as_secs() < 60, "the page does not poll");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        proxy.heal();
        page.until("the page is well again", IS_WELL).await;
        page.end().await;
    });
    join_all(pages).await;
}
