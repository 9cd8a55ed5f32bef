//! Tables: sorted, filtered, opened and saved.

use std::collections::BTreeSet;

use pulse_browser::page::Page;
use pulse_browser::rig::http::Client;
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;
use serde_json::Value;

use crate::{keys, open, rows, save};

/// A range within the demo's simulated past, which gets no more requests.
fn past(shop: &Shop) -> String {
    let to = shop.past_ended() / 60 * 60 - 60;
    format!("from={}&to={to}", to - 1_800)
}

async fn paths(shop: &Shop, query: &str) -> Vec<Value> {
    let mut client = Client::connect(shop.demo().address()).await;
    let uri = format!("/admin/pulse/api/paths?{query}");
    let paths = client.json(&uri).await["paths"].take();
    serde_json::from_value(paths).expect("a list")
}

fn texts<'a>(rows: &'a [Value], field: &str) -> Vec<&'a str> {
    let texts = rows.iter().map(|row| row[field].as_str());
    texts.map(|text| text.expect("a text")).collect()
}

#[tokio::test]
async fn every_column_sorts_both_ways() {
    let shop = Shop::with("slow_query").await;
    let range = past(shop);
    let page = Page::open(&shop.screen(&format!("paths?{range}"))).await;
    let buttons = "table[data-table=paths] button[data-sort]";
    let buttons: Vec<String> = page.each(buttons, "element.dataset.sort").await;
    for column in ["count", "mean", "p95", "error_share", "share", "change"] {
        assert!(buttons.iter().any(|button| button == column), "{buttons:?}");
    }
    for sort in buttons {
        let aria = format!("$('th:has([data-sort=\"{sort}\"])').ariaSort");
        // The table is sorted by the share of time at first, so the first click may reverse the order.
        for _ in ["one way", "the other"] {
            page.click(&format!(
                "table[data-table=paths] button[data-sort='{sort}']"
            ))
            .await;
            page.until(&format!("['ascending', 'descending'].includes({aria})"))
                .await;
            let order = page.eval::<String>(&aria).await.replace("ending", "");
            let expected = paths(shop, &format!("{range}&sort={sort}&order={order}")).await;
            assert!(expected.len() >= 8);
            let expected = texts(&expected, "context");
            page.until_value(&keys("paths"), |keys: &Vec<String>| *keys == expected)
                .await;
            let marked = "table[data-table=paths] th[aria-sort]:not([aria-sort=none])";
            assert_eq!(page.count(marked).await, 1, "one column is marked");
        }
    }
}

#[tokio::test]
async fn a_slash_and_some_letters_filter() {
    let page = open("slow_query", "overview?range=1h").await;
    page.press("/").await;
    page.until_screen("paths").await;
    page.until("document.activeElement?.id === 'filter'").await;
    let length: usize = page.eval("history.length").await;
    page.type_text("search").await;
    page.until(&format!("{}.join() === 'GET /search'", keys("paths")))
        .await;
    page.until_fragment_has("q=search").await;
    let typed = "[history.length, $('#filter').value]";
    let typed: (usize, String) = page.eval(typed).await;
    let expected = (length, "search".to_owned());
    assert_eq!(typed, expected, "typing adds nothing to the history");
    page.type_text("xyz").await;
    page.until("!$('table[data-table=paths] tbody tr') && /No path/.test($('main').innerText)")
        .await;
}

/// The fields of a line of CSV. No field may have a comma.
fn fields(line: &str) -> Vec<&str> {
    let fields = line.split(',');
    fields.map(|field| field.trim_matches('"')).collect()
}

