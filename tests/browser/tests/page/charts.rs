//! Charts: their series, lines, tables and saved files.

use pulse_browser::page::Page;
use pulse_browser::service::{QUIET, Service};
use serde_json::Value;

use crate::{click_in_menu, open, rows, save, set, toggle};

const LATENCY: &str = "[data-chart=latency]";
const HOUR: &str = "overview?range=1h";

#[tokio::test]
async fn a_chart_has_the_chosen_series_axis_and_precision() {
    let page = open("bad_deploy", HOUR).await;
    let button = format!("{LATENCY} button[data-series=p99]");
    let pressed = |is_pressed: bool| format!("$('{button}').ariaPressed === '{is_pressed}'");
    let lines = format!("$$('{LATENCY} svg path').filter((path) => path.getAttribute('d')).length");
    page.until(&pressed(true)).await;
    let all: usize = page.eval(&lines).await;
    let is_on = format!("{} && {lines} >= {all}", pressed(true));
    let is_off = format!("{} && {lines} < {all}", pressed(false));
    page.until(&is_on).await;
    page.click(&button).await;
    page.until(&is_off).await;
    page.until("/hide=[^&]*p99/.test(location.hash)").await;
    page.reload().await;
    page.until(&is_off).await;
    page.click(&button).await;
    page.until(&is_on).await;

    let labels = format!("$$('{LATENCY} svg text.value').map((label) => label.textContent)");
    let begins_at_zero = format!("{labels}[0]?.startsWith('0')");
    page.until(&format!("{labels}.length > 1 && !{begins_at_zero}"))
        .await;
    // The median is clearly above the axis, although the 99th percentile is many times higher.
    page.until(&format!(
        "$('{LATENCY} .plot').clientHeight - 22
            - /^M[^,]+,([0-9.]+)/.exec($('{LATENCY} .plot path.lines.c-p50').getAttribute('d'))[1] > 10"
    ))
    .await;
    click_in_menu(&page, LATENCY, "button[data-scale=log]").await;
    page.until_fragment_has("log=0").await;
    page.until(&begins_at_zero).await;
    page.reload().await;
    page.until(&begins_at_zero).await;

    toggle(&page, "latency").await;
    let rows = format!("$$('{LATENCY} table tbody tr').length");
    let minutes = |n: &usize| (55..=61).contains(n);
    page.until_value(&rows, minutes).await;
    set(&page, "#precision", "300").await;
    page.until_fragment_has("precision=300").await;
    page.until_value(&rows, |n: &usize| (12..=13).contains(n))
        .await;
    page.back().await;
    page.until_value(&rows, minutes).await;
}

#[tokio::test]
async fn a_chart_has_lines_and_is_also_a_table_and_a_file() {
    for screen in [HOUR, "path?context=GET%20%2Fproducts%2F%7Bid%7D&range=1h"] {
        let page = open("bad_deploy", screen).await;
        for name in ["hits", "latency"] {
            // Marks and the change are vertical lines in all charts.
            let chart = format!("[data-chart={name}]");
            let lines = format!(
                "$$('{chart} .mark-line').length >= 2 && $$('{chart} .change-line').length === 1"
            );
            page.until(&lines).await;
            toggle(&page, name).await;
            page.until_shown(&format!("{chart} table")).await;
            page.until_hidden(&format!("{chart} .plot, {chart} > svg"))
                .await;
            let rows = page.count(&format!("{chart} table tbody tr")).await;
            assert!((55..=61).contains(&rows), "{rows} minutes");
            let cells = format!("{chart} table tbody tr:nth-child(3) td");
            let cells = page.texts(&cells).await.concat();
            assert!(cells.contains(|c: char| c.is_ascii_digit()), "{cells:?}");
            toggle(&page, name).await;
            page.until_hidden(&format!("{chart} table")).await;
        }
    }
    let page = open("bad_deploy", HOUR).await;
    let (name, csv) = save(&page, "latency", "csv").await;
    assert!(name.ends_with(".csv"), "{name}");
    let lines: Vec<Vec<_>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert!((55..=62).contains(&lines.len()), "{csv}");
    let column_of = |series| lines[0].iter().position(|name| *name == series);
    for series in ["mean", "p50", "p95", "p99"] {
        let at = column_of(series).unwrap_or_else(|| panic!("no {series}: {csv}"));
        let seconds: f64 = lines[10][at].parse().unwrap();
        assert!((0.001..1.0).contains(&seconds), "{series}: {seconds}");
    }
    let rows = rows(&page, "hits").await;
    assert!((55..=61).contains(&rows.len()), "{}", rows.len());

    // The label of a long mark is cut, and its tooltip has the whole text.
    let parts = "[element.firstChild.textContent, element.querySelector('title').textContent]";
    let label = format!("{LATENCY} .mark-label");
    let labels: Vec<(String, String)> = page.each(&label, parts).await;
    let simulated = labels.iter().find(|(_, whole)| whole.contains("simulated"));
    let (label, whole) = simulated.expect("the mark of the demo");
    assert_eq!(whole, "simulated traffic until here");
    let begin = label.trim_end_matches('…');
    assert!(whole.starts_with(begin) && label != whole, "{label}");

    // The crosshair is shown in both charts, and the tip has the values of all series.
    page.hover(&format!("{LATENCY} .plot[role=slider]")).await;
    page.until(
        "$$('[data-chart] .crosshair').filter((line) => line.getAttribute('d')).length === 2",
    )
    .await;
    let tip = format!("$('{LATENCY} .tip')?.innerText");
    for series in ["mean", "p50", "p95", "p99"] {
        page.until(&format!("{tip}.includes('{series}')")).await;
    }
}

