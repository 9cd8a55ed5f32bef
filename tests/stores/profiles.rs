//! Hour-of-week profiles in each store, compared with a plain list of all requests. Each recorded hour is in the
//! profiles once, whichever instance folds.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tower_pulse_core::store::FencedBatch;
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::table_reads::{Purpose, TableRead};
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::{HOUR, hour_of};

use crate::rig::seed::seed;
use crate::stores::fixture::{Fixture, MS, NOW, THIS_HOUR, aggregate_of, call};
use crate::stores::windows::{Dashboard, Served, name, near, percentile};

const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;
const ALL: [Option<usize>; 4] = [None, Some(0), Some(1), Some(2)];

in_both!(
    profiles_equal_the_served_requests,
    after_interrupted_folders_each_hour_is_in_the_profiles_once,
    the_profile_of_a_page_without_requests_expires,
);

/// The expected values of an hour of the week: the number of weeks, and the sums of weights, requests, errors, seconds,
/// and p95 × requests.
#[derive(Clone, Copy, Default)]
struct Expected {
    weeks: u64,
    sums: [f64; 5],
}

/// All requests, and the hours that the profiles must lack.
struct Oracle {
    served: BTreeMap<i64, Vec<Served>>,
    /// Hours that were already too old at the next fold.
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
        let served = self.served.get(&hour).map_or(&[][..], Vec::as_slice);
        let halves = [hour, hour + HOUR / 2].map(|start| {
            let half = start..start + HOUR / 2;
            let has_requests = served.iter().any(|served| half.contains(&served.second));
            // The store was made in the middle of an hour.
            let is_recorded = start >= NOW && (self.knows_gaps || has_requests);
            if is_recorded { 0.5 } else { 0.0 }
        });
        match self.missed.contains(&hour) {
            true => 0.0,
            false => halves.iter().sum(),
        }
    }

    /// The expected hours of a context up to `end`.
    fn expected(&self, context: Option<usize>, end: i64) -> [Expected; 168] {
        let mut hours = [Expected::default(); 168];
        let is_counted = |served: &&Served| context.is_none_or(|id| served.context == id);
        let mut is_known = false;
        for hour in (THIS_HOUR..end).step_by(HOUR as usize) {
            let part = self.part(hour);
            let served = self.served.get(&hour).into_iter().flatten();
            let mut served: Vec<Served> = served.filter(is_counted).copied().collect();
            is_known |= !served.is_empty() && part > 0.0;
            if !is_known || part == 0.0 {
                continue;
            }
            served.sort_unstable_by_key(|served| served.nanos);
            let is_error = |served: &&Served| served.outcome == Outcome::ServerError;
            let errors = served.iter().filter(is_error).count() as f64;
            let seconds = served.iter().map(|served| served.nanos as f64 / 1e9).sum();
            let (count, tail) = match served.len() {
                0 => (0.0, 0.0),
                count => (count as f64, percentile(&served, 0.95)),
            };
            // 1970-01-01 was a Thursday.
            let of_week = &mut hours[((hour / HOUR + 72) % 168) as usize];
            of_week.weeks += 1;
            let added = [part, count, errors, seconds, tail * count];
            for (sum, added) in of_week.sums.iter_mut().zip(added) {
                *sum = *sum * (1.0 - part / 4.0) + added;
            }
        }
        hours
    }

    async fn check(&self, dashboard: &Dashboard, fixture: &Fixture, context: Option<usize>) {
        // The dashboard reads a profile at most once a minute.
        fixture.advance(61);
        let answer = profile(dashboard, context).await;
        let end = answer["until"].as_i64().unwrap_or(0);
        let mut hours = answer["hours"].as_array().unwrap().iter();
        let expected = self.expected(context, end);
        let recorded = expected.iter().enumerate();
        for (number, expected) in recorded.filter(|(_, hour)| hour.weeks > 0) {
            let hour = hours.next().unwrap_or_else(|| panic!("no hour {number}"));
            assert_eq!(hour["hour"], number, "{answer}");
            assert_eq!(hour["weeks"], expected.weeks, "{number}: {answer}");
            let [weight, requests, errors, seconds, tail] = expected.sums;
            near(&hour["weight"], weight, 1e-3);
            near(&hour["requests"], requests / weight, 1e-3);
            near(&hour["errors"], errors / weight, 1e-3);
            if requests > 0.0 {
                near(&hour["mean"], seconds / requests, 1e-3);
                near(&hour["p95"], tail / requests, 0.023);
            } else {
                assert_eq!((&hour["mean"], &hour["p95"]), (&Value::Null, &Value::Null));
            }
        }
        assert_eq!(hours.next(), None, "{answer}");
        let count = expected.iter().filter(|hour| hour.weeks > 0).count();
        assert_eq!(answer["enough"], count >= 24);
    }
}

async fn profile(dashboard: &Dashboard, context: Option<usize>) -> Value {
    let uri = match context {
        Some(context) => format!("profile?context={}", name(context)),
        None => "profile".to_owned(),
    };
    dashboard.get(&uri.replace(' ', "%20")).await
}

/// The end of the newest hour that a fold at the current time adds to the profiles.
fn applied_until(fixture: &Fixture) -> i64 {
    let minute = (fixture.now() - 15) / 60 * 60;
    hour_of(minute - 180)
}