#[tokio::test]
async fn every_table_is_saved_as_csv_and_json() {
    let shop = Shop::with("slow_query").await;
    let range = past(shop);
    let context = "context=GET%20%2Fsearch";
    let page = Page::open(&shop.url()).await;
    for (fragment, table) in [
        (format!("overview?{range}"), "fix-first"),
        (format!("paths?{range}"), "paths"),
        (format!("timers?{range}"), "timers"),
        (format!("path?{context}&{range}"), "instances"),
        ("slowest".to_owned(), "slowest-requests"),
        (format!("errors?{range}"), "kinds"),
        (format!("path?{context}&range=1h"), "slow-requests"),
        ("counters".to_owned(), "counters"),
        ("health".to_owned(), "instances"),
        ("deploy".to_owned(), "deploy"),
    ] {
        page.show(&fragment).await;
        page.until(&format!("{}.length > 0", keys(table))).await;
        let (name, csv) = save(&page, table, "csv").await;
        assert!(name.ends_with(".csv"), "{name}");
        let json = rows(&page, table).await;
        let mut lines = csv.lines();
        let head = fields(lines.next().unwrap());
        let first = json[0].as_object().unwrap();
        let names: BTreeSet<_> = first.keys().map(String::as_str).collect();
        assert_eq!(BTreeSet::from_iter(head.clone()), names, "{table}");
        assert_eq!(lines.clone().count(), json.len(), "{table}: {csv}");
        let shown: Vec<String> = page.eval(&keys(table)).await;
        assert!(json.len() >= shown.len().min(10), "{table}: {json:?}");
        // The first column has the names. Figures are numbers with all digits, not the texts on the screen.
        assert!(first.values().any(Value::is_number), "{table}: {first:?}");
        let name = first[head[0]].to_string();
        let field = fields(lines.next().unwrap())[0];
        assert_eq!(field, name.trim_matches('"'), "{table}");
    }

    page.show(&format!("paths?{range}&sort=count")).await;
    page.until(&format!("{}.length > 0", keys("paths"))).await;
    let saved = rows(&page, "paths").await;
    let expected = paths(shop, &format!("{range}&sort=count")).await;
    assert_eq!(saved.len(), expected.len());
    for (row, expected) in saved.iter().zip(&expected) {
        for field in ["context", "count", "mean", "p95", "error_share"] {
            let (row, expected) = (&row[field], &expected[field]);
            let is_same = row == expected || row.as_f64() == expected.as_f64();
            assert!(is_same, "{field}: {row} {expected}");
        }
    }
}

#[tokio::test]
async fn figures_of_few_samples_are_grey_and_say_so() {
    let to = Shop::with("slow_query").await.past_ended() / 60 * 60 - 60;
    // The report gets 24 requests a minute, too few for the p99 of a minute.
    let page = open("slow_query", &format!("paths?from={}&to={to}", to - 60)).await;
    let cell = "$('tr[data-key=\"GET /reports/daily\"] [data-column=p99]')";
    page.until(&format!(
        "{cell}?.matches('.few') && {cell}.title.includes('sample')"
    ))
    .await;
    assert!(page.count("td[data-column=p50]:not(.few)").await > 0);
}

#[tokio::test]
async fn a_long_list_has_pages_and_a_file_has_all_of_it() {
    let service = Service::with_counters(130).await;
    let page = Page::open(&service.screen("counters")).await;
    let all: Vec<String> = (0..130).map(|n| format!("counter-{n:03}")).collect();
    let shown: Vec<String> = page.eval(&keys("counters")).await;
    assert_eq!(shown, all[..shown.len()]);
    assert!(shown.len() < all.len(), "there is a second page");
    let next = shown.len()..all.len().min(2 * shown.len());
    page.click("section:has(table[data-table=counters]) nav button:last-child")
        .await;
    let is_next = |keys: &Vec<String>| *keys == all[next.clone()];
    page.until_value(&keys("counters"), is_next).await;
    let (_, csv) = save(&page, "counters", "csv").await;
    let names: Vec<_> = csv.lines().skip(1).map(|line| fields(line)[0]).collect();
    assert_eq!(names, all);

    // More paths than one answer can have.
    let service = Service::with_contexts(1_100).await;
    let page = Page::open(&service.screen("paths")).await;
    let rows = rows(&page, "paths").await;
    let names = BTreeSet::from_iter(texts(&rows, "context"));
    assert_eq!((rows.len(), names.len()), (1_100, 1_100));
}
