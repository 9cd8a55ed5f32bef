//! The days of a history are kept until a week after a folder last asked for them. Each sample is in one day, whichever
//! instance folds.

use std::time::Duration;

use serde_json::Value;
use tower_pulse::{Clock, Condition, ManualClock, Pulse};
use tower_pulse_core::store::history;
use tower_pulse_core::store::table_reads::Purpose;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slices::Merge;
use tower_pulse_model::timer_sums::TimerSums;

use crate::rig::reads::StoreOf;
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::stores::fixture::{Fixture, NOW, aggregate_of};
use crate::stores::windows::{CONTEXTS, Dashboard, METRICS, Served, near, number, percentile};

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

in_both!(
    months_show_the_served_requests,
    days_are_recorded_while_a_folder_asks_and_for_a_week,
);

async fn serve_after(dashboard: &mut Dashboard, fixture: &mut Fixture, seconds: i64) {
    fixture.advance(seconds);
    let served = Served::new(fixture.now(), 0, 5_000_000);
    dashboard.serve(fixture, &[served]).await;
}

async fn serve_daily(dashboard: &mut Dashboard, fixture: &mut Fixture, days: usize) {
    for _ in 0..days {
        serve_after(dashboard, fixture, DAY).await;
    }
}

/// The answer about a month. The dashboard reads the days once a minute.
async fn month(dashboard: &Dashboard, fixture: &Fixture) -> Value {
    fixture.advance(61);
    dashboard.get("overview?window=30d").await["window"].clone()
}

/// Checks that a month has all requests since `since`, and that the time before `since` does not count as recorded.
fn assert_since(dashboard: &Dashboard, window: &Value, since: i64, now: i64) {
    let expected = dashboard.expected(None, since, number(window, "to")).len();
    assert_eq!(window["count"], expected, "{window}");
    let recorded = number(window, "recorded_seconds");
    assert!((recorded - (now - since)).abs() < 2 * HOUR, "{window}");
}

async fn months_show_the_served_requests(mut fixture: Fixture) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let mut dashboard = Dashboard::new(&fixture);
    // The history has only whole days. The first call begins it, so the next day is the first day with samples.
    fixture.take_over("first", Some(400)).await;
    fixture.count(NOW, &[("sales", 1)]).await;
    fixture.advance(DAY - NOW % DAY);
    let began = fixture.now();
    let mut asked_at = NOW;
    let mut step = 0;
    // Takes at least 80 steps, and more if a month has not passed yet, because the waits are random.
    while step < 80 || fixture.now() - NOW <= 30 * DAY {
        step += 1;
        fixture.advance(match rng.u32(..8) {
            0 => rng.i64(DAY..5 * DAY),
            1..4 => rng.i64(3_600..40_000),
            _ => rng.i64(1..3_600),
        });
        let now = fixture.now();
        let is_overdue = now.saturating_sub(asked_at) > DAY;
        if is_overdue || rng.u32(..6) == 0 {
            let asks = is_overdue || rng.u32(..3) == 0;
            let fewer = [Some(200), None][rng.usize(..2)];
            let days = if asks { Some(400) } else { fewer };
            fixture.take_over(&format!("folder {step}"), days).await;
            if asks {
                asked_at = now;
            }
        }
        let requests: Vec<Served> = (0..rng.usize(..20))
            .map(|_| {
                let second = match rng.u32(..10) {
                    0 => began.max(now - rng.i64(0..10 * DAY)),
                    1 => now + rng.i64(0..1_200),
                    _ => began.max(now - rng.i64(0..3)),
                };
                Served::random(&mut rng, second)
            })
            .collect();
        dashboard.serve(&mut fixture, &requests).await;
        let metric = METRICS[rng.usize(..METRICS.len())];
        let window = ["30d", "90d", "7d"][rng.usize(..3)];
        let window = format!("window={window}");
        dashboard.check_window(&window, metric).await;
    }
    for context in 0..CONTEXTS {
        let uri = format!("series?context=GET+/{context}&metric=p95&window=90d");
        let series = dashboard.get(&uri).await;
        assert_eq!(series["precision"], DAY, "{series}");
        for point in series["points"].as_array().unwrap() {
            let start = point[0].as_i64().unwrap();
            let served = dashboard.expected(Some(context), start, start + DAY);
            near(&point[1], percentile(&served, 0.95), 0.09);
        }
    }
}

