//! Charts: their series, their lines, their tables and their files.

use pulse_browser::page::Page;
use pulse_browser::service::{QUIET, Service};
use pulse_browser::shop::Shop;

use crate::{click_in_menu, save};

const LATENCY: &str = "[data-chart=latency]";

#[tokio::test]
async fn the_legend_switches_series_off_and_on() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    let drawn = |series: &str| {
        format!(
            "[...document.querySelectorAll('{LATENCY} svg path')].some((path) => path.matches('.{series}, .c-{series}') && (path.getAttribute('d') ?? '') !== '')"
        )
    };
    let button = format!("{LATENCY} button[data-series=p99]");
    let pressed =
        |pressed: bool| format!("document.querySelector('{button}').ariaPressed === '{pressed}'");
    page.until("p99 is on", &pressed(true)).await;
    let before: usize = page.eval(&format!("[...document.querySelectorAll('{LATENCY} svg path')].filter((path) => path.getAttribute('d')).length")).await;
    page.click(&button).await;
    page.until("p99 is off", &pressed(false)).await;
    page.until("the URL says so", "/hide=[^&]*p99/.test(location.hash)")
        .await;
    let after = format!(
        "[...document.querySelectorAll('{LATENCY} svg path')].filter((path) => path.getAttribute('d')).length"
    );
    page.until_value("its line is gone", &after, |paths: &usize| *paths < before)
        .await;
    page.reload().await;
    page.until("it stays off", &pressed(false)).await;
    page.click(&button).await;
    page.until("p99 is on again", &pressed(true)).await;
    page.until("its line is back", &drawn("p99")).await;
    page.end().await;
}

#[tokio::test]
async fn a_chart_is_also_a_table() {
    let shop = Shop::with("bad_deploy").await;
    for screen in [
        "overview?range=1h",
        "path?context=GET%20%2Fproducts%2F%7Bid%7D&range=1h",
    ] {
        let page = Page::open(&shop.screen(screen)).await;
        for chart in ["hits", "latency"] {
            let chart = format!("[data-chart={chart}]");
            click_in_menu(&page, &chart, "button[data-view=table]").await;
            page.until_shown(&format!("{chart} table")).await;
            let rows = page.count(&format!("{chart} table tbody tr")).await;
            assert!(
                (55..=61).contains(&rows),
                "{rows} rows of an hour by the minute"
            );
            let cells = page
                .texts(&format!("{chart} table tbody tr:nth-child(3) td"))
                .await;
            assert!(
                cells
                    .iter()
                    .any(|cell| cell.starts_with(|c: char| c.is_ascii_digit())),
                "{cells:?}"
            );
            page.until_hidden(&format!("{chart} .plot, {chart} > svg"))
                .await;
            click_in_menu(&page, &chart, "button[data-view=table]").await;
            page.until_hidden(&format!("{chart} table")).await;
        }
        page.end().await;
    }
}

#[tokio::test]
async fn a_chart_is_saved_as_csv_and_json() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    let (name, csv) = save(&page, "latency", "csv").await;
    assert!(name.ends_with(".csv"), "{name}");
    let lines: Vec<_> = csv.lines().collect();
    assert!((55..=62).contains(&lines.len()), "{csv}");
    let head: Vec<_> = lines[0].split(',').collect();
    for series in ["mean", "p50", "p95", "p99"] {
        assert!(head.contains(&series), "{head:?}");
    }
    let p95 = head.iter().position(|name| *name == "p95").unwrap();
    let of_line: f64 = lines[10].split(',').nth(p95).unwrap().parse().unwrap();
    assert!((0.01..1.0).contains(&of_line), "seconds: {of_line}");
    let (_, json) = save(&page, "hits", "json").await;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert!((55..=61).contains(&rows.len()), "{}", rows.len());
    page.end().await;
}

#[tokio::test]
async fn marks_and_changes_are_lines_through_all_charts() {
    let shop = Shop::with("bad_deploy").await;
    for screen in [
        "overview?range=1h",
        "path?context=GET%20%2Fproducts%2F%7Bid%7D&range=1h",
    ] {
        let page = Page::open(&shop.screen(screen)).await;
        for chart in ["hits", "latency"] {
            let lines = format!(
                "document.querySelectorAll('[data-chart={chart}] .mark-line').length >= 2 && document.querySelectorAll('[data-chart={chart}] .change-line').length === 1"
            );
            page.until(&format!("{chart} has the lines"), &lines).await;
        }
        page.end().await;
    }
}

