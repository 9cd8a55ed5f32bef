//! The heat map of latencies, the requests of its cells, and the histogram as a table.

use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::{click_in_menu, column, save};

const LATENCY: &str = "[data-chart=latency]";
const PLOT: &str = "[data-chart=latency] .plot[role=slider]";
const PATH: &str = "/admin/pulse/#path?context=GET%20%2F&range=1h&utc=1";
const CELL: &str =
    "document.querySelector('[data-chart=latency] .plot').getAttribute('aria-valuetext')";
const SENTENCE: &str = "document.querySelector('.cell-list [role=status]')?.innerText ?? ''";

/// Waits until the sentence about a cell begins and ends so, and returns the durations that are listed below it.
async fn listed(page: &Page, begin: &str, end: &str) -> Vec<String> {
    let is_expected = |sentence: &String| sentence.starts_with(begin) && sentence.ends_with(end);
    page.until_value("the cell is listed", SENTENCE, is_expected)
        .await;
    match page.is_shown("[data-table=cell-requests]").await {
        true => column(page, "cell-requests", "duration").await,
        false => Vec::new(),
    }
}

#[tokio::test]
async fn a_click_on_a_cell_lists_those_of_its_requests_that_are_kept() {
    let service = Service::with_slow_minute().await;
    let page = Page::open(&service.url(&format!("{PATH}&hide=mean,p50,p95,p99"))).await;
    page.click(&format!("{LATENCY} button[data-heat='1']"))
        .await;
    page.until("the URL says so", "location.hash.includes('heat=1')")
        .await;
    page.reload().await;
    page.until_shown(PLOT).await;
    // One cell has one request, one has five, and all others have 20.
    page.click(&format!("{LATENCY} .heat-1")).await;
    let kept = listed(&page, "1 request of ", ", 1 of them listed below.").await;
    assert_eq!(kept, ["900\u{202f}ms"]);
    // Away, so that the crosshair does not lie over the next cell.
    page.hover("[data-panel=histogram] h2", (0.5, 0.5)).await;
    page.click(&format!("{LATENCY} .heat-4")).await;
    let kept = listed(&page, "5 requests of ", ", 4 of them listed below.").await;
    assert_eq!(kept, ["300\u{202f}ms"; 4]);
    // By the keys: down to the fast ones of that minute.
    page.focus(PLOT).await;
    page.press("End").await;
    for _ in 0..8 {
        if page.eval::<String>(CELL).await.contains("26 samples") {
            break;
        }
        page.press("ArrowLeft").await;
    }
    for _ in 0..30 {
        page.press("ArrowDown").await;
    }
    let cell: String = page.eval(CELL).await;
    assert!(cell.contains("\u{202f}ms 20 77%; 26 samples"), "{cell}");
    page.press("Enter").await;
    let not_kept = "counted, not listed: the slowest of an hour are, and the newest failed ones.";
    assert!(listed(&page, "20 requests of ", not_kept).await.is_empty());
    page.press("ArrowUp").await;
    page.press("Enter").await;
    assert!(listed(&page, "No request of ", ".").await.is_empty());
    page.click(".cell-list button").await;
    page.until_hidden(".cell-list").await;
    page.click(&format!("{LATENCY} button[data-heat='0']"))
        .await;
    page.until_hidden(".heat-notes").await;
    page.until("the URL is as before", "!location.hash.includes('heat')")
        .await;
    page.end().await;
}

#[tokio::test]
async fn the_heat_map_is_also_a_table_and_a_file() {
    let service = Service::with_slow_minute().await;
    let page = Page::open(&service.url(&format!("{PATH}&heat=1"))).await;
    page.until_shown(&format!("{LATENCY} .heat-7")).await;
    click_in_menu(&page, LATENCY, "button[data-view=table]").await;
    let rows = format!(
        "[...document.querySelectorAll('{LATENCY} tbody tr')].map((row) => [...row.cells].slice(1).map((cell) => cell.innerText).filter((text) => text !== '–').join(' '))"
    );
    let rows: Vec<String> = page
        .until_value("it has rows", &rows, |rows: &Vec<String>| rows.len() > 55)
        .await;
    let of = |cells: &str| rows.iter().filter(|row| *row == cells).count();
    assert_eq!(
        (of("20"), of("20 5 1"), of("")),
        (30, 1, rows.len() - 31),
        "{rows:?}"
    );
    let columns = page.texts(&format!("{LATENCY} thead th")).await;
    assert!(
        columns[1].contains(" – ") && columns[1].ends_with("ms"),
        "{columns:?}"
    );
    let (_, json) = save(&page, "latency", "json").await;
    let cells: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(cells.len(), 33, "{json}");
    let slowest = cells.iter().find(|cell| cell["requests"] == 1).unwrap();
    let (from, to) = (slowest["from"].as_f64(), slowest["to"].as_f64());
    assert!(from <= Some(0.9) && Some(0.9) < to, "{slowest}");
    page.end().await;
}

