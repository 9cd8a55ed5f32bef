//! The slowest requests: which of them are shown, their traces, and the targets of their paths.

use pulse_browser::altering_proxy::AlteringProxy;
use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::column;

/// The trace id of the first order.
const ID: &str = "0000000000000000000000000000abc0";
const ORDERS: &str = "path?context=GET%20%2Forders%2F%7Bid%7D";
const TARGET: &str = "[data-panel=path-target]";

/// The row of the first order, in whichever table.
fn row(element: &str) -> String {
    format!("table[data-table] tbody tr:has(button[aria-label*=\"{ID}\"]) {element}")
}

/// Waits until the table has so many rows of each path.
async fn until_counted(page: &Page, reports: usize, orders: usize) {
    let count = "['POST /report', 'GET /orders/{id}'].map((path) => \
        [...document.querySelectorAll('table[data-table=slowest-requests] tbody .open')].filter((link) => link.title === path).length)";
    let passes = |counts: &Vec<usize>| counts[..] == [reports, orders];
    page.until_value("the rows of each path", count, passes)
        .await;
}

/// Chooses an option of a select.
async fn choose(page: &Page, label: &str, value: &str) {
    let select = format!("document.querySelector('select[aria-label=\"{label}\"]')");
    let event = "new Event('change', {bubbles: true})";
    page.run(&format!(
        "{select}.value = '{value}'; {select}.dispatchEvent({event})"
    ))
    .await;
}

#[tokio::test]
async fn one_path_does_not_fill_the_table_and_each_filter_is_part_of_the_url() {
    let service = Service::with_slow_requests(|builder| builder).await;
    let page = Page::open(&service.url("/admin/pulse#slowest")).await;
    until_counted(&page, 5, 5).await;
    choose(&page, "At most", "all").await;
    until_counted(&page, 100, 0).await;
    page.back().await;
    until_counted(&page, 5, 5).await;

    choose(&page, "Status", "5xx").await;
    until_counted(&page, 0, 1).await;
    page.until_fragment_has("status=5xx").await;
    assert_eq!(column(&page, "slowest-requests", "status").await, ["503"]);
    // Whoever opens the link sees the same.
    page.reload().await;
    until_counted(&page, 0, 1).await;
    // There is no choice of an instance without such a request, but there may be a link.
    let offered = page
        .texts("select[aria-label=Instance] option[value^=web]")
        .await;
    assert_eq!(offered, ["web-2"]);
    page.go(&service.url("/admin/pulse#slowest?status=5xx&instance=web-1"))
        .await;
    until_counted(&page, 0, 0).await;
    let nothing = page.text("[data-panel=slowest-requests] .note").await;
    assert!(nothing.contains("No such request is listed"), "{nothing}");
    choose(&page, "Instance", "web-2").await;
    until_counted(&page, 0, 1).await;
    choose(&page, "Status", "").await;
    until_counted(&page, 0, 1).await;
    page.click("[role=group][aria-label=Filters] > button:last-child")
        .await;
    until_counted(&page, 5, 5).await;
    page.focus("#filter").await;
    page.type_text("REPORT").await;
    until_counted(&page, 5, 0).await;
    page.until_fragment_has("q=REPORT").await;

    // What is refused says why.
    page.go(&service.url("/admin/pulse#slowest?status=never"))
        .await;
    let refused = "document.querySelector('.note')?.textContent.includes('status must be one of')";
    page.until("the refusal is shown", refused).await;

    // The link of a path leads to its own, and its name takes the filter away.
    page.go(&service.url(&format!("/admin/pulse#{ORDERS}")))
        .await;
    page.until_shown("[data-panel=slow-requests] table tbody tr")
        .await;
    page.click("[data-panel=slow-requests] .bar a").await;
    until_counted(&page, 0, 5).await;
    page.click("button.chip[aria-label*='remove this filter']")
        .await;
    until_counted(&page, 5, 5).await;
    page.end().await;
}

#[tokio::test]
async fn the_range_stays_while_one_looks_at_the_slowest() {
    let service = Service::with_slow_requests(|builder| builder).await;
    let page = Page::open(&service.url("/admin/pulse#paths?range=6h")).await;
    page.click("nav a[data-screen=slowest]").await;
    page.until_screen("slowest").await;
    choose(&page, "At most", "1").await;
    until_counted(&page, 1, 1).await;
    page.click("nav a[data-screen=paths]").await;
    page.until_screen("paths").await;
    let fragment = page.fragment().await;
    assert_eq!(fragment, "paths?range=6h");
    page.end().await;
}

