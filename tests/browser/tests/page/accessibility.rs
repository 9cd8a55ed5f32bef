//! Accessibility: axe-core checks every screen, and users can use the dashboard with a keyboard and on a phone.

use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;
use pulse_browser::screens::SCREENS;
use pulse_browser::shop::Shop;

use crate::open;
use crate::places::fits;

/// Only the contrast depends on the theme, so all other rules are checked once in each size.
pub(crate) async fn assert_accessible(page: &Page) {
    let contrast = Some("color-contrast");
    let mut faults = Vec::new();
    for (media, size, rule) in [
        (Media::ForcedColors, Size::DESKTOP, contrast),
        (Media::Dark, Size::DESKTOP, contrast),
        (Media::Light, Size::DESKTOP, None),
        (Media::Light, Size::PHONE, contrast),
        (Media::Dark, Size::PHONE, None),
    ] {
        page.resize(size).await;
        page.prefer(media).await;
        let violations = page.violations(rule).await.into_iter();
        faults.extend(violations.map(|broken| format!("{media:?} {size:?}: {broken}")));
        if !fits(page).await {
            faults.push(format!("wider than {size:?}"));
        }
    }
    page.resize(Size::DESKTOP).await;
    page.prefer(Media::Light).await;
    let screen = page.fragment().await;
    assert!(faults.is_empty(), "{screen}: {}", faults.join("\n"));
}

#[tokio::test]
async fn no_screen_breaks_a_rule_of_axe_core() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::empty().await;
    for screen in SCREENS {
        page.visit(&shop.url(), screen).await;
        assert_accessible(&page).await;
    }
}

#[tokio::test]
async fn a_phone_shows_the_sorted_column() {
    let page = open("bad_deploy", "paths?range=1h").await;
    page.resize(Size::PHONE).await;
    for sort in ["count", "p95", "error_share"] {
        page.show(&format!("paths?range=1h&sort={sort}")).await;
        let column = format!("$('th:has(button[data-sort={sort}])')");
        page.until(&format!(
            "{column}.ariaSort === 'descending'
                && (({{left, right}}) => left >= 0 && right <= 391)({column}.getBoundingClientRect())"
        ))
        .await;
    }
}

#[tokio::test]
async fn the_keyboard_reaches_all_controls_and_the_focus_is_visible() {
    let page = open("bad_deploy", "overview").await;
    let focused = "(() => {
        const at = document.activeElement;
        const {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(at);
        const around = getComputedStyle(at.closest('label, .segments') ?? at);
        const seen = (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none'
            || (at.nextElementSibling && getComputedStyle(at.nextElementSibling).outlineStyle !== 'none')
            || around.outlineStyle !== 'none';
        const screen = at.closest('[data-screen]')?.tagName === 'A' ? at.dataset.screen : null;
        return [at === document.body ? null : screen ?? at.dataset.series ?? at.dataset.export ?? at.name ?? at.id, !!seen];
    })()";
    let mut reached = Vec::new();
    for _ in 0..80 {
        page.press("Tab").await;
        let (name, is_seen): (Option<String>, bool) = page.eval(focused).await;
        let Some(name) = name else { break };
        assert!(is_seen, "the focus on {name} is not visible");
        reached.push(name);
    }
    for name in ["paths", "health", "p99"] {
        let is_reached = reached.iter().any(|reached| reached == name);
        assert!(is_reached, "Tab does not reach {name}, only {reached:?}");
    }
}

#[tokio::test]
async fn nothing_moves_if_the_user_prefers_reduced_motion() {
    const MOVES: &str = "(() => {
        delete document.body.dataset.ready;
        const {animationName, backgroundColor} = getComputedStyle($('.tile .value'));
        document.body.dataset.ready = 'true';
        const {transitionDuration} = getComputedStyle($('path.lines'));
        return [animationName, transitionDuration, String(backgroundColor === 'rgba(0, 0, 0, 0)')];
    })()";
    let page = Page::empty().await;
    page.prefer(Media::ReducedMotion).await;
    page.go(&Shop::with("bad_deploy").await.screen("overview"))
        .await;
    let slow = "$$('*').map((element) => getComputedStyle(element)).filter((style) =>
        parseFloat(style.transitionDuration) > 0.01
            || (style.animationName !== 'none' && parseFloat(style.animationDuration) > 0.01)).length";
    let slow: usize = page.eval(slow).await;
    assert_eq!(slow, 0, "elements with transitions or animations");
    // Without reduced motion, lines and the grey areas of a waiting screen are animated.
    for (media, expected) in [
        (Media::ReducedMotion, ["none", "0s", "false"]),
        (Media::Light, ["wait", "0.2s", "false"]),
    ] {
        page.prefer(media).await;
        assert_eq!(page.eval::<[String; 3]>(MOVES).await, expected);
    }
}
