//! Seven questions about incidents of the demo: what changed? Which page do I fix first? Since when? My code or the
//! database? Which requests? Which instance? Did my deploy do it? The dashboard must show each answer after at most two
//! clicks, at 1280 x 900 without scrolling. The first screen shows the cause, on a phone too.

use pulse_browser::emulation::Size;
use pulse_browser::input::in_view;
use pulse_browser::page::Page;
use pulse_browser::proxy::ReverseProxy;
use pulse_browser::rig::http::Client;
use pulse_browser::shop::Shop;
use serde_json::Value;

use crate::written::assert_acknowledged_in_every_tab;
use crate::{column, keys};

/// An incident of `examples/demo/incident.rs`.
#[derive(Default)]
struct Incident {
    kind: &'static str,
    /// A regular expression for the text that names the cause.
    cause: &'static str,
    /// The affected page; `None` if all pages of an instance are affected.
    context: Option<&'static str>,
    /// A timer of the page, and whether this timer has become slower.
    timer: &'static str,
    is_timer_slow: bool,
    /// Whether the code outside of the timers has become slower.
    is_code_slow: bool,
    /// The instances that are slower than the others.
    instances: &'static [&'static str],
    is_deploy: bool,
}

const CHANGES: &str = "[data-panel=attention] li:not([data-kind^=maybe])";
const FIX_FIRST: &str = "table[data-table=fix-first] tbody tr";
const TIMER: &str = "[data-panel=time-goes] tbody tr";
const REQUEST: &str = "table[data-table=slow-requests] tbody tr";
const INSTANCE: &str = "table[data-table=instances] tbody tr";
const CHANGE: &str = "[data-panel=change]";

/// Whether a row shows an increase by more than 50 %, such as `+52%` or `3.0×`.
const IS_SLOW: &str = "((row) => row.innerText.split(/\\s+/).map((word) => word.endsWith('×') ? parseFloat(word)
    : /^[+±−][\\d.]+%$/.test(word) ? 1 + (word[0] === '−' ? -1 : 1) * parseFloat(word.slice(1)) / 100 : NaN)
    .find((ratio) => !Number.isNaN(ratio)) > 1.5)";

/// Waits until an answer is right and visible without scrolling.
async fn until_seen(page: &Page, selector: &str, is_right: &str) {
    page.until(&format!("({is_right}) && {}", in_view(selector)))
        .await;
}

/// Whether a change names an instance, directly or as a suspect.
fn is_about(change: &Value, instance: &str) -> bool {
    let mut suspects = change["suspects"].as_array().expect("a list").iter();
    let is_one =
        |suspect: &Value| [&suspect["instance"], &suspect["instances"][0]].map(|of| of == instance);
    change["instance"] == instance || suspects.any(|suspect| is_one(suspect).contains(&true))
}

/// Panics if the API lists a change that the incident did not cause, or that has ended.
async fn assert_no_other_change(shop: &Shop, kind: &str, context: Option<&str>) {
    let (began, live) = (shop.incident_began(), shop.past_ended() - 60);
    let mut client = Client::connect(shop.demo().address()).await;
    let answer = client.json("/admin/pulse/api/changes?limit=1000").await;
    for change in answer["changes"].as_array().expect("a list") {
        let since = change["since"].as_i64().expect("a time");
        // On a busy machine, live pages may really be slower.
        if since >= live {
            continue;
        }
        let is_expected = match context {
            Some(context) => change["kind"] == kind && change["context"] == context,
            None => is_about(change, "web-3"),
        };
        let is_ongoing = since.abs_diff(began) <= 120 && change["ended"].is_null();
        assert!(is_expected && is_ongoing, "since {began}: {change:#}");
    }
}

/// Opens the dashboard of a shop, and reads the cause of the change in windows of three sizes. Returns the tab and a
/// selector of the change on the overview.
async fn open(shop: &Shop, kind: &str, context: Option<&str>, cause: &str) -> (Page, String) {
    assert_no_other_change(shop, kind, context).await;
    let page = Page::open(&shop.url()).await;
    page.until_screen("overview").await;
    // If an instance is bad, the change may be about any of its pages.
    let change = match context {
        Some(context) => format!("{CHANGES}[data-kind={kind}][data-context='{context}']"),
        None => CHANGES.to_owned(),
    };
    let suspect = format!("{change} .suspect");
    for size in [Size::USUAL, Size::PHONE, Size::DESKTOP] {
        page.resize(size).await;
        let is_read = format!("/{cause}/.test($(`{suspect}`)?.innerText)");
        until_seen(&page, &suspect, &is_read).await;
    }
    (page, change)
}