#[tokio::test]
async fn a_trace_id_is_copied_and_says_so() {
    let service = Service::with_slow_requests(|builder| builder).await;
    let page = Page::open(&service.url(&format!("/admin/pulse#{ORDERS}"))).await;
    let button = row("button");
    page.until_shown(&button).await;
    assert_eq!(page.count(&row("td[data-column=trace] a[href]")).await, 0);
    let label = page.attribute(&button, "aria-label").await;
    assert_eq!(label, Some(format!("Copy trace id {ID}")));
    page.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        .await;
    page.click(&button).await;
    let says = format!("document.querySelector('{button}').textContent === 'Copied'");
    page.until("the button says it", &says).await;
    assert_eq!(page.eval::<String>("window.copied").await, ID);
    let label = page.attribute(&button, "aria-label").await;
    assert_eq!(label, Some(format!("Copied trace id {ID}")));
    let said = "[...document.querySelectorAll('[role=status]')].some((node) => node.textContent === 'Copied')";
    page.until("others are told", said).await;
    let is_again = format!("document.querySelector('{button}').textContent === 'Copy'");
    page.until("it can be copied again", &is_again).await;

    // Without TLS, a page may not use the clipboard but by the selection.
    page.run(
        "navigator.clipboard.writeText = () => Promise.reject(new Error('not secure')); window.copied = ''; \
         document.addEventListener('copy', (event) => { window.copied = event.target.value; })",
    )
    .await;
    page.click(&button).await;
    page.until("the button says it", &says).await;
    assert_eq!(page.eval::<String>("window.copied").await, ID);
    page.until("it can be copied again", &is_again).await;

    // Where nothing helps, the id is selected.
    page.run("document.execCommand = () => false").await;
    page.click(&button).await;
    let failed = format!("document.querySelector('{button}').textContent === 'Not copied'");
    page.until("the button says that", &failed).await;
    assert_eq!(page.eval::<String>("getSelection().toString()").await, ID);
    page.end().await;
}

#[tokio::test]
async fn a_trace_id_is_linked_to_where_traces_are_shown() {
    const URL: &str = "https://traces.example.com/{trace_id}?from={{base}}&a=$&";
    let service = Service::with_slow_requests(|builder| builder.trace_url(URL)).await;
    // What a client has chosen as its id.
    let ids = ["a/../b?c=d#e&f\"'%<", "..", "javascript:alert(1)"];
    let mut client = pulse_browser::rig::http::Client::connect(service.address()).await;
    for id in ids {
        let headers = [("x-request-id", id)];
        client.request("GET", "/orders/500", &headers, "").await;
    }
    service.pulse().flush().await.unwrap();
    // A path's own screen shows the five slowest, whichever these are.
    for (screen, shown) in [
        (ORDERS, &[][..]),
        ("slowest?q=orders&per=all&status=failed", &ids),
    ] {
        let page = Page::open(&service.url(&format!("/admin/pulse#{screen}"))).await;
        page.until_shown("table[data-table] td[data-column=trace]")
            .await;
        let find = "[...document.querySelectorAll('td[data-column=trace] button:not([hidden])')].map((button) => \
                    [button.getAttribute('aria-label').replace('Copy trace id ', ''), button.previousSibling.getAttribute('href'), \
                    button.previousSibling.target, button.previousSibling.rel])";
        type Link = (String, Option<String>, String, String);
        let links: Vec<Link> = page
            .until_value("there are links", find, |links: &Vec<Link>| {
                let is_linked = |id: &&str| links.iter().any(|(linked, ..)| linked == id);
                !links.is_empty() && shown.iter().all(is_linked)
            })
            .await;
        for (id, href, target, rel) in &links {
            let encoded = match &**id {
                ".." => {
                    assert_eq!(href, &None, "a browser would leave out the path");
                    continue;
                }
                id if id.starts_with("a/") => "a%2F..%2Fb%3Fc%3Dd%23e%26f%22'%25%3C",
                id if id.starts_with("javascript") => "javascript%3Aalert(1)",
                id => id,
            };
            let expected = URL.replace("{trace_id}", encoded);
            assert_eq!(href.as_deref(), Some(&*expected), "{id}");
            assert_eq!((&**target, &**rel), ("_blank", "noopener noreferrer"));
        }
        page.end().await;
    }
}