#[tokio::test]
async fn one_crosshair_goes_through_all_charts_and_tells_all_series() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    page.hover(&format!("{LATENCY} .plot[role=slider]"), (0.5, 0.5))
        .await;
    let crosshairs = "[...document.querySelectorAll('[data-chart] .crosshair')].filter((line) => line.getAttribute('d')).length";
    page.until_value("both charts have it", crosshairs, |n: &usize| *n == 2)
        .await;
    let tip: String = page
        .until_value(
            "the tooltip is shown",
            &format!("document.querySelector('{LATENCY} .tip')?.innerText ?? ''"),
            |tip: &String| !tip.is_empty(),
        )
        .await;
    for series in ["mean", "p50", "p95", "p99"] {
        assert!(tip.contains(series), "{tip}");
    }
    page.end().await;
}

#[tokio::test]
async fn the_latency_is_logarithmic_or_linear() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    let labels = format!(
        "[...document.querySelectorAll('{LATENCY} svg text.value')].map((label) => label.textContent)"
    );
    let first = |labels: &Vec<String>| labels.first().cloned().unwrap_or_default();
    page.until_value("it begins above zero", &labels, |labels: &Vec<String>| {
        labels.len() > 1 && !first(labels).starts_with('0')
    })
    .await;
    // The median is clearly above the axis, though the 99th percentile is many times as long.
    let height = format!(
        "(() => {{
            const [, first] = /^M[^,]+,([0-9.]+)/.exec(document.querySelector('{LATENCY} .plot path.lines.c-p50').getAttribute('d'));
            return document.querySelector('{LATENCY} .plot').clientHeight - 22 - first;
        }})()"
    );
    let height: f64 = page.eval(&height).await;
    assert!(height > 10.0, "{height} pixels");
    click_in_menu(&page, LATENCY, "button[data-scale=log]").await;
    page.until("the URL says so", "location.hash.includes('log=0')")
        .await;
    page.until_value("it begins at zero", &labels, |labels: &Vec<String>| {
        first(labels).starts_with('0')
    })
    .await;
    page.reload().await;
    page.until_value("it stays so", &labels, |labels: &Vec<String>| {
        first(labels).starts_with('0')
    })
    .await;
    page.end().await;
}

#[tokio::test]
async fn each_range_has_the_same_legend() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    let legend = |chart: &str| {
        format!(
            "[...document.querySelectorAll('[data-chart={chart}] .legend button')].map((button) => `${{button.textContent}} ${{button.disabled}}`)"
        )
    };
    let told = "[...document.querySelectorAll('.legend .muted')].map((told) => told.textContent)";
    for (chart, expected) in [
        ("hits", &["2xx", "3xx", "4xx", "aborted", "5xx, failed"][..]),
        ("latency", &["mean", "p50", "p95", "p99"]),
    ] {
        let expected: Vec<_> = expected
            .iter()
            .map(|name| format!("{name} false"))
            .collect();
        for range in ["5m", "15m", "1h", "6h", "24h", "7d"] {
            page.show(&format!("overview?range={range}")).await;
            page.until("it is drawn", "document.body.dataset.ready === 'true'")
                .await;
            page.until_value(range, &legend(chart), |shown: &Vec<String>| {
                *shown == expected
            })
            .await;
            assert_eq!(page.eval::<Vec<String>>(told).await, ["", ""], "{range}");
        }
    }
    // Slices of seconds are made of counters, and say what these do not know.
    page.show("overview?range=5m&precision=5").await;
    let expected = ["mean false", "p50 true", "p95 true", "p99 true"];
    page.until_value(
        "percentiles are off",
        &legend("latency"),
        |shown: &Vec<String>| *shown == expected,
    )
    .await;
    let told: Vec<String> = page.eval(told).await;
    assert_eq!(
        told,
        [
            "of such slices, only errors are told apart",
            "of such slices, only the mean is kept"
        ]
    );
    page.end().await;
}

#[tokio::test]
async fn the_whole_name_of_a_mark_can_be_read() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    let cut = format!(
        "[...document.querySelectorAll('{LATENCY} .mark-label')].map((label) => [label.firstChild.textContent, label.querySelector('title').textContent])"
    );
    let labels: Vec<(String, String)> = page
        .until_value("there are marks", &cut, |cut: &Vec<(String, String)>| {
            cut.len() > 1
        })
        .await;
    let simulated = labels.iter().find(|(_, whole)| whole.contains("simulated"));
    let (label, whole) = simulated.expect("the demo marks it");
    assert_eq!(whole, "simulated traffic until here");
    let begin = label.trim_end_matches('…');
    assert!(whole.starts_with(begin) && label != whole, "{label}");
    page.end().await;
}

