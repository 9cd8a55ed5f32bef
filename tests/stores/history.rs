//! Days that are kept for as long as somebody asks: each sample is in them once, whoever folds, and what was not kept is
//! not counted as recorded.

use std::time::Duration;

use serde_json::Value;
use tower_pulse::Condition;
use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_core::store::history;
use tower_pulse_core::store::table_reads::Purpose;
use tower_pulse_core::testing::TestFolder;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slices::Merge;
use tower_pulse_model::timer_sums::TimerSums;

use crate::fixture::{Fixture, NOW, aggregate_of};
use crate::rig::reads::StoreOf;
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::windows::{CONTEXTS, METRICS, OUTCOMES, Page, Served, near};

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

in_both!(
    months_show_what_was_served,
    days_before_the_history_began_are_not_recorded,
    a_folder_without_a_history_goes_on_with_that_of_others_for_a_week,
    a_longer_history_keeps_the_days_of_the_shorter_one,
);

/// A folder that asks for so many days.
fn folder(fixture: &Fixture, name: &str, days: Option<u32>) -> TestFolder {
    let (store, clock) = (fixture.store.clone(), fixture.clock.clone());
    TestFolder::with_history(store, clock, name, 1_000, days)
}

/// Lets another folder take over.
async fn take_over(fixture: &mut Fixture, name: &str, days: Option<u32>) {
    fixture.writer.folder.release().await.unwrap();
    fixture.writer.folder = folder(fixture, name, days);
}

fn request(second: i64) -> Served {
    Served {
        second,
        context: 0,
        nanos: 5_000_000,
        outcome: Outcome::Success,
    }
}

/// One request now, after some time.
async fn serve_after(page: &mut Page, fixture: &mut Fixture, seconds: i64) {
    fixture.advance(seconds);
    let served = request(fixture.clock.now_seconds());
    page.serve(fixture, &[served]).await;
}

/// The answer about a month, once the page has read the tiers anew.
async fn month(page: &Page, fixture: &Fixture) -> Value {
    fixture.advance(61);
    page.get("/api/overview?window=30d").await["window"].clone()
}

/// Checks that a month has all requests since `since`, and no time before as recorded.
fn assert_since(page: &Page, window: &Value, since: i64, now: i64) {
    let to = window["to"].as_i64().unwrap();
    let expected = page.expected(None, since, to).len();
    assert_eq!(window["count"], expected, "{window}");
    let recorded = window["recorded_seconds"].as_i64().unwrap();
    assert!((recorded - (now - since)).abs() < 2 * HOUR, "{window}");
}

async fn months_show_what_was_served(mut fixture: Fixture) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let mut page = Page::new(&fixture);
    let days = [Some(400), Some(200), None];
    let mut asked_at = i64::MIN;
    let mut step = 0;
    // Until months have passed, however the waits were drawn.
    while step < 120 || fixture.clock.now_seconds() - NOW <= 30 * DAY {
        step += 1;
        let wait = match rng.u32(..8) {
            0 => rng.u64(DAY as u64..5 * DAY as u64),
            1..4 => rng.u64(3_600..40_000),
            _ => rng.u64(1..3_600),
        };
        fixture.manual_clock.advance(Duration::from_secs(wait));
        let now = fixture.clock.now_seconds();
        let is_overdue = now.saturating_sub(asked_at) > DAY;
        if is_overdue || rng.u32(..6) == 0 {
            let days = days[if is_overdue { 0 } else { rng.usize(..3) }];
            take_over(&mut fixture, &format!("folder {step}"), days).await;
            if days == Some(400) {
                asked_at = now;
            }
        }
        let requests: Vec<Served> = (0..rng.usize(..20))
            .map(|_| Served {
                second: match rng.u32(..10) {
                    0 => now - rng.i64(0..10 * DAY),
                    1 => now + rng.i64(0..1_200),
                    _ => now - rng.i64(0..3),
                },
                context: rng.usize(..CONTEXTS),
                nanos: 1_000 * 2u64.pow(rng.u32(4..22)) * rng.u64(100..200) / 100,
                outcome: OUTCOMES[rng.usize(..4)],
            })
            .collect();
        page.serve(&mut fixture, &requests).await;
        let metric = METRICS[rng.usize(..METRICS.len())];
        let window = ["30d", "90d", "7d"][rng.usize(..3)];
        page.check_window(&format!("window={window}"), metric).await;
    }
    for context in 0..CONTEXTS {
        let name = crate::windows::name(context);
        let uri = format!("/api/series?context={name}&metric=p95&window=90d");
        let series = page.get(&uri.replace(' ', "%20")).await;
        assert_eq!(series["precision"], DAY, "{series}");
        for point in series["points"].as_array().unwrap() {
            let start = point[0].as_i64().unwrap();
            let served = page.expected(Some(context), start, start + DAY);
            let rank = (0.95 * served.len() as f64).ceil() as usize;
            near(&point[1], served[rank - 1].nanos as f64 / 1e9, 0.09);
        }
    }
}