/// Reads the answers to all questions. Returns the tab, at the screen of the path.
async fn explain(shop: &Shop, incident: &Incident) -> Page {
    let (page, change) = open(shop, incident.kind, incident.context, incident.cause).await;
    let began = shop.incident_began();
    // The change, its start, and the page to fix first. If an instance is bad, the answers name the instance instead of
    // a page.
    let instance = incident.instances.first().copied().unwrap_or_default();
    let (named, key) = match incident.context {
        Some(context) => ("", format!("row.dataset.key === '{context}'")),
        None => (instance, format!("row.innerText.includes('{instance}')")),
    };
    let is_named = format!("$$(`{change}`).some((one) => one.innerText.includes('{named}'))");
    until_seen(&page, &change, &is_named).await;
    until_seen(&page, &format!("{change} .sure"), "true").await;
    let since = format!("{change} .since");
    let times = format!(
        "[-2, -1, 0, 1, 2].some((minutes) => $(`{since}`).innerText.includes(new Date(({began} + minutes * 60) * 1000)
            .toLocaleTimeString('en-GB', {{hour: '2-digit', minute: '2-digit'}})))"
    );
    until_seen(&page, &since, &times).await;
    let is_first = format!("((row) => row && {key})($('{FIX_FIRST}'))");
    until_seen(&page, FIX_FIRST, &is_first).await;

    // Clicks on the change, or on a page to fix if all pages of an instance are affected.
    let link = match incident.context {
        Some(_) => format!("{change} a"),
        None => format!("{FIX_FIRST} a[href*='#path']"),
    };
    page.click(&link).await;
    page.until_screen("path").await;
    // My code or the database?
    until_seen(&page, TIMER, "true").await;
    if incident.context.is_some() {
        let cause = format!("/{}/.test($('{CHANGE}').innerText)", incident.cause);
        until_seen(&page, CHANGE, &cause).await;
        let row = format!("[data-panel=time-goes] tr[data-key='{}']", incident.timer);
        let is_timer = format!("{IS_SLOW}($(`{row}`)) === {}", incident.is_timer_slow);
        until_seen(&page, &row, &is_timer).await;
        let code = "filter((row) => row.innerText.includes('outside of timers'))";
        let is_code = format!("some({IS_SLOW}) === {}", incident.is_code_slow);
        until_seen(&page, TIMER, &format!("$$('{TIMER}').{code}.{is_code}")).await;
    }
    // Which exact requests?
    let traces = format!("{REQUEST} td[data-column=trace] a");
    let is_trace = "some((link) => /^[0-9a-f]{32}$/.test(link.innerText))";
    until_seen(&page, &traces, &format!("$$('{traces}').{is_trace}")).await;
    // Which instance?
    let odd = format!("$$('{INSTANCE}[data-odd]').map((row) => row.dataset.key).join()");
    let expected = incident.instances.join(",");
    until_seen(&page, INSTANCE, &format!("{odd} === '{expected}'")).await;
    for instance in incident.instances {
        for column in ["instance", "mean", "ratio"] {
            let cell = format!("{INSTANCE}[data-key={instance}] [data-column={column}]");
            until_seen(&page, &cell, "true").await;
        }
    }
    // Did my deploy do it?
    let denies = format!("/no deploy|not a deploy/i.test($('{CHANGE}').innerText)");
    let is_answered = match incident.is_deploy {
        true => format!("!{denies} && $('{CHANGE}').innerText.includes('1.4.2')"),
        false => denies,
    };
    until_seen(&page, CHANGE, &is_answered).await;
    page
}

#[tokio::test]
async fn a_slow_query_is_explained() {
    let incident = Incident {
        kind: "slower",
        context: Some("GET /search"),
        cause: r"db:search, 1\d\d\sms a request instead of 4\d\sms, \d+\s% of the added time; it waits longer\. No deploy",
        timer: "db:search",
        is_timer_slow: true,
        ..Incident::default()
    };
    explain(Shop::with("slow_query").await, &incident).await;
}

