//! Hour-of-week profiles, in each store, against a plain list of all requests: each hour is part of them once, whoever
//! folds, and only hours that were recorded count.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::table_reads::{Purpose, TableRead};
use tower_pulse_core::store::{FencedBatch, Position};
use tower_pulse_core::testing::TestFolder;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::{HOUR, hour_of};

use crate::fixture::{Fixture, NOW, THIS_HOUR, aggregate_of, call};
use crate::rig::seed::seed;
use crate::windows::{OUTCOMES, Page, Served, name};

const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;
const MS: u64 = 1_000_000;
/// Profiles are of at most so many contexts here.
const CONTEXTS: usize = 3;

/// Runs each test in each store.
macro_rules! in_each_store {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::fixture::Fixture::memory()).await;
            })*
        }
        mod file {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::fixture::Fixture::file()).await;
            })*
        }
        mod redis {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::fixture::Fixture::redis().await).await;
            })*
        }
    };
}

in_each_store!(
    weeks_are_what_was_served,
    an_interrupted_folder_leaves_nothing_out_and_nothing_twice,
    hours_of_a_long_absence_are_left_out,
    a_page_that_is_gone_takes_its_profile_with_it,
);

/// What an hour of the week must have.
#[derive(Clone, Copy, Default)]
struct Expected {
    weeks: u64,
    weight: f64,
    requests: f64,
    errors: f64,
    seconds: f64,
    tail_seconds: f64,
}

/// All requests, and the hours that the store must have applied.
struct Oracle {
    served: BTreeMap<i64, Vec<Served>>,
    /// Hours that were too old when they could have been applied.
    missed: BTreeSet<i64>,
    /// Whether hours without a request count as recorded.
    knows_gaps: bool,
}

impl Oracle {
    fn new(fixture: &Fixture) -> Self {
        Self {
            served: BTreeMap::new(),
            missed: BTreeSet::new(),
            knows_gaps: fixture.server.is_none(),
        }
    }

    fn add(&mut self, requests: &[Served]) {
        for served in requests {
            let hour = self.served.entry(hour_of(served.second)).or_default();
            hour.push(*served);
        }
    }

    /// The part of an hour that was recorded.
    fn part(&self, hour: i64) -> f64 {
        let none = Vec::new();
        let served = self.served.get(&hour).unwrap_or(&none);
        let halves = [hour, hour + HOUR / 2].map(|start| {
            let has_requests =
                (served.iter()).any(|one| (start..start + HOUR / 2).contains(&one.second));
            // The store was made in the middle of an hour.
            let is_recorded = start >= NOW && (self.knows_gaps || has_requests);
            if is_recorded { 0.5 } else { 0.0 }
        });
        match self.missed.contains(&hour) {
            true => 0.0,
            false => halves.iter().sum(),
        }
    }

    /// The hours of a context that end before `end`.
    fn expected(&self, context: Option<usize>, end: i64) -> [Expected; 168] {
        let mut hours = [Expected::default(); 168];
        let is_of = |one: &&Served| context.is_none_or(|context| one.context == context);
        let mut is_known = false;
        for hour in (THIS_HOUR..end).step_by(HOUR as usize) {
            let part = self.part(hour);
            let served = self.served.get(&hour).into_iter().flatten().filter(is_of);
            let mut nanos: Vec<u64> = served.clone().map(|one| one.nanos).collect();
            is_known |= !nanos.is_empty() && part > 0.0;
            if !is_known || part == 0.0 {
                continue;
            }
            // 1970-01-01 was a Thursday.
            let of = &mut hours[((hour / HOUR + 72) % 168) as usize];
            let keep = 1.0 - part / 4.0;
            let errors = served
                .filter(|one| one.outcome == Outcome::ServerError)
                .count();
            nanos.sort_unstable();
            let tail = match nanos.len() {
                0 => 0,
                n => nanos[(0.95 * n as f64).ceil() as usize - 1],
            };
            let count = nanos.len() as f64;
            let seconds = nanos.iter().sum::<u64>() as f64 / 1e9;
            of.weeks += 1;
            of.weight = of.weight * keep + part;
            of.requests = of.requests * keep + count;
            of.errors = of.errors * keep + errors as f64;
            of.seconds = of.seconds * keep + seconds;
            of.tail_seconds = of.tail_seconds * keep + tail as f64 / 1e9 * count;
        }
        hours
    }

