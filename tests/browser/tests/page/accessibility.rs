//! Every screen, as axe-core judges it, and what a keyboard and a phone need.

use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;
use pulse_browser::screens::SCREENS;
use pulse_browser::shop::Shop;

async fn no_rule_is_broken(media: Media, size: Size) {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::empty().await;
    page.resize(size).await;
    page.prefer(media).await;
    let mut reports = Vec::new();
    for screen in SCREENS {
        page.visit(&shop.url(), screen).await;
        page.check_accessibility(&format!("{}, {media:?}", screen.name), &mut reports)
            .await;
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
    page.end().await;
}

#[tokio::test]
async fn no_rule_is_broken_in_light() {
    no_rule_is_broken(Media::Light, Size::DESKTOP).await;
}

#[tokio::test]
async fn no_rule_is_broken_in_dark() {
    no_rule_is_broken(Media::Dark, Size::DESKTOP).await;
}

#[tokio::test]
async fn no_rule_is_broken_in_forced_colours() {
    no_rule_is_broken(Media::ForcedColors, Size::DESKTOP).await;
}

#[tokio::test]
async fn no_rule_is_broken_on_a_phone() {
    no_rule_is_broken(Media::Light, Size::PHONE).await;
    no_rule_is_broken(Media::Dark, Size::PHONE).await;
}

#[tokio::test]
async fn a_phone_never_scrolls_sideways_and_shows_the_sorted_column() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::empty().await;
    page.resize(Size::PHONE).await;
    let mut faults = Vec::new();
    for screen in SCREENS {
        page.visit(&shop.url(), screen).await;
        let (inner, outer): (f64, f64) = page
            .eval("[document.documentElement.scrollWidth, innerWidth]")
            .await;
        if inner > outer || outer > 390.0 {
            faults.push(format!(
                "{}: {inner} pixels in a window of {outer}",
                screen.name
            ));
        }
    }
    for sort in ["count", "p95", "error_share"] {
        page.go(&shop.screen(&format!("paths?range=1h&sort={sort}")))
            .await;
        page.until("the column is marked", &format!("document.querySelector('th:has(button[data-sort={sort}])').ariaSort === 'descending'")).await;
        let rect = page
            .rect(&format!("th:has(button[data-sort={sort}])"))
            .await;
        if rect.x < 0.0 || rect.x + rect.width > 391.0 {
            faults.push(format!("the column {sort} is out of view: {rect:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    page.end().await;
}

#[tokio::test]
async fn the_keyboard_reaches_everything_and_the_focus_is_seen() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview")).await;
    page.until_screen("overview").await;
    let mut reached = Vec::new();
    let mut faults = Vec::new();
    for _ in 0..80 {
        page.press("Tab").await;
        let (name, is_seen): (String, bool) = page
            .eval(
                "(() => {
                    const at = document.activeElement;
                    const {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(at);
                    const around = getComputedStyle(at.closest('label, .segments') ?? at);
                    const seen = (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none'
                        || (at.nextElementSibling && getComputedStyle(at.nextElementSibling).outlineStyle !== 'none')
                        || around.outlineStyle !== 'none';
                    return [at.closest('[data-screen]')?.tagName === 'A' ? at.dataset.screen
                        : at.dataset.series ?? at.dataset.export ?? at.name ?? at.id ?? at.className ?? at.tagName, seen || at === document.body];
                })()",
            )
            .await;
        if !is_seen {
            faults.push(format!("the focus on {name} is not seen"));
        }
        let is_end: bool = page.eval("document.activeElement === document.body").await;
        if is_end && reached.len() > 5 {
            break;
        }
        reached.push(name);
    }
    for name in ["paths", "health", "p99"] {
        if !reached.iter().any(|one| one == name) {
            faults.push(format!("Tab does not reach {name}, only {reached:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    page.end().await;
}

#[tokio::test]
async fn nothing_moves_for_whoever_wants_that() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::empty().await;
    page.prefer(Media::ReducedMotion).await;
    page.go(&shop.screen("overview")).await;
    let moving: Vec<String> = page
        .eval("document.getAnimations().filter((one) => one.playState === 'running').map((one) => one.animationName ?? one.transitionProperty)")
        .await;
    assert!(moving.is_empty(), "{moving:?}");
    let slow: usize = page
        .eval("[...document.querySelectorAll('*')].filter((element) => parseFloat(getComputedStyle(element).transitionDuration) > 0.01 || (getComputedStyle(element).animationName !== 'none' && parseFloat(getComputedStyle(element).animationDuration) > 0.01)).length")
        .await;
    assert_eq!(slow, 0, "elements with transitions or animations");
    page.end().await;
}
