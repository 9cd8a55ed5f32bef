//! Outages of the store, the service, the network and the login.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pulse_browser::page::Page;
use pulse_browser::proxy::ReverseProxy;
use pulse_browser::rig::http::Client;
use pulse_browser::rig::wait::until;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;
use serde_json::{Value, json};
use tower_pulse::Clock;

use crate::{keys, open, until_polled};

/// The number on the tile of requests, without the spaces between its digits.
const REQUESTS: &str =
    "($('[data-tile=requests] .value')?.innerText ?? '').replace(/[^0-9.]/g, '')";
const IS_AWAY: &str = "document.body.dataset.stale !== undefined && !$('#banner').hidden";
const IS_BACK: &str = "document.body.dataset.stale === undefined && $('#banner').hidden
    && document.body.dataset.ready === 'true' && $('#status').dataset.status === 'ok'";
const STATUS: &str = "$('#status').dataset.status";
/// A JavaScript expression: whether exactly one banner or alert is shown, and the status is not `ok`.
const IS_REPORTED_ONCE: &str =
    "$$('.banner, [role=alert]').filter((element) => element.checkVisibility()
    && element.innerText.trim()).length === 1 && $('#status').dataset.status !== 'ok'";

#[tokio::test]
async fn redis_goes_away_and_comes_back_and_then_the_service_goes_away() {
    let shop = Shop::on_redis().await;
    let page = Page::open(&shop.screen("overview?range=5m&refresh=1")).await;
    page.until(&format!("Number({REQUESTS}) > 0")).await;
    let colour = "getComputedStyle($('main')).opacity + getComputedStyle($('main')).filter";
    let bright: String = page.eval(colour).await;
    let mut others = Vec::new();
    for (screen, table) in [
        ("paths", "paths"),
        ("path?context=GET%20%2F", "instances"),
        ("slowest", "slowest-requests"),
        ("timers", "timers"),
        ("counters", "counters"),
    ] {
        let other = Page::open(&shop.screen(screen)).await;
        let has_rows = format!("{}.length > 0", keys(table));
        other.until(&has_rows).await;
        others.push((other, has_rows));
    }
    // An instance notices a reset only after it has flushed. The requests shown so far may be those of the other
    // instance.
    let mut client = Client::connect(shop.demo().address()).await;
    let mut health = async || client.json("/admin/pulse/api/health").await;
    until("the instance flushes", async || {
        health().await["flush"]["last_flush_age_seconds"] != json!(null)
    })
    .await;
    shop.redis().kill_9();
    for page in others.iter().map(|(page, _)| page).chain([&page]) {
        page.tolerate("503");
        page.poll().await;
        page.until(IS_AWAY).await;
        page.until(IS_REPORTED_ONCE).await;
    }
    for (other, has_rows) in &others {
        assert!(other.eval::<bool>(has_rows).await, "{has_rows}");
    }
    // The dashboard dims the last data.
    page.until_value(colour, |dim: &String| *dim != bright)
        .await;
    assert!(page.is_in_view("#banner").await);
    until("folding fails", async || {
        health().await["warnings"] != json!([])
    })
    .await;
    until_polled(&page, 2).await;
    assert!(!page.is_shown("#warnings").await, "reported twice");
    leave_and_come_back(&page, "5m").await;
    page.until(&format!("Number({REQUESTS}) > 0")).await;

    // Opens more tabs during the outage.
    let to = Clock::system().now_seconds() / 60 * 60;
    let zoomed = format!("overview?from={}&to={to}", to - 600);
    for screen in ["overview?refresh=1", &zoomed] {
        let fresh = Page::empty().await;
        fresh.tolerate("503");
        fresh.load(&shop.screen(screen)).await;
        fresh
            .until("!$('#banner')?.hidden && /nothing/i.test(document.body.innerText)")
            .await;
        fresh.until(IS_REPORTED_ONCE).await;
        assert!(!fresh.text("body").await.contains("Loading"));
        let is_shown = fresh.is_shown("[data-tile], [data-chart]").await;
        assert!(!is_shown, "an empty skeleton, or figures that are made up");
        others.push((fresh, String::new()));
    }
    let health_page = Page::empty().await;
    health_page.tolerate("503");
    health_page.load(&shop.screen("health?refresh=1")).await;
    health_page
        .until("$$('[data-panel^=health-] dd[data-fact]').length > 10")
        .await;
    health_page
        .until("$('[data-panel=well]').innerText.includes('unreachable')")
        .await;
    assert_ne!(health_page.eval::<String>(STATUS).await, "ok");

    shop.redis().restart().await;
    for (other, _) in &others {
        other.until(IS_BACK).await;
    }
    // The restarted server has lost its data.
    page.until("$$('#warnings li').some((one) => /reset|lost/i.test(one.innerText) && one.checkVisibility())")
        .await;
    drop(others);
    // Chromium may report the end of the service as any of several errors.
    page.tolerate("net::ERR_");
    health_page.tolerate("net::ERR_");
    shop.demo().kill_9();
    page.until(&format!("{STATUS} === 'unreachable' && {IS_REPORTED_ONCE}"))
        .await;
    assert!(!page.eval::<String>(REQUESTS).await.is_empty());
}

