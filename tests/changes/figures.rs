//! Figures in different answers agree, for all pages and windows of a store with random requests.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tower_pulse::query::{
    ChangesQuery, ENOUGH_REQUESTS, Kind, MarksQuery, Measured, PathQuery, PathsQuery, Question,
    Reader, SeriesMetric, SeriesQuery, SeriesValue, Window,
};
use tower_pulse::{Clock, Pulse};
use tower_pulse_core::query::dashboard::{DeployQuery, FixFirstQuery, FixReason, OverviewQuery};

use crate::changes::fleet::START;

/// Panics if two figures of the answers contradict each other.
pub async fn agree(query: &Reader, now: i64) {
    let all = in_window(query, Window::last(Duration::MAX), "all").await;
    let year_9999 = 253_402_300_799;
    let between = [(0, year_9999), (now - 600, now), (now - 5_400, now - 1_800)];
    let windows = between.map(|(from, to)| Window::between(from, to).unwrap());
    let named = Window::NAMES.map(|name| name.parse().unwrap());
    for window in [Window::last(Duration::ZERO)]
        .into_iter()
        .chain(windows)
        .chain(named)
    {
        assert!(in_window(query, window, &format!("{window:?}")).await <= all);
    }
    deploys(query).await;
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
}

/// Compares the answers about one window. Returns the number of requests.
async fn in_window(query: &Reader, window: Window, name: &str) -> u64 {
    let overview = query
        .ask(&OverviewQuery::default().with(|of| of.window = Some(window)))
        .await
        .unwrap();
    let all = overview.window.as_ref().unwrap();
    let mut asked = PathsQuery::default();
    asked.window = window;
    asked.limit = Some(1_000);
    let paths = query.ask(&asked).await.unwrap();
    assert_eq!(
        json!([all.covered, all.before.covered]),
        json!([paths.now, paths.before]),
        "{name}"
    );
    let count: u64 = paths.paths.iter().map(|row| row.now.count).sum();
    let errors: u64 = paths.paths.iter().map(|row| row.now.errors).sum();
    let total: f64 = paths.paths.iter().map(|row| row.now.total).sum();
    assert_eq!((all.now.count, all.now.errors), (count, errors), "{name}");
    assert!(near(all.now.total, total), "{name}: {total}, {all:#?}");
    measured(&all.now, all.covered.recorded_seconds, name);
    let shares: f64 = paths.paths.iter().filter_map(|row| row.share).sum();
    assert!(count == 0 || near(shares, 1.0), "{name}: {shares}");
    for row in &paths.paths {
        measured(&row.now, paths.now.recorded_seconds, name);
        let mut asked = PathQuery::default();
        asked.context = row.name.context.to_string();
        asked.window = Some(window);
        asked.kind = Some(Kind::Http);
        let page = query.ask(&asked).await.unwrap();
        let page = page.window.as_ref().unwrap();
        assert_eq!(
            json!([page.window.now, page.window.change]),
            json!([row.now, row.change]),
            "{name}"
        );
        let requests: u64 = page.histogram.iter().map(|(_, _, count)| count).sum();
        assert_eq!(requests, row.now.count, "{name}");
        // A comparison needs enough data on both sides.
        let old = row.before.as_ref().map_or(0, |before| before.count);
        let can_compare = paths.now.complete > 0.5
            && paths.before.complete > 0.5
            && old.min(row.now.count) >= ENOUGH_REQUESTS;
        let ratio = row.change.as_ref().and_then(|change| change.times.mean);
        assert_eq!(ratio.is_some(), can_compare, "{name}: {row:#?}");
        assert!(!(row.is_new && old > 0), "{name}: {row:#?}");
    }
    let mut series = SeriesQuery::default();
    series.metric = SeriesMetric::Outcomes;
    series.window = Some(window);
    let series = query.ask(&series).await.unwrap();
    if series
        .window
        .is_some_and(|covered| covered.from == all.covered.from)
    {
        let outcomes = series.points.iter().map(|(_, value)| match value {
            SeriesValue::Outcomes(outcomes) => outcomes.iter().map(|(_, n)| n).sum::<u64>(),
            other => panic!("{other:?}"),
        });
        assert_eq!(outcomes.sum::<u64>(), count, "{name}");
    }
    fix_first(query, window, name).await;
    asked.kind = Kind::Timer;
    let timers = query.ask(&asked).await.unwrap();
    let queue = timers
        .paths
        .iter()
        .find(|row| row.name.context == "queue" && row.now.count > 0);
    let figures = queue.map(|row| {
        let change = row.change.as_ref().and_then(|change| change.times.mean);
        json!({"requests": row.now.count, "total": row.now.total, "mean": row.now.times.mean, "change": change})
    });
    assert_eq!(json!(overview.queue), json!(figures), "{name}");
    count
}

