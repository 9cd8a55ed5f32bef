//! The usual week of a path: a coloured table with a text for each hour. Keys move through the table.

use pulse_browser::emulation::Size;
use pulse_browser::page::Page;
use pulse_browser::service::Service;

use crate::accessibility::assert_accessible;

const WEEK: &str = "[data-panel=week]";
const PATH: &str = "path?context=GET%20%2F&utc=1";

#[tokio::test]
async fn each_hour_of_the_week_shows_its_usual_figures() {
    let service = Service::with_week().await;
    let page = Page::open(&service.screen(PATH)).await;
    page.until_shown(WEEK).await;
    assert_eq!(page.count("table[data-table=week] tbody tr").await, 7);
    assert_eq!(page.count("table[data-table=week] tbody td").await, 168);
    // The first day is Monday.
    for (day, hour, requests, heat) in [(0, 10, 40, 5), (4, 16, 40, 5), (2, 3, 4, 2), (6, 12, 4, 2)]
    {
        let cell = format!("$('[data-table=week] tbody').rows[{day}].cells[{hour} + 1]");
        let cell = format!("(({{title, dataset}}) => [title, dataset.heat])({cell})");
        let (title, shown): (String, String) = page.eval(&cell).await;
        let expected = format!(
            "{hour:02}:00, {requests} requests per hour, 0% errors, mean 20.0\u{202f}ms, p95 20.0\u{202f}ms, "
        );
        assert!(title.contains(&expected), "{title}");
        let weeks = ["1 week", "2 weeks"].map(|end| title.ends_with(end));
        assert!(weeks.contains(&true), "{title}");
        assert_eq!(shown, heat.to_string());
    }
    // The arrow keys move from hour to hour, and stop at the table's edges.
    page.focus("table[data-table=week] tbody td").await;
    for key in ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"] {
        page.press(key).await;
    }
    let focused: String = page.eval("document.activeElement.title").await;
    let expected = "Tuesday 01:00, 4 requests per hour";
    assert!(focused.starts_with(expected), "{focused}");
    assert_eq!(page.text("[data-panel=week] .readout").await, focused);
    let reached = page.count("table[data-table=week] td[tabindex='0']").await;
    assert_eq!(reached, 1);
    assert_accessible(&page).await;
    page.resize(Size::PHONE).await;
    page.until("$('table[data-table=week]').getBoundingClientRect().right <= 390")
        .await;

    let young = Service::with_quiet_minutes(true).await;
    let page = Page::open(&young.screen(PATH)).await;
    page.until_shown("[data-panel=slow-requests] tbody tr")
        .await;
    assert!(!page.is_shown(WEEK).await);
}
