//! Every screen, wherever the page stands and whatever the store is.

use std::collections::BTreeSet;

use pulse_browser::page::Page;
use pulse_browser::rig::http::Client;
use pulse_browser::screens::{SCREENS, Screen};
use pulse_browser::service::{PLACES, Service};
use pulse_browser::shop::{Backend, Shop};
use pulse_browser::stripping_proxy::StrippingProxy;

/// What is wrong with a screen that has data: it shows none, or says so.
async fn faults(page: &Page, screen: &Screen) -> Vec<String> {
    let mut faults = Vec::new();
    let about = format!("{} at {}", screen.name, page.url().await);
    let main = page.text("main").await;
    for word in ["undefined", "NaN", "[object", "Infinity", "Loading"] {
        if main.contains(word) {
            faults.push(format!("{about}: {word:?} in {main}"));
        }
    }
    if page.is_shown("#banner").await {
        faults.push(format!("{about}: a banner: {}", page.text("#banner").await));
    }
    let wide: bool = page
        .eval("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        .await;
    if wide {
        faults.push(format!("{about}: the page scrolls sideways"));
    }
    let current = page
        .attribute("nav a[aria-current=page]", "data-screen")
        .await;
    let expected = match screen.name {
        "path" => "paths",
        "instance" => "health",
        name => name,
    };
    if current.as_deref() != Some(expected) {
        faults.push(format!("{about}: the current link is {current:?}"));
    }
    faults
}

async fn every_screen_is_drawn(base: &str) {
    let page = Page::empty().await;
    let mut all = Vec::new();
    for screen in SCREENS {
        page.visit(base, screen).await;
        all.extend(faults(&page, &screen).await);
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    page.end().await;
}

#[tokio::test]
async fn every_screen_is_drawn_in_memory() {
    every_screen_is_drawn(&Shop::with("bad_deploy").await.url()).await;
}

#[tokio::test]
async fn no_screen_asks_for_what_the_api_refuses() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::empty().await;
    let (to, from) = (shop.past_ended(), shop.past_ended() - 1_800);
    let mut documents = 0;
    for screen in SCREENS {
        for state in [
            "range=5m&heat=1",
            "range=24h&precision=3600&utc=1",
            &format!("from={from}&to={to}&precision=60"),
            "q=a&sort=p95&order=asc&limit=100&offset=25",
            // A link may have more than the API takes.
            "limit=999999999999&offset=999999999999",
        ] {
            let (fragment, _) = screen
                .fragment
                .split_once("range")
                .unwrap_or((screen.fragment, ""));
            let fragment = fragment.trim_end_matches(['?', '&']);
            let and = if fragment.contains('?') { '&' } else { '?' };
            // A document for each state: one that goes from state to state asks only about the last.
            documents += 1;
            let url = format!("{}?{documents}#{fragment}{and}{state}", shop.url());
            page.go(&url).await;
            page.until_screen(screen.name).await;
        }
    }
    let asked = page.exchanges().await;
    let asked = asked.iter().filter(|exchange| exchange.is_poll());
    let asked: BTreeSet<&str> = asked.map(|exchange| exchange.path()).collect();
    assert!(asked.len() > 40, "{asked:#?}");
    let mut client = Client::connect(shop.demo().address()).await;
    for path in asked {
        let answer = client.json(path).await;
        for answer in answer["answers"].as_array().expect("answers") {
            assert_ne!(answer["status"], 400, "{path}: {}", answer["body"]);
        }
    }
    page.end().await;
}

#[tokio::test]
async fn every_screen_is_drawn_on_redis_with_two_instances() {
    let shop = Shop::start(Backend::Redis, &[]).await;
    every_screen_is_drawn(&shop.url()).await;
    let page = Page::open(&shop.screen("health")).await;
    let instances = "document.querySelectorAll('table[data-table=instances] tbody tr').length";
    page.until_value("both instances are listed", instances, |n: &usize| *n == 2)
        .await;
    page.end().await;
}

#[tokio::test]
async fn the_tab_names_the_service_and_its_version() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.url()).await;
    for text in [
        page.eval::<String>("document.title").await,
        page.text("header").await,
    ] {
        assert!(text.contains("shop") && text.contains("1.4.2"), "{text}");
    }
    page.end().await;
}

#[tokio::test]
async fn the_plain_demo_is_never_empty() {
    let shop = Shop::start(Backend::Memory, &[]).await;
    let page = Page::open(&shop.url()).await;
    page.until_screen("overview").await;
    let filled = "/[1-9]/.test(document.querySelector('[data-tile=requests] .value').textContent)
        && document.querySelector('table[data-table=fix-first] tbody tr')";
    page.until("it shows requests", filled).await;
    assert!(!page.is_shown("[data-panel=empty]").await);
    page.end().await;
}

#[tokio::test]
async fn a_service_without_the_layer_says_how_to_add_it() {
    let shop = Shop::start(Backend::Memory, &[("DEMO_LAYER", "off")]).await;
    let page = Page::open(&shop.url()).await;
    page.until_shown("[data-panel=empty]").await;
    let empty = page.text("[data-panel=empty]").await;
    assert!(empty.contains(".layer(pulse.layer())"), "{empty}");
    page.end().await;
}

#[tokio::test]
async fn every_screen_is_drawn_at_every_place() {
    let service = Service::everywhere().await;
    for place in PLACES {
        let page = Page::open(&service.url(place)).await;
        for name in [
            "overview", "paths", "slowest", "timers", "counters", "deploy", "health",
        ] {
            page.click(&format!("nav a[data-screen={name}]")).await;
            page.until_screen(name).await;
        }
        page.click("nav a[data-screen=paths]").await;
        page.until_screen("paths").await;
        page.click("table[data-table=paths] tbody tr[data-key='GET /orders/{id}'] a")
            .await;
        page.until_screen("path").await;
        let path: String = page.eval("location.pathname").await;
        assert_eq!(path, place);
        page.end().await;
    }
}

#[tokio::test]
async fn every_screen_is_drawn_behind_a_proxy_that_strips_the_prefix() {
    let service = Service::everywhere().await;
    let proxy = StrippingProxy::start("/tools/shop", service.address()).await;
    for place in PLACES {
        let url = format!("http://{}/tools/shop{place}", proxy.address());
        every_screen_is_drawn_but_the_demos(&url).await;
    }
}

/// A screen of a path that the service has.
const ORDER: Screen = Screen {
    name: "path",
    fragment: "path?context=GET%20%2Forders%2F%7Bid%7D&range=1h",
};

async fn every_screen_is_drawn_but_the_demos(base: &str) {
    let page = Page::empty().await;
    let mut all = Vec::new();
    let others = SCREENS
        .into_iter()
        .filter(|screen| !["path", "instance"].contains(&screen.name));
    for screen in others.chain([ORDER]) {
        page.visit(base, screen).await;
        all.extend(faults(&page, &screen).await);
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    page.end().await;
}

#[tokio::test]
async fn a_token_opens_the_page_and_nobody_else_does() {
    let shop = Shop::start(Backend::Memory, &[("PULSE_TOKEN", "s3cret")]).await;
    let mut client = Client::connect(shop.demo().address()).await;
    assert_eq!(client.get("/admin/pulse").await.status, 401);
    let url = shop.url().replace("http://", "http://anybody:s3cret@");
    let page = Page::empty().await;
    page.go(&url).await;
    page.until_screen("overview").await;
    assert_eq!(
        page.attribute("#status", "data-status").await.as_deref(),
        Some("ok")
    );
    page.end().await;
}
