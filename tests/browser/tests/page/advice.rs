//! Advice on where the layer belongs, as a new user reads it.

use pulse_browser::page::Page;
use pulse_browser::service::Service;

use crate::accessibility::assert_accessible;

const ADVICE: &str = "[data-panel=advice]";
const UNMATCHED: &str = "path?context=%3Cunmatched%3E";

async fn until_warned(page: &Page, text: &str) {
    page.until(&format!("$('#warnings').innerText.includes('{text}')"))
        .await;
}

#[tokio::test]
async fn an_unnamed_file_service_and_cancelled_requests_are_explained() {
    let service = Service::misused(false).await;
    let page = Page::empty().await;
    for screen in ["overview", UNMATCHED] {
        page.go(&service.screen(screen)).await;
        page.until_shown(ADVICE).await;
        assert_eq!(page.count(ADVICE).await, 1, "{screen}");
        let advice = page.text(ADVICE).await;
        assert!(advice.contains("has no route: give it a name"), "{advice}");
        assert!(advice.contains(".named(\"static\")"), "{advice}");
        let warnings = page.eval::<String>("$('#warnings').innerText").await;
        assert!(!warnings.contains("no route"), "{warnings}");
        let whole = page.text("body").await;
        assert!(!whole.contains("pulse.timer(\"db"), "advises a timer");
        assert_accessible(&page).await;
    }
    page.show("path?context=GET%20%2Fslow").await;
    let order = "a timeout around the layer ended them";
    page.until(&format!("$('{ADVICE}')?.innerText.includes('{order}')"))
        .await;
    let advice = page.text(ADVICE).await;
    assert!(
        advice.contains("TimeoutLayer::with_status_code"),
        "{advice}"
    );
    // The other screens show the same advice as a warning of health.
    page.show("paths").await;
    until_warned(&page, "has no route: give it a name").await;
    assert!(page.is_in_view("#warnings").await);
    page.show("health").await;
    page.until("$('[data-panel=actions]')?.innerText.includes('has no route: give it a name')")
        .await;
    assert!(page.is_in_view("[data-panel=actions] li").await);
}

#[tokio::test]
async fn an_empty_dashboard_says_why_it_may_be_empty() {
    let service = Service::misused(true).await;
    let page = Page::open(&service.screen("overview")).await;
    page.until_shown("[data-panel=empty]").await;
    let advice = page.text("[data-panel=empty]").await;
    for text in [
        "after all routes",
        "another axum than 0.8",
        ".layer(pulse.layer())",
    ] {
        assert!(advice.contains(text), "{advice}");
    }
    until_warned(&page, "add the layer after all routes").await;
}