/// While the store is away, opens a range that was never answered, and then the first range again.
async fn leave_and_come_back(page: &Page, first: &str) {
    let range = |name: &str| format!("label:has(input[name=range][value='{name}'])");
    page.click(&range("24h")).await;
    page.until("document.body.dataset.nothing !== undefined")
        .await;
    assert!(!page.is_shown("[data-tile]").await);
    page.click(&range(first)).await;
    page.until(IS_AWAY).await;
}

#[tokio::test]
async fn the_network_goes_away_and_comes_back() {
    let page = open("slow_query", "overview?refresh=1").await;
    page.tolerate("ERR_INTERNET_DISCONNECTED");
    page.tolerate("Failed to fetch dynamically imported module");
    page.set_offline(true).await;
    page.until(&format!("{IS_AWAY} && {STATUS} === 'unreachable'"))
        .await;
    page.set_offline(false).await;
    page.until(IS_BACK).await;
    // A screen that is opened offline is drawn when the network is back.
    page.set_offline(true).await;
    page.click("nav a[data-screen=deploy]").await;
    page.until("!$('#banner').hidden").await;
    page.set_offline(false).await;
    page.until_screen("deploy").await;
}

#[tokio::test]
async fn failed_requests_are_tried_again_within_five_seconds_and_a_lost_login_is_reported() {
    let (service, is_logged_out) = Service::guarded().await;
    for (refresh, expected) in [
        (1, [1_000, 2_000, 4_000, 5_000, 5_000, 5_000]),
        (60, [5_000; 6]),
    ] {
        let page = Page::open(&service.screen(&format!("slowest?refresh={refresh}"))).await;
        page.tolerate("401");
        // Shortens the page's waits, and records those from the first refusal on.
        page.run(
            "{ const [wait, get] = [setTimeout, fetch]; window.waits = []; let isRefused = false;
            window.fetch = (...asked) => get(...asked).then((answer) => {
                isRefused ||= answer.status === 401;
                return answer;
            });
            window.setTimeout = (then, time) => {
                if (time && isRefused) waits.push(time);
                return wait(then, 10);
            }; }",
        )
        .await;
        is_logged_out.store(true, Ordering::SeqCst);
        page.poll().await;
        page.until("waits.length > 6").await;
        let waits: Vec<u32> = page.eval("waits.slice(0, 6)").await;
        assert_eq!(waits, expected);
        page.until(&format!(
            "{STATUS} === 'unauthorized' && {IS_REPORTED_ONCE}"
        ))
        .await;
        let text = page.text("#banner").await;
        assert!(text.to_lowercase().contains("log"), "{text}");
        is_logged_out.store(false, Ordering::SeqCst);
        page.until(IS_BACK).await;
        until_polled(&page, 2).await;
    }
}

#[tokio::test]
async fn a_refused_host_is_explained() {
    let service = Service::with_contexts(1).await;
    let page = Page::empty().await;
    page.tolerate("403");
    let url = service.url("/admin/pulse");
    page.load(&url.replace("127.0.0.1", "rebound.example"))
        .await;
    page.until_shown("#banner").await;
    let text = page.text("#banner").await;
    assert!(text.contains("allow_host"), "{text}");
    page.until(IS_REPORTED_ONCE).await;
}

fn answer_unavailable(answers: &mut [Value]) {
    answers.fill(json!({"status": 503, "body": {"error": "the store is away"}}));
}

fn answer_no_requests(questions: &[&str], answers: &mut [Value]) {
    let overview = questions.iter().position(|name| *name == "overview");
    answers[overview.expect("the question overview")]["body"]["window"]["count"] = json!(0);
}

/// Panics unless the dashboard still shows the newest answer while the store is away.
async fn assert_newest_answer_stays(proxy: &ReverseProxy) {
    let page = Page::open(&proxy.screen("overview?range=1h&refresh=1")).await;
    page.until(IS_AWAY).await;
    let requests: String = page.eval(REQUESTS).await;
    assert_ne!(requests, "0", "the newest answer stays");
    leave_and_come_back(&page, "1h").await;
    assert_eq!(page.eval::<String>(REQUESTS).await, requests);
}

#[tokio::test]
async fn the_newest_answer_of_a_range_stays_during_an_outage() {
    let shop = Shop::with("slow_query").await;
    let proxy = ReverseProxy::start(shop.demo().address()).await;
    let answered = AtomicUsize::new(0);
    proxy.alter_answers(
        move |questions, answers| match answered.fetch_add(1, Ordering::SeqCst) {
            0 => answer_no_requests(questions, answers),
            1 => {}
            _ => answer_unavailable(answers),
        },
    );
    assert_newest_answer_stays(&proxy).await;

    let has_asked = AtomicBool::new(false);
    proxy.alter_answers(move |questions, answers| {
        // If a range has no requests, the overview also asks for the paths of the last week.
        if questions.contains(&"paths") {
            has_asked.store(true, Ordering::SeqCst);
        } else if has_asked.load(Ordering::SeqCst) {
            answer_unavailable(answers);
        } else {
            answer_no_requests(questions, answers);
        }
    });
    assert_newest_answer_stays(&proxy).await;
}