async fn days_before_the_history_began_are_not_recorded(mut fixture: Fixture) {
    let mut page = Page::new(&fixture);
    for _ in 0..40 {
        serve_after(&mut page, &mut fixture, DAY / 2).await;
    }
    let window = month(&page, &fixture).await;
    let complete = window["complete"].as_f64().unwrap();
    assert!((0.45..0.55).contains(&complete), "six hours: {window}");
    take_over(&mut fixture, "asking", Some(90)).await;
    serve_after(&mut page, &mut fixture, HOUR).await;
    // Minutes that are not rolled up yet become part of it.
    let began = fixture.clock.now_seconds() - HOUR - 120;
    for _ in 0..36 {
        serve_after(&mut page, &mut fixture, DAY / 2).await;
    }
    let window = month(&page, &fixture).await;
    assert_since(&page, &window, began, fixture.clock.now_seconds());
    assert_eq!(window["before"]["complete"], 0.0, "{window}");
    for _ in 0..30 {
        serve_after(&mut page, &mut fixture, DAY).await;
    }
    page.check_window("window=7d", "p95").await;
    let window = month(&page, &fixture).await;
    assert_since(
        &page,
        &window,
        window["from"].as_i64().unwrap(),
        fixture.clock.now_seconds(),
    );
    assert_eq!(window["complete"], 1.0, "{window}");
}

async fn a_folder_without_a_history_goes_on_with_that_of_others_for_a_week(mut fixture: Fixture) {
    let mut page = Page::new(&fixture);
    take_over(&mut fixture, "asking", Some(60)).await;
    serve_after(&mut page, &mut fixture, 0).await;
    for _ in 0..20 {
        serve_after(&mut page, &mut fixture, DAY).await;
    }
    take_over(&mut fixture, "plain", None).await;
    for _ in 0..6 {
        serve_after(&mut page, &mut fixture, DAY).await;
    }
    let window = month(&page, &fixture).await;
    assert_since(&page, &window, NOW, fixture.clock.now_seconds());
    // After a week it ends, and six hours are left.
    for _ in 0..3 {
        serve_after(&mut page, &mut fixture, DAY).await;
    }
    let window = month(&page, &fixture).await;
    assert!(window["complete"].as_f64().unwrap() < 0.55, "{window}");
    take_over(&mut fixture, "asking again", Some(60)).await;
    serve_after(&mut page, &mut fixture, HOUR).await;
    // Minutes that are not rolled up yet become part of it.
    let began = fixture.clock.now_seconds() - HOUR - 120;
    for _ in 0..17 {
        serve_after(&mut page, &mut fixture, DAY).await;
    }
    // The days from before are there, but some between are not.
    let window = month(&page, &fixture).await;
    assert_since(&page, &window, began, fixture.clock.now_seconds());
}

async fn a_longer_history_keeps_the_days_of_the_shorter_one(mut fixture: Fixture) {
    let mut page = Page::new(&fixture);
    take_over(&mut fixture, "short", Some(30)).await;
    for _ in 0..40 {
        serve_after(&mut page, &mut fixture, DAY).await;
    }
    let longer = fixture.clock.now_seconds();
    take_over(&mut fixture, "long", Some(200)).await;
    for _ in 0..50 {
        serve_after(&mut page, &mut fixture, DAY).await;
    }
    // The month before the change is there still.
    let window = page.get("/api/overview?window=90d").await["window"].clone();
    let first = (longer - 30 * DAY).div_euclid(DAY) * DAY + DAY;
    let recorded = window["recorded_seconds"].as_i64().unwrap();
    let now = fixture.clock.now_seconds();
    assert!((now - first - recorded).abs() <= DAY, "{window}");
    let expected = page.expected(None, now - recorded, now + 1).len();
    assert_eq!(window["count"], expected, "{window}");
}

/// Records by all instances, second by second, until something is so. Returns the seconds.
async fn seconds_until(
    what: &str,
    hand: &ManualClock,
    pulses: &[&Pulse],
    mut is_so: impl AsyncFnMut() -> bool,
) -> u64 {
    let mut seconds = 0;
    until(what, async || {
        hand.advance(Duration::from_secs(1));
        seconds += 1;
        for pulse in pulses {
            pulse.timer("job").stop();
            // A busy server may answer too late.
            let _ = pulse.flush().await;
        }
        is_so().await
    })
    .await;
    seconds
}

