//! What looking costs: requests and bytes.

use futures_util::future::join_all;
use pulse_browser::page::Page;
use pulse_browser::screens::SCREENS;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::{click_in_menu, polls, save, until_polled};

/// The bytes of the page, its style and its scripts, as they were encoded.
fn assets(until: &str) -> String {
    format!("[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .filter((entry) => !entry.name.includes('/api/') && entry.startTime <= {until})
        .reduce((sum, entry) => sum + entry.encodedBodySize, 0)")
}

/// When the first screen was drawn.
const DRAWN: &str = "performance.getEntriesByName('drawn')[0].startTime";

/// Bytes until the overview is painted first, and of everything.
const FIRST_PAINT: u64 = 33_000;
const ALL: u64 = 80_000;

#[tokio::test]
async fn each_poll_is_one_request() {
    let shop = Shop::with("slow_query").await;
    // All at once, as each needs some seconds.
    let pages = SCREENS.map(async |screen| {
        let separator = if screen.fragment.contains('?') {
            '&'
        } else {
            '?'
        };
        let fragment = format!("{}{separator}refresh=1", screen.fragment);
        let page = Page::open(&shop.screen(&fragment)).await;
        // A screen may ask again at once when the first answer tells what more it needs.
        until_polled(&page, 2).await;
        let settled = polls(&page).await.len();
        until_polled(&page, 3).await;
        let polls = polls(&page).await;
        for poll in &polls {
            assert!(
                poll.path().contains("/api/screen?ask="),
                "{}: {}",
                screen.name,
                poll.path()
            );
        }
        for pair in polls[settled - 1..].windows(2) {
            let between = pair[1].at - pair[0].at;
            assert!(
                between > 0.8,
                "{}: {between} s between two polls",
                screen.name
            );
        }
        page.end().await;
    });
    join_all(pages).await;
}

#[tokio::test]
async fn a_page_that_nobody_looks_at_costs_nothing() {
    let shop = Shop::with("slow_query").await;
    let clock = Page::open(&shop.screen("health?refresh=1")).await;
    let page = Page::open(&shop.screen("overview?refresh=1")).await;
    until_polled(&page, 2).await;
    let look = |hidden: bool| {
        format!(
            "Object.defineProperty(document, 'hidden', {{configurable: true, value: {hidden}}});
            document.dispatchEvent(new Event('visibilitychange')); undefined"
        )
    };
    page.run(&look(true)).await;
    // A poll that was under way may end.
    until_polled(&clock, 1).await;
    let before = polls(&page).await.len();
    until_polled(&clock, 3).await;
    assert_eq!(
        polls(&page).await.len(),
        before,
        "a hidden page asks for nothing"
    );
    page.run(&look(false)).await;
    until_polled(&page, 2).await;
    page.end().await;
    clock.end().await;
}

#[tokio::test]
async fn nothing_is_sent_again_when_nothing_has_changed() {
    // Rates, and the recorded part of the present hour, change with the time: this screen has neither.
    let service = Service::with_contexts(20).await;
    let page = Page::open(&service.url("/admin/pulse#slowest?refresh=1&name=last_hour")).await;
    let start = std::time::Instant::now();
    loop {
        until_polled(&page, 1).await;
        let polls = polls(&page).await;
        if let Some(poll) = polls.iter().find(|poll| poll.status == Some(304)) {
            // An answer without a body has no bytes, or those of its head.
            assert!(poll.bytes < 1_500.0, "{poll:?}");
            break;
        }
        assert!(
            start.elapsed().as_secs() < 60,
            "no poll is answered 304: {polls:#?}"
        );
    }
    page.end().await;
}

#[tokio::test]
async fn a_second_visit_fetches_the_page_and_the_data_only() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview")).await;
    page.until_screen("overview").await;
    // What lets charts be read is loaded behind the first paint.
    let are_connected =
        "[...document.querySelectorAll('.plot')].every((plot) => plot.role === 'slider')";
    page.until("the charts can be read", are_connected).await;
    let before = page.exchanges().await.len();
    page.load("about:blank").await;
    page.until("the page is left", "location.href === 'about:blank'")
        .await;
    page.go(&shop.screen("overview")).await;
    page.until_screen("overview").await;
    let exchanges = page.exchanges().await;
    let fetched: Vec<_> = exchanges[before..]
        .iter()
        .filter(|exchange| exchange.url.starts_with("http") && !exchange.is_cached)
        .map(|exchange| exchange.path().split('?').next().unwrap().to_owned())
        .collect();
    assert!(!fetched.is_empty());
    for path in &fetched {
        assert!(
            path == "/admin/pulse" || path.ends_with("/api/screen"),
            "{fetched:?}"
        );
    }
    page.end().await;
}

#[tokio::test]
async fn the_page_is_small() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview")).await;
    page.until_screen("overview").await;
    let first: u64 = page.eval(&assets(DRAWN)).await;
    for screen in SCREENS {
        page.visit(&shop.url(), screen).await;
    }
    page.go(&shop.screen("overview")).await;
    page.until_screen("overview").await;
    click_in_menu(&page, "[data-chart=hits]", "button[data-view=table]").await;
    page.until_shown("[data-chart=hits] table").await;
    save(&page, "latency", "csv").await;
    let all: u64 = page.eval(&assets("Infinity")).await;
    eprintln!("first paint of the overview: {first} bytes, everything: {all} bytes");
    assert!(first <= FIRST_PAINT, "{first} bytes before the first paint");
    assert!(all <= ALL, "{all} bytes in all");
    page.end().await;
}
