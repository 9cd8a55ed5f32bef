//! Ranges that users choose, drag or set with keys, in links and in the browser's history.

use pulse_browser::emulation::Size;
use pulse_browser::page::Page;
use pulse_browser::rig::http::Client;
use pulse_browser::rig::wait::until;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::{column, open, set, until_polled};

/// The plot of the latency, once the keyboard can reach the plot.
const PLOT: &str = "[data-chart=latency] .plot[role=slider]";
const IS_ZOOMED: &str = "/[?&]from=\\d+&to=\\d+/.test(location.hash)";
const IS_WHOLE: &str = "!/[?&]from=/.test(location.hash)";
const IS_PAUSED: &str = "/paused/i.test($('#updated').innerText)";
const REQUESTS: &str = "$('[data-tile=requests] .value').innerText";

async fn range(page: &Page) -> (i64, i64) {
    page.eval("['from', 'to'].map((name) => Number(new URLSearchParams(location.hash.split('?')[1]).get(name)))")
        .await
}

/// Waits until the range in the URL was answered and drawn.
async fn until_answered(page: &Page) {
    let asked = format!("from%3D{}", range(page).await.0);
    until("the range is answered", async || {
        let mut polls = page.polls().await.into_iter();
        polls.any(|poll| poll.path().contains(&asked) && poll.status.is_some())
    })
    .await;
    page.until("document.body.dataset.ready === 'true'").await;
}

async fn choose(page: &Page, range: &str) {
    page.click(&format!("label:has(input[name=range][value='{range}'])"))
        .await;
    until_chosen(page, range).await;
}

async fn until_chosen(page: &Page, range: &str) {
    page.until_fragment_has(&format!("range={range}")).await;
    let chosen = "$('input[name=range]:checked').value";
    page.until(&format!("{chosen} === '{range}'")).await;
    page.until("document.body.dataset.ready === 'true'").await;
}

#[tokio::test]
async fn a_drag_or_keys_zoom_in_and_escape_back_or_the_button_zooms_out() {
    let page = open("slow_query", "overview?range=1h").await;
    let whole: String = page.eval(REQUESTS).await;
    page.drag(PLOT, 0.3, 0.6).await;
    page.until(IS_ZOOMED).await;
    let (from, to) = range(&page).await;
    let seconds = to - from;
    assert!((600..1_800).contains(&seconds), "{seconds} s of an hour");
    until_answered(&page).await;
    page.until_value(REQUESTS, |text: &String| *text != whole)
        .await;
    page.until_shown("#unzoom").await;
    let lines = page.count("[data-chart=latency] .change-line").await;
    assert_eq!(lines, 0, "the change began after the range");
    page.press("Escape").await;
    page.until(IS_WHOLE).await;
    page.until_hidden("#unzoom").await;
    page.until_value(REQUESTS, |text: &String| text.contains('k'))
        .await;

    page.focus(PLOT).await;
    for key in [["ArrowLeft"; 3].as_slice(), &["Shift+ArrowLeft"; 9]].concat() {
        page.press(key).await;
    }
    page.press("Enter").await;
    page.until(IS_ZOOMED).await;
    let (from, to) = range(&page).await;
    assert_eq!(to - from, 10 * 60, "ten slices of a minute");
    page.back().await;
    page.until(IS_WHOLE).await;
    page.until_hidden("#unzoom").await;
    page.until_screen("overview").await;
    page.run("history.forward()").await;
    page.click("#unzoom").await;
    page.until(IS_WHOLE).await;
}

#[tokio::test]
async fn every_range_and_screen_is_in_the_browsers_history() {
    let page = open("slow_query", "overview?range=1h").await;
    for range in ["5m", "15m", "6h", "24h", "7d"] {
        choose(&page, range).await;
    }
    // A phone has room for all choices of the range beside the note about missing data.
    page.resize(Size::PHONE).await;
    page.until_shown("#complete").await;
    page.until("(({scrollWidth, clientWidth}) => clientWidth > 200 && scrollWidth <= clientWidth)($('.tools .segments'))")
        .await;
    for range in ["24h", "6h", "15m", "5m"] {
        page.back().await;
        until_chosen(&page, range).await;
    }
    choose(&page, "1h").await;
    page.resize(Size::DESKTOP).await;

    page.click("nav a[data-screen=paths]").await;
    page.until_screen("paths").await;
    page.click("table[data-table=paths] tbody tr a").await;
    page.until_screen("path").await;
    for screen in ["paths", "overview"] {
        page.back().await;
        page.until_screen(screen).await;
    }
    page.run("history.forward()").await;
    page.until_screen("paths").await;
}

