//! Ranges: chosen, dragged and typed; kept by links and by the history.

use pulse_browser::emulation::Size;
use pulse_browser::page::Page;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::{polls, until_polled};

const CHART: &str = "[data-chart=latency]";
/// The plot, once it can be read and zoomed.
const PLOT: &str = "[data-chart=latency] .plot[role=slider]";
const IS_ZOOMED: &str = "/[?&]from=\\d+&to=\\d+/.test(location.hash)";
const IS_WHOLE: &str = "!/[?&]from=/.test(location.hash)";

/// The range in the URL.
async fn range(page: &Page) -> (i64, i64) {
    page.eval("['from', 'to'].map((name) => Number(new URLSearchParams(location.hash.split('?')[1]).get(name)))").await
}

async fn tile(page: &Page, name: &str) -> String {
    page.text(&format!("[data-tile={name}] .value")).await
}

/// Waits until all of the screen is of the range in the URL.
async fn until_drawn(page: &Page, what: &str) {
    page.until(what, "document.body.dataset.ready === 'true'")
        .await;
    until_answered(page).await;
}

/// Waits until an answer for the range in the URL was drawn.
async fn until_answered(page: &Page) {
    let (from, _) = range(page).await;
    let start = std::time::Instant::now();
    loop {
        let polls = polls(page).await;
        let asked = polls
            .iter()
            .any(|poll| poll.path().contains(&format!("from%3D{from}")) && poll.status.is_some());
        if asked {
            return;
        }
        assert!(
            start.elapsed().as_secs() < 60,
            "nothing asks for {from}: {polls:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_drag_zooms_everything_and_escape_resets() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    let whole = tile(&page, "requests").await;
    page.drag(PLOT, 0.3, 0.6).await;
    page.until("the URL has the range", IS_ZOOMED).await;
    let (from, to) = range(&page).await;
    assert!(
        (10 * 60..30 * 60).contains(&(to - from)),
        "0.3 of an hour is not {} s",
        to - from
    );
    until_drawn(&page, "the range is drawn").await;
    page.until_value(
        "the tiles are of the range",
        "document.querySelector('[data-tile=requests] .value').innerText",
        |text: &String| *text != whole,
    )
    .await;
    page.until_shown("#unzoom").await;
    let lines = page.count(&format!("{CHART} .change-line")).await;
    assert_eq!(lines, 0, "the change began after the range");

    page.press("Escape").await;
    page.until("Escape leaves the zoom", IS_WHOLE).await;
    page.until_hidden("#unzoom").await;
    page.until_value(
        "the tiles are of the hour",
        "document.querySelector('[data-tile=requests] .value').innerText",
        |text: &String| *text != "0" && text.contains('k'),
    )
    .await;
    page.end().await;
}

#[tokio::test]
async fn keys_zoom_and_back_undoes_it() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    page.focus(&format!("{CHART} [tabindex='0']")).await;
    for key in ["ArrowLeft", "ArrowLeft", "ArrowLeft"] {
        page.press(key).await;
    }
    for _ in 0..9 {
        page.press("Shift+ArrowLeft").await;
    }
    page.press("Enter").await;
    page.until("the URL has the range", IS_ZOOMED).await;
    let (from, to) = range(&page).await;
    assert_eq!(to - from, 10 * 60, "ten slices of a minute");
    page.back().await;
    page.until("Back leaves the zoom", IS_WHOLE).await;
    page.until_hidden("#unzoom").await;
    assert!(page.url().await.contains("overview"));
    page.end().await;
}

#[tokio::test]
async fn the_button_leaves_the_zoom() {
    let shop = Shop::with("slow_query").await;
    let to = shop.past_ended() / 60 * 60;
    let page = Page::open(&shop.screen(&format!("overview?from={}&to={to}", to - 1_800))).await;
    page.click("#unzoom").await;
    page.until("the zoom is left", IS_WHOLE).await;
    page.end().await;
}

#[tokio::test]
async fn every_range_is_a_step_that_back_takes_back() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    for range in ["5m", "15m", "6h", "24h", "7d"] {
        page.click(&format!("label:has(input[name=range][value='{range}'])"))
            .await;
        page.until(
            "the URL has the range",
            &format!("location.hash.includes('range={range}')"),
        )
        .await;
        page.until(
            "its button is pressed",
            &format!("document.querySelector('input[name=range]:checked').value === '{range}'"),
        )
        .await;
        page.until(
            "its data is drawn",
            "document.body.dataset.ready === 'true'",
        )
        .await;
    }
    for range in ["24h", "6h", "15m", "5m"] {
        page.back().await;
        page.until("Back shows the range before", &format!("location.hash.includes('range={range}') && document.querySelector('input[name=range]:checked').value === '{range}'")).await;
    }
    page.end().await;
}

