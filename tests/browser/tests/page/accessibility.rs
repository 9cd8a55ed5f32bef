//! Accessibility: axe-core checks every screen, and the page can be used with a keyboard and on a phone.

use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;
use pulse_browser::screens::SCREENS;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::advice::{ADVICE, UNMATCHED};
use crate::heat_map::PLOT;
use crate::places::fits;
use crate::slowest::ORDERS;
use crate::{open, turn, week};

/// Adds the rules that a screen breaks, in the light theme on a desktop and in the dark theme on a phone.
async fn judge(page: &Page, screen: &str, faults: &mut Vec<String>) {
    for (media, size) in [(Media::Light, Size::DESKTOP), (Media::Dark, Size::PHONE)] {
        page.resize(size).await;
        page.prefer(media).await;
        let violations = page.violations(None).await.into_iter();
        faults.extend(violations.map(|broken| format!("{screen}, {media:?} {size:?}: {broken}")));
        if !fits(page).await {
            faults.push(format!("{screen} is wider than {size:?}"));
        }
    }
    page.resize(Size::DESKTOP).await;
    page.prefer(Media::Light).await;
}

#[tokio::test]
async fn no_rule_is_broken_by_any_screen() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::empty().await;
    let mut faults = Vec::new();
    for screen in SCREENS {
        page.visit(&shop.url(), screen).await;
        judge(&page, screen.name, &mut faults).await;
        page.prefer(Media::ForcedColors).await;
        faults.extend(page.violations(Some("color-contrast")).await);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn no_rule_is_broken_by_what_screens_show_at_times() {
    let mut faults = Vec::new();
    let page = open("slow_query", "path?context=db%3Asearch&kind=timer&range=1h").await;
    page.until_shown("[data-table=run-by]").await;
    judge(&page, "a timer", &mut faults).await;
    page.show("path?context=GET%20%2Fsearch&range=1h&heat=1")
        .await;
    page.until_shown("[data-chart=latency] .heat-7").await;
    page.focus(PLOT).await;
    page.press("Enter").await;
    page.until_shown(".cell-list").await;
    judge(&page, "a heat map", &mut faults).await;
    page.click("[data-panel=histogram] [data-view=table]").await;
    turn(&page, "latency").await;
    page.until_shown("[data-chart=latency] table").await;
    judge(&page, "a heat map as a table", &mut faults).await;

    let traces = "https://traces.example.com/{trace_id}";
    let trace = "td[data-column=trace] button";
    let slow = Service::with_slow_requests(traces).await;
    let misused = Service::misused(false).await;
    let week = (Service::with_week().await, week::PATH, week::WEEK);
    for (service, screen, shown) in [
        (&slow, ORDERS, trace),
        (&slow, "slowest?context=GET%20%2Forders%2F%7Bid%7D", trace),
        (&misused, "overview", ADVICE),
        (&misused, UNMATCHED, ADVICE),
        (&week.0, week.1, week.2),
    ] {
        let page = Page::open(&service.screen(screen)).await;
        page.until_shown(shown).await;
        judge(&page, screen, &mut faults).await;
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
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
async fn the_keyboard_reaches_everything_and_the_focus_is_seen() {
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
        assert!(is_seen, "the focus on {name} is not seen");
        reached.push(name);
    }
    for name in ["paths", "health", "p99"] {
        let is_reached = reached.iter().any(|one| one == name);
        assert!(is_reached, "Tab does not reach {name}, only {reached:?}");
    }
}

#[tokio::test]
async fn nothing_moves_for_whoever_wants_that() {
    let page = Page::empty().await;
    page.prefer(Media::ReducedMotion).await;
    page.go(&Shop::with("bad_deploy").await.screen("overview"))
        .await;
    let moving = "document.getAnimations().filter((one) => one.playState === 'running').length";
    assert_eq!(page.eval::<usize>(moving).await, 0);
    let slow = "$$('*').map((element) => getComputedStyle(element)).filter((style) =>
        parseFloat(style.transitionDuration) > 0.01
            || (style.animationName !== 'none' && parseFloat(style.animationDuration) > 0.01)).length";
    let slow: usize = page.eval(slow).await;
    assert_eq!(slow, 0, "elements with transitions or animations");
}
