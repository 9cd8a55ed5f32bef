//! Writes from the dashboard: people acknowledge changes, and remove marks, unless they may only read.

use pulse_browser::emulation::Size;
use pulse_browser::page::Page;
use pulse_browser::proxy::ReverseProxy;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;
use tower_pulse::admin::{Access, Permission};

use crate::accessibility::assert_accessible;

/// The line of the ongoing change, on the screen of its path.
const LINE: &str = "[data-panel=change] .verdict li[data-kind=slower]";
const BUTTON: &str = "[data-panel=change] .verdict li[data-kind=slower] .acknowledgement button";
/// The same change on the overview.
const SLOW: &str = "[data-panel=attention] .changes li[data-kind=slower]";

/// Waits until an element's text contains `text`, or lacks `text` if `has` is false.
async fn until_text(page: &Page, query: &str, text: &str, has: bool) {
    let condition = format!("$('{query}')?.innerText.includes('{text}') === {has}");
    page.until(&condition).await;
}

/// Waits until the header and the tab show the only problem, with this text and colour.
async fn until_shown_as(page: &Page, text: &str, [status, colour]: [&str; 2]) {
    let is_shown = format!(
        "document.title.startsWith('(1) ') && $('#problems').innerText === '{text}'
            && $('#problems').dataset.status === '{status}' && $('#icon').href.includes('{colour}')"
    );
    page.until(&is_shown).await;
}

const RED: [&str; 2] = ["down", "%23e5383b"];
const AMBER: [&str; 2] = ["degraded", "orange"];

/// Acknowledges the change of a page, and withdraws the acknowledgement. The demo must have no other problem.
pub(crate) async fn assert_acknowledged_in_every_tab(shop: &Shop, context: &str) {
    let path = shop.screen(&format!("path?context={context}&refresh=1"));
    let overview = shop.screen("overview?range=1h&refresh=1");
    let other = Page::open(&overview).await;
    let listed = format!("{SLOW} button");
    until_text(&other, &listed, "Acknowledge", true).await;
    until_shown_as(&other, "1 problem", RED).await;
    let mine = Page::open(&path).await;
    until_text(&mine, BUTTON, "Acknowledge", true).await;

    // An open access names no person, so the dashboard asks for the name.
    mine.click(BUTTON).await;
    mine.until_shown(&format!("{LINE} .acknowledgement input:focus"))
        .await;
    assert_accessible(&mine).await;
    mine.type_text("anna").await;
    mine.press("Enter").await;
    until_text(&mine, LINE, "Acknowledged by anna", true).await;
    until_text(&mine, BUTTON, "Withdraw", true).await;
    until_text(&other, SLOW, "Acknowledged by anna", true).await;
    let is_quiet = format!("$('{SLOW}').children[0].dataset.level === 'acknowledged'");
    assert!(other.eval::<bool>(&is_quiet).await);
    until_shown_as(&other, "1 problem, acknowledged by anna", AMBER).await;
    assert_accessible(&other).await;
    other.resize(Size::PHONE).await;
    other
        .until("(({scrollWidth, clientWidth, offsetLeft}) => scrollWidth <= clientWidth && offsetLeft + clientWidth <= 390)($('#problems'))")
        .await;
    // A tab that is opened later shows the acknowledgement too, and can withdraw it.
    let later = Page::open(&overview).await;
    until_shown_as(&later, "1 problem, acknowledged by anna", AMBER).await;
    until_text(&later, &listed, "Withdraw", true).await;
    later.click(&listed).await;
    for (page, line) in [(&later, SLOW), (&mine, LINE), (&other, SLOW)] {
        until_text(page, line, "Acknowledged", false).await;
    }
    until_shown_as(&other, "1 problem", RED).await;
    // The browser has kept the name.
    until_text(&mine, BUTTON, "Acknowledge", true).await;
    mine.click(BUTTON).await;
    until_text(&later, SLOW, "Acknowledged by anna", true).await;
    mine.click(BUTTON).await;
    until_text(&later, SLOW, "Acknowledged", false).await;
}

#[tokio::test]
async fn a_reader_has_no_button_that_writes() {
    let access = Access::token("writes").read_only_token("reads");
    let service = Service::with_access(access).await;
    service.pulse().mark("index").await.unwrap();
    let url = service.screen("deploy?refresh=1");
    for (token, writes) in [("writes", 1), ("reads", 0)] {
        let page = Page::open(&url.replace("://", &format!("://ada:{token}@"))).await;
        page.until("$$('[data-panel=deploy] select option').length > 0")
            .await;
        assert_eq!(page.count("[data-panel=deploy] form").await, writes);
        assert_eq!(page.count("button[aria-label^=Remove]").await, writes);
    }

    // A reader's dashboard, with the changes of another service.
    let reader = Service::with_access(Access::custom(|_| Permission::read())).await;
    let shop = Shop::with("slow_query").await;
    let proxy = ReverseProxy::between("", reader.address(), shop.demo().address()).await;
    let page = Page::open(&proxy.screen("overview?range=1h")).await;
    for screen in ["overview", "path?context=GET+/search"] {
        page.show(screen).await;
        page.until_shown("li[data-kind=slower]").await;
        assert!(!page.is_shown(".acknowledgement button").await, "{screen}");
    }
}

#[tokio::test]
async fn a_mark_is_removed_by_the_second_press() {
    const REMOVE: &str = "[data-panel=deploy] button[aria-label^=R]";
    const MARKS: &str = "$$('[data-panel=deploy] select option').map((one) => one.innerText)";
    let service = Service::everywhere().await;
    service.pulse().mark("on purpose").await.unwrap();
    let page = Page::open(&service.screen("deploy?refresh=1")).await;
    page.run("$('[data-panel=deploy] form input').value = 'by mistake'; $('[data-panel=deploy] form button').click()")
        .await;
    let is_listed = format!("{MARKS}.some((text) => text.includes('by mistake'))");
    page.until(&is_listed).await;
    until_text(&page, "[data-panel=deploy] .calm", "by mistake", true).await;
    let before = page.eval::<Vec<String>>(MARKS).await.len();

    page.click(REMOVE).await;
    until_text(&page, REMOVE, "Really remove it?", true).await;
    // Using another control cancels the confirmation.
    page.run("$('[data-panel=deploy] select').focus()").await;
    page.until(&format!("$('{REMOVE}').innerText === 'Remove'"))
        .await;
    assert_eq!(page.eval::<Vec<String>>(MARKS).await.len(), before);

    page.click(REMOVE).await;
    until_text(&page, REMOVE, "Really remove it?", true).await;
    page.click(REMOVE).await;
    page.until(&format!("!({is_listed})")).await;
    assert_eq!(page.eval::<Vec<String>>(MARKS).await.len(), before - 1);
}
