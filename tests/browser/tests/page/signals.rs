//! The number of problems and the state of the store, which every screen shows.

use pulse_browser::emulation::Size;
use pulse_browser::page::Page;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::accessibility::assert_accessible;
use crate::{keys, open, toggle};

const SEARCH: &str = "GET /search";

/// Whether the icon of the tab has the dot that shows a problem.
const HAS_DOT: &str = "$('#icon').href.includes('circle')";

fn change_tag_of(table: &str, key: &str) -> String {
    format!("table[data-table={table}] tr[data-key='{key}'] .tag.change")
}

#[tokio::test]
async fn every_screen_shows_the_number_of_problems_and_the_state_of_the_store() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.url()).await;
    let mut titles = Vec::new();
    for (fragment, screen) in [
        ("overview", "overview"),
        ("paths", "paths"),
        ("timers", "timers"),
        ("slowest", "slowest"),
        ("health", "health"),
        // A name that people type by mistake.
        ("deploys", "deploy"),
    ] {
        page.go(&shop.screen(fragment)).await;
        page.until_screen(screen).await;
        page.until_shown("#problems").await;
        let signal = page.text("#problems").await;
        let (number, noun) = signal.split_once(' ').unwrap();
        assert!(noun.starts_with("problem"), "{signal}");
        if screen == "overview" {
            let problems = "[data-panel=attention] li:not([data-kind^=maybe])";
            assert_eq!(number, page.count(problems).await.to_string());
        }
        assert_eq!(page.text("#status").await, "store ok");
        let title: String = page.eval("document.title").await;
        assert!(title.starts_with(&format!("({number}) ")), "{title}");
        assert!(page.eval::<bool>(HAS_DOT).await);
        titles.push(title.split(' ').nth(1).unwrap_or_default().to_owned());
    }
    titles.sort();
    titles.dedup();
    assert_eq!(titles.len(), 6, "each screen has its own title: {titles:?}");
}

#[tokio::test]
async fn health_begins_with_what_needs_an_action_and_six_figures() {
    let page = open("slow_query", "health").await;
    let problem = "[data-panel=actions] li a[href]";
    page.until_shown(problem).await;
    let text = page.text(problem).await;
    let is_named = text.starts_with(SEARCH) && text.contains("slower, since");
    assert!(is_named, "{text}");
    let tiles = page.texts("[data-panel=well] .tile").await;
    assert_eq!(tiles.len(), 6, "{tiles:?}");
    for (tile, expected) in tiles.iter().zip([
        "Store answered",
        "as far as this instance and the store know",
        "Shown until",
        "4 of 4",
        "pages have enough requests to be compared",
        "Oldest sample that waits",
    ]) {
        assert!(tile.contains(expected), "{tiles:?}");
    }
    assert!(!page.is_shown("[data-panel^=health-]").await);
    page.click(problem).await;
    page.until_screen("path").await;

    let well = Service::with_quiet_minutes(true).await;
    let page = Page::open(&well.screen("health")).await;
    page.until("$('[data-panel=actions]').innerText.includes('Nothing needs an action')")
        .await;
    assert!(!page.eval::<bool>(HAS_DOT).await);
    let title: String = page.eval("document.title").await;
    assert!(!title.starts_with('('), "{title}");
    assert_eq!(page.text("#status").await, "store ok");
}

#[tokio::test]
async fn a_changed_context_has_a_tag_and_comes_first_when_sorted_by_change() {
    let page = open("slow_query", "paths?sort=context&order=asc").await;
    page.until_shown(&change_tag_of("paths", SEARCH)).await;
    let tag = page.text(&change_tag_of("paths", SEARCH)).await;
    assert!(tag.ends_with("slower"), "{tag}");
    let is_first = format!("{}[0] === '{SEARCH}'", keys("paths"));
    assert!(!page.eval::<bool>(&is_first).await);
    page.click("[data-panel=paths] .bar button").await;
    page.until(&is_first).await;
    page.until_fragment_has("sort=changed").await;
    page.show("timers").await;
    page.until_shown(&change_tag_of("timers", "db:search"))
        .await;
}

#[tokio::test]
async fn a_link_keeps_what_is_paused_and_what_is_shown_as_a_table() {
    let page = open("bad_deploy", "overview?range=1h").await;
    toggle(&page, "latency").await;
    page.until_shown("[data-chart=latency] table").await;
    page.click("#pause").await;
    page.reload().await;
    page.until_shown("[data-chart=latency] table").await;
    page.until("$('#pause').ariaPressed === 'true'").await;
}

#[tokio::test]
async fn a_path_that_hangs_is_a_problem_of_its_own() {
    let service = Service::hanging().await;
    let page = Page::open(&service.screen("overview")).await;
    let line = "[data-panel=attention] li[data-kind=hanging]";
    for size in [Size::PHONE, Size::DESKTOP] {
        page.resize(size).await;
        page.until_shown(line).await;
        let words = page.text(line).await;
        for part in [
            "hanging",
            "/orders/{id}",
            "12 in flight on web-1, none ended for 4\u{202f}min",
        ] {
            assert!(words.contains(part), "{words:?} lacks {part:?}");
        }
        let bottom = format!("$('{line}').getBoundingClientRect().bottom <= innerHeight");
        assert!(page.eval::<bool>(&bottom).await, "{size:?}");
    }
    assert_eq!(page.text("#problems").await, "1 problem");
    assert!(page.eval::<bool>(HAS_DOT).await);
    assert_accessible(&page).await;
    page.click(&format!("{line} a")).await;
    page.until_screen("path").await;
    page.until("$('[data-tile=in-flight] .value')?.textContent === '12'")
        .await;
}
