//! What goes away: the store, the service, the network, the login.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pulse_browser::altering_proxy::AlteringProxy;
use pulse_browser::page::Page;
use pulse_browser::rig::http::Client;
use pulse_browser::service::Service;
use pulse_browser::shop::{Backend, Shop};
use serde_json::{Value, json};
use tower_pulse::Clock;

use crate::until_polled;

/// The tile of requests, without the spaces between its digits.
const REQUESTS: &str = "(document.querySelector('[data-tile=requests] .value')?.innerText ?? '').replace(/[^0-9.]/g, '')";
const IS_AWAY: &str =
    "document.body.dataset.stale !== undefined && !document.querySelector('#banner').hidden";
const IS_BACK: &str =
    "document.body.dataset.stale === undefined && document.querySelector('#banner').hidden
    && document.body.dataset.ready === 'true'";

/// Whatever looks like a banner and is shown.
async fn banners(page: &Page) -> usize {
    page.eval("[...document.querySelectorAll('.banner, [role=alert]')].filter((element) => element.checkVisibility() && element.innerText.trim()).length").await
}

async fn status(page: &Page) -> String {
    page.attribute("#status", "data-status").await.unwrap()
}

#[tokio::test]
async fn redis_goes_away_and_comes_back() {
    let shop = Shop::start(Backend::Redis, &[]).await;
    let page = Page::open(&shop.screen("overview?refresh=1")).await;
    page.tolerate("503");
    page.until_value("it shows requests", REQUESTS, |text: &String| {
        text.parse::<f64>().is_ok_and(|n| n > 0.0)
    })
    .await;
    let colour = "getComputedStyle(document.querySelector('main')).opacity + getComputedStyle(document.querySelector('main')).filter";
    let bright: String = page.eval(colour).await;

    // The requests may be those of the instance beside it: this one sees a reset only of what it has flushed to.
    let mut client = Client::connect(shop.demo().address()).await;
    let start = Instant::now();
    while client.json("/admin/pulse/api/health").await["flush"]["last_flush_age_seconds"]
        == json!(null)
    {
        assert!(start.elapsed().as_secs() < 60, "it does not flush");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    shop.redis().kill_9();
    page.until("the page says that the store is away", IS_AWAY)
        .await;
    let kept: String = page.eval(REQUESTS).await;
    assert!(
        kept.parse::<f64>().is_ok_and(|n| n > 0.0),
        "the last data stays, not {kept:?}"
    );
    assert_eq!(banners(&page).await, 1);
    let start = Instant::now();
    while client.json("/admin/pulse/api/health").await["warnings"] == json!([]) {
        assert!(start.elapsed().as_secs() < 60, "folding fails");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until_polled(&page, 2).await;
    assert!(
        !page.is_shown("#warnings").await,
        "said twice: {}",
        page.text("#warnings").await
    );
    assert_ne!(status(&page).await, "ok");
    page.until_value("the last data is dimmed", colour, |dim: &String| {
        *dim != bright
    })
    .await;
    assert!(page.is_in_view("#banner").await);

    // Somebody opens the page now.
    let fresh = Page::empty().await;
    fresh.tolerate("503");
    fresh.load(&shop.screen("overview?refresh=1")).await;
    fresh.until("a fresh page says that there is nothing yet", "!document.querySelector('#banner')?.hidden && /nothing/i.test(document.body.innerText)").await;
    assert_eq!(banners(&fresh).await, 1);
    assert_ne!(status(&fresh).await, "ok");
    assert!(!fresh.text("body").await.contains("Loading"));
    let numbers: Vec<String> = fresh.texts("[data-tile] .value").await;
    assert!(
        !numbers
            .iter()
            .any(|text| text.contains(|c: char| c.is_ascii_digit())),
        "no figures are made up: {numbers:?}"
    );

    shop.redis().restart().await;
    page.until("the page recovers", IS_BACK).await;
    fresh.until("the fresh page recovers", IS_BACK).await;
    fresh
        .until_value("it shows requests", REQUESTS, |text: &String| {
            text.parse::<f64>().is_ok_and(|n| n > 0.0)
        })
        .await;
    // The server has lost what it held, which nobody may miss.
    for page in [&page, &fresh] {
        page.until("a warning tells of the reset", "[...document.querySelectorAll('#warnings li')].some((one) => /reset|lost/i.test(one.innerText) && one.checkVisibility())").await;
    }
    page.end().await;
    fresh.end().await;
}

#[tokio::test]
async fn every_screen_keeps_its_last_data_while_the_store_is_away() {
    let shop = Shop::start(Backend::Redis, &[]).await;
    let mut pages = Vec::new();
    for (fragment, table) in [
        ("paths?refresh=1", "paths"),
        ("path?context=GET%20%2F&refresh=1", "instances"),
        ("slowest?refresh=1", "slowest-requests"),
        ("timers?refresh=1", "timers"),
        ("counters?refresh=1", "counters"),
    ] {
        let page = Page::open(&shop.screen(fragment)).await;
        page.tolerate("503");
        let rows =
            format!("document.querySelectorAll('table[data-table={table}] tbody tr').length");
        page.until_value(&format!("{table} has rows"), &rows, |n: &usize| *n > 0)
            .await;
        pages.push((page, rows));
    }
    shop.redis().kill_9();
    for (page, rows) in &pages {
        page.until("the page says that the store is away", IS_AWAY)
            .await;
        assert!(
            page.eval::<usize>(rows).await > 0,
            "the last rows stay: {rows}"
        );
        assert_eq!(banners(page).await, 1);
    }
    shop.redis().restart().await;
    for (page, _) in pages {
        page.until("the page recovers", IS_BACK).await;
        page.end().await;
    }
}

#[tokio::test]
async fn the_health_is_shown_while_the_store_is_away() {
    let shop = Shop::start(Backend::Redis, &[]).await;
    shop.redis().kill_9();
    let page = Page::empty().await;
    page.tolerate("503");
    page.load(&shop.screen("health?refresh=1")).await;
    page.until(
        "the health has facts",
        "document.querySelectorAll('[data-panel^=health-] dd[data-fact]').length > 10",
    )
    .await;
    assert_ne!(status(&page).await, "ok");
    page.until(
        "it says that the store is unreachable",
        "document.querySelector('[data-panel=well]').innerText.includes('unreachable')",
    )
    .await;
    page.end().await;
}

#[tokio::test]
async fn the_service_goes_away() {
    let shop = Shop::start(Backend::Memory, &[]).await;
    let page = Page::open(&shop.screen("overview?refresh=1")).await;
    // Refused, reset, empty, or a connection that was kept and is none any more: what Chromium makes of the end is its own.
    page.tolerate("net::ERR_");
    page.until_value("it shows requests", REQUESTS, |text: &String| {
        text.parse::<f64>().is_ok_and(|n| n > 0.0)
    })
    .await;
    shop.demo().kill_9();
    page.until("the page says so", IS_AWAY).await;
    assert_eq!(status(&page).await, "unreachable");
    assert_eq!(banners(&page).await, 1);
    assert!(!page.eval::<String>(REQUESTS).await.is_empty());
    page.end().await;
}

#[tokio::test]
async fn the_network_goes_away_and_comes_back() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview?refresh=1")).await;
    page.tolerate("ERR_INTERNET_DISCONNECTED");
    page.set_offline(true).await;
    page.until("the page says so", IS_AWAY).await;
    assert_eq!(status(&page).await, "unreachable");
    page.set_offline(false).await;
    page.until("it recovers", IS_BACK).await;
    assert_eq!(status(&page).await, "ok");
    page.end().await;
}

/// Somebody may wait for the store, the service or the network to come back.
#[tokio::test]
async fn what_has_failed_is_tried_again_within_five_seconds() {
    let service = Service::guarded().await;
    for (refresh, expected) in [
        (1, [1_000, 2_000, 4_000, 5_000, 5_000, 5_000]),
        (60, [5_000; 6]),
    ] {
        let url = service.url(&format!("/admin/pulse#slowest?refresh={refresh}"));
        let page = Page::open(&url).await;
        page.tolerate("401");
        // Notes how long the page waits, and does not wait for it.
        page.run("{ const wait = setTimeout; window.waits = [];
            window.setTimeout = (then, time) => { if (time) waits.push(time); return wait(then, 10); }; }")
            .await;
        service.log_out();
        page.run("document.querySelector('#refresh').dispatchEvent(new Event('change'))")
            .await;
        page.until("it has tried again six times", "waits.length > 6")
            .await;
        let waits: Vec<u32> = page.eval("waits.slice(0, 6)").await;
        assert_eq!(waits, expected);
        service.log_in();
        page.until("the page goes on", IS_BACK).await;
        page.end().await;
    }
}

#[tokio::test]
async fn a_screen_that_is_opened_offline_is_drawn_when_the_network_is_back() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("overview?refresh=1")).await;
    page.tolerate("ERR_INTERNET_DISCONNECTED");
    page.tolerate("Failed to fetch dynamically imported module");
    page.set_offline(true).await;
    page.click("nav a[data-screen=deploy]").await;
    page.until(
        "the page says so",
        "!document.querySelector('#banner').hidden",
    )
    .await;
    page.set_offline(false).await;
    page.until_screen("deploy").await;
    page.end().await;
}

