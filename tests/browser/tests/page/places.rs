//! The dashboard works at each path where it can be mounted. Every screen works with a store in memory and in Redis.

use std::collections::BTreeSet;

use pulse_browser::page::Page;
use pulse_browser::proxy::ReverseProxy;
use pulse_browser::rig::http::Client;
use pulse_browser::screens::SCREENS;
use pulse_browser::service::{MOUNT_PATHS, Service};
use pulse_browser::shop::Shop;

use crate::{keys, rows};

/// Whether the document is at most as wide as the window.
pub(crate) async fn fits(page: &Page) -> bool {
    page.eval("document.documentElement.scrollWidth <= innerWidth")
        .await
}

#[tokio::test]
async fn no_screen_asks_a_question_that_the_api_refuses() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.url()).await;
    for text in [page.eval("document.title").await, page.text("header").await] {
        let has_names = text.contains("shop") && text.contains("1.4.2");
        assert!(has_names, "the service and its version: {text}");
    }
    let (to, from) = (shop.past_ended(), shop.past_ended() - 1_800);
    for screen in SCREENS {
        for state in [
            "range=5m&heat=1&q=a&sort=p95&order=asc&limit=100&offset=25",
            &format!("from={from}&to={to}&precision=60"),
            // A link may have larger numbers than the API accepts.
            "range=24h&precision=3600&utc=1&limit=999999999999&offset=999999999999",
        ] {
            let (fragment, _) = screen
                .fragment
                .split_once("range")
                .unwrap_or((screen.fragment, ""));
            let fragment = fragment.trim_end_matches(['?', '&']);
            let and = if fragment.contains('?') { '&' } else { '?' };
            // Waits for the poll, because a poll asks only about the newest state.
            let before = page.polls().await.len();
            page.go(&shop.screen(&format!("{fragment}{and}{state}")))
                .await;
            page.until_screen(screen.name).await;
            crate::until(screen.name, async || page.polls().await.len() > before).await;
        }
    }
    let asked = page.polls().await;
    let asked: BTreeSet<&str> = asked.iter().map(|exchange| exchange.path()).collect();
    assert!(asked.len() >= 3 * SCREENS.len(), "{asked:#?}");
    let mut client = Client::connect(shop.demo().address()).await;
    for path in asked {
        let answer = client.json(path).await;
        for answer in answer["answers"].as_array().expect("answers") {
            assert_ne!(answer["status"], 400, "{path}: {}", answer["body"]);
        }
    }
}

#[tokio::test]
async fn every_screen_is_drawn_on_redis_with_two_instances_and_cached_rows() {
    const ROWS: &str = "section[data-panel=rows]";
    let shop = Shop::on_redis().await;
    let page = Page::open(&shop.url()).await;
    page.until("/[1-9]/.test($('[data-tile=requests] .value').textContent) && $('table[data-table=fix-first] tbody tr')")
        .await;
    assert!(!page.is_shown("[data-panel=empty]").await);
    for screen in SCREENS {
        page.visit(&shop.url(), screen).await;
        let (name, main) = (screen.name, page.text("main").await);
        for word in ["undefined", "NaN", "[object", "Infinity", "Loading"] {
            assert!(!main.contains(word), "{name}: {word:?} in {main}");
        }
        assert!(!page.is_shown("#banner").await, "{name} has a banner");
        assert!(fits(&page).await, "{name} scrolls sideways");
        let link = match name {
            "path" => "paths",
            "instance" => "health",
            name => name,
        };
        let current: String = page
            .eval("$('nav a[aria-current=page]').dataset.screen")
            .await;
        assert_eq!(current, link, "the current link of {name}");
    }
    page.show("health").await;
    page.until(&format!("{}.length === 2", keys("instances")))
        .await;

    page.show("counters").await;
    let ages = "$$('table[data-table=rows] td[data-column=age]')";
    page.until(&format!(
        "{ages}.filter((cell) => cell.textContent.endsWith(' ago')).length === 6"
    ))
    .await;
    let panels: Vec<String> = page.each("main section", "element.dataset.panel").await;
    assert_eq!(panels[..2], ["counters", "rows"]);
    let text = page.text(ROWS).await;
    let is_described = text.contains("6 rows") && text.contains("refreshes");
    assert!(is_described, "{text}");
    let rows = rows(&page, "rows").await;
    let names: BTreeSet<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert!(names.len() == 6 && names.contains("boots"), "{names:?}");
    page.until("document.body.dataset.stale === undefined")
        .await;
    assert_eq!(page.violations(None).await, [""; 0]);
    // Cached rows exist only with Redis.
    let page = crate::open("slow_query", "counters").await;
    page.until_screen("counters").await;
    assert!(!page.is_shown(ROWS).await);
}

#[tokio::test]
async fn the_dashboard_works_at_every_path_and_behind_a_proxy_that_strips_the_prefix() {
    let service = Service::everywhere().await;
    let address = service.address();
    let proxy = ReverseProxy::between("/tools/shop", address, address).await;
    let mounted = MOUNT_PATHS.map(|path| service.url(path)).into_iter();
    // A path without a slash at its end, and a path with one.
    let stripped = [MOUNT_PATHS[0], MOUNT_PATHS[3]].map(|path| proxy.url(path));
    for url in mounted.chain(stripped) {
        let page = Page::open(&url).await;
        for name in ["deploy", "paths"] {
            page.click(&format!("nav a[data-screen={name}]")).await;
            page.until_screen(name).await;
        }
        page.click("table[data-table=paths] tbody tr[data-key='GET /orders/{id}'] a")
            .await;
        page.until_screen("path").await;
        let path: String = page.eval("location.pathname").await;
        assert!(url.ends_with(&path), "{path} at {url}");
    }
}