#[tokio::test]
async fn months_are_offered_if_the_history_has_them() {
    const OFFERED: &str = "$$('input[name=range]').filter((radio) => radio.checkVisibility()).map((radio) => radio.value)
        .filter((name) => /0d/.test(name)).join()";
    let page = open("slow_query", "overview?range=1h").await;
    assert_eq!(page.eval::<String>(OFFERED).await, "");
    // A link may still name 30 days: the dashboard then offers this range, and says which part was recorded.
    page.show("overview?range=30d").await;
    page.until(&format!("{OFFERED} === '30d'")).await;
    page.until_shown("#complete").await;
    let service = Service::with_history().await;
    let page = Page::open(&service.screen("overview?range=1h")).await;
    page.until(&format!("{OFFERED} === '30d,90d'")).await;
    choose(&page, "30d").await;
    // The range begins with a whole day, so there may be six requests more.
    page.until(&format!(
        "((n) => n >= 180 && n <= 186)(Number({REQUESTS}))"
    ))
    .await;
    page.until_hidden("#complete").await;
}

#[tokio::test]
async fn a_frozen_link_shows_the_same_figures_in_another_tab() {
    const SHOWN: &str = "[...$$(['[data-tile]:not([data-tile=in-flight]) .value', 'table[data-table=paths] tbody td', '#unzoom',
        'th[aria-sort]:not([aria-sort=none])', 'button[data-series][aria-pressed=false]'].join())
        .map((element) => element.innerText), $('#filter')?.value ?? '', decodeURIComponent(location.hash)]";
    // A range within the demo's simulated past, which gets no more requests.
    let to = Shop::with("slow_query").await.past_ended() / 60 * 60 - 600;
    let from = to - 1_800;
    for screen in [
        format!("overview?from={from}&to={to}&hide=p99"),
        format!("paths?from={from}&to={to}&sort=p95&order=asc&q=cart"),
        format!("path?context=GET%20%2Fsearch&from={from}&to={to}"),
    ] {
        let page = open("slow_query", &screen).await;
        until_answered(&page).await;
        let has_figures = |shown: &Vec<String>| shown.len() > 5;
        let shown = page.until_value(SHOWN, has_figures).await;
        let again = Page::open(&page.url().await).await;
        again
            .until_value(SHOWN, |other: &Vec<String>| *other == shown)
            .await;
    }
}

#[tokio::test]
async fn nothing_is_asked_while_hidden_or_paused_or_zoomed_or_frozen() {
    let other = open("slow_query", "overview?range=5m&refresh=1").await;
    let page = open("slow_query", "overview?range=5m&refresh=1").await;
    for page in [&other, &page] {
        page.hasten().await;
        until_polled(page, 2).await;
    }
    let assert_silent = async |state: &str| {
        let before = page.polls().await.len();
        // Another tab's polls show that enough time has passed.
        until_polled(&other, 6).await;
        let polls = page.polls().await.len();
        assert_eq!(polls, before, "the dashboard polls while {state}");
    };
    let hide = async |is_hidden: bool| {
        page.run(&format!(
            "Object.defineProperty(document, 'hidden', {{configurable: true, value: {is_hidden}}});
            document.dispatchEvent(new Event('visibilitychange')); undefined"
        ))
        .await;
    };
    hide(true).await;
    // A poll that was in progress may still end.
    until_polled(&other, 3).await;
    assert_silent("hidden").await;
    hide(false).await;
    until_polled(&page, 2).await;

    page.click("#pause").await;
    page.until(IS_PAUSED).await;
    assert_silent("paused").await;
    page.click("#pause").await;
    until_polled(&page, 2).await;

    page.drag(PLOT, 0.2, 0.7).await;
    page.until(IS_ZOOMED).await;
    until_answered(&page).await;
    page.until(IS_PAUSED).await;
    assert_silent("zoomed").await;
    page.press("Escape").await;
    until_polled(&page, 2).await;

    page.focus("#freeze").await;
    page.press("Enter").await;
    page.until(IS_ZOOMED).await;
    // The focus moves to the button that replaces *freeze*.
    page.until("document.activeElement.id === 'unzoom'").await;
    until_answered(&page).await;
    page.until(IS_PAUSED).await;
    assert_silent("frozen").await;
}