/// Compares the figures of a context with each other. `seconds` is the recorded part of the window.
fn measured(measured: &Measured, seconds: i64, name: &str) {
    let about = || format!("{name}: {measured:#?}");
    let count = measured.count as f64;
    let rate = (seconds > 0 && count > 0.0).then(|| count / seconds as f64);
    assert_eq!(measured.per_second, rate, "{}", about());
    let outcomes: u64 = measured.outcomes.iter().map(|(_, n)| n).sum();
    assert_eq!(outcomes, measured.count, "{}", about());
    let times = &measured.times;
    let Some(mean) = times.mean else {
        assert_eq!(measured.count, 0, "{}", about());
        return;
    };
    assert!(near(mean * count, measured.total), "{}", about());
    let share = measured.error_share.unwrap();
    assert!(near(share * count, measured.errors as f64), "{}", about());
    let ordered = [times.min, times.p50, times.p95, times.p99, times.max].map(Option::unwrap);
    assert!(ordered.is_sorted(), "{}", about());
    assert!(ordered[0] <= mean && mean <= ordered[4], "{}", about());
}

/// All rows are of one window. The page's own answer about this window has the same figures.
async fn fix_first(query: &Reader, window: Window, name: &str) {
    let answer = query
        .ask(&FixFirstQuery::default().with(|of| (of.window, of.limit) = (window, Some(100))))
        .await
        .unwrap();
    let changes = query.ask(&ChangesQuery::default()).await.unwrap();
    let shares: f64 = answer.rows.iter().filter_map(|row| row.share).sum();
    assert!(shares <= 1.0 + 1e-9, "{name}: {shares}");
    for row in &answer.rows {
        let about = || format!("{name}: {row:#?}");
        if row.instance.is_some() {
            // Instances have reports of a part of the window.
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
        measured(&row.measured, row.window.recorded_seconds, name);
        let saved = row.saved_per_minute.unwrap_or(0.0);
        assert!((0.0..=per_minute + 1e-9).contains(&saved), "{}", about());
        let may_save = matches!(row.reason, FixReason::Slower | FixReason::Instance);
        assert!(may_save || saved == 0.0, "{}", about());
        if let Some(cause) = &row.cause {
            // The row has the same change as the list of changes.
            let listed = changes.changes.iter().find(|one| one.change.id == cause.id);
            assert_eq!(listed.map(|one| &one.change), Some(cause), "{}", about());
            let is_of_time = row.reason == FixReason::Slower && !cause.is_tail;
            assert!(!is_of_time || row.ratio == Some(cause.ratio), "{}", about());
            // Before it began, the slowdown has cost nothing.
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

/// The extra time of a deploy comes from slower pages, not from more traffic.
async fn deploys(query: &Reader) {
    for mark in &query.ask(&MarksQuery::default()).await.unwrap().marks {
        let mut asked = DeployQuery::default();
        asked.mark = Some(mark.id.to_string());
        let deploy = query.ask(&asked).await.unwrap();
        for row in &deploy.contexts {
            let about = || format!("{row:#?}");
            let ratio = row.change.as_ref().and_then(|change| change.times.mean);
            assert_eq!(
                ratio.is_some(),
                row.extra_seconds_per_minute.is_some(),
                "{}",
                about()
            );
            let (Some(ratio), Some(extra)) = (ratio, row.extra_seconds_per_minute) else {
                continue;
            };
            assert_eq!(extra > 0.0, ratio > 1.0, "{}", about());
            let covered = deploy.after.unwrap();
            let spent = row.after.as_ref().unwrap().total * 60.0 / covered.recorded_seconds as f64;
            assert!(extra <= spent, "{}", about());
        }
    }
}

/// Random requests: seconds ago, the number of the page, milliseconds, and whether the request failed.
fn requests() -> impl Strategy<Value = Vec<(i64, u8, u16, bool)>> {
    let ago = prop_oneof![0..600i64, 0..7_200i64, 0..90_000i64];
    proptest::collection::vec(
        (ago, 0..4u8, 1..2_000u16, proptest::bool::weighted(0.1)),
        0..300,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn every_figure_agrees_with_every_other(mut requests in requests(), age in 0..100_000i64) {
        requests.sort_by_key(|request| std::cmp::Reverse(request.0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let now = START + 100_000;
            let (clock, time) = Clock::manual(now - age.max(requests.first().map_or(0, |one| one.0)));
            let (pulse, _tasks) = Pulse::builder().clock(clock).build_with_tasks().unwrap();
            pulse.flush().await.unwrap();
            for (ago, page, millis, fails) in requests {
                time.set_wall(now - ago);
                pulse.simulation().drain();
                let status = if fails { http::StatusCode::BAD_GATEWAY } else { http::StatusCode::OK };
                let name = format!("GET /{page}");
                pulse.record(&name, Duration::from_millis(millis.into()), status);
                pulse.record_duration("queue", Duration::from_millis(millis.into()));
                pulse.simulation().drain();
                pulse.flush().await.unwrap();
            }
            time.set_wall(now);
            pulse.flush().await.unwrap();
            agree(pulse.query(), now).await;
        });
    }
}
