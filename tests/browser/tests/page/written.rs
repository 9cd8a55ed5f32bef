//! What people change from the page: who sees to a change, and which mark was a mistake.

use pulse_browser::emulation::Media;
use pulse_browser::page::Page;
use pulse_browser::shop::{Backend, Shop};

/// The line of the change that stands, on the screen of its page.
const LINE: &str = "[data-panel=change] .verdict li[data-kind=slower]";
const BUTTON: &str = "[data-panel=change] .verdict li[data-kind=slower] .taking button";

/// Waits until an element has a text.
async fn until_text(page: &Page, query: &str, text: &str) {
    let what = format!("{query} says {text:?}");
    let has = format!("document.querySelector({query:?})?.innerText.includes({text:?}) ?? false");
    page.until(&what, &has).await;
}

/// The same change on the overview.
const SLOW: &str = "[data-panel=attention] .changes li[data-kind=slower]";

#[tokio::test]
async fn a_change_that_is_taken_on_one_page_is_taken_on_another() {
    let env = [("DEMO_HISTORY", "2h"), ("DEMO_INCIDENT", "slow_query")];
    let shop = Shop::start(Backend::Memory, &env).await;
    let [mine, other] = [Page::empty().await, Page::empty().await];
    other.go(&shop.screen("overview?range=1h&refresh=1")).await;
    other.until_shown(SLOW).await;
    assert!(!other.text(SLOW).await.contains("Taken by"));
    let is_told = "document.title.startsWith('(1) ') && document.getElementById('problems').innerText === '1 problem'";
    other.until("the title tells of it", is_told).await;
    let context = other.attribute(SLOW, "data-context").await;
    let context = context.expect("a page").replace(' ', "+");
    let path = format!("path?context={context}&refresh=1");
    mine.go(&shop.screen(&path)).await;
    until_text(&mine, BUTTON, "Take").await;

    mine.click(BUTTON).await;
    until_text(&mine, LINE, "Taken by someone").await;
    until_text(&mine, BUTTON, "Give back").await;
    until_text(&other, SLOW, "Taken by someone").await;
    let is_quiet =
        format!("document.querySelector({SLOW:?}).children[0].dataset.level === 'taken'");
    assert!(other.eval::<bool>(&is_quiet).await);
    let no_title = "!document.title.startsWith('(')";
    other.until("the title tells of nothing", no_title).await;
    let no_problem = "document.getElementById('problems').innerText === 'no problem'";
    assert!(other.eval::<bool>(no_problem).await);
    let mut reports = Vec::new();
    for page in [&mine, &other] {
        for theme in [Media::Light, Media::Dark] {
            page.prefer(theme).await;
            page.check_accessibility("a change that is taken", &mut reports)
                .await;
        }
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
    // Whoever comes later sees it too, and gives it back.
    let late = Page::open(&shop.screen(&path)).await;
    until_text(&late, BUTTON, "Give back").await;
    late.click(BUTTON).await;
    for (page, line) in [(&late, LINE), (&mine, LINE), (&other, SLOW)] {
        let none = format!("!document.querySelector({line:?}).innerText.includes('Taken')");
        page.until("nobody has taken it", &none).await;
    }
    until_text(&mine, BUTTON, "Take").await;
    other.until("the title tells of it again", is_told).await;
    for page in [mine, other, late] {
        page.end().await;
    }
}

#[tokio::test]
async fn a_mark_is_removed_by_the_second_press() {
    let env = [("DEMO_HISTORY", "30m")];
    let shop = Shop::start(Backend::Memory, &env).await;
    let page = Page::open(&shop.screen("deploy?refresh=1")).await;
    const REMOVE: &str = "[data-panel=deploy] button[aria-label^=R]";
    const MARKS: &str = "[...document.querySelectorAll('[data-panel=deploy] select option')].map((one) => one.innerText)";
    page.run("document.querySelector('[data-panel=deploy] form input').value = 'by mistake'; document.querySelector('[data-panel=deploy] form button').click()")
        .await;
    let is_listed = format!("{MARKS}.some((text) => text.includes('by mistake'))");
    page.until("the mark is there", &is_listed).await;
    until_text(&page, "[data-panel=deploy] .calm", "by mistake").await;
    let before = page.eval::<Vec<String>>(MARKS).await.len();

    page.click(REMOVE).await;
    until_text(&page, REMOVE, "Really remove it?").await;
    // Whoever does something else meanwhile has not confirmed it.
    page.run("document.querySelector('[data-panel=deploy] select').focus()")
        .await;
    let is_asked_first = format!("document.querySelector({REMOVE:?}).innerText === 'Remove'");
    page.until("it asks again", &is_asked_first).await;
    assert_eq!(page.eval::<Vec<String>>(MARKS).await.len(), before);

    page.click(REMOVE).await;
    until_text(&page, REMOVE, "Really remove it?").await;
    page.click(REMOVE).await;
    page.until("the mark is gone", &format!("!({is_listed})"))
        .await;
    assert_eq!(page.eval::<Vec<String>>(MARKS).await.len(), before - 1);
    page.end().await;
}
