//! Different answers about an incident agree: a row has the same figures as its page and its change.

use serde_json::json;
use tower_pulse::query::{
    ChangesQuery, ENOUGH_REQUESTS, Kind, PathQuery, PathsQuery, Question, Reader, Window,
};
use tower_pulse_core::query::dashboard::{FixFirstQuery, FixReason};

/// Panics if two figures of the answers contradict each other.
pub async fn agree(query: &Reader, now: i64) {
    let between = [(now - 600, now), (now - 5_400, now - 1_800)];
    let windows = between.map(|(from, to)| Window::between(from, to).unwrap());
    let named = Window::NAMES.map(|name| name.parse().unwrap());
    for window in windows.into_iter().chain(named) {
        let name = format!("{window:?}");
        check_compared(query, window, &name).await;
        check_fix_first(query, window, &name).await;
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
}

/// Checks that a row is compared with the window before if, and only if, both windows have enough data.
async fn check_compared(query: &Reader, window: Window, name: &str) {
    let mut asked = PathsQuery::default();
    asked.window = window;
    asked.limit = Some(1_000);
    let paths = query.ask(&asked).await.unwrap();
    for row in &paths.paths {
        let old = row.before.as_ref().map_or(0, |before| before.count);
        let can_compare = paths.now.complete > 0.5
            && paths.before.complete > 0.5
            && old.min(row.now.count) >= ENOUGH_REQUESTS;
        let ratio = row.change.as_ref().and_then(|change| change.times.mean);
        assert_eq!(ratio.is_some(), can_compare, "{name}: {row:#?}");
        assert!(!(row.is_new && old > 0), "{name}: {row:#?}");
    }
}

/// Checks that the rows of pages have the figures of the answers about these pages.
async fn check_fix_first(query: &Reader, window: Window, name: &str) {
    let answer = query
        .ask(&FixFirstQuery::default().with(|ask| (ask.window, ask.limit) = (window, Some(100))))
        .await
        .unwrap();
    let changes = query.ask(&ChangesQuery::default()).await.unwrap();
    let shares: f64 = answer.rows.iter().filter_map(|row| row.share).sum();
    assert!(shares <= 1.0 + 1e-9, "{name}: {shares}");
    for row in &answer.rows {
        let about = || format!("{name}: {row:#?}");
        if row.instance.is_some() {
            // Instances may have reports of only a part of the window.
            assert!(answer.covered.from <= row.window.from, "{}", about());
            assert!(row.window.to <= answer.covered.to, "{}", about());
            assert_eq!(row.share, None, "{}", about());
        } else {
            assert_eq!(json!(row.window), json!(answer.covered), "{}", about());
        }
        let per_minute = row.per_minute.unwrap_or(0.0);
        let seconds = row.window.recorded_seconds as f64;
        assert!(
            seconds == 0.0 || near(per_minute * seconds / 60.0, row.measured.total),
            "{}",
            about()
        );
        let saved = row.saved_per_minute.unwrap_or(0.0);
        assert!((0.0..=per_minute + 1e-9).contains(&saved), "{}", about());
        let may_save = matches!(row.reason, FixReason::Slower | FixReason::Instance);
        assert!(may_save || saved == 0.0, "{}", about());
        if let Some(cause) = &row.cause {
            let listed = changes.changes.iter().find(|row| row.change.id == cause.id);
            assert_eq!(listed.map(|row| &row.change), Some(cause), "{}", about());
            let is_of_time = row.reason == FixReason::Slower && !cause.is_tail;
            assert!(!is_of_time || row.ratio == Some(cause.ratio), "{}", about());
            // A slowdown costs no time before it begins.
            let minutes = (row.window.to - cause.since) as f64 / 60.0;
            let most = cause.from_code * minutes + 1e-9;
            assert!(saved * seconds / 60.0 <= most, "{most}: {}", about());
        }
        if row.name.kind != Kind::Http || row.instance.is_some() {
            continue;
        }
        let mut asked = PathQuery::default();
        asked.context = row.name.context.to_string();
        asked.window = Some(window);
        asked.kind = Some(Kind::Http);
        let page = query.ask(&asked).await.unwrap();
        let page = &page.window.as_ref().unwrap().window;
        assert_eq!(page.covered.from, row.window.from, "{}", about());
        assert_eq!(page.covered.to, row.window.to, "{}", about());
        assert_eq!(page.now.count, row.measured.count, "{}", about());
        for (of_page, of_row) in [
            (page.now.times.mean, row.measured.times.mean),
            (page.now.times.p95, row.measured.times.p95),
            (page.now.error_share, row.measured.error_share),
        ] {
            let pair = (of_page.unwrap_or(0.0), of_row.unwrap_or(0.0));
            assert!(near(pair.0, pair.1), "{pair:?}: {}", about());
        }
    }
}