    /// Checks the profile of a context.
    async fn check(&self, page: &Page, fixture: &Fixture, context: Option<usize>) {
        // The answer is read anew each minute.
        fixture.advance(61);
        let answer = profile(page, context).await;
        let end = answer["until"].as_i64().unwrap_or(0);
        let mut hours = answer["hours"].as_array().unwrap().iter();
        let expected = self.expected(context, end);
        for (number, expected) in expected.iter().enumerate().filter(|(_, of)| of.weeks > 0) {
            let hour = hours.next().unwrap_or_else(|| panic!("no hour {number}"));
            assert_eq!(hour["hour"], number, "{answer}");
            assert_eq!(hour["weeks"], expected.weeks, "{number}: {answer}");
            let near = |field: &str, of: f64, error: f64| {
                let value = hour[field].as_f64().unwrap_or(f64::NAN);
                let is_near = (value - of).abs() <= error * of;
                assert!(is_near, "{field} of {number}: {value}, not {of}: {hour}");
            };
            near("weight", expected.weight, 1e-3);
            near("requests", expected.requests / expected.weight, 1e-3);
            near("errors", expected.errors / expected.weight, 1e-3);
            if expected.requests > 0.0 {
                near("mean", expected.seconds / expected.requests, 1e-3);
                near("p95", expected.tail_seconds / expected.requests, 0.023);
            } else {
                assert_eq!((&hour["mean"], &hour["p95"]), (&Value::Null, &Value::Null));
            }
        }
        assert_eq!(hours.next(), None, "{answer}");
        let count = expected.iter().filter(|of| of.weeks > 0).count();
        assert_eq!(answer["enough"], count >= 24);
    }
}

/// The profile of a context, or of all requests.
async fn profile(page: &Page, context: Option<usize>) -> Value {
    let uri = match context {
        Some(context) => format!("/api/profile?context={}", name(context)),
        None => "/api/profile".to_owned(),
    };
    page.get(&uri.replace(' ', "%20")).await
}

/// The end of the hours that are applied when somebody folds now.
fn applied_until(fixture: &Fixture) -> i64 {
    let minute = (fixture.clock.now_seconds() - 15) / 60 * 60;
    hour_of(minute - 180)
}

/// Another folder takes over, which remembers nothing.
async fn take_over(fixture: &mut Fixture, name: &str) {
    fixture.writer.folder.release().await.unwrap();
    let (store, clock) = (fixture.store.clone(), fixture.clock.clone());
    fixture.writer.folder = TestFolder::new(store, clock, name, 1_000);
}

fn random_request(rng: &mut fastrand::Rng, second: i64) -> Served {
    Served {
        second,
        context: rng.usize(..CONTEXTS),
        nanos: MS * rng.u64(1..400),
        outcome: OUTCOMES[rng.usize(..4)],
    }
}

async fn weeks_are_what_was_served(mut fixture: Fixture) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let (mut page, mut oracle) = (Page::new(&fixture), Oracle::new(&fixture));
    for step in 0.. {
        let now = fixture.clock.now_seconds();
        if now > NOW + 3 * WEEK {
            break;
        }
        // At most a day away, so that each hour can be caught up.
        let wait = match rng.u32(..30) {
            0 => rng.i64(HOUR..DAY),
            1..9 => rng.i64(1..600),
            _ => rng.i64(900..5_000),
        };
        let count = rng.usize(1..12);
        let requests: Vec<_> = (0..count).map(|_| random_request(&mut rng, now)).collect();
        page.serve(&mut fixture, &requests).await;
        oracle.add(&requests);
        if rng.u32(..25) == 0 {
            take_over(&mut fixture, &format!("folder {step}")).await;
        }
        fixture.advance(wait);
    }
    let last = [random_request(&mut rng, fixture.clock.now_seconds())];
    page.serve(&mut fixture, &last).await;
    oracle.add(&last);
    let until = applied_until(&fixture);
    for context in [None, Some(0), Some(1), Some(2)] {
        oracle.check(&page, &fixture, context).await;
        assert_eq!(profile(&page, context).await["until"], until);
    }
}

/// Polls a future so many times at most, and drops it then.
async fn interrupted<F: Future>(future: F, polls: usize) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(cx).map(|_| true)
    })
    .await
}

/// Appends requests of many contexts, without folding them.
async fn append(fixture: &Fixture, seq: u64, requests: &[Served]) -> Position {
    let mut batch = Batch::new(fixture.precisions.clone());
    for served in requests {
        let aggregate = aggregate_of(&[served.nanos], served.outcome);
        let context = name(served.context).into();
        batch.add(&context, Kind::Http, served.second, &aggregate);
    }
    let call = FencedBatch {
        generation: fixture.store.hello().await.unwrap().id,
        ..call("interrupted", seq, batch)
    };
    match fixture.store.append(&call).await.unwrap() {
        tower_pulse_core::store::Appended::Done(receipt) => receipt.position,
        other => panic!("{other:?}"),
    }
}

