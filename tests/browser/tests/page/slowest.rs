//! The slowest requests: the filters, the traces, and the targets of the paths.

use pulse_browser::emulation::Size;
use pulse_browser::page::Page;
use pulse_browser::proxy::ReverseProxy;
use pulse_browser::rig::http::Client;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

use crate::accessibility::assert_accessible;
use crate::{column, set};

/// The trace id of the first order.
const ID: &str = "0000000000000000000000000000abc0";
const ORDERS: &str = "path?context=GET%20%2Forders%2F%7Bid%7D";
const TARGET: &str = "[data-panel=path-target]";

/// Waits until the table has these numbers of rows of the two paths.
async fn until_counted(page: &Page, reports: usize, orders: usize) {
    page.until(&format!(
        "['POST /report', 'GET /orders/{{id}}'].map((path) => $$('table[data-table=slowest-requests] tbody .open')
            .filter((link) => link.title === path).length).join() === '{reports},{orders}'"
    ))
    .await;
}

async fn choose(page: &Page, label: &str, value: &str) {
    set(page, &format!("select[aria-label=\"{label}\"]"), value).await;
}

#[tokio::test]
async fn one_path_does_not_fill_the_table_and_each_filter_is_part_of_the_url() {
    let service = Service::with_slow_requests("").await;
    let page = Page::open(&service.screen("paths?range=6h")).await;
    page.click("nav a[data-screen=slowest]").await;
    page.until_screen("slowest").await;
    until_counted(&page, 5, 5).await;
    choose(&page, "At most", "1").await;
    until_counted(&page, 1, 1).await;
    // The range is the same after a visit to the slowest requests.
    page.click("nav a[data-screen=paths]").await;
    page.until_fragment_has("paths?range=6h").await;

    page.show("slowest").await;
    until_counted(&page, 5, 5).await;
    choose(&page, "At most", "all").await;
    until_counted(&page, 100, 0).await;
    page.back().await;
    until_counted(&page, 5, 5).await;

    choose(&page, "Status", "5xx").await;
    until_counted(&page, 0, 1).await;
    page.until_fragment_has("status=5xx").await;
    assert_eq!(column(&page, "slowest-requests", "status").await, ["503"]);
    page.reload().await;
    until_counted(&page, 0, 1).await;
    // An instance without such a request is not offered, but a link may name the instance.
    let offered = "select[aria-label=Instance] option[value^=web]";
    assert_eq!(page.texts(offered).await, ["web-2"]);
    page.show("slowest?status=5xx&instance=web-1").await;
    until_counted(&page, 0, 0).await;
    page.until(
        "$('[data-panel=slowest-requests] .note').innerText.includes('No such request is listed')",
    )
    .await;
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

    page.go(&service.screen("slowest?status=never")).await;
    page.until(
        "$('[data-panel=slowest-requests] .note')?.textContent.includes('status must be one of')",
    )
    .await;

    // A path links to its own slowest requests, and the button with the path's name removes the filter.
    page.show(ORDERS).await;
    page.until_shown("[data-panel=slow-requests] table tbody tr")
        .await;
    page.click("[data-panel=slow-requests] .bar a").await;
    until_counted(&page, 0, 5).await;
    page.click("button.chip[aria-label*='remove this filter']")
        .await;
    until_counted(&page, 5, 5).await;
}

#[tokio::test]
async fn a_request_opens_and_shows_its_parts() {
    let service = Service::with_slow_requests("").await;
    let page = Page::open(&service.screen(ORDERS)).await;
    let opener = format!("[data-table] tr:has(button[aria-label*=\"{ID}\"]) .opener");
    page.until_shown(&opener).await;
    let is_open = format!("$('{opener}').ariaExpanded");
    assert_eq!(page.eval::<String>(&is_open).await, "false");
    page.click(&opener).await;
    page.until_shown("tr.details").await;
    // The row stays open when the screen is drawn again, and on a phone no part exceeds the window.
    for size in [Size::DESKTOP, Size::PHONE] {
        page.resize(size).await;
        page.poll().await;
        assert_eq!(page.eval::<String>(&is_open).await, "true");
        let parts = page.texts("tr.details li").await;
        assert_eq!(parts.len(), 2, "{parts:?}");
        for part in ["db:find_order", "3×", "outside of timers"] {
            assert!(parts.concat().contains(part), "{parts:?}");
        }
        let words = page.text("tr.details p").await;
        for part in ["Computing ", ", waiting ", ", longest poll "] {
            assert!(words.contains(part), "{words}");
        }
        let is_within = "element.getBoundingClientRect().right <= innerWidth";
        let within: Vec<bool> = page.each("tr.details :is(p, li)", is_within).await;
        assert_eq!(within, [true; 3], "{size:?}");
    }
    assert_accessible(&page).await;
    page.click(&opener).await;
    page.until("!$('tr.details')").await;
    // This request was recorded without the layer, which measures computing and waiting.
    page.go(&service.screen("slowest?context=POST%20%2Freport"))
        .await;
    page.until_shown(".opener").await;
    page.click(".opener").await;
    page.until("$('tr.details')?.innerText.startsWith('Computing and waiting are unknown')")
        .await;
}

