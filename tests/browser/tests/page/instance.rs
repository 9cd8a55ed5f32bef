//! The screen of the only instance of a fleet, and the screen of a timer.

use pulse_browser::page::Page;
use pulse_browser::service::Service;

use crate::accessibility::assert_accessible;
use crate::{column, keys, open};

#[tokio::test]
async fn a_lone_instance_has_the_charts_of_the_service() {
    let service = Service::everywhere().await;
    let page = Page::open(&service.screen("health?range=15m")).await;
    page.until(
        "/tower-pulse uses .*B for recording, .*B for answers/.test($('[data-panel=cost]')?.innerText)",
    )
    .await;
    page.click("table[data-table=instances] tbody a").await;
    page.until_screen("instance").await;
    let verdict = page.text("[data-panel=instance] .change").await;
    assert!(
        verdict.starts_with("This is the only instance"),
        "{verdict}"
    );
    page.until_shown("[data-chart=hits] .plot svg").await;
    assert!(!page.is_shown("[data-table=instance-paths]").await);
}

#[tokio::test]
async fn a_timer_shows_its_change_and_the_paths_that_run_it() {
    let page = open("slow_query", "path?context=db%3Asearch&kind=timer&range=1h").await;
    page.until("$('[data-panel=change]').innerText.includes('GET /search: ')")
        .await;
    let change = page.text("[data-panel=change]").await;
    let is_named = change.contains("slower") && change.contains("db:search");
    assert!(is_named, "{change}");
    page.until(&format!("{}.join() === 'GET /search'", keys("run-by")))
        .await;
    assert_eq!(column(&page, "run-by", "per_request").await, ["1.00"]);
    assert_eq!(column(&page, "run-by", "share_of_timer").await, ["100%"]);
    assert_accessible(&page).await;
    page.click("[data-panel=change] .links a").await;
    page.until("!$('[data-table=run-by]')").await;
    page.until_screen("path").await;
    // The screen of a timer says if the timer is no suspect.
    page.show("path?context=payment&kind=timer&range=1h").await;
    page.until(
        "$('[data-panel=change] .calm')?.innerText
            .startsWith('This timer is not a suspect of any change')",
    )
    .await;
}
