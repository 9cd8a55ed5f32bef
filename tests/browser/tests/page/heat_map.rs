//! The heat map of latencies, the requests of its cells, and the histogram as a table.

use pulse_browser::emulation::Media;
use pulse_browser::page::Page;
use pulse_browser::service::Service;

use crate::accessibility::assert_accessible;
use crate::{column, open, rows, toggle};

const LATENCY: &str = "[data-chart=latency]";
const PLOT: &str = "[data-chart=latency] .plot[role=slider]";
const PATH: &str = "path?context=GET%20%2F&range=1h&utc=1";
const CELL: &str = "$('[data-chart=latency] .plot').getAttribute('aria-valuetext')";
const SENTENCE: &str = "$('.cell-list [role=status]')?.innerText ?? ''";

/// Waits until the sentence about a cell begins with `begin` and ends with `end`. Returns the durations below the
/// sentence.
async fn listed(page: &Page, begin: &str, end: &str) -> Vec<String> {
    let is_expected = |sentence: &String| sentence.starts_with(begin) && sentence.ends_with(end);
    page.until_value(SENTENCE, is_expected).await;
    match page.is_shown("[data-table=cell-requests]").await {
        true => column(page, "cell-requests", "duration").await,
        false => Vec::new(),
    }
}

/// Presses a key until `passes` is true of the selected cell's text.
async fn until_cell(page: &Page, key: &str, passes: impl Fn(&str) -> bool) {
    for _ in 0..60 {
        if passes(&page.eval::<String>(CELL).await) {
            return;
        }
        page.press(key).await;
    }
    panic!("no such cell");
}

#[tokio::test]
async fn a_click_on_a_cell_lists_its_kept_requests() {
    let service = Service::with_slow_minute().await;
    let url = service.screen(&format!("{PATH}&hide=mean,p50,p95,p99"));
    let page = Page::open(&url).await;
    page.click(&format!("{LATENCY} button[data-heat='1']"))
        .await;
    page.until_fragment_has("heat=1").await;
    page.reload().await;
    page.until_shown(PLOT).await;
    // One cell has one request, one has five, and all others have 20.
    page.click(&format!("{LATENCY} .heat-1")).await;
    let kept = listed(&page, "1 request of ", ", 1 of them listed below.").await;
    assert_eq!(kept, ["900\u{202f}ms"]);
    assert_accessible(&page).await;
    // Moves the mouse away, so that the crosshair does not cover the next cell.
    page.hover("[data-panel=histogram] h2").await;
    page.click(&format!("{LATENCY} .heat-4")).await;
    let kept = listed(&page, "5 requests of ", ", 4 of them listed below.").await;
    assert_eq!(kept, ["300\u{202f}ms"; 4]);
    // With keys, selects the cell of that minute's fast requests.
    page.focus(PLOT).await;
    page.press("End").await;
    until_cell(&page, "ArrowLeft", |cell| cell.contains("26 samples")).await;
    let fast = "\u{202f}ms 20 77%; 26 samples";
    until_cell(&page, "ArrowDown", |cell| cell.contains(fast)).await;
    page.press("Enter").await;
    let not_kept = "only the newest failed and the slowest requests of each hour are kept.";
    assert!(listed(&page, "20 requests of ", not_kept).await.is_empty());
    page.press("ArrowUp").await;
    page.press("Enter").await;
    assert!(listed(&page, "No request of ", ".").await.is_empty());
    page.click(".cell-list button").await;
    page.until_hidden(".cell-list").await;

    toggle(&page, "latency").await;
    let cells = format!(
        "$$('{LATENCY} tbody tr').map((row) => [...row.cells].slice(1).map((cell) => cell.innerText)
            .filter((text) => text !== '–').join(' '))"
    );
    let is_whole = |rows: &Vec<String>| rows.len() > 55;
    let table = page.until_value(&cells, is_whole).await;
    let of = |cells: &str| table.iter().filter(|row| *row == cells).count();
    let counts = (of("20"), of("20 5 1"), of(""));
    assert_eq!(counts, (30, 1, table.len() - 31), "{table:?}");
    let columns = page.texts(&format!("{LATENCY} thead th")).await;
    let is_range = columns[1].contains(" – ") && columns[1].ends_with("ms");
    assert!(is_range, "{columns:?}");
    page.click("[data-panel=histogram] [data-view=table]").await;
    page.until_hidden("[data-panel=histogram] svg").await;
    let mut now = column(&page, "distribution", "now").await;
    now.retain(|requests| requests != "0");
    assert_eq!(now, ["620", "5", "1"]);
    let shares = column(&page, "distribution", "now_share").await;
    assert_eq!(shares.iter().filter(|share| *share == "99%").count(), 1);
    assert_accessible(&page).await;
    let saved = rows(&page, "latency").await;
    assert_eq!(saved.len(), 33, "{saved:?}");
    let slowest = saved.iter().find(|cell| cell["requests"] == 1).unwrap();
    let (from, to) = (slowest["from"].as_f64(), slowest["to"].as_f64());
    assert!(from <= Some(0.9) && Some(0.9) < to, "{slowest}");
    toggle(&page, "latency").await;

    page.click(&format!("{LATENCY} button[data-heat='0']"))
        .await;
    page.until_hidden(".heat-notes").await;
    page.until("!location.hash.includes('heat')").await;
}