#[tokio::test]
async fn a_trace_id_is_copied_and_its_button_says_so() {
    let service = Service::with_slow_requests("").await;
    let page = Page::open(&service.screen(ORDERS)).await;
    let row = format!("table[data-table] tbody tr:has(button[aria-label*=\"{ID}\"])");
    let button = format!("{row} td[data-column=trace] button");
    let label = format!("$('{button}').ariaLabel");
    let says = |text: &str| format!("$('{button}').textContent === '{text}'");
    page.until_shown(&button).await;
    let links = format!("{row} td[data-column=trace] a[href]");
    assert_eq!(page.count(&links).await, 0);
    let copy = format!("Copy trace id {ID}");
    assert_eq!(page.eval::<String>(&label).await, copy);
    page.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        .await;
    page.click(&button).await;
    page.until(&says("Copied")).await;
    assert_eq!(page.eval::<String>("window.copied").await, ID);
    let copied = format!("Copied trace id {ID}");
    assert_eq!(page.eval::<String>(&label).await, copied);
    page.until("$$('[role=status]').some((node) => node.textContent === 'Copied')")
        .await;
    page.until(&says("Copy")).await;

    // Without TLS, a page can copy to the clipboard only through a selection.
    page.run(
        "navigator.clipboard.writeText = () => Promise.reject(new Error('not secure')); window.copied = ''; \
         document.addEventListener('copy', (event) => { window.copied = event.target.value; })",
    )
    .await;
    page.click(&button).await;
    page.until(&format!("window.copied === '{ID}'")).await;
    page.until(&says("Copy")).await;

    // If the page cannot copy at all, the id is selected.
    page.run("document.execCommand = () => false").await;
    page.click(&button).await;
    page.until(&says("Not copied")).await;
    assert_eq!(page.eval::<String>("getSelection().toString()").await, ID);
}

#[tokio::test]
async fn a_trace_id_is_linked_to_where_traces_are_shown() {
    const URL: &str = "https://traces.example.com/{trace_id}?from={{base}}&a=$&";
    let service = Service::with_slow_requests(URL).await;
    // A client has chosen these ids. The id `..` gets no link, because a browser would remove `..` from the link's
    // path.
    let ids = ["a/../b?c=d#e&f\"'%<", "..", "javascript:alert(1)", ID];
    let special = "a%2F..%2Fb%3Fc%3Dd%23e%26f%22'%25%3C";
    let encoded = [special, "", "javascript%3Aalert(1)", ID];
    let mut client = Client::connect(service.address()).await;
    for id in ids {
        let headers = [("x-request-id", id)];
        client.request("GET", "/orders/500", &headers, "").await;
    }
    service.pulse().flush().await.unwrap();
    let filters = "slowest?context=GET%20%2Forders%2F%7Bid%7D&q=orders&per=all&status=failed";
    let page = Page::open(&service.screen(filters)).await;
    let find = "$$('td[data-column=trace] button:not([hidden])').map(({ariaLabel, previousSibling: link}) => \
                [ariaLabel.replace('Copy trace id ', ''), [link.getAttribute('href'), link.target, link.rel]])";
    type Link = (String, (Option<String>, String, String));
    let is_whole = |links: &Vec<Link>| links.len() >= ids.len();
    let links = page.until_value(find, is_whole).await;
    for (id, encoded) in ids.into_iter().zip(encoded) {
        let of_id = links.iter().find(|(linked, _)| linked == id);
        let (_, link) = of_id.unwrap_or_else(|| panic!("{id}: {links:?}"));
        let href = (!encoded.is_empty()).then(|| URL.replace("{trace_id}", encoded));
        assert_eq!(link.0, href, "{id}");
        if href.is_some() {
            assert_eq!((&*link.1, &*link.2), ("_blank", "noopener noreferrer"));
        }
    }
    assert_accessible(&page).await;
}

#[tokio::test]
async fn the_target_of_a_path_is_shown_in_words_and_numbers_and_is_the_same_everywhere() {
    let service = Service::with_slow_requests("https://traces.example.com/{trace_id}").await;
    let page = Page::open(&service.screen(ORDERS)).await;
    page.until_shown(TARGET).await;
    let words = page.text(TARGET).await.replace("\n\n", "\n");
    // One of eight requests was bad, and one of ten may be.
    for part in [
        "90% of requests should be answered within 250\u{202f}ms, without an error. The other 10% are",
        "Uses its error budget 25% too fast",
        "Burn rate, last 5 min\n1.25×\n1 of 8 requests bad",
        "Burn rate, last hour\n1.25×\n1 of 8 requests bad",
        "Burn rate, last 6 h\n1.25×",
        "Error budget overspent by\n25%",
    ] {
        assert!(words.contains(part), "{words:?} lacks {part:?}");
    }
    let tile = format!("$('{TARGET} [data-tile=one_hour]').title.includes('within 2.2% of ')");
    page.until(&tile).await;
    let missed = "Target of 250\u{202f}ms: 13% missed it in the last 5 min, 13% in the last hour, 13% in the last 6 h; 10% is allowed.";
    page.until(&format!(
        "$('[data-panel=change] .bad-text').innerText === '{missed}'"
    ))
    .await;
    // The tile and the histogram have this target, not the target of all requests.
    const TILE: &str = "$('[data-tile=target]').innerText.replace(/\\s+/g, ' ')";
    page.until(&format!("/^Below 250 ms 88%/.test({TILE})"))
        .await;
    let line = "$('[data-panel=histogram] svg').ariaLabel.includes('target 250\u{202f}ms')";
    page.until(line).await;
    assert_accessible(&page).await;
    // Another path has the target of all requests.
    page.go(&service.screen("path?context=POST%20%2Freport"))
        .await;
    page.until_hidden(TARGET).await;
    page.until(&format!("/^Below 60 s/.test({TILE})")).await;
}

