//! The page, as somebody on call reads it: in a real browser, on a real demo.

mod accessibility;
mod advice;
mod charts;
mod cost;
mod figures;
mod growth;
mod heat_map;
mod hostile;
mod incidents;
mod instance;
mod machine;
mod outage;
mod places;
mod range;
mod restart;
mod signals;
mod slowest;
mod tables;
mod unexpected;
mod watched;
mod week;
mod written;

use pulse_browser::page::Page;
use pulse_browser::watch::Exchange;

/// The requests for data so far.
async fn polls(page: &Page) -> Vec<Exchange> {
    let exchanges = page.exchanges().await;
    exchanges.into_iter().filter(Exchange::is_poll).collect()
}

/// Waits until a page has asked for data so many times more.
async fn until_polled(page: &Page, more: usize) {
    let before = polls(page).await.len();
    let start = std::time::Instant::now();
    while polls(page).await.len() < before + more {
        assert!(start.elapsed().as_secs() < 60, "the page does not poll");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Clicks on a button of a card or a chart, which may stand in a menu.
async fn click_in_menu(page: &Page, root: &str, button: &str) {
    let button = format!("{root} {button}");
    if !page.is_shown(&button).await {
        page.click(&format!("{root} summary")).await;
        page.until_shown(&button).await;
    }
    page.click(&button).await;
}

/// Saves what the screen shows under this name, as `csv` or `json`, and returns the file's name and text.
async fn save(page: &Page, name: &str, format: &str) -> (String, String) {
    let button = format!("button[data-of={name}][data-export={format}]");
    click_in_menu(page, "#export", &button).await;
    page.download().await
}

/// The keys of the rows of a table, in their order.
async fn keys(page: &Page, table: &str) -> Vec<String> {
    page.each(
        &format!("table[data-table={table}] tbody tr"),
        "element.dataset.key",
    )
    .await
}

/// The texts of a column of a table.
async fn column(page: &Page, table: &str, column: &str) -> Vec<String> {
    page.texts(&format!(
        "table[data-table={table}] tbody [data-column='{column}']"
    ))
    .await
}
