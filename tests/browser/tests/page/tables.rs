//! Tables: sorted, filtered, opened and saved.

use std::collections::BTreeSet;

use pulse_browser::page::{Page, quoted};
use pulse_browser::rig::http::Client;
use pulse_browser::service::Service;
use pulse_browser::shop::{Backend, Shop};

use crate::{column, keys, save};

/// A range of the past, which nothing is added to.
fn past(shop: &Shop) -> String {
    let to = shop.past_ended() / 60 * 60 - 60;
    format!("from={}&to={to}", to - 1_800)
}

#[tokio::test]
async fn every_column_sorts_both_ways() {
    let shop = Shop::with("slow_query").await;
    let range = past(shop);
    let page = Page::open(&shop.screen(&format!("paths?{range}"))).await;
    let buttons: Vec<String> = page
        .each(
            "table[data-table=paths] button[data-sort]",
            "element.dataset.sort",
        )
        .await;
    for column in ["count", "mean", "p95", "error_share", "share", "change"] {
        assert!(
            buttons.iter().any(|sort| sort == column),
            "{column} does not sort, only {buttons:?}"
        );
    }
    let mut client = Client::connect(shop.demo().address()).await;
    for sort in buttons {
        for (order, aria) in [("desc", "descending"), ("asc", "ascending")] {
            let button = format!("table[data-table=paths] button[data-sort='{sort}']");
            let sorted = format!(
                "document.querySelector('th:has([data-sort=\"{sort}\"])').ariaSort === '{aria}'"
            );
            // Shares of time are sorted by default, so that the first click may reverse them.
            while !page.eval::<bool>(&sorted).await {
                page.click(&button).await;
                page.until("the column is marked", &format!("['ascending', 'descending'].includes(document.querySelector('th:has([data-sort=\"{sort}\"])').ariaSort)")).await;
            }
            let answer = client
                .json(&format!(
                    "/admin/pulse/api/paths?{range}&sort={sort}&order={order}&limit=25"
                ))
                .await;
            let expected: Vec<_> = answer["paths"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row["context"].as_str().unwrap().to_owned())
                .collect();
            assert!(expected.len() >= 8);
            let shown = "[...document.querySelectorAll('table[data-table=paths] tbody tr')].map((row) => row.dataset.key)";
            page.until_value(
                &format!("the rows are sorted by {sort}, {order}"),
                shown,
                |keys: &Vec<String>| *keys == expected,
            )
            .await;
            let marked = page
                .count("table[data-table=paths] th[aria-sort]:not([aria-sort=none])")
                .await;
            assert_eq!(marked, 1, "one column is marked as sorted");
        }
    }
    page.end().await;
}

#[tokio::test]
async fn a_slash_and_some_letters_filter() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.url()).await;
    page.until_screen("overview").await;
    page.press("/").await;
    page.until_screen("paths").await;
    page.until(
        "the filter has the focus",
        "document.activeElement?.id === 'filter'",
    )
    .await;
    let steps: usize = page.eval("history.length").await;
    page.type_text("search").await;
    let expected = ["GET /search"];
    let shown = "[...document.querySelectorAll('table[data-table=paths] tbody tr')].map((row) => row.dataset.key)";
    page.until_value("only the search is left", shown, |keys: &Vec<String>| {
        *keys == expected
    })
    .await;
    page.until(
        "the URL has the filter",
        "location.hash.includes('q=search')",
    )
    .await;
    assert_eq!(
        page.eval::<usize>("history.length").await,
        steps,
        "typing is no step for Back"
    );
    assert_eq!(
        page.eval::<String>("document.querySelector('#filter').value")
            .await,
        "search"
    );
    page.type_text("xyz").await;
    page.until("nothing is left, and it says so", "!document.querySelector('table[data-table=paths] tbody tr') && /No path/.test(document.querySelector('main').innerText)").await;
    page.end().await;
}