#[tokio::test]
async fn whoever_is_logged_out_is_told() {
    let service = Service::guarded().await;
    let page = Page::open(&service.url("/admin/pulse#overview?refresh=1")).await;
    page.tolerate("401");
    assert_eq!(status(&page).await, "ok");
    service.log_out();
    page.until(
        "the status says so",
        "document.querySelector('#status').dataset.status === 'unauthorized'",
    )
    .await;
    page.until_shown("#banner").await;
    assert!(
        page.text("#banner").await.to_lowercase().contains("log"),
        "{}",
        page.text("#banner").await
    );
    assert_eq!(banners(&page).await, 1);

    service.log_in();
    page.until("the page goes on", IS_BACK).await;
    assert_eq!(status(&page).await, "ok");
    until_polled(&page, 2).await;
    page.end().await;
}

#[tokio::test]
async fn a_refused_host_is_told_in_words() {
    let service = Service::of_another_host().await;
    let page = Page::empty().await;
    page.tolerate("403");
    page.load(&service.url("/admin/pulse")).await;
    page.until_shown("#banner").await;
    let text = page.text("#banner").await;
    assert!(text.contains("allow_host"), "{text}");
    assert_eq!(banners(&page).await, 1);
    page.end().await;
}

#[tokio::test]
async fn a_zoomed_page_recovers_too() {
    let shop = Shop::start(Backend::Redis, &[]).await;
    let to = Clock::system().now_seconds() / 60 * 60;
    let range = format!("from={}&to={to}", to - 600);
    shop.redis().kill_9();
    let page = Page::empty().await;
    page.tolerate("503");
    page.load(&shop.screen(&format!("overview?{range}"))).await;
    page.until(
        "it says that there is nothing yet",
        "!document.querySelector('#banner')?.hidden && /nothing/i.test(document.body.innerText)",
    )
    .await;
    assert!(
        !page.is_shown("[data-tile], [data-chart]").await,
        "an empty skeleton is not shown"
    );
    shop.redis().restart().await;
    page.until("it recovers", IS_BACK).await;
    page.end().await;
}