#[tokio::test]
async fn the_rows_to_fix_first_have_figures_of_the_range() {
    let shop = Shop::with("slow_query").await;
    let to = shop.past_ended() / 60 * 60 - 60;
    let range = format!("from={}&to={to}", to - 3_600);
    let page = Page::open(&shop.screen(&format!("overview?{range}"))).await;
    page.until(&format!("$$('{FIX_FIRST}').length === 6")).await;
    let shares = column(&page, "fix-first", "share").await;
    let number = |share: &String| share.trim_end_matches('%').parse::<f64>().expect(share);
    let sum: f64 = shares.iter().map(number).sum();
    assert!((80.0..=101.0).contains(&sum), "{shares:?}");
    let means = column(&page, "fix-first", "mean").await;
    for name in ["saved_per_minute", "won_per_minute"] {
        let first = &column(&page, "fix-first", name).await[0];
        assert!(first.ends_with("s/min"), "{name}: {first}");
    }
    // The row of the slower page has the mean of the range, like the page's own screen.
    let path = format!("path?context=GET%20%2Fsearch&{range}");
    page.show(&path).await;
    let mean = "$('[data-tile=mean] .value').innerText";
    page.until(&format!("{mean} === '{}'", means[0])).await;
}

#[tokio::test]
async fn a_bad_deploy_is_explained() {
    let incident = Incident {
        kind: "slower",
        context: Some("GET /products/{id}"),
        cause: r"web-1 and web-2: (2\.\d times|\+\d\d\s% over) web-3 and web-4 in the same minutes; version 1\.4\.2, .*(2\.\d times|\+\d\d\s% over) the old version; your code outside of timers, \d+\s%",
        timer: "db:find_product",
        is_code_slow: true,
        instances: &["web-1", "web-2"],
        is_deploy: true,
        ..Incident::default()
    };
    let page = explain(Shop::with("bad_deploy").await, &incident).await;
    // The ratio is that of web-1 and web-2, not of all instances.
    page.until(&format!(
        "/(2\\.\\d×|\\+(8|9|10)\\d%) slower on web-1 and web-2/.test($('{CHANGE}').innerText)"
    ))
    .await;
    for (number, version) in (1..).zip(["1.4.2", "1.4.2", "1.4.1", "1.4.1"]) {
        let row = format!("{INSTANCE}[data-key=web-{number}]");
        let is_of_version = format!("$('{row}').innerText.includes('{version}')");
        until_seen(&page, &row, &is_of_version).await;
    }
    // The screen of a slow instance names its slow path.
    page.show("instance/web-1?range=1h").await;
    page.until(
        "/^Only GET .products.* slower here/.test($('[data-panel=instance] .change')?.innerText)",
    )
    .await;
    page.until(&format!("/^GET .products/.test($('{CHANGE}').innerText)"))
        .await;
}

#[tokio::test]
async fn a_surge_is_explained() {
    let incident = Incident {
        kind: "surging",
        context: Some("GET /products/{id}"),
        cause: r"even on all 4 instances; outcomes as before; (latency as before|p95 \d+)",
        timer: "db:find_product",
        ..Incident::default()
    };
    let shop = Shop::in_which("surge").await;
    let page = explain(&shop, &incident).await;
    // The surge is red everywhere; a percentile that falls meanwhile is not shown as an improvement (green).
    let is_red = "(({color}) => [$('#problems'), $('[data-table=fix-first] [data-column=reason]'), $('.change-line')]
        .every((one) => [getComputedStyle(one).color, getComputedStyle(one).stroke].includes(color)))";
    page.show("overview?range=1h").await;
    page.until_shown("[data-chart=latency] .change-line").await;
    page.until(&format!(
        "{is_red}(getComputedStyle($('{CHANGES}[data-kind=surging] .change')))"
    ))
    .await;
    assert_eq!(page.count(".delta[data-sense=good]").await, 0);
}

