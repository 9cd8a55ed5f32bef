//! The seven questions of somebody on call, on each incident of the demo: what changed, which page to fix first, since
//! when, is it me or the database, which exact requests, which instance, did my deploy do it. Each answer is read from
//! the page, in view at 1280 x 900 without scrolling, after at most two clicks, whatever the store.

use std::time::{Duration, Instant};

use pulse_browser::page::Page;
use pulse_browser::rig::http::Client;
use pulse_browser::shop::{Backend, Shop};
use serde_json::Value;

/// How long an answer may take, and the time between two looks at it.
const PATIENCE: Duration = Duration::from_secs(60);
const PERIOD: Duration = Duration::from_millis(50);

/// What an incident is, as `examples/demo/incident.rs` has it.
struct Incident {
    name: &'static str,
    kind: &'static str,
    /// The page that it befalls; none when it befalls all pages.
    context: Option<&'static str>,
    /// The timer that has become slower, if one has.
    slow_timer: Option<&'static str>,
    /// Whether the code outside of the timers has.
    is_code_slow: bool,
    /// The timer of the page, which tells that the database is well.
    timer: &'static str,
    /// The instances that are slower than the others.
    instances: &'static [&'static str],
    is_deploy: bool,
}

const SLOW_QUERY: Incident = Incident {
    name: "slow_query",
    kind: "slower",
    context: Some("GET /search"),
    slow_timer: Some("db:search"),
    is_code_slow: false,
    timer: "db:search",
    instances: &[],
    is_deploy: false,
};
const BAD_DEPLOY: Incident = Incident {
    name: "bad_deploy",
    kind: "slower",
    context: Some("GET /products/{id}"),
    slow_timer: None,
    is_code_slow: true,
    timer: "db:find_product",
    instances: &["web-1", "web-2"],
    is_deploy: true,
};
const BAD_INSTANCE: Incident = Incident {
    name: "bad_instance",
    kind: "instance",
    context: None,
    slow_timer: None,
    is_code_slow: false,
    timer: "",
    instances: &["web-3"],
    is_deploy: false,
};
const ERRORS: Incident = Incident {
    name: "errors",
    kind: "failing",
    context: Some("POST /checkout"),
    slow_timer: None,
    is_code_slow: false,
    timer: "payment",
    instances: &[],
    is_deploy: false,
};
const SURGE: Incident = Incident {
    name: "surge",
    kind: "surging",
    context: Some("GET /products/{id}"),
    slow_timer: None,
    is_code_slow: false,
    timer: "db:find_product",
    instances: &[],
    is_deploy: false,
};

