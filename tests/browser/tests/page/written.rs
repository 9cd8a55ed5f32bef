//! Writes from the page: people acknowledge changes, and remove marks.

use pulse_browser::page::Page;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::accessibility::judge;

/// The line of the ongoing change, on the screen of its path.
const LINE: &str = "[data-panel=change] .verdict li[data-kind=slower]";
const BUTTON: &str = "[data-panel=change] .verdict li[data-kind=slower] .taking button";
/// The same change on the overview.
const SLOW: &str = "[data-panel=attention] .changes li[data-kind=slower]";

/// Waits until an element's text contains `text`, or, without `has`, does not contain it.
async fn until_text(page: &Page, query: &str, text: &str, has: bool) {
    let told = format!("$('{query}')?.innerText.includes('{text}') === {has}");
    page.until(&told).await;
}

/// Acknowledges the change of a page, and withdraws the acknowledgement. The demo must have no other problem.
pub(crate) async fn a_change_that_is_taken_on_one_page_is_taken_on_another(
    shop: &Shop,
    context: &str,
) {
    let path = shop.screen(&format!("path?context={context}&refresh=1"));
    let other = Page::open(&shop.screen("overview?range=1h&refresh=1")).await;
    other.until_shown(SLOW).await;
    assert!(!other.text(SLOW).await.contains("Taken by"));
    let is_told = "document.title.startsWith('(1) ') && $('#problems').innerText === '1 problem'";
    other.until(is_told).await;
    let mine = Page::open(&path).await;
    until_text(&mine, BUTTON, "Take", true).await;

    mine.click(BUTTON).await;
    until_text(&mine, LINE, "Taken by someone", true).await;
    until_text(&mine, BUTTON, "Give back", true).await;
    until_text(&other, SLOW, "Taken by someone", true).await;
    let is_quiet = format!("$('{SLOW}').children[0].dataset.level === 'taken'");
    assert!(other.eval::<bool>(&is_quiet).await);
    let none = "!document.title.startsWith('(') && $('#problems').innerText === 'no problem'";
    other.until(none).await;
    judge(&other).await;
    // A page that is opened later shows the acknowledgement too, and can withdraw it.
    let late = Page::open(&path).await;
    until_text(&late, BUTTON, "Give back", true).await;
    late.click(BUTTON).await;
    for (page, line) in [(&late, LINE), (&mine, LINE), (&other, SLOW)] {
        until_text(page, line, "Taken", false).await;
    }
    until_text(&mine, BUTTON, "Take", true).await;
    other.until(is_told).await;
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