#[tokio::test]
async fn the_answers_of_one_range_never_stand_under_another() {
    let shop = Shop::start(Backend::Redis, &[]).await;
    let page = Page::open(&shop.screen("overview?range=5m&refresh=1")).await;
    page.tolerate("503");
    let is_shown = format!("Number({REQUESTS}) > 0");
    page.until("it shows requests", &is_shown).await;
    shop.redis().kill_9();
    page.until("the page says that the store is away", IS_AWAY)
        .await;
    leave_and_come_back(&page, "5m").await;
    assert!(page.eval::<bool>(&is_shown).await);
    page.end().await;
}

/// While the store is away, looks at a range that was never answered, and at the first one again.
async fn leave_and_come_back(page: &Page, first: &str) {
    let range = |name: &str| format!("label:has(input[name=range][value='{name}'])");
    page.click(&range("24h")).await;
    page.until(
        "nothing is shown of a range that was never answered",
        "document.body.dataset.nothing !== undefined",
    )
    .await;
    assert!(!page.is_shown("[data-tile]").await);
    page.click(&range(first)).await;
    page.until("the last answer of the first range is back", IS_AWAY)
        .await;
}

/// A page that had no requests at first asks something else once it has some.
#[tokio::test]
async fn the_newest_answer_of_a_range_comes_back_whatever_was_asked() {
    let shop = Shop::with("slow_query").await;
    let proxy = AlteringProxy::start(shop.demo().address()).await;
    let answered = AtomicUsize::new(0);
    proxy.alter(move |questions, body| {
        let mut all: Value = serde_json::from_str(body).expect("the service answers JSON");
        let turn = answered.fetch_add(1, Ordering::SeqCst);
        let answers = all["answers"].as_array_mut().expect("a list");
        for (answer, question) in answers.iter_mut().zip(questions) {
            match turn {
                0 if *question == "overview" => answer["body"]["window"]["count"] = json!(0),
                0 | 1 => {}
                _ => *answer = json!({"status": 503, "body": {"error": "the store is away"}}),
            }
        }
        all.to_string()
    });
    let page = Page::open(&proxy.screen("overview?range=1h&refresh=1")).await;
    page.until("the page says that the store is away", IS_AWAY)
        .await;
    let requests: String = page.eval(REQUESTS).await;
    assert_ne!(requests, "0", "the newest answer stays");
    leave_and_come_back(&page, "1h").await;
    assert_eq!(page.eval::<String>(REQUESTS).await, requests);
    page.end().await;
}