#[tokio::test]
async fn a_row_opens_its_path() {
    let shop = Shop::with("slow_query").await;
    let page = Page::open(&shop.screen("paths?range=1h")).await;
    page.click("table[data-table=paths] tr[data-key='GET /products/{id}'] a")
        .await;
    page.until_screen("path").await;
    page.until(
        "its name is shown",
        "document.querySelector('main').innerText.includes('/products/{id}')",
    )
    .await;
    page.until_fragment_has("context=GET+/products/{id}").await;
    page.end().await;
}

/// The fields of a line of CSV without quotes in its fields.
fn fields(line: &str) -> Vec<&str> {
    line.split(',')
        .map(|field| field.trim_matches('"'))
        .collect()
}

#[tokio::test]
async fn every_table_is_saved_as_csv_and_json() {
    let shop = Shop::with("slow_query").await;
    let range = past(shop);
    let context = "context=GET%20%2Fsearch";
    for (fragment, table) in [
        (format!("overview?{range}"), "fix-first"),
        (format!("paths?{range}"), "paths"),
        (format!("timers?{range}"), "timers"),
        (format!("path?{context}&{range}"), "instances"),
        (format!("path?{context}&range=1h"), "slow-requests"),
        ("slowest".to_owned(), "slowest-requests"),
        ("counters".to_owned(), "counters"),
        ("health".to_owned(), "instances"),
        ("deploy".to_owned(), "deploy"),
    ] {
        let page = Page::open(&shop.screen(&fragment)).await;
        let rows = format!("document.querySelector('table[data-table={table}] tbody tr')");
        page.until(&format!("{table} has rows"), &rows).await;
        let (name, csv) = save(&page, table, "csv").await;
        assert!(name.ends_with(".csv"), "{name}");
        let (name, json) = save(&page, table, "json").await;
        assert!(name.ends_with(".json"), "{name}");
        let json: Vec<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_str(&json).unwrap();
        let mut lines = csv.lines();
        let head = fields(lines.next().unwrap());
        let names: Vec<_> = json[0].keys().map(String::as_str).collect();
        let sorted = |mut names: Vec<&str>| {
            names.sort_unstable();
            names.join(" ")
        };
        assert_eq!(sorted(head.clone()), sorted(names), "{table}");
        let shown = keys(&page, table).await;
        assert_eq!(lines.clone().count(), json.len(), "{table}: {csv}");
        assert!(
            json.len() >= shown.len().min(10),
            "{table}: {} of {} rows",
            json.len(),
            shown.len()
        );
        // Names are in the first column, and figures are numbers as they were measured, not as they are shown.
        let numbers = json[0].values().filter(|value| value.is_number()).count();
        assert!(numbers >= 1, "{table}: {:?}", json[0]);
        let first = lines.next().unwrap();
        let name = json[0][head[0]].to_string();
        assert_eq!(fields(first)[0], name.trim_matches('"'), "{table}");
        page.end().await;
    }
}

#[tokio::test]
async fn the_file_of_the_paths_has_their_figures() {
    let shop = Shop::with("slow_query").await;
    let range = past(shop);
    let page = Page::open(&shop.screen(&format!("paths?{range}&sort=count"))).await;
    let (_, json) = save(&page, "paths", "json").await;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let mut client = Client::connect(shop.demo().address()).await;
    let answer = client
        .json(&format!(
            "/admin/pulse/api/paths?{range}&sort=count&limit=1000"
        ))
        .await;
    let expected = answer["paths"].as_array().unwrap();
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        for field in ["context", "count", "mean", "p95", "error_share"] {
            let (row, expected) = (&row[field], &expected[field]);
            assert!(
                row == expected || row.as_f64() == expected.as_f64(),
                "{field}: {row} {expected}"
            );
        }
    }
    page.end().await;
}