#[tokio::test]
async fn the_heat_map_of_all_paths_lists_requests_of_each() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview?range=1h&heat=1&hide=mean,p50,p95,p99")).await;
    page.until_shown(&format!("{LATENCY} .heat-7")).await;
    // The slowest of all are kept: each cell of the top row has some.
    page.focus(PLOT).await;
    page.press("End").await;
    for _ in 0..48 {
        page.press("ArrowUp").await;
    }
    for _ in 0..60 {
        let cell: String = page.eval(CELL).await;
        let count = cell.split("; ").nth(1).unwrap_or_default();
        if !count.ends_with(" 0") {
            break;
        }
        page.press("ArrowLeft").await;
    }
    page.press("Enter").await;
    let listed = listed(&page, "", " of them listed below.").await;
    assert!(!listed.is_empty());
    assert!(
        page.count(".cell-list tbody th a.open").await > 0,
        "each links to its path"
    );
    page.end().await;
}

#[tokio::test]
async fn no_rule_is_broken_by_the_heat_map_and_it_fits() {
    let shop = Shop::with("slow_query").await;
    let mut reports = Vec::new();
    for (media, size) in [
        (Media::Light, Size::DESKTOP),
        (Media::Dark, Size::DESKTOP),
        (Media::ForcedColors, Size::DESKTOP),
        (Media::Dark, Size::PHONE),
    ] {
        let page = Page::empty().await;
        page.resize(size).await;
        page.prefer(media).await;
        page.go(&shop.screen("path?context=GET%20%2Fsearch&range=1h&heat=1"))
            .await;
        page.until_shown(&format!("{LATENCY} .heat-7")).await;
        page.focus(PLOT).await;
        page.press("Enter").await;
        page.until_shown(".cell-list").await;
        page.check_accessibility(&format!("{media:?}"), &mut reports)
            .await;
        page.click("[data-panel=histogram] [data-view=table]").await;
        click_in_menu(&page, LATENCY, "button[data-view=table]").await;
        page.until_shown(&format!("{LATENCY} table")).await;
        page.check_accessibility(&format!("{media:?}, tables"), &mut reports)
            .await;
        let (inner, outer): (f64, f64) = page
            .eval("[document.documentElement.scrollWidth, innerWidth]")
            .await;
        assert!(
            inner <= outer,
            "{media:?}: {inner} pixels in a window of {outer}"
        );
        page.end().await;
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}

#[tokio::test]
async fn the_distribution_is_also_a_table() {
    let service = Service::with_slow_minute().await;
    let page = Page::open(&service.url(PATH)).await;
    page.until_shown("[data-panel=histogram] svg").await;
    page.click("[data-panel=histogram] [data-view=table]").await;
    page.until_hidden("[data-panel=histogram] svg").await;
    let now = column(&page, "distribution", "now").await;
    let requests: Vec<usize> = now.iter().map(|n| n.parse().unwrap()).collect();
    assert_eq!(requests.iter().sum::<usize>(), 31 * 20 + 6, "{now:?}");
    let shown: Vec<_> = requests.into_iter().filter(|n| *n > 0).collect();
    assert_eq!(shown, [620, 5, 1]);
    let shares = column(&page, "distribution", "now_share").await;
    assert_eq!(
        shares.iter().filter(|share| *share == "99%").count(),
        1,
        "{shares:?}"
    );
    page.click("[data-panel=histogram] [data-view=table]").await;
    page.until_shown("[data-panel=histogram] svg").await;
    page.end().await;
}