#[tokio::test]
async fn failures_are_explained() {
    let shop = Shop::in_which("errors").await;
    let incident = Incident {
        kind: "failing",
        context: Some("POST /checkout"),
        cause: r"payment_timeout in [23]\d\s% of requests instead of [\d.]+\s%; payment, which fails in [23]\d\s% of its runs instead of [345]\.\d\s%; 502 rose from [345]\.\d\s% to [23]\d\s%",
        timer: "payment",
        ..Incident::default()
    };
    let page = explain(&shop, &incident).await;
    // The listed requests have failed since the incident began, less than an hour ago.
    let began = shop.incident_began();
    let ages = format!(
        "$$('{REQUEST} [data-column=ended]').map((cell) => cell.innerText.split(', ').pop().split(':')).map(([h, m, s]) =>
            (h * 3600 + m * 60 + Number(s) - ({began} - new Date({began} * 1000).getTimezoneOffset() * 60) % 86400 + 86400) % 86400)"
    );
    let fail =
        format!("$$('{REQUEST} td[data-column=status]').every((one) => /^5/.test(one.innerText))");
    let are_new = format!("((ages) => ages.length && ages.every((age) => age < 3600))({ages})");
    until_seen(&page, REQUEST, &format!("{fail} && {are_new}")).await;
    assert_failure_is_shown(&shop, &page).await;
}

/// Reads the kind of error and its message on the screen of the failing path. Then opens the status codes, and the list
/// of all kinds.
async fn assert_failure_is_shown(shop: &Shop, page: &Page) {
    const FIRST: &str = "[data-panel=change] li[data-kind=failing] .change";
    const NAMES: &str = r"/^[23]\d% fail: payment_timeout \(timer payment\)$/";
    const MESSAGE: &str = "pay.example.com: no answer within 2 s";
    const SAID: &str = "[data-panel=change] .message";
    const CODES: &str = "[data-panel=outcomes] li";
    const FAILURE: &str = "[data-table=slow-requests] .failure";
    for size in [Size::USUAL, Size::PHONE] {
        page.resize(size).await;
        let names = format!("{NAMES}.test($('{FIRST}').innerText)");
        until_seen(page, FIRST, &names).await;
        let says = format!("$('{SAID}').innerText === '“{MESSAGE}”'");
        until_seen(page, SAID, &says).await;
        let is_listed = format!("$('{FAILURE}').innerText === 'payment_timeout {MESSAGE}'");
        page.until(&is_listed).await;
    }
    let is_first = format!("{}[0] === 'payment_timeout'", keys("kinds"));
    page.until(&is_first).await;
    page.resize(Size::DESKTOP).await;
    assert!(!page.is_shown(CODES).await);
    page.click("[data-panel=outcomes] summary").await;
    let codes = format!("$$('{CODES}').map((row) => row.firstChild.innerText).join()");
    page.until(&format!("{codes} === '201,502'")).await;
    assert_eq!(page.violations(None).await, [""; 0]);

    page.click("[data-panel=kinds] .bar a").await;
    page.until_screen("errors").await;
    page.until(&format!(
        "{}.sort().join() === 'payment_timeout,payment_unavailable'",
        keys("kinds")
    ))
    .await;
    let times = column(page, "kinds", "first_seen").await;
    assert!(times.iter().all(|time| time.contains(':')), "{times:?}");
    page.click("tr[data-key=payment_timeout] td[data-column=paths] a")
        .await;
    page.until_fragment_has("context=POST+/checkout").await;

    // The dashboard itself escapes texts, because a store may have texts that the crate did not write.
    let proxy = ReverseProxy::start(shop.demo().address()).await;
    proxy.alter(|_, body| body.replace(MESSAGE, r"<img src=x onerror=alert(1)>\u202egpj\u0007"));
    let hostile = Page::open(&proxy.screen("path?context=POST%20%2Fcheckout")).await;
    for text in [SAID, FAILURE] {
        let escaped = r"'<img src=x onerror=alert(1)>\\u{202e}gpj\u2407'";
        hostile
            .until(&format!("$('{text}')?.innerText.includes({escaped})"))
            .await;
    }
    assert_eq!(hostile.count("main img").await, 0);
}