#[tokio::test]
async fn each_range_has_the_same_legend() {
    let page = open("bad_deploy", HOUR).await;
    let notes = "$$('.legend .muted').map((note) => note.textContent)";
    let legend = "$$('[data-chart] .legend button').map((button) => `${button.textContent} ${button.disabled}`)";
    let percentiles = |off: bool| format!("mean false,p50 {off},p95 {off},p99 {off}");
    let of_all = "2xx false,3xx false,4xx false,aborted false,5xx, failed false";
    let is = |hits: &str, off: bool| format!("{legend}.join() === '{hits},{}'", percentiles(off));
    for range in ["5m", "15m", "1h", "6h", "24h", "7d"] {
        page.show(&format!("overview?range={range}")).await;
        page.until(&is(of_all, false)).await;
        assert_eq!(page.eval::<Vec<String>>(notes).await, ["", ""], "{range}");
    }
    // Slices of seconds come from counters. The legend says which figures counters do not have.
    page.show("overview?range=5m&precision=5").await;
    page.until(&is("no error false,errors false", true)).await;
    let expected = [
        "slices of this length have errors, but no outcomes",
        "slices of this length have only the mean",
    ];
    assert_eq!(page.eval::<Vec<String>>(notes).await, expected);
}

#[tokio::test]
async fn quiet_minutes_break_the_line_and_minutes_without_a_service_are_hatched() {
    const NOT_RUNNING: &str = "not recorded: the service was not running";
    let minutes = (QUIET.end - QUIET.start) as usize;
    for was_running in [true, false] {
        let service = Service::with_quiet_minutes(was_running).await;
        let (gaps, zeros, unrecorded) = match was_running {
            true => (0, minutes, 0),
            false => (1, 0, minutes),
        };
        let page = Page::open(&service.screen(HOUR)).await;
        for chart in ["hits", "latency"] {
            let hatch = format!("$('[data-chart={chart}] .plot path.gaps')");
            page.until(&format!("{hatch}?.hasAttribute('d')")).await;
            let hatch = format!("[{hatch}.getAttribute('d'), {hatch}.textContent]");
            let (shape, title): (String, String) = page.eval(&hatch).await;
            assert_eq!(shape.matches('M').count(), gaps, "{chart}: {shape:?}");
            assert_eq!(title, NOT_RUNNING);
        }
        let complete: String = page.eval("$('#complete').innerText").await;
        let is_reported = complete.contains("the service was not running for 5");
        assert_eq!(is_reported, !was_running, "{complete}");

        // One line ends before the quiet minutes, and one begins after them; the unfinished slice is dashed.
        let line = format!("{LATENCY} .plot path.lines.c-mean");
        page.until(&format!(
            "$('{line}:not(.unfinished)').getAttribute('d').split('M').length === 3"
        ))
        .await;
        let unfinished = format!("$('{line}.unfinished')");
        page.until(&format!(
            "getComputedStyle({unfinished}).strokeDasharray !== 'none'"
        ))
        .await;
        page.until(&format!("{unfinished}.getAttribute('d').startsWith('M')"))
            .await;

        let means: Vec<_> = rows(&page, "latency").await;
        let means: Vec<_> = means.iter().map(|row| row["mean"].as_f64()).collect();
        let first = means.iter().position(Option::is_some).unwrap();
        let expected = (0..=30).map(|minute| (!QUIET.contains(&minute)).then_some(0.02));
        assert_eq!(means[first..], expected.collect::<Vec<_>>());
        let hits = rows(&page, "hits").await;
        let is_zero = |row: &&Value| row["2xx_per_minute"] == 0;
        assert_eq!(hits.iter().filter(is_zero).count(), zeros, "{hits:?}");
        toggle(&page, "hits").await;
        page.until_shown("[data-chart=hits] table").await;
        let mut starts = page.texts("[data-chart=hits] table tbody th").await;
        starts.retain(|start| start.contains(NOT_RUNNING));
        assert_eq!(starts.len(), unrecorded, "{starts:?}");
    }
}

#[tokio::test]
async fn requests_are_per_minute_or_per_second_everywhere() {
    const TICK: &str = "$$('[data-chart=hits] svg text.value').at(-1)?.textContent";
    const TILE: &str = "$('[data-tile=requests] .delta').innerText";
    // Three requests of one path in each minute that is not quiet.
    let service = Service::with_quiet_minutes(true).await;
    let page = Page::open(&service.screen("overview?range=1h")).await;
    for (unit, name, value) in [
        ("/min", "2xx_per_minute", 3.0),
        ("/s", "2xx_per_second", 0.05),
    ] {
        page.until(&format!(
            "{TICK}.endsWith('{unit}') && {TILE}.includes('{unit}')"
        ))
        .await;
        let hits = rows(&page, "hits").await;
        let of_full = hits.iter().filter(|row| row[name] == value);
        assert!(of_full.count() > 20, "{hits:?}");
        set(&page, "#unit", "second").await;
    }
    page.until_fragment_has("unit=second").await;
    page.click("nav a[data-screen=paths]").await;
    page.until(
        "/^0.0\\d+\\/s$/.test($('table[data-table=paths] td[data-column=count]')?.innerText)",
    )
    .await;
    page.show("paths?from=1767225600&to=1767229200").await;
    page.until("location.hash.includes('1767225600')").await;
    let (name, csv) = save(&page, "paths", "csv").await;
    let range = name.split_once('_').map(|(_, range)| range);
    assert_eq!(range, Some("2026-01-01T00-00Z_2026-01-01T01-00Z.csv"));
    let head = csv.lines().next().expect("a heading");
    assert!(head.contains("context,count,"), "{head}");
}
