//! Measures the speed of the dashboard, for `docs/cost.md`: `make page-figures`. Needs a quiet machine.
#![allow(clippy::print_stdout, reason = "the output is a table")]

use pulse_browser::page::{Page, quoted};
use pulse_browser::service::Service;
use pulse_browser::shop::Shop;

const RUNS: usize = 15;

const CONTEXTS: u32 = 2_000;

#[tokio::main]
async fn main() {
    println!(
        "{:<64} {:>8} {:>8} {:>8}   bound",
        "milliseconds", "median", "least", "most"
    );
    let shop = Shop::start(&[("DEMO_HISTORY", "3h")]).await;
    let page = Page::open(&shop.screen("overview")).await;
    print(
        "first paint of the overview, warm, on loopback",
        first_paints(&page).await,
        300.0,
    );
    let to = shop.past_ended() / 60 * 60;
    page.go(&shop.screen(&format!("overview?from={}&to={to}", to - 120 * 60)))
        .await;
    let legend = "[data-chart=latency] button[data-series=p50]";
    page.until_shown(legend).await;
    print(
        "redraw of the overview: two charts of 120 slices and its tables",
        redraws(&page, legend).await,
        10.0,
    );

    let service = Service::with_contexts(CONTEXTS).await;
    let page = Page::open(&service.url("/admin/pulse#paths?range=1h&limit=100&refresh=60")).await;
    page.until("$$('table[data-table=paths] tbody tr').length === 100")
        .await;
    print(
        "redraw of 100 rows of paths",
        redraws(&page, "#utc").await,
        10.0,
    );
    print(
        &format!("sort of {CONTEXTS} contexts, from the click to 100 rows on the screen"),
        sorts(&page).await,
        100.0,
    );
    print(
        &format!("filter of {CONTEXTS} contexts, from the key to the rows on the screen"),
        filters(&page).await,
        100.0,
    );
}

fn print(measured: &str, mut millis: Vec<f64>, bound: f64) {
    millis.sort_by(f64::total_cmp);
    let median = millis[millis.len() / 2];
    let (least, most) = (millis[0], millis[millis.len() - 1]);
    println!("{measured:<64} {median:>8.1} {least:>8.1} {most:>8.1} {bound:>7}");
}

/// Milliseconds from the start of a navigation to the first paint with content. The browser's cache has all assets.
async fn first_paints(page: &Page) -> Vec<f64> {
    let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0";
    let mut millis = Vec::new();
    for _ in 0..RUNS {
        page.reload().await;
        let is_painted = |millis: &f64| *millis > 0.0;
        millis.push(page.until_value(paint, is_painted).await);
    }
    millis
}

/// Milliseconds in which a click draws the whole screen again, including the layout.
async fn redraws(page: &Page, selector: &str) -> Vec<f64> {
    let script = format!(
        "(() => {{
            const element = document.querySelector({});
            const start = performance.now();
            element.click();
            document.body.getBoundingClientRect();
            return performance.now() - start;
        }})()",
        quoted(selector)
    );
    let mut millis = Vec::new();
    for _ in 0..RUNS {
        millis.push(page.eval(&script).await);
    }
    millis
}

/// Milliseconds from an action until the table has painted other rows.
async fn until_other_rows(page: &Page, action: &str) -> f64 {
    let script = format!(
        "(async () => {{
            const body = document.querySelector('table[data-table=paths] tbody');
            const shown = () => [...body.rows].map((row) => row.dataset.key).join();
            const before = shown();
            const changed = new Promise((resolve) => new MutationObserver((_, observer) => {{
                if (shown() === before) return;
                observer.disconnect();
                requestAnimationFrame(() => setTimeout(resolve));
            }}).observe(body, {{childList: true, subtree: true, attributes: true}}));
            const start = performance.now();
            {action};
            await changed;
            return performance.now() - start;
        }})()"
    );
    page.eval(&script).await
}

async fn sorts(page: &Page) -> Vec<f64> {
    let mut millis = Vec::new();
    for sort in ["count", "mean"].into_iter().cycle().take(RUNS) {
        let click = format!("document.querySelector('button[data-sort={sort}]').click()");
        millis.push(until_other_rows(page, &click).await);
    }
    millis
}

async fn filters(page: &Page) -> Vec<f64> {
    let mut millis = Vec::new();
    for run in 0..RUNS {
        let key = format!(
            "((filter) => {{ filter.value = 'section-{run}/'; filter.dispatchEvent(new Event('input', {{bubbles: true}})); }})(document.querySelector('#filter'))"
        );
        millis.push(until_other_rows(page, &key).await);
    }
    millis
}
