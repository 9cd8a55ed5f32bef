//! What is in front of a page and below it: the machine of an instance, the queue, calls that are repeated, and workers that
//! are held.

use pulse_browser::page::Page;
use pulse_browser::shop::{Backend, Shop};

use crate::column;

async fn shop(incident: &str) -> Shop {
    let env = [("DEMO_HISTORY", "90m"), ("DEMO_INCIDENT", incident)];
    Shop::start(Backend::Memory, &env).await
}

/// Opens the page at the first thing that needs attention.
async fn open_the_change(shop: &Shop) -> Page {
    let page = Page::open(&shop.url()).await;
    page.until_screen("overview").await;
    let change = "[data-panel=attention] li a";
    page.until_shown(change).await;
    page.click(change).await;
    page
}

#[tokio::test]
async fn the_machine_is_suspected_and_has_charts() {
    let shop = shop("busy_host").await;
    let page = open_the_change(&shop).await;
    page.until_screen("instance").await;
    page.until(
        "it names the machine",
        "/web-3: CPU 9\\d %, scheduling delay \\d\\d ms: the machine/
            .test(document.querySelector('[data-panel=change]').innerText)",
    )
    .await;
    for chart in ["cpu", "delay"] {
        page.until_shown(&format!("[data-chart={chart}] .plot svg path"))
            .await;
    }
    let mut reports = Vec::new();
    page.check_accessibility("machine", &mut reports).await;
    assert!(reports.is_empty(), "{}", reports.join("\n"));
    page.end().await;
}

#[tokio::test]
async fn a_change_of_the_queue_leads_to_its_timer_and_a_path_has_its_wait() {
    let shop = shop("queue").await;
    let page = open_the_change(&shop).await;
    page.until_screen("path").await;
    page.until(
        "it is the timer, with its change",
        "document.querySelector('h2.title').innerText.includes('queue')
            && document.querySelector('[data-panel=change]').innerText.includes('slower')",
    )
    .await;
    assert!(column(&page, "run-by", "per_request").await.len() >= 8);
    page.show("path?context=GET%20%2Fcart&range=15m").await;
    page.until(
        "the wait comes before the request",
        "document.querySelector('[data-table=time-goes] tbody tr').innerText.includes('queue, before the request')",
    )
    .await;
    page.end().await;
}

#[tokio::test]
async fn a_repeated_timer_is_marked() {
    let shop = shop("repeated").await;
    let page = Page::open(&shop.screen("paths?range=5m")).await;
    page.until_screen("paths").await;
    page.until(
        "the path is marked",
        "document.querySelector('tr[data-key=\"GET /cart\"] .repeats')?.innerText === 'db:find_item 41× per request'",
    )
    .await;
    assert_eq!(page.count(".repeats:not([hidden])").await, 1);
    page.show("timers?range=5m").await;
    page.until_screen("timers").await;
    page.until_shown("tr[data-key=\"db:find_item\"] .repeats")
        .await;
    page.show("path?context=GET%20%2Fcart&range=5m").await;
    page.until(
        "its page says so",
        "document.querySelector('[data-panel=time-goes] .repeats')?.innerText.startsWith('db:find_item 41× per request')",
    )
    .await;
    page.end().await;
}

#[tokio::test]
async fn a_path_that_blocks_its_worker_is_found_by_its_longest_poll() {
    let shop = shop("blocking").await;
    let page = open_the_change(&shop).await;
    page.until_screen("path").await;
    page.until(
        "it says that the page computes, and holds a worker",
        "/it computes longer, \\d\\d ms a request instead of \\d\\.\\d ms; a poll held a worker for \\d\\d+ ms/
            .test(document.querySelector('[data-panel=change]').innerText)",
    )
    .await;
    page.until(
        "so does where the time goes, with what it waits",
        "/^computing \\d\\S*\\sms.*, waiting \\d\\S*\\sms.*; a poll held a worker for \\d+\\sms at most$/
            .test(document.querySelector('[data-panel=time-goes] .polls:not([hidden])')?.innerText)",
    )
    .await;
    // Minutes of the past: what really blocks the live shop is up to the machine.
    let to = shop.past_ended() / 60 * 60;
    let range = format!("from={}&to={to}", to - 180);
    page.show(&format!("paths?{range}&sort=longest_poll")).await;
    page.until_screen("paths").await;
    page.until(
        "the path comes first",
        "document.querySelector('[data-table=paths] tbody tr').dataset.key === 'POST /cart/items'",
    )
    .await;
    let longest = column(&page, "paths", "longest_poll").await;
    assert!(longest[0].ends_with("ms"), "{longest:?}");
    page.end().await;
}
