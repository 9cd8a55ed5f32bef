//! The cost of looking at the dashboard: requests and bytes.

use pulse_browser::page::Page;
use pulse_browser::screens::SCREENS;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::{until, until_polled};

/// The encoded bytes of all files that were requested before the first screen was drawn.
const FIRST_BYTES: &str = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .filter(({name, startTime}) => !name.includes('/api/') && startTime <= performance.getEntriesByName('drawn')[0].startTime)
    .reduce((sum, entry) => sum + entry.encodedBodySize, 0)";
const MAX_FIRST_BYTES: u64 = 35_000;

#[tokio::test]
async fn each_poll_is_one_request() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.url()).await;
    page.hasten().await;
    for screen in SCREENS {
        let and = ["?", "&"][usize::from(screen.fragment.contains('?'))];
        let fragment = format!("{}{and}refresh=1", screen.fragment);
        page.go(&shop.screen(&fragment)).await;
        page.until_screen(screen.name).await;
        // After its first answer, a screen may immediately ask once more.
        until_polled(&page, 3).await;
        let settled = page.polls().await.len();
        until_polled(&page, 3).await;
        let polls = page.polls().await;
        for pair in polls[settled - 1..].windows(2) {
            let (between, path) = (pair[1].at - pair[0].at, pair[1].path());
            assert!(path.contains("/api/screen?ask="), "{path}");
            assert!(between > 0.04, "{}: {between} s, not 0.05", screen.name);
        }
    }
}

#[tokio::test]
async fn nothing_is_sent_again_when_nothing_has_changed() {
    // Most screens show rates or the recorded share of the range, which change with time. The screen of deploys has
    // neither before the first deploy.
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
async fn the_first_paint_is_small_and_a_second_visit_fetches_only_the_page_and_the_data() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview")).await;
    page.until_screen("overview").await;
    let first: u64 = page.eval(FIRST_BYTES).await;
    assert!(
        first <= MAX_FIRST_BYTES,
        "{first} bytes before the first paint"
    );
    for screen in SCREENS {
        page.visit(&shop.url(), screen).await;
    }
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
