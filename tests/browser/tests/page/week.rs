//! The usual week of a path: a table that is coloured, read aloud and walked through.

use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;
use pulse_browser::service::Service;

const WEEK: &str = "[data-panel=week]";
const PATH: &str = "/admin/pulse/#path?context=GET%20%2F&utc=1";

/// The cell of a day, Monday first, and an hour.
fn cell(day: usize, hour: usize) -> String {
    format!(
        "table[data-table=week] tbody tr:nth-child({}) td:nth-child({})",
        day + 1,
        hour + 2
    )
}

#[tokio::test]
async fn each_hour_of_the_week_tells_what_is_usual() {
    let service = Service::with_week().await;
    let page = Page::open(&service.url(PATH)).await;
    page.until_shown(WEEK).await;
    assert_eq!(page.count("table[data-table=week] tbody tr").await, 7);
    assert_eq!(page.count("table[data-table=week] tbody td").await, 168);
    for (day, hour, requests, heat) in [(0, 10, 40, 5), (4, 16, 40, 5), (2, 3, 4, 2), (6, 12, 4, 2)]
    {
        let cell = cell(day, hour);
        let title = page.attribute(&cell, "title").await.unwrap_or_default();
        let expected = format!(
            "{hour:02}:00, {requests} requests per hour, 0% errors, mean 20.0\u{202f}ms, p95 20.0\u{202f}ms, "
        );
        assert!(title.contains(&expected), "{title}");
        assert!(
            title.ends_with("1 week") || title.ends_with("2 weeks"),
            "{title}"
        );
        assert_eq!(
            page.attribute(&cell, "data-heat").await,
            Some(heat.to_string())
        );
    }
    // From hour to hour with the arrow keys, and not beyond the week.
    page.run(&format!("document.querySelector('{}').focus()", cell(0, 0)))
        .await;
    for key in ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"] {
        page.press(key).await;
    }
    let focused: String = page.eval("document.activeElement.title").await;
    assert!(
        focused.starts_with("Tuesday 01:00, 4 requests per hour"),
        "{focused}"
    );
    assert_eq!(page.text("[data-panel=week] .readout").await, focused);
    assert_eq!(
        page.count("table[data-table=week] td[tabindex='0']").await,
        1
    );
    page.end().await;
}

#[tokio::test]
async fn no_rule_is_broken_by_the_week() {
    let service = Service::with_week().await;
    let mut reports = Vec::new();
    for (media, size) in [
        (Media::Light, Size::DESKTOP),
        (Media::Dark, Size::DESKTOP),
        (Media::ForcedColors, Size::DESKTOP),
        (Media::Dark, Size::PHONE),
    ] {
        let page = Page::empty().await;
        page.resize(size).await;
        page.prefer(media).await;
        page.go(&service.url(PATH)).await;
        page.until_shown(WEEK).await;
        page.check_accessibility(&format!("{media:?}"), &mut reports)
            .await;
        let (inner, outer): (f64, f64) = page
            .eval("[document.documentElement.scrollWidth, innerWidth]")
            .await;
        assert!(
            inner <= outer,
            "{media:?}: {inner} pixels in a window of {outer}"
        );
        if std::env::var("PULSE_PICTURES").is_ok() {
            page.run("document.querySelector('[data-panel=week]').scrollIntoView()")
                .await;
            let name = format!("/tmp/week-{media:?}-{}.png", size == Size::PHONE);
            std::fs::write(name, page.screenshot().await).expect("written");
        }
        page.end().await;
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}

#[tokio::test]
async fn a_young_service_shows_no_week() {
    let service = Service::with_quiet_minutes().await;
    let page = Page::open(&service.url(PATH)).await;
    page.until_screen("path").await;
    page.until(
        "it is drawn",
        "document.querySelector('[data-panel=slow-requests] tbody tr')",
    )
    .await;
    assert!(!page.is_shown(WEEK).await);
    page.end().await;
}