/// A history begins when a folder asks for a history. Once no folder asks, the history continues for a week. A longer
/// history keeps the days of an earlier shorter history.
async fn days_are_recorded_while_a_folder_asks_and_for_a_week(mut fixture: Fixture) {
    let mut dashboard = Dashboard::new(&fixture);
    serve_daily(&mut dashboard, &mut fixture, 20).await;
    let window = month(&dashboard, &fixture).await;
    let complete = window["complete"].as_f64().unwrap();
    assert!((0.45..0.55).contains(&complete), "15 days: {window}");
    for round in 0..2 {
        let asking = format!("asking {round}");
        fixture.take_over(&asking, Some(30)).await;
        serve_after(&mut dashboard, &mut fixture, HOUR).await;
        // The history begins with the minutes that are not rolled up yet. In the second round, the store also has the
        // days of the first history, but not the days between the two histories.
        let began = fixture.now() - HOUR - 120;
        serve_daily(&mut dashboard, &mut fixture, 18).await;
        if round == 1 {
            fixture.take_over("longer", Some(200)).await;
            serve_daily(&mut dashboard, &mut fixture, 31).await;
        }
        fixture.take_over(&format!("plain {round}"), None).await;
        serve_daily(&mut dashboard, &mut fixture, 6).await;
        let window = month(&dashboard, &fixture).await;
        for window in [&window, &window["before"]] {
            let (from, to) = (number(window, "from"), number(window, "to"));
            let to = to.min(fixture.now());
            assert_since(&dashboard, window, began.clamp(from, to), to);
        }
        assert_eq!(window["complete"] == 1.0, round == 1, "{window}");
        // After a week the history ends, and only slices of six hours are left.
        serve_daily(&mut dashboard, &mut fixture, 3).await;
        let window = month(&dashboard, &fixture).await;
        assert!(window["complete"].as_f64().unwrap() < 0.55, "{window}");
    }
}

/// Lets all instances record, second by second, until a condition holds. Returns the number of seconds.
async fn seconds_until(
    goal: &str,
    manual_clock: &ManualClock,
    pulses: &[&Pulse],
    mut condition: impl AsyncFnMut() -> bool,
) -> u64 {
    let mut seconds = 0;
    until(goal, async || {
        manual_clock.advance(Duration::from_secs(1));
        seconds += 1;
        for pulse in pulses {
            pulse.timer("job").stop();
            // A busy server may not answer in time.
            let _ = pulse.flush().await;
        }
        condition().await
    })
    .await;
    seconds
}

