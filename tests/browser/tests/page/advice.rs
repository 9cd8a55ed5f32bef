//! Advice on where the layer belongs, as a new user reads it.

use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;
use pulse_browser::service::Service;

const ADVICE: &str = "[data-panel=advice]";
const UNMATCHED: &str = "/admin/pulse/#path?context=%3Cunmatched%3E";
const SLOW: &str = "/admin/pulse/#path?context=GET%20%2Fslow";

/// Waits until the warnings on top of the page have a text.
async fn until_warned(page: &Page, text: &str) {
    let is_told = format!("document.getElementById('warnings').innerText.includes('{text}')");
    page.until(text, &is_told).await;
}

#[tokio::test]
async fn files_without_a_name_are_explained_once_on_each_screen() {
    let service = Service::misused(false).await;
    for place in ["/admin/pulse/", UNMATCHED] {
        let page = Page::open(&service.url(place)).await;
        page.until_shown(ADVICE).await;
        assert_eq!(page.count(ADVICE).await, 1, "{place}");
        let told = page.text(ADVICE).await;
        assert!(told.contains("has no route: give it a name"), "{told}");
        assert!(told.contains(".named(\"static\")"), "{told}");
        let warnings: String = page
            .eval("document.getElementById('warnings').innerText")
            .await;
        assert!(!warnings.contains("no route"), "{warnings}");
        let whole: String = page.eval("document.body.innerText").await;
        assert!(!whole.contains("pulse.timer(\"db"), "advises a timer");
        page.end().await;
    }
    // Health has the warning, on each other screen too.
    let page = Page::open(&service.url("/admin/pulse/#paths")).await;
    until_warned(&page, "has no route: give it a name").await;
    page.end().await;
}

#[tokio::test]
async fn cancelled_requests_are_told_which_order_mends_them() {
    let service = Service::misused(false).await;
    let page = Page::open(&service.url(SLOW)).await;
    page.until_shown(ADVICE).await;
    let told = page.text(ADVICE).await;
    assert!(
        told.contains("a timeout around the layer ended them"),
        "{told}"
    );
    assert!(told.contains("TimeoutLayer::with_status_code"), "{told}");
    page.end().await;
}

#[tokio::test]
async fn an_empty_page_says_why_it_may_be_empty() {
    let service = Service::misused(true).await;
    let page = Page::open(&service.url("/admin/pulse/")).await;
    page.until_shown("[data-panel=empty]").await;
    let told = page.text("[data-panel=empty]").await;
    for text in ["after all routes", "axum than 0.8"] {
        assert!(told.contains(text), "{told}");
    }
    until_warned(&page, "add the layer after all routes").await;
    page.end().await;
}

#[tokio::test]
async fn no_rule_is_broken_by_advice() {
    let service = Service::misused(false).await;
    let mut reports = Vec::new();
    for (media, size) in [(Media::Light, Size::DESKTOP), (Media::Dark, Size::PHONE)] {
        let page = Page::empty().await;
        page.resize(size).await;
        page.prefer(media).await;
        for place in ["/admin/pulse/", UNMATCHED] {
            page.go(&service.url(place)).await;
            page.until_shown(ADVICE).await;
            page.check_accessibility(place, &mut reports).await;
        }
        page.end().await;
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}