/// The days of an instance that came later were kept only once it happened to fold, and no instance told of it.
#[tokio::test]
async fn the_longest_history_wins_whichever_instance_folds() {
    let server = RedisServer::start().await;
    let (clock, hand) = Clock::manual(NOW);
    let instance = |days: u32| {
        let builder = Pulse::builder().redis(server.url()).clock(clock.clone());
        let history = Duration::from_secs(86_400) * days;
        builder.history(history).build().unwrap()
    };
    // A dashboard reads them once a minute.
    let days = async |pulse: &Pulse| {
        let store = pulse.backend();
        let kept = history::read(store.journal(), Purpose::Query).await;
        kept.unwrap().map(|of| of.days)
    };
    let told = |pulse: &Pulse| {
        let warnings = pulse.health().warnings.into_iter();
        let of_history = warnings.filter(|warning| warning.contains("history"));
        of_history.collect::<Vec<_>>()
    };
    let is_folder = |pulse: &Pulse| pulse.health().fold.journal.is_some_and(|of| of.is_folder);
    let short = instance(30);
    seconds_until("30 days", &hand, &[&short], async || {
        days(&short).await == Some(30)
    })
    .await;
    assert!(is_folder(&short));
    let long = instance(200);
    let both = [&short, &long];
    let seconds = seconds_until("200 days", &hand, &both, async || {
        days(&short).await == Some(200)
    })
    .await;
    assert!(seconds <= 30, "{seconds} s");
    let seconds = seconds_until("a warning", &hand, &both, async || !told(&short).is_empty()).await;
    assert!(seconds <= 12, "{seconds} s");
    let warnings = told(&short);
    assert!(warnings.len() == 1, "{warnings:?}");
    assert!(warnings[0].contains(" 30 "), "{warnings:?}");
    assert!(warnings[0].contains(" 200"), "{warnings:?}");
    assert_eq!(short.health().conditions, [Condition::History]);
    assert_eq!(told(&long), Vec::<String>::new());
    // The shorter one folds again, and the longer one does not take turns with it.
    long.shutdown().await.unwrap();
    seconds_until("another folder", &hand, &[&short], async || {
        is_folder(&short)
    })
    .await;
    let long = instance(200);
    for _ in 0..30 {
        seconds_until("a second", &hand, &[&short, &long], async || true).await;
    }
    assert!(is_folder(&short) && !is_folder(&long));
    assert_eq!(days(&long).await, Some(200));
    // After an hour the longer one asks again. Two hours after it has gone, nothing is told any more.
    hand.advance(Duration::from_secs(3_600));
    let both = [&short, &long];
    seconds_until("it asks again", &hand, &both, async || is_folder(&long)).await;
    assert_eq!(told(&short).len(), 1);
    long.shutdown().await.unwrap();
    hand.advance(Duration::from_secs(7_200));
    seconds_until("no warning", &hand, &[&short], async || {
        told(&short).is_empty()
    })
    .await;
    assert_eq!(days(&short).await, Some(200), "for a week");
}

/// What a busy page and a quiet one measure in a day: durations around 30 ms, most of them between 8 and 120 ms.
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

/// The guide's page about sizing states these.
#[tokio::test]
async fn a_day_takes_what_the_guide_states() {
    const PAGES: usize = 50;
    let mut rng = fastrand::Rng::with_seed(seed());
    for (requests, timers, stated) in [(100, 0, 160), (10_000, 0, 310), (10_000, 3, 375)] {
        let mut fixture = Fixture::redis().await;
        take_over(&mut fixture, "folder", Some(400)).await;
        for _ in 0..2 {
            let (mut batch, now) = (fixture.batch(&[]), fixture.clock.now_seconds());
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
                let page = crate::windows::name(page).into();
                batch.add(&page, Kind::Http, now, &day);
            }
            fixture.merge_clean(batch).await;
            // The next day, its records are rolled up.
            fixture.advance(DAY);
        }
        let day = (NOW / DAY) * DAY;
        let mut usage = ::redis::cmd("MEMORY");
        let key = format!("pulse:pulse:r1:{DAY}:{day}");
        usage.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
        let conn = &mut fixture.server().connection().await;
        let bytes: usize = usage.query_async(conn).await.unwrap();
        let of_page = bytes / PAGES;
        let range = stated * 8 / 10..stated * 12 / 10;
        assert!(range.contains(&of_page), "{requests} requests: {of_page} B");
    }
}