#[tokio::test]
async fn a_bad_instance_is_explained_and_has_a_screen() {
    const VERDICT: &str = "$('[data-panel=instance] .change')?.innerText";
    let shop = Shop::in_which("bad_instance").await;
    let incident = Incident {
        kind: "instance",
        cause: r"web-3: [23]\.\d times .*, CPU \d\d\s%, scheduling delay \d\sms",
        instances: &["web-3"],
        ..Incident::default()
    };
    let page = explain(&shop, &incident).await;
    page.click("table[data-table=instances] tbody tr[data-odd] a")
        .await;
    page.until_screen("instance").await;
    page.back().await;
    page.until_screen("path").await;
    // The list of changes on the overview leads to the instance too.
    page.show("overview").await;
    page.click(&format!("{CHANGES}[data-kind=instance] a"))
        .await;
    page.until_fragment_has("instance/web-3").await;
    page.until_screen("instance").await;
    // The screen first shows the figures of the range, and a moment later those since the change.
    let all = "/^It is the instance, not a page: \\d of its [78] paths are surely slower, about 2\\.\\d× the others\\.$/";
    page.until(&format!("{all}.test({VERDICT})")).await;
    let change = page.text(CHANGE).await;
    assert!(change.contains("all pages on web-3"), "{change}");
    let facts = page.text("[data-panel=instance] .muted").await;
    let has_facts = facts.contains("version 1.4.1") && facts.contains("compared with 3 others");
    assert!(has_facts, "{facts}");
    let ratios = column(&page, "instance-paths", "ratio").await;
    for ratio in &ratios[..7] {
        let times: f64 = ratio.trim_end_matches('×').parse().unwrap();
        assert!((1.8..3.5).contains(&times), "{ratios:?}");
    }
    for chart in ["requests", "latency"] {
        // The chart has a line for the mean of the other instances.
        let line =
            format!("$('[data-chart={chart}] .plot path.c-mean').getAttribute('d').length > 50");
        page.until(&line).await;
    }
    // The URL has the state, so a reload shows the same screen.
    page.reload().await;
    // The button moves the table, so the button must be shown before the click.
    page.until_shown(".acknowledgement button").await;
    page.click("table[data-table=instance-paths] tbody a").await;
    page.until_screen("path").await;

    page.show("health?range=1h").await;
    // The slow instance does not make the others look fast.
    for instance in ["web-1", "web-2", "web-4"] {
        let cell = format!("{INSTANCE}[data-key={instance}] [data-column=ratio]");
        let off = format!("Math.abs(parseFloat($('{cell}')?.innerText.replace(/[±−]/, '')))");
        page.until(&format!("{off} < 12")).await;
    }
    page.click("table[data-table=instances] tr[data-key=web-1] a")
        .await;
    page.until_screen("instance").await;
    page.until(&format!(
        "{VERDICT}.startsWith('It is like the others on each of the')"
    ))
    .await;
    page.show("instance/web-9").await;
    page.until("$('p.nothing')?.innerText.includes('no instance of this name')")
        .await;
    assert!(!page.is_shown("[data-panel=instance] .change").await);
}

#[tokio::test]
async fn a_busy_machine_is_suspected_and_has_charts() {
    let shop = Shop::in_which("busy_host").await;
    let cause = r"the machine of web-3: CPU 9\d\s%, scheduling delay \d\d\sms";
    let (page, change) = open(&shop, "", None, cause).await;
    page.click(&format!("{change} a")).await;
    page.until_screen("instance").await;
    page.until(&format!("/{cause}/.test($('{CHANGE}').innerText)"))
        .await;
    for chart in ["cpu", "delay"] {
        page.until_shown(&format!("[data-chart={chart}] .plot svg path"))
            .await;
    }
    assert_eq!(page.violations(None).await, [""; 0]);
}