#[tokio::test]
async fn the_heat_map_of_all_paths_links_its_requests_to_their_paths() {
    let page = open(
        "slow_query",
        "overview?range=1h&heat=1&hide=mean,p50,p95,p99",
    )
    .await;
    page.until_shown(&format!("{LATENCY} .heat-7")).await;
    // The store keeps the slowest requests of each hour, so a cell of the top row lists some of its requests.
    page.focus(PLOT).await;
    page.press("End").await;
    for _ in 0..48 {
        page.press("ArrowUp").await;
    }
    let count = |cell: &str| cell.split("; ").nth(1).unwrap_or_default().to_owned();
    until_cell(&page, "ArrowLeft", |cell| !count(cell).ends_with(" 0")).await;
    page.press("Enter").await;
    assert!(!listed(&page, "", " of them listed below.").await.is_empty());
    let links = page.count(".cell-list tbody th a.open").await;
    assert!(links > 0, "no request links to its path");
}

#[tokio::test]
async fn opening_the_heat_map_moves_nothing_and_its_notes_are_beside_the_plot() {
    const BELOW: &str = "$('[data-panel=fix-first]').getBoundingClientRect().top";
    const CONTRAST: &str = "((...colours) => {
        const lights = colours.map((colour) => colour.match(/[\\d.]+/g).map((n) => colour.startsWith('rgb') ? n / 255 : n)
            .reduce((sum, n, at) => sum + [0.2126, 0.7152, 0.0722][at] * n ** 2.2, 0.05));
        return Math.max(...lights) / Math.min(...lights);
    })";
    let page = open("slow_query", "overview?range=1h").await;
    page.until_shown(".acknowledgement button").await;
    page.until_shown(&format!("{LATENCY} button[data-heat='1']"))
        .await;
    page.until("$$('link[rel=stylesheet]').length === 2 && document.styleSheets.length === 2")
        .await;
    let before: f64 = page.eval(BELOW).await;
    page.click(&format!("{LATENCY} button[data-heat='1']"))
        .await;
    page.until_shown(".heat-notes").await;
    page.until_shown(&format!("{LATENCY} .heat-7")).await;
    assert!((page.eval::<f64>(BELOW).await - before).abs() < 1.0);
    page.hover(PLOT).await;
    let is_beside = format!(
        "$('.heat-notes').getBoundingClientRect().left >= $('{PLOT}').getBoundingClientRect().right"
    );
    page.until(&format!(
        "{is_beside} && /–[^]*p95[^]*samples/.test($('.heat-notes').innerText)"
    ))
    .await;
    assert!(!page.is_shown(&format!("{LATENCY} .plot .tip")).await);
    for media in [Media::Light, Media::Dark] {
        page.prefer(media).await;
        let few = format!("getComputedStyle($('{LATENCY} .heat-1')).fill");
        let many = few.replace("heat-1", "heat-7");
        let card = format!("getComputedStyle($('{LATENCY}')).backgroundColor");
        for (one, other, least) in [(&few, &card, 1.5), (&few, &many, 4.0)] {
            let contrast: f64 = page.eval(&format!("{CONTRAST}({one}, {other})")).await;
            assert!(contrast > least, "{media:?}: {contrast}");
        }
    }
}
