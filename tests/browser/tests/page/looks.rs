//! Layout on a phone and a tablet, the style of rows and of ended problems, and the keyboard shortcuts.

use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;
use pulse_browser::proxy::ReverseProxy;
use pulse_browser::screens::SCREENS;
use pulse_browser::shop::Shop;
use serde_json::json;

use crate::open;

/// Visits all screens in a window of this size. Waits on each screen until the expression `faults` lists nothing.
async fn visit_without_faults(size: Size, faults: &str) -> Page {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::empty().await;
    page.resize(size).await;
    for screen in SCREENS {
        page.visit(&shop.url(), screen).await;
        let faults = format!("{faults}.map((one) => one.outerHTML.slice(0, 200))");
        page.until_value(&faults, |faults: &Vec<String>| faults.is_empty())
            .await;
    }
    page
}

#[tokio::test]
async fn a_phone_shows_names_with_two_figures_and_has_buttons_for_fingers() {
    const BESIDE: &str = "$$('main *').filter((one) => !one.closest('svg, .hidden')
        && one.getBoundingClientRect().right > innerWidth + 1)";
    const SMALL: &str = "$$('button, select, summary, .button, .segments span, nav a, a.open, :is(td, .links, .crumbs, .todo) a, \
        input:not([type=radio], [type=checkbox])').filter((one) => one.checkVisibility() && one.getClientRects().length
        && one.getBoundingClientRect().height < 39.5)";
    // Rows show three cells. The exceptions are the table of the week, and the pages to fix first, whose rows are cards
    // with all figures.
    const UNEVEN: &str = "$$('main table:not([data-table=week], [data-table=fix-first]) tbody tr[data-key]').filter((row) =>
        row.checkVisibility() && [...row.cells].filter((cell) => cell.checkVisibility()).length !== 3)";
    let faults = format!("[...{BESIDE}, ...{SMALL}, ...{UNEVEN}]");
    let page = visit_without_faults(Size::PHONE, &faults).await;
    for control in ["#freeze", "#pause", "#export summary", "#status"] {
        assert!(page.is_shown(control).await, "{control}");
        let size = format!("parseFloat(getComputedStyle($('{control}')).fontSize)");
        assert!(page.eval::<f64>(&size).await > 11.0, "{control}");
    }
    // The header has one line, and a menu of the screens.
    assert!(!page.is_shown("nav a").await);
    page.click("#screens").await;
    page.click("nav a[data-screen=overview]").await;
    page.until_screen("overview").await;
    assert!(!page.is_shown("nav a").await);
    page.until("$('header > .wrap').getBoundingClientRect().height < 60")
        .await;
    page.until_shown("table[data-table=fix-first] tbody tr")
        .await;
    let mean = "$('table[data-table=fix-first] td[data-column=mean]')";
    page.until(&format!(
        "getComputedStyle({mean}, '::before').content.includes('Mean')"
    ))
    .await;
    page.show("paths?range=1h").await;
    page.click("[data-panel=paths] button.more").await;
    page.until_shown("table[data-table=paths] td[data-column=max]")
        .await;
    page.click("[data-panel=paths] button.more").await;
    page.until_hidden("table[data-table=paths] td[data-column=max]")
        .await;
    // The tables of a path are below each other.
    page.show("path?context=GET%20%2Fsearch&range=1h").await;
    page.until_shown("[data-table=instances] tbody tr").await;
    let below = "$('[data-panel=instances]').getBoundingClientRect().top
        >= $('[data-panel=slow-requests]').getBoundingClientRect().bottom";
    page.until(below).await;
}

#[tokio::test]
async fn on_a_tablet_no_tile_or_button_stands_alone_in_its_row() {
    const ALONE: &str = "$$('.tiles, .bar, header > .wrap').flatMap((around) => {
        const rows = [];
        for (const one of around.children) {
            const {top, bottom, height} = one.getBoundingClientRect();
            const row = rows.find(({at}) => Math.abs(at - top - bottom) < 16);
            if (height > 0 && row) row.nodes.push(one);
            else if (height > 0) rows.push({at: top + bottom, nodes: [one]});
        }
        const alone = rows.filter(({nodes}) => nodes.length === 1 && nodes[0].matches('.tile, .button, .menu, select, input'));
        return rows.length > 1 ? alone.map(({nodes}) => nodes[0]) : [];
    })";
    visit_without_faults(Size::TABLET, ALONE).await;
}

#[tokio::test]
async fn a_row_that_opens_has_a_pointer_and_a_ring_and_enter_opens_it() {
    const STYLE: &str = "getComputedStyle($('table[data-table=paths] tbody tr'))";
    let page = open("slow_query", "paths?range=1h").await;
    page.until(&format!("{STYLE}.cursor === 'pointer'")).await;
    page.press("Tab").await;
    page.focus("table[data-table=paths] tbody a.open").await;
    page.until(&format!("{STYLE}.outlineStyle === 'solid'"))
        .await;
    page.press("Enter").await;
    page.until_screen("path").await;
}

#[tokio::test]
async fn the_help_lists_the_keys_and_each_screen_leads_to_the_search() {
    let page = open("slow_query", "health").await;
    page.press("?").await;
    page.until("$('dialog[open]')?.innerText.includes('Ctrl + K')")
        .await;
    assert_eq!(page.violations(None).await, [""; 0]);
    page.press("Escape").await;
    page.until("!$('dialog')").await;
    for screen in ["health", "deploy", "slowest?range=1h"] {
        page.show(screen).await;
        page.press("Control+k").await;
        page.until("document.activeElement?.id === 'filter'").await;
    }
    page.until_screen("slowest").await;
}

#[tokio::test]
async fn an_ended_problem_is_readable_in_both_themes() {
    let shop = Shop::with("slow_query").await;
    let proxy = ReverseProxy::start(shop.demo().address()).await;
    proxy.alter_each("changes", |body| {
        body["ongoing"] = json!(0);
        for change in body["changes"].as_array_mut().expect("a list") {
            change["is_ongoing"] = json!(false);
            change["ended"] = json!(change["since"].as_i64().expect("a time") + 60);
        }
    });
    let page = Page::open(&proxy.screen("overview?range=1h")).await;
    page.click("[data-panel=attention] .bar button").await;
    page.until_shown("[data-panel=attention] li.ended").await;
    for media in [Media::Light, Media::Dark] {
        page.prefer(media).await;
        let contrast = Some("color-contrast");
        assert_eq!(page.violations(contrast).await, [""; 0], "{media:?}");
    }
}