#[tokio::test]
async fn a_target_is_told_in_words_and_numbers() {
    let service = Service::with_slow_requests(|builder| builder).await;
    let page = Page::open(&service.url(&format!("/admin/pulse#{ORDERS}"))).await;
    page.until_shown(TARGET).await;
    let words = page.text(TARGET).await;
    // One of eight was bad, and one of ten may be.
    for part in [
        "90% should be answered within 250\u{202f}ms, without an error. 10% may not",
        "The error budget is being used up too fast",
        "Burn rate, last hour\n1.25×\n1 of 8 requests bad",
        "Burn rate, last 6 h\n1.25×",
        "Error budget left\n25% over",
    ] {
        let lines = words.replace("\n\n", "\n");
        assert!(lines.contains(part), "{lines:?} lacks {part:?}");
    }
    let tile = format!("{TARGET} [data-tile=one_hour]");
    let title = page.attribute(&tile, "title").await.unwrap();
    assert!(title.contains("±2.2%"), "{title}");
    // Another path has none.
    page.go(&service.url("/admin/pulse#path?context=POST%20%2Freport"))
        .await;
    page.until_screen("path").await;
    assert!(!page.is_shown(TARGET).await);
    page.end().await;
}

/// Looks at screens of one service on a desktop in light, and on a phone in dark.
async fn no_rule_is_broken(urls: &[String]) {
    let mut reports = Vec::new();
    for (size, media) in [(Size::DESKTOP, Media::Light), (Size::PHONE, Media::Dark)] {
        let page = Page::empty().await;
        page.resize(size).await;
        page.prefer(media).await;
        for url in urls {
            page.go(url).await;
            page.until_shown("td[data-column=trace] button").await;
            page.check_accessibility(url, &mut reports).await;
            let (inner, outer): (f64, f64) = page
                .eval("[document.documentElement.scrollWidth, innerWidth]")
                .await;
            assert!(inner <= outer, "{url}: {inner} pixels in {outer}");
        }
        page.end().await;
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}

#[tokio::test]
async fn filters_and_targets_break_no_rule() {
    let shop = Shop::with("errors").await;
    no_rule_is_broken(&[
        shop.screen("path?context=POST%20%2Fcheckout&range=1h"),
        shop.screen("slowest?q=checkout&status=failed"),
    ])
    .await;
}

#[tokio::test]
async fn links_to_traces_break_no_rule() {
    let url = "https://traces.example.com/{trace_id}";
    let service = Service::with_slow_requests(|builder| builder.trace_url(url)).await;
    no_rule_is_broken(&[
        service.url(&format!("/admin/pulse#{ORDERS}")),
        service.url("/admin/pulse#slowest?context=GET%20%2Forders%2F%7Bid%7D"),
    ])
    .await;
}

/// An orchestrator makes names of three parts, a container one of 32 digits.
#[tokio::test]
async fn a_long_name_of_an_instance_cuts_no_row_off() {
    let shop = Shop::with("errors").await;
    let name = "shop-frontend-7f9c6d5b44-x2x9z";
    let proxy = AlteringProxy::start(shop.demo().address()).await;
    proxy.alter(move |_, body| body.replace("web-", &format!("{name}-")));
    let page = Page::empty().await;
    let screens = [
        ("path?context=POST%20%2Fcheckout&range=1h", "slow-requests"),
        ("slowest", "slowest-requests"),
    ];
    for (screen, table) in screens {
        page.go(&proxy.screen(screen)).await;
        let link = format!("table[data-table={table}] tbody td[data-column=instance] a");
        page.until_shown(&link).await;
        let widths = "(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(element)";
        let widths: Vec<(f64, f64)> = page.each("main .scroll", widths).await;
        let is_whole = |(inner, outer): &(f64, f64)| inner <= outer;
        assert!(widths.iter().all(is_whole), "{screen}: {widths:?}");
        let titles: Vec<String> = page.each(&link, "element.title").await;
        let is_named = |title: &String| title.starts_with(name);
        assert!(titles.iter().all(is_named), "{screen}: {titles:?}");
    }
    page.end().await;
}
