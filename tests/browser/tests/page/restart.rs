//! A service on a file is restarted: the page goes on where it was.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pulse_browser::page::Page;
use pulse_browser::rig::demo::{Demo, built};
use pulse_browser::rig::process::TempDir;
use tower_pulse::{Clock, Pulse};
use tower_pulse_file::{FileOptions, FileStore};

const PATIENCE: Duration = Duration::from_secs(60);
const PAGE: &str = "GET /yesterday";

/// A process that serves 20 requests a minute, from 20 to 18 hours ago.
async fn serve_yesterday(file: &Path) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (clock, hand) = Clock::manual(now.as_secs() as i64 - 20 * 3_600);
    let options = FileOptions::new(file).unwrap().clock(clock.clone());
    let store = Arc::new(FileStore::open(options).unwrap());
    let builder = Pulse::builder().store(store).clock(clock);
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    for _ in 0..120 {
        for _ in 0..20 {
            pulse.record(PAGE, Duration::from_millis(30), http::StatusCode::OK);
        }
        hand.advance(Duration::from_secs(60));
        pulse.flush().await.unwrap();
    }
    pulse.shutdown().await.unwrap();
}

/// The counts of yesterday's page in the last 24 hours, as its chart says, by half hours.
async fn counts(demo: &Demo) -> Vec<u64> {
    let (address, context) = (demo.address(), "GET%20%2Fyesterday");
    let url = format!("http://{address}/admin/pulse#path?context={context}&range=24h");
    let page = Page::open(&url).await;
    let chart = "[data-chart=hits]";
    crate::click_in_menu(&page, chart, "button[data-view=table]").await;
    page.until_shown(&format!("{chart} table")).await;
    let cells = format!("{chart} table tbody tr td:nth-of-type(1)");
    let cells = page.texts(&cells).await;
    page.end().await;
    let digits = cells.iter().map(|cell| {
        let digits: String = cell.chars().filter(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    });
    digits.filter(|count| *count > 0).collect()
}

#[tokio::test]
async fn the_page_shows_yesterday_after_each_restart() {
    let dir = TempDir::new("restart");
    let file = dir.path().join("pulse.redb");
    serve_yesterday(&file).await;
    let env = [("PULSE_FILE", file.to_str().unwrap())];
    let mut demo = Demo::start(built(), &env).await;
    for _ in 0..2 {
        let counts = counts(&demo).await;
        assert_eq!(counts.iter().sum::<u64>(), 2_400, "{counts:?}");
        assert!((4..=5).contains(&counts.len()), "{counts:?}");
        demo.signal("TERM");
        let exit = demo.wait_exit(PATIENCE).await;
        assert!(exit.is_some_and(|exit| exit.success()), "{}", demo.stderr());
        demo = Demo::start(built(), &env).await;
    }
}