#[tokio::test]
async fn a_phone_shows_all_ranges_beside_the_note_that_little_was_recorded() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview?range=7d")).await;
    page.resize(Size::PHONE).await;
    page.until_shown("#complete").await;
    page.until(
        "no range is outside of its box",
        "(({scrollWidth, clientWidth}) => clientWidth > 200 && scrollWidth <= clientWidth)(document.querySelector('.tools .segments'))",
    )
    .await;
    page.click("label:has(input[name=range][value='5m'])").await;
    page.until(
        "the URL has the range",
        "location.hash.includes('range=5m')",
    )
    .await;
    page.end().await;
}

#[tokio::test]
async fn months_are_offered_where_the_history_has_them() {
    const OFFERED: &str = "[...document.querySelectorAll('input[name=range]')].filter((radio) => radio.checkVisibility()).map((radio) => radio.value).filter((name) => /0d/.test(name))";
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    page.until("it is drawn", "document.body.dataset.ready === 'true'")
        .await;
    assert_eq!(page.eval::<Vec<String>>(OFFERED).await, [""; 0]);
    page.end().await;
    // A link names it all the same, and the page says how much was recorded.
    let page = Page::open(&shop.screen("overview?range=30d")).await;
    page.until_value("it is offered", OFFERED, |offered: &Vec<String>| {
        *offered == ["30d"]
    })
    .await;
    page.until_shown("#complete").await;
    page.end().await;
    let service = Service::with_history().await;
    let page = Page::open(&service.url("/admin/pulse/#overview?range=1h")).await;
    page.until_value("both are offered", OFFERED, |offered: &Vec<String>| {
        *offered == ["30d", "90d"]
    })
    .await;
    page.click("label:has(input[name=range][value='30d'])")
        .await;
    // The range begins with a whole day.
    page.until(
        "a month of requests is shown",
        "(([n]) => n >= 180 && n <= 186)([Number(document.querySelector('[data-tile=requests] .value')?.innerText)])",
    )
    .await;
    page.until_hidden("#complete").await;
    page.end().await;
}

#[tokio::test]
async fn a_frozen_link_shows_the_same_in_another_tab() {
    let shop = Shop::with("slow_query").await;
    // A part of the past, which nothing is added to.
    let to = shop.past_ended() / 60 * 60 - 600;
    let from = to - 1_800;
    for screen in [
        format!("overview?from={from}&to={to}&hide=p99"),
        format!("paths?from={from}&to={to}&sort=p95&order=asc&q=cart"),
        format!("path?context=GET%20%2Fsearch&from={from}&to={to}"),
    ] {
        let page = Page::open(&shop.screen(&screen)).await;
        const SHOWN: &str = "[...document.querySelectorAll(['[data-tile]:not([data-tile=in-flight]) .value', 'table[data-table=paths] tbody td',
            '#unzoom', 'th[aria-sort]:not([aria-sort=none])', 'button[data-series][aria-pressed=false]'].join())].map((element) => element.innerText)";
        until_drawn(&page, "the range is drawn").await;
        let shown: Vec<String> = page
            .until_value("it shows figures", SHOWN, |shown: &Vec<String>| {
                shown.len() > 3
            })
            .await;
        let filter: Option<String> = page
            .eval("document.querySelector('#filter')?.value ?? null")
            .await;
        let again = Page::open(&page.url().await).await;
        again
            .until_value(
                "the other tab shows the same",
                SHOWN,
                |other: &Vec<String>| *other == shown,
            )
            .await;
        assert_eq!(
            again
                .eval::<Option<String>>("document.querySelector('#filter')?.value ?? null")
                .await,
            filter
        );
        assert_eq!(again.fragment().await, page.fragment().await);
        again.end().await;
        page.end().await;
    }
}

