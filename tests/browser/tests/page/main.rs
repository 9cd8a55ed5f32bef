//! Tests the dashboard in a real browser.

mod accessibility;
mod advice;
mod charts;
mod cost;
mod figures;
mod heat_map;
mod hostile;
mod incidents;
mod instance;
mod looks;
mod outage;
mod places;
mod range;
mod signals;
mod slowest;
mod tables;
mod unexpected;
mod week;
mod written;

use pulse_browser::page::{Page, quoted};
use pulse_browser::rig::wait::until;
use pulse_browser::shop::Shop;
use serde_json::Value;

async fn open(incident: &str, fragment: &str) -> Page {
    Page::open(&Shop::with(incident).await.screen(fragment)).await
}

/// Waits until a page has asked for data `more` times.
async fn until_polled(page: &Page, more: usize) {
    let before = page.polls().await.len();
    until("the page polls", async || {
        page.polls().await.len() >= before + more
    })
    .await;
}

/// Clicks on a button within `root`. If the button is in a closed menu, opens the menu first.
async fn click_in_menu(page: &Page, root: &str, button: &str) {
    let button = format!("{root} {button}");
    if !page.is_shown(&button).await {
        page.click(&format!("{root} summary")).await;
    }
    page.click(&button).await;
}

/// Chooses an option of a select, or sets the value of a field.
async fn set(page: &Page, field: &str, value: &str) {
    page.run(&format!(
        "((field) => {{ field.value = '{value}'; field.dispatchEvent(new Event('change', {{bubbles: true}})); }})($({}))",
        quoted(field)
    ))
    .await;
}

/// Shows a chart as a table, or as a chart again.
async fn toggle(page: &Page, chart: &str) {
    let chart = format!("[data-chart={chart}]");
    click_in_menu(page, &chart, "button[data-view=table]").await;
}

/// Saves the table or chart of this name as `csv` or `json`. Returns the file's name and text.
async fn save(page: &Page, name: &str, format: &str) -> (String, String) {
    let button = format!("button[data-of={name}][data-export={format}]");
    click_in_menu(page, "#export", &button).await;
    page.download().await
}

/// The saved rows of the table or chart of this name.
async fn rows(page: &Page, name: &str) -> Vec<Value> {
    let (_, json) = save(page, name, "json").await;
    serde_json::from_str(&json).expect("a list")
}

/// A JavaScript expression for the keys of a table's rows, in their order.
fn keys(table: &str) -> String {
    format!("$$('table[data-table={table}] tbody tr[data-key]').map((row) => row.dataset.key)")
}

async fn column(page: &Page, table: &str, column: &str) -> Vec<String> {
    page.texts(&format!(
        "table[data-table={table}] tbody [data-column='{column}']"
    ))
    .await
}