#[tokio::test]
async fn times_are_local_or_utc() {
    let began = Shop::with("slow_query").await.incident_began();
    let since = "[data-panel=attention] li:not([data-kind^=maybe]) .since";
    let mut texts = Vec::new();
    for (screen, zone) in [("overview", "undefined"), ("overview?utc=1", "'UTC'")] {
        let page = open("slow_query", screen).await;
        page.until_shown(since).await;
        let text = page.text(since).await;
        // The detected change may begin up to two minutes after the incident.
        let times = format!(
            "[0, 60, 120].map((more) => new Date(({began} + more) * 1000).toLocaleTimeString('en-GB',
                {{hour: '2-digit', minute: '2-digit', timeZone: {zone}}}))"
        );
        let times: Vec<String> = page.eval(&times).await;
        assert!(
            times.iter().any(|time| text.contains(time)),
            "{text}: {times:?}"
        );
        texts.push(text);
    }
    assert_ne!(texts[0], texts[1], "the browser's zone is not UTC");
}

#[tokio::test]
async fn rates_are_requests_per_recorded_time() {
    const RATES: &str = "['.value', '.delta'].map((part) => $(`[data-tile=requests] ${part}`)?.innerText.split('/min')[0]
        .replace(/[^0-9.k]/g, '') ?? '')";
    let minute = Shop::with("slow_query").await.past_ended() / 60 * 60 - 600;
    // The range is a part of one minute. The stored slices are minutes, so the answer is about the whole minute.
    let screen = format!("overview?from={}&to={}", minute + 7, minute + 12);
    let page = open("slow_query", &screen).await;
    let is_filled = |shown: &Vec<String>| !shown[0].is_empty();
    let shown = page.until_value(RATES, is_filled).await;
    let [requests, rate] = [0, 1].map(|at: usize| shown[at].parse::<f64>().unwrap());
    assert!((requests - rate).abs() < 0.1, "{shown:?}");
}

#[tokio::test]
async fn a_range_is_compared_with_yesterday_a_week_ago_or_a_chosen_time() {
    const TITLE: &str = r"$('[data-tile=mean] .delta').title.replace(/\s/g, ' ')";
    const COMPARED: &str = r"$('#compared').innerText.replace(/\s/g, ' ')";
    let service = Service::with_week().await;
    let page = Page::open(&service.screen("overview?range=6h")).await;
    page.until(&format!(
        "{TITLE}.startsWith('20.0 ms in the 6 h before, ')"
    ))
    .await;
    page.until_shown("#against").await;
    assert_eq!(page.text("#compared").await, "");
    set(&page, "#against", "yesterday").await;
    page.until(&format!("{TITLE}.startsWith('20.0 ms yesterday, ')"))
        .await;
    // The dashboard shows the start and the end of the time that the answer compares with.
    let mut client = Client::connect(service.address()).await;
    let uri = "/admin/pulse/api/overview?window=6h&against=yesterday";
    let before = client.json(uri).await["window"]["before"].take();
    let shown = format!(
        "[{}, {}].map((at) => new Date(at * 1000).toLocaleTimeString('en-GB', {{hour: '2-digit', minute: '2-digit'}}))
            .every((time) => {COMPARED}.includes(time))",
        before["from"], before["to"]
    );
    page.until(&shown).await;
    set(&page, "#against", "week_ago").await;
    page.until(&format!("/^widened to (12|18) h: /.test({COMPARED})"))
        .await;

    page.click("nav a[data-screen=paths]").await;
    page.until_screen("paths").await;
    page.until_fragment_has("against=week_ago").await;
    page.until(&format!("/^widened to (12|18) h: /.test({COMPARED})"))
        .await;
    assert_eq!(column(&page, "paths", "change").await, ["±0%"]);
    page.click("table[data-table=paths] tbody tr a").await;
    page.until(r"/6\sh; outline: a week ago/.test($('[data-panel=histogram]')?.innerText)")
        .await;

    set(&page, "#against", "begin").await;
    page.until_shown("#begin").await;
    set(&page, "#begin", "2026-01-05T10:30").await;
    page.until(
        "new Date(new URLSearchParams(location.hash.split('?')[1]).get('against') * 1000)
        .getTime() === new Date('2026-01-05T10:30').getTime()",
    )
    .await;
    page.until(&format!(
        "/^widened to 12 h: 5 Jan, .*, not recorded$/.test({COMPARED})"
    ))
    .await;
    page.click("nav a[data-screen=health]").await;
    page.until_screen("health").await;
    page.until_hidden("#compare").await;
}