async fn an_interrupted_folder_leaves_nothing_out_and_nothing_twice(fixture: Fixture) {
    const MANY: usize = 150;
    let mut rng = fastrand::Rng::with_seed(seed());
    let (page, mut oracle) = (Page::new(&fixture), Oracle::new(&fixture));
    let (mut seq, mut cuts) = (0, 0);
    let folder = || {
        let (store, clock) = (fixture.store.clone(), fixture.clock.clone());
        // Of the same name, so that the lease of the one before is its own.
        TestFolder::new(store, clock, "folder", 1_000)
    };
    let mut present = folder();
    for half_hour in 0..20 {
        let now = fixture.clock.now_seconds();
        let requests: Vec<_> = (0..MANY)
            .map(|context| Served {
                context,
                ..random_request(&mut rng, now)
            })
            .collect();
        seq += 1;
        append(&fixture, seq, &requests).await;
        oracle.add(&requests);
        // Later there is no entry of its own, and a few hours are due at once.
        let is_tried = half_hour % 5 != 1;
        let mut most = 30;
        while is_tried && !interrupted(present.fold(), rng.usize(1..most)).await {
            present = folder();
            cuts += 1;
            most += most / 4;
        }
        fixture.advance(HOUR / 2);
    }
    fixture.advance(200);
    seq += 1;
    let last = [random_request(&mut rng, fixture.clock.now_seconds())];
    append(&fixture, seq, &last).await;
    assert!(folder().fold().await.unwrap());
    assert!(cuts > 40, "{cuts} folders were interrupted");
    for context in 0..MANY {
        oracle.check(&page, &fixture, Some(context)).await;
    }
}

async fn hours_of_a_long_absence_are_left_out(mut fixture: Fixture) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let (mut page, mut oracle) = (Page::new(&fixture), Oracle::new(&fixture));
    let mut before = 0;
    for _ in 0..4 {
        let now = fixture.clock.now_seconds();
        let requests = [0, 1, 2].map(|context| Served {
            context,
            ..random_request(&mut rng, now)
        });
        page.serve(&mut fixture, &requests).await;
        before = applied_until(&fixture);
        oracle.add(&requests);
        fixture.advance(HOUR / 2);
    }
    // The last hour was not applied yet when nobody came for three days.
    fixture.advance(3 * DAY);
    let first = applied_until(&fixture) - 48 * HOUR;
    oracle.missed.extend((before..first).step_by(HOUR as usize));
    assert!(
        oracle
            .missed
            .iter()
            .any(|hour| oracle.served.contains_key(hour))
    );
    for _ in 0..4 {
        let now = fixture.clock.now_seconds();
        let requests = [random_request(&mut rng, now)];
        page.serve(&mut fixture, &requests).await;
        oracle.add(&requests);
        fixture.advance(HOUR);
    }
    for context in [None, Some(0), Some(1), Some(2)] {
        oracle.check(&page, &fixture, context).await;
    }
}

async fn a_page_that_is_gone_takes_its_profile_with_it(mut fixture: Fixture) {
    let mut page = Page::new(&fixture);
    let served = |second, context| Served {
        second,
        context,
        nanos: 5 * MS,
        outcome: Outcome::Success,
    };
    page.serve(&mut fixture, &[served(NOW, 0), served(NOW, 1)])
        .await;
    let mut gone_after = None;
    for day in 0..80 {
        fixture.advance(DAY);
        let now = fixture.clock.now_seconds();
        page.serve(&mut fixture, &[served(now, 0)]).await;
        fixture.advance(61);
        let hours = |answer: Value| answer["hours"].as_array().unwrap().len();
        assert!(hours(profile(&page, Some(0)).await) > 0, "day {day}");
        if hours(profile(&page, Some(1)).await) == 0 {
            gone_after.get_or_insert(day);
        } else {
            assert_eq!(gone_after, None, "day {day}");
        }
    }
    let days = gone_after.expect("it is gone");
    assert!((35..=71).contains(&days), "{days} days");
}

#[tokio::test]
async fn there_are_no_more_profiles_than_contexts() {
    let fixture = Fixture::memory();
    let mut kept = 0;
    // After each deploy, clients ask for other pages.
    for deploy in 0..5 {
        let builder = tower_pulse::Pulse::builder().store(fixture.store.clone());
        let builder = builder.clock(fixture.clock.clone()).max_contexts(10);
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        for _ in 0..3 {
            for page in 0..10 {
                let name = format!("GET /{deploy}/{page}");
                pulse.record(&name, Duration::from_millis(5), http::StatusCode::OK);
            }
            pulse.simulation().drain();
            pulse.flush().await.unwrap();
            fixture.advance(HOUR);
        }
        drop((pulse, tasks));
        let journal = fixture.store.journal();
        let starts = (0..2).map(|ago| THIS_HOUR / (5 * WEEK) * 5 * WEEK - ago * 5 * WEEK);
        let reads = starts.map(|start| TableRead::Count(Table::Profiles { start }));
        let reads: Vec<_> = reads.collect();
        let mut answers = journal.read_tables(Purpose::Query, &reads).await.unwrap();
        kept = answers.page().count + answers.page().count;
        // With `<all>`, `<unmatched>` and `<overflow>`, and the hours that were recorded.
        assert!(kept <= 10 + 3 + 1, "{kept} after deploy {deploy}");
    }
    assert_eq!(kept, 14);
}