#[tokio::test]
async fn few_samples_are_grey_and_say_so() {
    let shop = Shop::with("slow_query").await;
    let to = shop.past_ended() / 60 * 60 - 60;
    // The report is asked for 24 times a minute: too seldom for the p99 of a minute.
    let page = Page::open(&shop.screen(&format!("paths?from={}&to={to}", to - 60))).await;
    let row = "tr[data-key='GET /reports/daily']";
    page.until_shown(row).await;
    let (few, title): (bool, String) = page
        .eval(&format!(
            "((cell) => [cell.matches('.few'), cell.title])(document.querySelector({}))",
            quoted(&format!("{row} [data-column=p99]"))
        ))
        .await;
    assert!(few && title.contains("sample"), "{title}");
    let many = column(&page, "paths", "mean").await;
    assert!(many.len() >= 8);
    page.end().await;
}

#[tokio::test]
async fn a_long_list_has_pages_and_a_file_has_all_of_it() {
    let service = Service::with_counters(130).await;
    let page = Page::open(&service.url("/admin/pulse#counters")).await;
    let all: Vec<String> = (0..130).map(|n| format!("counter-{n:03}")).collect();
    let shown = keys(&page, "counters").await;
    assert_eq!(shown, all[..shown.len()]);
    assert!(shown.len() < all.len(), "there is a second page");
    let from = shown.len();
    page.click("section:has(table[data-table=counters]) nav button:last-child")
        .await;
    page.until_value(
        "the next page",
        "[...document.querySelectorAll('table[data-table=counters] tbody tr')].map((row) => row.dataset.key)",
        |keys: &Vec<String>| *keys == all[from..all.len().min(2 * from)],
    )
    .await;
    let (_, csv) = save(&page, "counters", "csv").await;
    let names: Vec<&str> = csv
        .lines()
        .skip(1)
        .map(|l| l.split(',').next().unwrap())
        .collect();
    assert_eq!(names, all);
    page.end().await;
}

/// Rows are in Redis only.
#[tokio::test]
async fn cached_rows_are_a_table_below_the_counters() {
    const ROWS: &str = "section[data-panel=rows]";
    let shop = Shop::start(Backend::Redis, &[]).await;
    let page = Page::open(&shop.screen("counters")).await;
    let ages = "[...document.querySelectorAll('table[data-table=rows] td[data-column=age]')]
        .filter((cell) => cell.textContent.endsWith(' ago')).length";
    page.until_value("all offers are loaded", ages, |ages: &usize| *ages == 6)
        .await;
    let panels: Vec<String> = page.each("main section", "element.dataset.panel").await;
    assert_eq!(panels[..2], ["counters", "rows"]);
    let text = page.text(ROWS).await;
    assert!(
        text.contains("6 rows") && text.contains("refreshes"),
        "{text}"
    );
    let (_, json) = save(&page, "rows", "json").await;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let names: BTreeSet<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert!(names.len() == 6 && names.contains("boots"), "{names:?}");
    let mut reports = Vec::new();
    page.check_accessibility("cached rows", &mut reports).await;
    assert!(reports.is_empty(), "{}", reports.join("\n"));
    page.end().await;
    let memory = Shop::start(Backend::Memory, &[]).await;
    let page = Page::open(&memory.screen("counters")).await;
    page.until_screen("counters").await;
    assert!(!page.is_shown(ROWS).await);
    page.end().await;
}

#[tokio::test]
async fn a_file_has_more_paths_than_one_answer() {
    let service = Service::with_contexts(1_100).await;
    let page = Page::open(&service.url("/admin/pulse#paths")).await;
    let (_, json) = save(&page, "paths", "json").await;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let names: BTreeSet<&str> = rows
        .iter()
        .map(|row| row["context"].as_str().unwrap())
        .collect();
    assert_eq!((rows.len(), names.len()), (1_100, 1_100));
    page.end().await;
}

#[tokio::test]
async fn each_instance_of_a_large_fleet_is_listed() {
    let service = Service::of_instances(20).await;
    let page = Page::open(&service.url("/admin/pulse#health")).await;
    let all: Vec<String> = (0..20).map(|n| format!("web-{n:02}")).collect();
    page.until_value(
        "all instances",
        "[...document.querySelectorAll('table[data-table=instances] tbody tr')].map((row) => row.dataset.key)",
        |keys: &Vec<String>| *keys == all,
    )
    .await;
    page.end().await;
}