/// Names from an orchestrator are longer than `web-1`.
#[tokio::test]
async fn a_long_name_of_an_instance_cuts_no_row_off() {
    let shop = Shop::with("slow_query").await;
    let name = "shop-frontend-7f9c6d5b44-x2x9z";
    let proxy = ReverseProxy::start(shop.demo().address()).await;
    proxy.alter(move |_, body| body.replace("web-", &format!("{name}-")));
    let page = Page::empty().await;
    for (screen, table) in [
        ("path?context=GET%20%2Fsearch&range=1h", "slow-requests"),
        ("slowest", "slowest-requests"),
    ] {
        page.go(&proxy.screen(screen)).await;
        let link = format!("table[data-table={table}] tbody td[data-column=instance] a");
        page.until_shown(&link).await;
        let is_whole = "element.scrollWidth <= element.clientWidth";
        let wholes: Vec<bool> = page.each("main .scroll", is_whole).await;
        assert!(!wholes.contains(&false), "{screen}: {wholes:?}");
        let titles: Vec<String> = page.each(&link, "element.title").await;
        let is_named = |title: &String| title.starts_with(name);
        assert!(titles.iter().all(is_named), "{screen}: {titles:?}");
    }
}

#[tokio::test]
async fn paths_and_requests_are_of_the_range_and_a_note_says_since_when_requests_are_kept() {
    const DURATIONS: &str = "$$('table[data-table=slowest-requests] td[data-column=duration]').map((cell) => cell.innerText.replace(/\\s/g, ' '))";
    const MAX: &str =
        "$('table[data-table=slowest-paths] td[data-column=max]')?.innerText.replace(/\\s/g, ' ')";
    const NOTE: &str = "$('[data-panel=slowest-requests] .bar .muted').innerText";
    let service = Service::with_slow_minute().await;
    let page = Page::open(&service.screen("slowest?range=1h")).await;
    page.until(&format!(
        "{DURATIONS}[0] === '900 ms' && {MAX} === '900 ms'"
    ))
    .await;
    // The slow minute was five minutes ago. This range ends ten minutes ago.
    let mut client = Client::connect(service.address()).await;
    let answer = client.json("/admin/pulse/api/paths?window=5m").await;
    let to = answer["from"].as_i64().unwrap() - 300;
    page.show(&format!("slowest?from={}&to={to}", to - 600))
        .await;
    page.until(&format!(
        "!{DURATIONS}.includes('900 ms') && {MAX} === '20.0 ms'"
    ))
    .await;
    page.show("slowest?range=24h").await;
    page.until(&format!("/; lists begin at .*:00$/.test({NOTE})"))
        .await;
}

#[tokio::test]
async fn the_deploys_of_the_range_are_listed_and_the_newest_is_shown() {
    const MARKS: &str = "$$('select[aria-label=Mark] option').length";
    const NOTE: &str = "$('[data-panel=deploy] .calm').innerText";
    let shop = Shop::with("bad_deploy").await;
    let mut client = Client::connect(shop.demo().address()).await;
    let marks = client.json("/admin/pulse/api/marks").await["marks"].take();
    let marks = marks.as_array().expect("a list").clone();
    let page = Page::open(&shop.screen("deploy?range=24h")).await;
    page.until(&format!("{MARKS} === {}", marks.len())).await;
    assert!(!page.eval::<String>(NOTE).await.contains("in this range"));
    let first = marks.iter().rfind(|mark| mark["version"].is_string());
    let first = first.expect("a deploy");
    let (at, text) = (first["at"].as_i64().expect("a time"), &first["text"]);
    page.show(&format!("deploy?from={}&to={}", at - 60, at + 60))
        .await;
    page.until(&format!(
        "{NOTE}.startsWith({text}) && / of \\d+ marks in this range/.test({NOTE})"
    ))
    .await;
    page.show("deploy?from=1767225600&to=1767229200").await;
    page.until(&format!(
        "{NOTE}.includes('0 of {} marks in this range') && {MARKS} === 1",
        marks.len()
    ))
    .await;
}