/// Each incident on each store.
macro_rules! explained {
    ($($name:ident: $incident:ident)*) => {
        mod in_memory { $(#[tokio::test] async fn $name() { super::is_explained(&super::$incident, super::Backend::Memory).await; })* }
        mod in_a_file { $(#[tokio::test] async fn $name() { super::is_explained(&super::$incident, super::Backend::File).await; })* }
        mod in_redis { $(#[tokio::test] async fn $name() { super::is_explained(&super::$incident, super::Backend::Redis).await; })* }
    };
}

explained! {
    a_slow_query_is_explained: SLOW_QUERY
    a_bad_deploy_is_explained: BAD_DEPLOY
    a_bad_instance_is_explained: BAD_INSTANCE
    failures_are_explained: ERRORS
    a_surge_is_explained: SURGE
}

/// The answers that are missing, wrong or out of view.
struct Answers<'a> {
    page: &'a Page,
    faults: Vec<String>,
}

impl Answers<'_> {
    /// Reads until the answer is right and in view, or time is up: what has only just been opened may still load.
    async fn expect(&mut self, question: &str, selector: &str, is_right: impl AsyncFn() -> bool) {
        let start = Instant::now();
        loop {
            let is_right = is_right().await;
            if is_right && self.page.is_in_view(selector).await {
                return;
            }
            if start.elapsed() > PATIENCE {
                let rect = self.page.rects(selector).await.into_iter().next();
                let shown = self.page.texts(selector).await.join(" | ");
                let what = if is_right {
                    "is out of view"
                } else {
                    "is wrong"
                };
                self.faults.push(format!(
                    "{question} {selector} {what}, at {rect:?}: {shown}"
                ));
                return;
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    async fn expect_seen(&mut self, question: &str, selector: &str) {
        self.expect(question, selector, async || true).await;
    }
}

async fn is_explained(incident: &Incident, backend: Backend) {
    // A demo of its own that has only just begun: its live requests are slower on a machine that is busy with other tests,
    // and after some minutes the page says so.
    let env = [("DEMO_HISTORY", "90m"), ("DEMO_INCIDENT", incident.name)];
    let shop = &Shop::start(backend, &env).await;
    // Nothing is chosen: as somebody opens it who was just woken up.
    let page = Page::open(&shop.url()).await;
    page.until_screen("overview").await;
    let mut answers = Answers {
        page: &page,
        faults: Vec::new(),
    };
    what_has_changed(incident, shop, &mut answers).await;
    since_when(incident, shop.incident_began(), &mut answers).await;
    which_to_fix_first(incident, &mut answers).await;

    // The one click: on the change, or, where it is of all pages, on a page to fix.
    let link = match incident.context {
        Some(_) => format!("{} a", incident.change()),
        None => format!("{FIX_FIRST} a[href*='#path']"),
    };
    page.click(&link).await;
    page.until_screen("path").await;
    page.until(
        "its tables are drawn",
        &format!("document.querySelector('{INSTANCE}')"),
    )
    .await;
    me_or_the_database(incident, &mut answers).await;
    which_requests(incident, shop.incident_began(), &mut answers).await;
    which_instance(incident, &mut answers).await;
    was_it_my_deploy(incident, &mut answers).await;
    let Answers { faults, .. } = answers;
    assert!(
        faults.is_empty(),
        "{}:\n{}",
        incident.name,
        faults.join("\n")
    );
    page.end().await;
}

const FIX_FIRST: &str = "table[data-table=fix-first] tbody tr";
const TIMER: &str = "[data-panel=time-goes] tbody tr";
const REQUEST: &str = "table[data-table=slow-requests] tbody tr";
const INSTANCE: &str = "table[data-table=instances] tbody tr";

impl Incident {
    /// The instance that it is on, where it is on one and all of its pages.
    fn instance(&self) -> Option<&'static str> {
        self.instances
            .first()
            .copied()
            .filter(|_| self.context.is_none())
    }

    /// The change on the overview. Where an instance is bad, any of its pages may be named.
    fn change(&self) -> String {
        let list = "[data-panel=attention] li:not([data-kind^=maybe])";
        match self.context {
            Some(context) => format!("{list}[data-kind={}][data-context='{context}']", self.kind),
            None => list.to_owned(),
        }
    }
}

async fn what_has_changed(incident: &Incident, shop: &Shop, answers: &mut Answers<'_>) {
    let (page, change) = (answers.page, incident.change());
    page.until_shown(&change).await;
    let names_instance = async || match incident.instance() {
        Some(instance) => page
            .texts(&change)
            .await
            .iter()
            .any(|text| text.contains(instance)),
        None => true,
    };
    answers
        .expect("What changed?", &change, names_instance)
        .await;
    answers
        .expect_seen("How sure?", &format!("{change} .sure"))
        .await;
    let named: Vec<String> = page
        .each(
            "[data-panel=attention] li:not([data-kind^=maybe])",
            "`${element.dataset.kind} ${element.dataset.context}`",
        )
        .await;
    let live = since_live(shop).await;
    let is_other = |one: &&String| {
        incident
            .context
            .is_some_and(|context| **one != format!("{} {context}", incident.kind))
            && !live.contains(one)
    };
    let others: Vec<_> = named.iter().filter(is_other).collect();
    if !others.is_empty() {
        answers.faults.push(format!(
            "What changed? Nothing else did, but the page names {others:?}"
        ));
    }
}

/// What has changed since the simulated past ended: on a machine that is busy with other tests, pages are slower indeed.
async fn since_live(shop: &Shop) -> Vec<String> {
    let mut client = Client::connect(shop.demo().address()).await;
    let answer = client.json("/admin/pulse/api/changes?limit=1000").await;
    let changes = answer["changes"].as_array().expect("the changes");
    let is_live = |change: &&Value| change["since"].as_i64() >= Some(shop.past_ended() - 60);
    let name = |change: &Value| {
        let field = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
        format!("{} {}", field("kind"), field("context"))
    };
    changes.iter().filter(is_live).map(name).collect()
}

async fn since_when(incident: &Incident, began: i64, answers: &mut Answers<'_>) {
    let (page, since) = (answers.page, format!("{} .since", incident.change()));
    let minutes = "[-2, -1, 0, 1, 2].map((minutes) => new Date((began + minutes * 60) * 1000)
        .toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit'}))";
    let times: Vec<String> = page
        .eval(&minutes.replace("began", &began.to_string()))
        .await;
    let names_time = async || {
        let shown = page.text(&since).await;
        times.iter().any(|time| shown.contains(time))
    };
    answers
        .expect(&format!("Since when? ({times:?})"), &since, names_time)
        .await;
}

async fn which_to_fix_first(incident: &Incident, answers: &mut Answers<'_>) {
    let page = answers.page;
    page.until_shown(FIX_FIRST).await;
    let is_first = async || match (incident.context, incident.instance()) {
        (Some(context), _) => {
            page.attribute(FIX_FIRST, "data-key").await.as_deref() == Some(context)
        }
        // Not a page is to be fixed, but an instance.
        (None, instance) => page
            .text(FIX_FIRST)
            .await
            .contains(instance.unwrap_or_default()),
    };
    answers
        .expect("Which page do I fix first?", FIX_FIRST, is_first)
        .await;
}

async fn me_or_the_database(incident: &Incident, answers: &mut Answers<'_>) {
    let page = answers.page;
    let Some(context) = incident.context else {
        return answers.expect_seen("Me or the database?", TIMER).await;
    };
    let row = format!("[data-panel=time-goes] tr[data-key='{}']", incident.timer);
    page.until_shown(&row).await;
    let is_slow = |text: &str| changed_by(text).is_some_and(|ratio| ratio > 1.5);
    let says_timer =
        async || is_slow(&page.text(&row).await) == (incident.slow_timer == Some(incident.timer));
    answers
        .expect(
            &format!("Is it the database? ({context})"),
            &row,
            says_timer,
        )
        .await;
    let says_code = async || {
        let rows = page.texts(TIMER).await;
        let is_code_slow = rows
            .iter()
            .any(|row| row.contains("outside") && is_slow(row));
        is_code_slow == incident.is_code_slow
    };
    answers
        .expect(&format!("Is it me? ({context})"), TIMER, says_code)
        .await;
}

/// The change that a row shows, as a ratio: `+12%`, `3.0×`.
fn changed_by(row: &str) -> Option<f64> {
    row.split_whitespace().find_map(|word| {
        if let Some(ratio) = word.strip_suffix('×') {
            return ratio.parse().ok();
        }
        let percent = word.strip_suffix('%')?;
        let (sign, number) = match percent.strip_prefix('−') {
            Some(number) => (-1.0, number),
            None => (1.0, percent.strip_prefix(['+', '±'])?),
        };
        Some(1.0 + sign * number.parse::<f64>().ok()? / 100.0)
    })
}

async fn which_requests(incident: &Incident, began: i64, answers: &mut Answers<'_>) {
    let page = answers.page;
    let has_trace = async || {
        let traces = page
            .texts(&format!("{REQUEST} td[data-column=trace] a"))
            .await;
        traces
            .iter()
            .any(|text| text.len() == 32 && text.chars().all(|c| c.is_ascii_hexdigit()))
    };
    answers
        .expect(
            "Which exact requests?",
            &format!("{REQUEST} td[data-column=trace] a"),
            has_trace,
        )
        .await;
    if incident.kind == "failing" {
        let one_fails = async || {
            let statuses = page
                .texts(&format!("{REQUEST} td[data-column=status]"))
                .await;
            // Seconds since the incident began, which are less than a day.
            let ages: Vec<i64> = page
                .each(
                    &format!("{REQUEST} td[data-column=ended], {REQUEST} th[data-column=ended]"),
                    &format!("(([h, m, s]) => ((h * 3600 + m * 60 + Number(s) - (({began} - new Date({began} * 1000).getTimezoneOffset() * 60) % 86400)) + 86400) % 86400)(element.innerText.split(', ').pop().split(':'))"),
                )
                .await;
            !statuses.is_empty()
                && statuses.iter().all(|status| status.starts_with('5'))
                && ages.len() == statuses.len()
                && ages.iter().all(|age| *age < 3_600)
        };
        answers
            .expect("Which exact requests fail?", REQUEST, one_fails)
            .await;
    }
}

async fn which_instance(incident: &Incident, answers: &mut Answers<'_>) {
    let page = answers.page;
    let row = |instance: &str| format!("{INSTANCE}[data-key={instance}]");
    let expected = incident.instances;
    let is_odd = async || {
        let odd: Vec<String> = page
            .each(&format!("{INSTANCE}[data-odd]"), "element.dataset.key")
            .await;
        odd == expected
    };
    answers
        .expect(&format!("Which instance? ({expected:?})"), INSTANCE, is_odd)
        .await;
    for instance in expected {
        for column in ["instance", "mean", "ratio"] {
            answers
                .expect_seen(
                    "Which instance?",
                    &format!("{} [data-column={column}]", row(instance)),
                )
                .await;
        }
    }
    if incident.is_deploy {
        for (instance, version) in [
            ("web-1", "1.4.2"),
            ("web-2", "1.4.2"),
            ("web-3", "1.4.1"),
            ("web-4", "1.4.1"),
        ] {
            let has_version = async || page.text(&row(instance)).await.contains(version);
            answers
                .expect("Which version is where?", &row(instance), has_version)
                .await;
        }
    }
}

async fn was_it_my_deploy(incident: &Incident, answers: &mut Answers<'_>) {
    let (page, panel) = (answers.page, "[data-panel=change]");
    let says_so = async || {
        let text = page.text(panel).await;
        let denies = text.to_lowercase().contains("no deploy")
            || text.to_lowercase().contains("not a deploy");
        match incident.is_deploy {
            true => text.contains("1.4.2") && !denies,
            false => denies,
        }
    };
    answers.expect("Did my deploy do it?", panel, says_so).await;
}