/// Soon after an instance with a longer history has started, the store keeps this history, and an instance with a
/// shorter history warns.
#[tokio::test]
async fn the_longest_history_wins_whichever_instance_folds() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(NOW);
    let instance = |days: u32| {
        let builder = Pulse::builder().redis(server.url()).clock(clock.clone());
        let history = Duration::from_secs(86_400) * days;
        builder.history(history).build().unwrap()
    };
    // Reads the store, because a dashboard would read the days only once a minute.
    let days = async |pulse: &Pulse| {
        let store = pulse.backend();
        let kept = history::read(store.journal(), Purpose::Query).await;
        kept.unwrap().map(|history| history.days)
    };
    let warnings = |pulse: &Pulse| {
        let mut warnings = pulse.health().warnings;
        warnings.retain(|warning| warning.contains("history"));
        warnings
    };
    let is_folder = |pulse: &Pulse| pulse.health().fold.journal.is_some_and(|j| j.is_folder);
    let short = instance(30);
    let is_kept = async || days(&short).await == Some(30);
    seconds_until("30 days", &manual_clock, &[&short], is_kept).await;
    assert!(is_folder(&short));
    let long = instance(200);
    let both = [&short, &long];
    let is_longer = async || days(&short).await == Some(200);
    let seconds = seconds_until("200 days", &manual_clock, &both, is_longer).await;
    assert!(seconds <= 30, "{seconds} s");
    let is_warned = async || !warnings(&short).is_empty();
    let seconds = seconds_until("a warning", &manual_clock, &both, is_warned).await;
    assert!(seconds <= 12, "{seconds} s");
    let warned = warnings(&short);
    let has_both = |warning: &String| warning.contains(" 30 ") && warning.contains(" 200");
    assert!(warned.len() == 1 && has_both(&warned[0]), "{warned:?}");
    assert_eq!(short.health().conditions, [Condition::History]);
    assert_eq!(warnings(&long), [""; 0]);
    // The instance with the shorter history folds again, and the two instances do not alternate.
    long.shutdown().await.unwrap();
    let folds = async || is_folder(&short);
    seconds_until("another folder", &manual_clock, &[&short], folds).await;
    let long = instance(200);
    for _ in 0..30 {
        seconds_until("a second", &manual_clock, &[&short, &long], async || true).await;
    }
    assert!(is_folder(&short) && !is_folder(&long));
    assert_eq!(days(&long).await, Some(200));
    // After an hour, the instance with the longer history folds again. Two hours after this instance has ended, the
    // warning is gone.
    manual_clock.advance(Duration::from_secs(3_600));
    let (both, folds) = ([&short, &long], async || is_folder(&long));
    seconds_until("the other folder", &manual_clock, &both, folds).await;
    assert_eq!(warnings(&short).len(), 1);
    long.shutdown().await.unwrap();
    manual_clock.advance(Duration::from_secs(7_200));
    let has_ended = async || warnings(&short).is_empty();
    seconds_until("no warning", &manual_clock, &[&short], has_ended).await;
    assert_eq!(days(&short).await, Some(200), "for a week");
}

/// The day of a page with this number of requests. Durations are around 30 ms, most of them between 8 and 120 ms.
fn day_of_page(rng: &mut fastrand::Rng, requests: u32) -> Aggregate {
    let mut day = Aggregate::default();
    for number in 0..requests {
        let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let nanos = (30e6 * (0.8 * normal).exp()) as u64;
        let outcome = match number % 100 {
            7 => Outcome::ServerError,
            8 => Outcome::Cancelled,
            _ => Outcome::Success,
        };
        day.merge(&aggregate_of(&[nanos], outcome));
    }
    day
}

#[tokio::test]
async fn a_day_takes_as_many_bytes_as_the_guide_states() {
    const PAGES: usize = 50;
    let mut rng = fastrand::Rng::with_seed(seed());
    for (requests, timers, stated) in [(100, 0, 185), (10_000, 0, 340), (10_000, 3, 410)] {
        let mut fixture = Fixture::redis().await;
        fixture.take_over("folder", Some(400)).await;
        for _ in 0..2 {
            let (mut batch, now) = (fixture.batch(&[]), fixture.now());
            let day = day_of_page(&mut rng, requests);
            for page in 0..PAGES {
                let mut day = day.clone();
                for timer in 0..timers {
                    let sums = TimerSums {
                        count: 2 * u64::from(requests),
                        requests: u64::from(requests),
                        sum: day.times.sum / 4,
                        covered: day.times.sum / 4,
                    };
                    let name = format!("db:{timer}");
                    day.timers.add(RecordId::new(Kind::Timer, &name), &sums);
                }
                let page = crate::stores::windows::name(page).into();
                batch.add(&page, Kind::Http, now, &day);
            }
            fixture.merge_whole(batch).await;
            // On the next day, these records are rolled up.
            fixture.advance(DAY);
        }
        let day = NOW / DAY * DAY;
        let usage = format!("MEMORY USAGE pulse:pulse:r1:{DAY}:{day} SAMPLES 0");
        let bytes: usize = fixture.run(&usage).await;
        let page_bytes = bytes / PAGES;
        // Valkey 8 takes a quarter less than Redis.
        let server = fixture.server().info("server").await;
        let is_valkey = server.contains_key("valkey_version");
        let least = if is_valkey { 7 } else { 8 };
        let range = stated * least / 10..stated * 12 / 10;
        assert!(
            range.contains(&page_bytes),
            "{requests} requests: {page_bytes} B"
        );
    }
}