#[tokio::test]
async fn a_longer_queue_is_shown_on_every_screen() {
    const TILE: &str = "[data-tile=queue]";
    let shop = Shop::in_which("queue").await;
    let cause = r"Requests wait in front of the instances, not in a page: \+9\d\sms in the queue";
    let (page, change) = open(&shop, "slower", Some("<queue>"), cause).await;
    // The wait now, and how much longer than before, in milliseconds.
    let longer =
        format!("/queue\\s+1\\d\\d\\sms\\s+\\+9\\d.*ms since/.test($('{TILE}').innerText)");
    until_seen(&page, TILE, &longer).await;

    page.click(&format!("{change} a")).await;
    page.until_screen("path").await;
    page.until(
        "$('.crumbs').innerText.replace(/\\s+/g, ' ') === 'Overview / queue, before the request'",
    )
    .await;
    page.until(&format!("/longer wait/.test($('{CHANGE}').innerText)"))
        .await;
    assert!(!page.text(CHANGE).await.contains("Suspect"));
    until_seen(&page, INSTANCE, "true").await;
    for (name, text) in [
        ("count", r"^3\d\d\/min"),
        ("in_flight", r"^\d+$"),
        ("cpu", r"^[\d.]+%$"),
        ("longest_poll", r"^[\d.]+\sms$"),
        ("delay", r"^[\d.]+\sms$"),
    ] {
        let cells = format!("$$('{INSTANCE} [data-column={name}]')");
        let are_right = format!("{cells}.every((cell) => /{text}/.test(cell.innerText))");
        page.until(&format!("{cells}.length === 4 && {are_right}"))
            .await;
    }
    page.until_shown("[data-chart=latency] .plot path.c-mean")
        .await;
    assert!(column(&page, "run-by", "mean").await.len() >= 8);
    assert_eq!(page.violations(None).await, [""; 0]);

    page.show("path?context=GET%20%2Fcart&range=15m").await;
    page.until(
        "$('[data-table=time-goes] tbody tr')?.innerText.includes('queue, before the request')",
    )
    .await;
    page.until(&format!(
        "/longer wait, all pages/.test($('{CHANGE}').innerText)"
    ))
    .await;
    until_seen(&page, TILE, &longer).await;
    page.click(&format!("{CHANGE} .links a")).await;
    page.until_fragment_has("context=<queue>").await;
    page.show("timers?range=15m").await;
    page.click("tr[data-key=queue] a").await;
    page.until_fragment_has("context=<queue>").await;
}

#[tokio::test]
async fn a_repeated_timer_is_marked_and_its_change_is_acknowledged() {
    let shop = Shop::in_which("repeated").await;
    let cause = r"db:find_item, 41 times a request instead of 0, \d\.\d\sms each: more runs, not slower ones";
    let (page, _) = open(&shop, "slower", Some("GET /cart"), cause).await;
    assert_acknowledged_in_every_tab(&shop, "GET+/cart").await;
    page.show("paths?range=5m").await;
    page.until(
        "$('tr[data-key=\"GET /cart\"] .repeats')?.innerText.startsWith('db:find_item 41× per request, a join saves up to ')",
    )
    .await;
    assert_eq!(page.count(".repeats:not([hidden])").await, 1);
    page.show("timers?range=5m").await;
    page.until_shown("tr[data-key=\"db:find_item\"] .repeats")
        .await;
    page.show("path?context=GET%20%2Fcart&range=5m").await;
    page.until("$('[data-panel=time-goes] .repeats')?.innerText.startsWith('db:find_item 41× per request')")
        .await;
}

#[tokio::test]
async fn a_path_that_blocks_its_worker_is_found_by_its_longest_poll() {
    let shop = Shop::in_which("blocking").await;
    let cause =
        r"it computes longer, \d\d\sms a request instead of \d\.\d\sms; one poll took \d\d+\sms";
    let (page, change) = open(&shop, "slower", Some("POST /cart/items"), cause).await;
    page.click(&format!("{change} a")).await;
    page.until_screen("path").await;
    let goes = "/^computing \\d\\S*\\sms.*, waiting \\d\\S*\\sms.*; longest poll \\d+\\sms$/";
    page.until(&format!(
        "{goes}.test($('[data-panel=time-goes] .polls:not([hidden])')?.innerText)"
    ))
    .await;
    // Asks only about minutes of the simulated past, because other load on the machine also makes live polls long.
    let to = shop.past_ended() / 60 * 60;
    page.show(&format!(
        "paths?from={}&to={to}&sort=longest_poll",
        to - 180
    ))
    .await;
    page.until(&format!("{}[0] === 'POST /cart/items'", keys("paths")))
        .await;
    let longest = column(&page, "paths", "longest_poll").await;
    assert!(longest[0].ends_with("ms"), "{longest:?}");
}