#[tokio::test]
async fn the_precision_is_automatic_or_chosen() {
    let shop = Shop::with("bad_deploy").await;
    let page = Page::open(&shop.screen("overview?range=1h")).await;
    click_in_menu(&page, LATENCY, "button[data-view=table]").await;
    let rows = format!("document.querySelectorAll('{LATENCY} table tbody tr').length");
    page.until_value("a minute each", &rows, |n: &usize| (55..=61).contains(n))
        .await;
    let options: Vec<u32> = page
        .each("#precision option", "Number(element.value)")
        .await;
    assert!(
        options.contains(&0) && options.contains(&300),
        "{options:?}"
    );
    page.run("((select) => { select.value = '300'; select.dispatchEvent(new Event('change', {bubbles: true})); })(document.querySelector('#precision'))").await;
    page.until("the URL says so", "location.hash.includes('precision=300')")
        .await;
    page.until_value("five minutes each", &rows, |n: &usize| {
        (12..=13).contains(n)
    })
    .await;
    page.back().await;
    page.until_value("Back takes it back", &rows, |n: &usize| {
        (55..=61).contains(n)
    })
    .await;
    page.end().await;
}

#[tokio::test]
async fn quiet_minutes_break_the_line_and_the_unfinished_slice_is_dashed() {
    let service = Service::with_quiet_minutes().await;
    let page = Page::open(&service.url("/admin/pulse#overview?range=1h")).await;
    let line = |unfinished: bool| {
        let unfinished = if unfinished {
            ".unfinished"
        } else {
            ":not(.unfinished)"
        };
        format!("document.querySelector('{LATENCY} .plot path.lines.c-mean{unfinished}')")
    };
    let parts = format!(
        "({}?.getAttribute('d') ?? '').split('M').length - 1",
        line(false)
    );
    page.until_value(
        "a line before them and one after them",
        &parts,
        |parts: &usize| *parts == 2,
    )
    .await;
    let dashes: String = page
        .eval(&format!("getComputedStyle({}).strokeDasharray", line(true)))
        .await;
    assert_ne!(dashes, "none");
    let end: String = page
        .eval(&format!("{}.getAttribute('d')", line(true)))
        .await;
    assert!(end.starts_with('M'), "{end:?}");

    let (_, json) = save(&page, "latency", "json").await;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let means: Vec<_> = rows.iter().map(|row| row["mean"].as_f64()).collect();
    let first = means.iter().position(Option::is_some).unwrap();
    let expected = (0..=30).map(|minute| (!QUIET.contains(&minute)).then_some(0.02));
    assert_eq!(means[first..], expected.collect::<Vec<_>>());
    page.end().await;
}

#[tokio::test]
async fn a_time_in_which_the_service_was_not_running_is_hatched_and_not_zero() {
    const HITS: &str = "[data-chart=hits]";
    const NOT_RUNNING: &str = "not recorded: the service was not running";
    let minutes = QUIET.end - QUIET.start;
    let quiet = Service::with_quiet_minutes().await;
    let restarted = Service::restarted().await;
    for (service, gaps) in [(&quiet, 0), (&restarted, 1)] {
        let page = Page::open(&service.url("/admin/pulse#overview?range=1h")).await;
        for chart in [HITS, LATENCY] {
            let hatch = format!("document.querySelector('{chart} .plot path.gaps')");
            page.until("the chart is drawn", &format!("{hatch}?.hasAttribute('d')"))
                .await;
            let shape: String = page.eval(&format!("{hatch}.getAttribute('d')")).await;
            assert_eq!(shape.matches('M').count(), gaps, "{chart}: {shape:?}");
            let title: String = page.eval(&format!("{hatch}.textContent")).await;
            assert_eq!(title, NOT_RUNNING);
        }
        let complete: String = page
            .eval("document.getElementById('complete').innerText")
            .await;
        let is_told = complete.contains("the service was not running for 5");
        assert_eq!(is_told, gaps == 1, "{complete}");

        let (_, json) = save(&page, "hits", "json").await;
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        let counts = rows.iter().map(|row| row["2xx"].as_u64());
        let zeros = counts.filter(|count| *count == Some(0)).count() as i64;
        assert_eq!(zeros, if gaps == 0 { minutes } else { 0 }, "{json}");

        click_in_menu(&page, HITS, "button[data-view=table]").await;
        page.until_shown(&format!("{HITS} table")).await;
        let starts = page.texts(&format!("{HITS} table tbody th")).await;
        let told = starts.iter().filter(|start| start.contains(NOT_RUNNING));
        assert_eq!(
            told.count() as i64,
            if gaps == 0 { 0 } else { minutes },
            "{starts:?}"
        );
        page.end().await;
    }
}
