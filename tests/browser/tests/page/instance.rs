//! The page of an instance, of a timer, and of a page whose timer fails: where one comes from the banner.

use pulse_browser::page::Page;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::{column, keys};

const VERDICT: &str = "[data-panel=instance] .change";

#[tokio::test]
async fn the_banner_leads_to_an_instance_that_is_slower_on_all_pages() {
    let shop = Shop::with("bad_instance").await;
    let page = Page::open(&shop.url()).await;
    page.until_screen("overview").await;
    let banner = "[data-panel=attention] li[data-kind=instance] a";
    page.until_shown(banner).await;
    page.click(banner).await;
    page.until_screen("instance").await;
    assert_eq!(
        page.fragment().await.split('?').next(),
        Some("instance/web-3")
    );
    // The figures since it changed follow those of the range.
    page.until(
        "it names the instance as slower on all of its paths",
        &format!(
            "/^All of its [78] paths are slower, about 2\\.\\d× the others: it is the instance, not a page\\.$/
                .test(document.querySelector('{VERDICT}').innerText)"
        ),
    )
    .await;
    let change = page.text("[data-panel=change]").await;
    assert!(change.contains("all pages on web-3"), "{change}");
    let facts = page.text("[data-panel=instance] .muted").await;
    assert!(
        facts.contains("version 1.4.1") && facts.contains("beside 3 others"),
        "{facts}"
    );
    let ratios = column(&page, "instance-paths", "ratio").await;
    let is_slow = |ratio: &String| {
        ratio
            .trim_end_matches('×')
            .parse()
            .is_ok_and(|of: f64| (1.8..3.5).contains(&of))
    };
    assert!(
        ratios.len() >= 7 && ratios.iter().take(7).all(is_slow),
        "{ratios:?}"
    );
    for chart in ["requests", "latency"] {
        let drawn: String = page
            .eval(&format!(
                "document.querySelector('[data-chart={chart}] .plot path.c-mean').getAttribute('d')"
            ))
            .await;
        assert!(
            drawn.len() > 50,
            "the others are missing in {chart}: {drawn}"
        );
    }
    // The state is in the URL, and the instance leads to its pages.
    page.reload().await;
    page.until_screen("instance").await;
    page.until_shown("table[data-table=instance-paths] tbody a")
        .await;
    page.click("table[data-table=instance-paths] tbody a").await;
    page.until_screen("path").await;
    page.until_shown("table[data-table=instances] tbody tr[data-odd] a")
        .await;
    page.click("table[data-table=instances] tbody tr[data-odd] a")
        .await;
    page.until_screen("instance").await;
    page.back().await;
    page.until_screen("path").await;
    page.end().await;
}

#[tokio::test]
async fn an_instance_like_the_others_and_one_that_is_none() {
    let shop = Shop::with("bad_instance").await;
    let page = Page::open(&format!("{}#health?range=1h", shop.url())).await;
    page.until_screen("health").await;
    page.until_shown("table[data-table=instances] tr[data-key=web-1] a")
        .await;
    page.click("table[data-table=instances] tr[data-key=web-1] a")
        .await;
    page.until_screen("instance").await;
    let verdict = page.text(VERDICT).await;
    assert!(
        verdict.starts_with("It is like the others on each of the"),
        "{verdict}"
    );
    page.show("instance/web-9").await;
    page.until_screen("instance").await;
    let note = page.text("p.nothing").await;
    assert!(note.contains("no instance of this name"), "{note}");
    assert!(!page.is_shown(VERDICT).await);
    page.end().await;
}

#[tokio::test]
async fn a_lone_instance_has_the_charts_of_the_service() {
    let service = Service::everywhere().await;
    let page = Page::open(&format!(
        "http://{}/admin/pulse#health?range=15m",
        service.address()
    ))
    .await;
    page.until_screen("health").await;
    let link = "table[data-table=instances] tbody a";
    page.until_shown(link).await;
    page.click(link).await;
    page.until_screen("instance").await;
    let verdict = page.text(VERDICT).await;
    assert!(verdict.starts_with("It is the only instance"), "{verdict}");
    page.until_shown("[data-chart=hits] .plot svg").await;
    assert!(!page.is_shown("[data-table=instance-paths]").await);
    page.end().await;
}

#[tokio::test]
async fn a_timer_shows_its_change_and_who_runs_it() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&format!(
        "{}#path?context=db%3Asearch&kind=timer&range=1h",
        shop.url()
    ))
    .await;
    page.until_screen("path").await;
    page.until(
        "its change is drawn",
        "document.querySelector('[data-panel=change]').innerText.includes('GET /search: ')",
    )
    .await;
    let change = page.text("[data-panel=change]").await;
    assert!(
        change.contains("slower") && change.contains("db:search"),
        "{change}"
    );
    assert_eq!(keys(&page, "run-by").await, ["GET /search"]);
    assert_eq!(column(&page, "run-by", "per_request").await, ["1.00"]);
    assert_eq!(column(&page, "run-by", "share_of_timer").await, ["100%"]);
    let mut reports = Vec::new();
    page.check_accessibility("timer", &mut reports).await;
    assert!(reports.is_empty(), "{}", reports.join("\n"));
    page.click("[data-panel=change] .links a").await;
    page.until(
        "it leads to the page",
        "!document.querySelector('[data-table=run-by]')",
    )
    .await;
    page.until_screen("path").await;
    // Another timer is suspected of nothing.
    page.show("path?context=payment&kind=timer&range=1h").await;
    page.until_shown("[data-panel=change] .calm").await;
    let calm = page.text("[data-panel=change] .calm").await;
    assert!(
        calm.starts_with("No path has changed for which this timer is suspected"),
        "{calm}"
    );
    page.end().await;
}

#[tokio::test]
async fn a_page_that_fails_names_the_timer_that_fails() {
    let shop = Shop::with("errors").await;
    let page = Page::open(&format!(
        "{}#path?context=POST%20%2Fcheckout&range=1h",
        shop.url()
    ))
    .await;
    page.until_screen("path").await;
    let payment = "table[data-table=time-goes] tr[data-key=payment] td[data-column=error_share]";
    // About a quarter of its runs fail since then; the range before it is drawn first.
    page.until(
        "the timer is marked",
        &format!(
            "((cell) => cell && parseFloat(cell.innerText) > 15)(document.querySelector('{payment}[data-sense=bad]'))"
        ),
    )
    .await;
    let change = page.text("[data-panel=change]").await;
    assert!(change.contains("payment, which fails"), "{change}");
    page.end().await;
}