#[tokio::test]
async fn nothing_is_asked_while_paused_or_zoomed() {
    let shop = Shop::with("slow_query").await;
    let clock = Page::open(&shop.screen("overview?range=5m&refresh=1")).await;
    let page = Page::open(&shop.screen("overview?range=5m&refresh=1")).await;
    until_polled(&page, 2).await;
    page.click("#pause").await;
    page.until(
        "it says so",
        "/paused/i.test(document.querySelector('#updated').innerText)",
    )
    .await;
    let before = polls(&page).await.len();
    // Another tab of the same page goes on meanwhile.
    until_polled(&clock, 3).await;
    assert_eq!(
        polls(&page).await.len(),
        before,
        "a paused page asks for nothing"
    );
    page.click("#pause").await;
    until_polled(&page, 2).await;

    page.drag(PLOT, 0.2, 0.7).await;
    page.until("the URL has the range", IS_ZOOMED).await;
    page.until(
        "it says so",
        "/paused/i.test(document.querySelector('#updated').innerText)",
    )
    .await;
    until_answered(&page).await;
    let before = polls(&page).await.len();
    until_polled(&clock, 3).await;
    assert_eq!(
        polls(&page).await.len(),
        before,
        "a zoomed page asks for nothing more"
    );
    page.press("Escape").await;
    until_polled(&page, 2).await;
    page.end().await;
    clock.end().await;
}

#[tokio::test]
async fn times_are_local_or_utc() {
    let shop = Shop::with("slow_query").await;
    let began = shop.incident_began();
    let since = "[data-panel=attention] li:not([data-kind^=maybe]) .since";
    let hour = async |page: &Page, zone: &str| -> String {
        page.eval(&format!("new Date({began} * 1000).toLocaleTimeString('en-GB', {{hour: '2-digit', timeZone: {zone}}})")).await
    };
    let local = Page::open(&shop.screen("overview")).await;
    let utc = Page::open(&shop.screen("overview?utc=1")).await;
    local.until_shown(since).await;
    utc.until_shown(since).await;
    let (here, there) = (hour(&local, "undefined").await, hour(&utc, "'UTC'").await);
    assert_ne!(here, there, "the browser's zone is not UTC");
    let (here_shown, there_shown) = (local.text(since).await, utc.text(since).await);
    assert_ne!(here_shown, there_shown);
    assert!(
        there_shown.contains(&format!("{there}:"))
            || there_shown.contains(&format!("{:02}:", there.parse::<u8>().unwrap() + 1)),
        "{there_shown}"
    );
    local.end().await;
    utc.end().await;
}

#[tokio::test]
async fn back_returns_to_the_screen_before_and_never_leaves_the_page() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.url()).await;
    page.until_screen("overview").await;
    page.click("nav a[data-screen=paths]").await;
    page.until_screen("paths").await;
    page.click("table[data-table=paths] tbody tr a").await;
    page.until_screen("path").await;
    page.back().await;
    page.until_screen("paths").await;
    page.back().await;
    page.until_screen("overview").await;
    page.run("history.forward()").await;
    page.until_screen("paths").await;
    page.end().await;
}

/// The tile of requests, and of requests per second.
const RATES: &str = "['.value', '.delta'].map((part) => document.querySelector(`[data-tile=requests] ${part}`)?.innerText.split('/s')[0].replace(/[^0-9.k]/g, '') ?? '')";

#[tokio::test]
async fn a_frozen_range_shows_the_same_later() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview?range=5m&refresh=1")).await;
    page.focus("#freeze").await;
    page.press("Enter").await;
    page.until("the URL has the range", IS_ZOOMED).await;
    page.until(
        "the focus goes to the button that takes its place",
        "document.activeElement.id === 'unzoom'",
    )
    .await;
    until_answered(&page).await;
    let clock = Page::open(&shop.screen("overview?range=5m&refresh=1")).await;
    until_polled(&clock, 5).await;
    let other = Page::open(&page.url().await).await;
    let later: Vec<String> = other
        .until_value("it has requests", RATES, |shown: &Vec<String>| {
            !shown[0].is_empty()
        })
        .await;
    // The page has asked only once for the frozen range, and draws that answer at some time.
    page.until_value("it shows the same", RATES, |shown: &Vec<String>| {
        *shown == later
    })
    .await;
    for page in [page, clock, other] {
        page.end().await;
    }
}

#[tokio::test]
async fn rates_are_of_the_time_that_was_counted() {
    let shop = Shop::with("slow_query").await;
    let minute = shop.past_ended() / 60 * 60 - 600;
    // Not at the bounds of stored slices, which are minutes.
    let (from, to) = (minute + 7, minute + 12);
    let page = Page::open(&shop.screen(&format!("overview?from={from}&to={to}"))).await;
    let shown: Vec<String> = page
        .until_value("it has requests", RATES, |shown: &Vec<String>| {
            !shown[0].is_empty()
        })
        .await;
    let [requests, rate] = [0, 1].map(|at: usize| shown[at].parse::<f64>().unwrap());
    assert!((requests / 60.0 - rate).abs() < 0.1, "{shown:?}");
    page.end().await;
}