/// While a range has no requests, the overview asks whether there were any at all, and no longer once it has some.
#[tokio::test]
async fn older_answers_never_take_the_place_of_newer_ones() {
    let shop = Shop::with("slow_query").await;
    let proxy = AlteringProxy::start(shop.demo().address()).await;
    let has_asked = AtomicBool::new(false);
    proxy.alter(move |questions, body| {
        // Whether there were any at all.
        if questions.contains(&"paths") {
            has_asked.store(true, Ordering::SeqCst);
            return body.to_owned();
        }
        let mut all: Value = serde_json::from_str(body).expect("the service answers JSON");
        let answers = all["answers"].as_array_mut().expect("a list");
        for (answer, question) in answers.iter_mut().zip(questions) {
            if has_asked.load(Ordering::SeqCst) {
                *answer = json!({"status": 503, "body": {"error": "the store is away"}});
            } else if *question == "overview" {
                answer["body"]["window"]["count"] = json!(0);
            }
        }
        all.to_string()
    });
    let page = Page::open(&proxy.screen("overview?range=1h&refresh=1")).await;
    page.until("the page says that the store is away", IS_AWAY)
        .await;
    let requests: String = page.eval(REQUESTS).await;
    assert_ne!(requests, "0", "the newest answer stays");
    page.end().await;
}

#[tokio::test]
async fn more_contexts_than_there_is_room_for_are_a_warning_that_nobody_misses() {
    // By default there is room for 2,000.
    let service = Service::with_contexts(2_100).await;
    for screen in ["overview", "paths", "health"] {
        let page = Page::open(&service.url(&format!("/admin/pulse#{screen}"))).await;
        let tells = "[...document.querySelectorAll('#warnings li')].some((one) => /overflow/i.test(one.innerText) && one.checkVisibility())";
        page.until("a warning tells of the overflow", tells).await;
        assert!(page.is_in_view("#warnings").await);
        page.end().await;
    }
}
