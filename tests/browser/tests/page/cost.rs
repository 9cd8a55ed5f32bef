//! The cost of looking at the page: requests and bytes.

use pulse_browser::page::Page;
use pulse_browser::screens::SCREENS;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::{open, save, toggle, until, until_polled};

/// The encoded bytes of the page, its style and its scripts.
fn assets(until: &str) -> String {
    format!(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
            .filter((entry) => !entry.name.includes('/api/') && entry.startTime <= {until})
            .reduce((sum, entry) => sum + entry.encodedBodySize, 0)"
    )
}

/// The time at which the first screen was drawn.
const DRAWN: &str = "performance.getEntriesByName('drawn')[0].startTime";

/// The maximum bytes until the first paint of the overview, and in total.
const FIRST_PAINT: u64 = 35_000;
const ALL: u64 = 80_000;

#[tokio::test]
async fn each_poll_is_one_request_and_a_hidden_page_sends_none() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.url()).await;
    page.hasten().await;
    for screen in SCREENS {
        let and = if screen.fragment.contains('?') {
            '&'
        } else {
            '?'
        };
        page.go(&shop.screen(&format!("{}{and}refresh=1", screen.fragment)))
            .await;
        page.until_screen(screen.name).await;
        // After its first answer, a screen may ask once more at once.
        until_polled(&page, 3).await;
        let settled = page.polls().await.len();
        until_polled(&page, 3).await;
        let polls = page.polls().await;
        for pair in polls[settled - 1..].windows(2) {
            let (between, path) = (pair[1].at - pair[0].at, pair[1].path());
            assert!(path.contains("/api/screen?ask="), "{path}");
            assert!(between > 0.04, "{}: {between} s of 0.05", screen.name);
        }
    }
    let clock = open("slow_query", "health?refresh=1").await;
    clock.hasten().await;
    let look = async |hidden: bool| {
        page.run(&format!(
            "Object.defineProperty(document, 'hidden', {{configurable: true, value: {hidden}}});
            document.dispatchEvent(new Event('visibilitychange')); undefined"
        ))
        .await;
    };
    look(true).await;
    // A poll that was in progress may still end.
    until_polled(&clock, 3).await;
    let before = page.polls().await.len();
    until_polled(&clock, 6).await;
    let after = page.polls().await.len();
    assert_eq!(after, before, "a hidden page asks for nothing");
    look(false).await;
    until_polled(&page, 2).await;
}

#[tokio::test]
async fn nothing_is_sent_again_when_nothing_has_changed() {
    // Rates, and the recorded share of a range, change with time. This screen has neither before the first deploy.
    let service = Service::with_contexts(20).await;
    let page = Page::open(&service.screen("deploy?refresh=1")).await;
    page.hasten().await;
    until("a poll is answered 304", async || {
        let polls = page.polls().await.into_iter();
        let mut same = polls.filter(|poll| poll.status == Some(304));
        // An answer without a body has no bytes, or only the bytes of its head.
        same.next().is_some_and(|poll| poll.bytes < 1_500.0)
    })
    .await;
}

#[tokio::test]
async fn the_page_is_small_and_a_second_visit_fetches_only_the_page_and_the_data() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview")).await;
    page.until_screen("overview").await;
    let first: u64 = page.eval(&assets(DRAWN)).await;
    assert!(first <= FIRST_PAINT, "{first} bytes before the first paint");
    for screen in SCREENS {
        page.visit(&shop.url(), screen).await;
    }
    page.show("overview").await;
    toggle(&page, "hits").await;
    page.until_shown("[data-chart=hits] table").await;
    save(&page, "latency", "csv").await;
    let all: u64 = page.eval(&assets("Infinity")).await;
    assert!(all <= ALL, "{all} bytes in all");

    let before = page.exchanges().await.len();
    page.load("about:blank").await;
    page.until("location.href === 'about:blank'").await;
    page.go(&shop.screen("overview")).await;
    page.until_screen("overview").await;
    let exchanges = page.exchanges().await;
    let fetched = exchanges[before..].iter();
    let fetched = fetched.filter(|request| request.url.starts_with("http") && !request.is_cached);
    let fetched: Vec<_> = fetched
        .map(|request| request.path().split('?').next().unwrap())
        .collect();
    assert!(!fetched.is_empty());
    let is_needed = |path: &&str| *path == "/admin/pulse" || path.ends_with("/api/screen");
    assert!(fetched.iter().all(is_needed), "{fetched:?}");
}