/// Serves random requests, with a pause of three days, after which the last hours are too old for the profiles.
async fn profiles_equal_the_served_requests(mut fixture: Fixture) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let (mut dashboard, mut oracle) = (Dashboard::new(&fixture), Oracle::new(&fixture));
    let mut before = 0;
    for step in 0.. {
        let now = fixture.now();
        let count = rng.usize(1..12);
        let requests: Vec<_> = (0..count).map(|_| Served::random(&mut rng, now)).collect();
        dashboard.serve(&mut fixture, &requests).await;
        oracle.add(&requests);
        if rng.u32(..25) == 0 {
            fixture.take_over(&format!("folder {step}"), None).await;
        }
        if now > NOW + 2 * WEEK {
            before = applied_until(&fixture);
            break;
        }
        // Pauses for at most a day, so that a later fold can still add each hour.
        fixture.advance(match rng.u32(..30) {
            0 => rng.i64(HOUR..DAY),
            1..9 => rng.i64(1..600),
            _ => rng.i64(1_800..8_000),
        });
    }
    for context in ALL {
        oracle.check(&dashboard, &fixture, context).await;
        assert_eq!(profile(&dashboard, context).await["until"], before);
    }
    // The last hours are not in the profiles yet. Three days later, these hours are too old.
    fixture.advance(3 * DAY);
    let first = applied_until(&fixture) - 48 * HOUR;
    oracle.missed.extend((before..first).step_by(HOUR as usize));
    let (missed, served) = (&oracle.missed, &oracle.served);
    assert!(missed.iter().any(|hour| served.contains_key(hour)));
    for _ in 0..4 {
        let requests = [Served::random(&mut rng, fixture.now())];
        dashboard.serve(&mut fixture, &requests).await;
        oracle.add(&requests);
        fixture.advance(HOUR);
    }
    for context in ALL {
        oracle.check(&dashboard, &fixture, context).await;
    }
}

#[tokio::test]
async fn profiles_in_a_file_equal_the_served_requests() {
    profiles_equal_the_served_requests(Fixture::file()).await;
}

/// Polls a future at most this number of times. Returns whether the future has ended.
async fn ends_within<F: Future>(future: F, polls: usize) -> bool {
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

async fn append(fixture: &Fixture, seq: u64, requests: &[Served]) {
    let mut batch = fixture.batch(&[]);
    for served in requests {
        let aggregate = aggregate_of(&[served.nanos], served.outcome);
        let context = name(served.context).into();
        batch.add(&context, Kind::Http, served.second, &aggregate);
    }
    let call = FencedBatch {
        generation: fixture.store.hello().await.unwrap().id,
        ..call("interrupted", seq, batch)
    };
    fixture.store.append(&call).await.unwrap();
}

async fn after_interrupted_folders_each_hour_is_in_the_profiles_once(fixture: Fixture) {
    const MANY: usize = 150;
    let mut rng = fastrand::Rng::with_seed(seed());
    let (dashboard, mut oracle) = (Dashboard::new(&fixture), Oracle::new(&fixture));
    let (mut seq, mut cuts) = (0, 0);
    // All folders have the same name, so that each folder holds the lease of the previous folder.
    let folder = || fixture.folder("folder", None);
    let mut present = folder();
    for half_hour in 0..20 {
        let now = fixture.now();
        let mut requests: Vec<_> = (0..MANY).map(|_| Served::random(&mut rng, now)).collect();
        (0..MANY).for_each(|at| requests[at].context = at);
        seq += 1;
        append(&fixture, seq, &requests).await;
        oracle.add(&requests);
        // Skips some folds, so that a later fold has several entries, and more hours are due at once.
        let is_tried = half_hour % 5 != 1;
        let mut most = 30;
        while is_tried && !ends_within(present.fold(), rng.usize(1..most)).await {
            present = folder();
            cuts += 1;
            most += most / 4;
        }
        fixture.advance(HOUR / 2);
    }
    fixture.advance(200);
    seq += 1;
    let last = [Served::random(&mut rng, fixture.now())];
    append(&fixture, seq, &last).await;
    assert!(folder().fold().await.unwrap());
    assert!(cuts > 40, "{cuts} folders were interrupted");
    for context in (0..MANY).step_by(3) {
        oracle.check(&dashboard, &fixture, Some(context)).await;
    }
}

async fn the_profile_of_a_page_without_requests_expires(mut fixture: Fixture) {
    let mut dashboard = Dashboard::new(&fixture);
    let both = [0, 1].map(|context| Served::new(NOW, context, 5 * MS));
    dashboard.serve(&mut fixture, &both).await;
    let mut gone_after = None;
    for day in 0..80 {
        fixture.advance(DAY);
        let request = Served::new(fixture.now(), 0, 5 * MS);
        dashboard.serve(&mut fixture, &[request]).await;
        fixture.advance(61);
        let hours = |answer: Value| answer["hours"].as_array().unwrap().len();
        assert!(hours(profile(&dashboard, Some(0)).await) > 0, "day {day}");
        if hours(profile(&dashboard, Some(1)).await) == 0 {
            gone_after.get_or_insert(day);
        } else {
            assert_eq!(gone_after, None, "day {day}");
        }
    }
    let days = gone_after.expect("the profile expires");
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
        // The ten pages, `<all>`, `<unmatched>` and `<overflow>`, and the field of the recorded hours.
        assert!(kept <= 10 + 3 + 1, "{kept} after deploy {deploy}");
    }
    assert_eq!(kept, 14);
}
