//! What somebody sees without looking for it: the problems of the service and the state of its store, on every screen.

use pulse_browser::emulation::Size;
use pulse_browser::page::Page;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::{click_in_menu, keys};

const SEARCH: &str = "GET /search";
const TIMER: &str = "db:search";

/// Whether the icon of the tab has the dot of a problem.
const HAS_DOT: &str = "document.querySelector('#icon').href.includes('circle')";

/// The mark beside a name in a table.
fn mark_of(table: &str, key: &str) -> String {
    format!("table[data-table={table}] tr[data-key='{key}'] .tag.change")
}

#[tokio::test]
async fn problems_and_the_store_are_told_apart_on_every_screen() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.url()).await;
    let mut titles = Vec::new();
    for (fragment, screen) in [
        ("overview", "overview"),
        ("paths", "paths"),
        ("timers", "timers"),
        ("slowest", "slowest"),
        ("health", "health"),
        // What people type.
        ("deploys", "deploy"),
    ] {
        page.go(&shop.screen(fragment)).await;
        page.until_screen(screen).await;
        page.until_shown("#problems").await;
        let problems = page
            .count("[data-panel=attention] li:not([data-kind^=maybe])")
            .await;
        let signal = page.text("#problems").await;
        assert!(
            signal.ends_with("problem") || signal.ends_with("problems"),
            "{signal}"
        );
        let number = signal.split(' ').next().unwrap();
        if screen == "overview" {
            assert_eq!(number, problems.to_string());
        }
        assert_eq!(page.text("#status").await, "store ok");
        let title: String = page.eval("document.title").await;
        assert!(title.starts_with(&format!("({number}) ")), "{title}");
        assert!(page.eval::<bool>(HAS_DOT).await);
        titles.push(title.split(' ').nth(1).unwrap_or_default().to_owned());
    }
    titles.sort();
    titles.dedup();
    assert_eq!(
        titles.len(),
        6,
        "each tab has a title of its own: {titles:?}"
    );
    page.end().await;
}

#[tokio::test]
async fn a_service_that_is_well_has_no_problem() {
    let service = Service::with_quiet_minutes().await;
    let page = Page::open(&service.url("/admin/pulse")).await;
    page.until_screen("overview").await;
    assert!(!page.eval::<bool>(HAS_DOT).await);
    let title: String = page.eval("document.title").await;
    assert!(!title.starts_with('('), "{title}");
    assert_eq!(page.text("#status").await, "store ok");
    page.end().await;
}

#[tokio::test]
async fn what_has_changed_is_marked_and_comes_first_when_that_is_asked_for() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("paths?sort=context&order=asc")).await;
    page.until_shown(&mark_of("paths", SEARCH)).await;
    assert!(
        page.text(&mark_of("paths", SEARCH))
            .await
            .ends_with("slower")
    );
    assert_ne!(keys(&page, "paths").await[0], SEARCH);
    page.click("[data-panel=paths] .bar button").await;
    page.until(
        "the changed page is the first",
        &format!(
            "document.querySelector('table[data-table=paths] tbody tr').dataset.key === '{SEARCH}'"
        ),
    )
    .await;
    page.until_fragment_has("sort=changed").await;
    page.go(&shop.screen("timers")).await;
    page.until_shown(&mark_of("timers", TIMER)).await;
    page.end().await;
}

#[tokio::test]
async fn each_change_says_whether_a_deploy_did_it_and_whether_it_is_the_code() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.url()).await;
    let suspect = format!("[data-panel=attention] li[data-context='{SEARCH}'] .suspect");
    page.until_shown(&suspect).await;
    let text = page.text(&suspect).await;
    assert!(text.contains(TIMER) && text.contains("deploy"), "{text}");
    page.end().await;

    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.url()).await;
    let suspect = "[data-panel=attention] li[data-context='GET /products/{id}'] .suspect";
    page.until_shown(suspect).await;
    let text = page.text(suspect).await;
    assert!(
        text.contains("1.4.2") && text.contains("your code outside of timers"),
        "{text}"
    );
    page.end().await;
}

#[tokio::test]
async fn a_link_keeps_what_is_paused_and_what_is_shown_as_a_table() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    let table = "[data-chart=latency] table";
    click_in_menu(&page, "[data-chart=latency]", "button[data-view=table]").await;
    page.until_shown(table).await;
    page.click("#pause").await;
    page.reload().await;
    page.until_screen("overview").await;
    page.until_shown(table).await;
    assert_eq!(
        page.attribute("#pause", "aria-pressed").await.as_deref(),
        Some("true")
    );
    page.end().await;
}

#[tokio::test]
async fn a_phone_has_a_header_of_one_line_and_cards_to_fix_first() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    page.resize(Size::PHONE).await;
    page.until_shown("table[data-table=fix-first] tbody tr")
        .await;
    let header: f64 = page
        .eval("document.querySelector('header > .wrap').getBoundingClientRect().height")
        .await;
    assert!(header < 60.0, "{header} pixels");
    page.until("cells name what they show", "getComputedStyle(document.querySelector('table[data-table=fix-first] td[data-column=mean]'), '::before').content.includes('Mean')").await;
    assert!(!page.is_shown("nav a").await);
    page.click("#screens").await;
    page.click("nav a[data-screen=paths]").await;
    page.until_screen("paths").await;
    assert!(!page.is_shown("nav a").await);
    page.end().await;
}
