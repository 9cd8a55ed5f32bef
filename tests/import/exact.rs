//! What a file has is in Redis afterwards, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;
use tower_pulse::store::Store as Shared;
use tower_pulse::store::file::FileStore;
use tower_pulse::{Change, Pulse};
use tower_pulse_core::store::conditional_write::Written;
use tower_pulse_core::store::{Store, Upkeep};
use tower_pulse_core::testing::TestFolder;

use crate::past::{DAY, Past, import, import_into, instance, record_crowd, redis};
use crate::service::Place;
use crate::stored::{self, Stored};
use pulse_rig::seed::seed;
use pulse_rig::server::RedisServer;
use pulse_rig::wait::until;

/// What the file says, which is closed again.
async fn read_file(place: &Place, days: Option<u32>) -> Stored {
    let store = FileStore::open(place.options()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    until("the file is open", async || {
        store.record_index(0).await.is_ok()
    })
    .await;
    let stored = stored::read(&*store, place.clock.now_seconds(), days).await;
    drop(store);
    place.released().await;
    stored
}

#[tokio::test]
async fn redis_says_afterwards_what_the_file_said() {
    let mut rng = Rng::with_seed(seed());
    // Without a history, with one, and with one that is longer than the others.
    for (days, history, ended_ago) in [
        (3, None, 600),
        (24, Some(30), 4_000),
        (1, Some(90), 200_000),
    ] {
        let place = Place::new();
        let past = Past {
            days,
            contexts: 7,
            history,
            ended_ago,
        };
        past.record(&place, &mut rng).await;
        let server = RedisServer::start().await;
        let store = redis(&server.url(), &place, None);
        let mut import = import(&place);
        if let Some(days) = history {
            import = import.history(Duration::from_secs(days * DAY)).unwrap();
        }
        let brought = import.run(Shared::from(store.clone())).await.unwrap();
        place.released().await;
        let days = history.map(|days| days as u32);
        let expected = read_file(&place, days).await;
        assert!(
            expected.records.len() > 50 && expected.marks.len() > 1,
            "{brought}"
        );
        let found = stored::read(&*store, place.clock.now_seconds(), days).await;
        expected.assert_same(&found);
        assert!(brought.records >= found.records.len() as u64);
        assert_eq!(
            (brought.unnamed, brought.marks),
            (0, found.marks.len() as u64)
        );
        // Nothing was late, skewed or quarantined.
        let status = store.status(place.clock.now_seconds()).await.unwrap();
        let exceptions = status.exceptions;
        assert_eq!(
            (exceptions.late, exceptions.skewed, exceptions.quarantined),
            (0, 0, 0)
        );
    }
}

#[tokio::test]
async fn minutes_that_are_not_rolled_up_are_once_they_are() {
    let mut rng = Rng::with_seed(seed());
    let place = Place::new();
    let past = Past {
        days: 1,
        contexts: 5,
        history: None,
        ended_ago: 0,
    };
    past.record(&place, &mut rng).await;
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    import_into(&place, store.clone()).await.unwrap();
    // Four requests and a timer in each step.
    let recorded = 5 * (DAY / (47 * 60) + 360);
    let imported = stored::read(&*store, place.clock.now_seconds(), None).await;
    let rolled_up = imported.requests_by_tier()[&21_600];
    assert!(
        (recorded - 30..recorded).contains(&rolled_up),
        "{rolled_up}"
    );
    let pulse = instance(&place, store.clone(), None);
    place.hand.advance(Duration::from_secs(300));
    pulse.record("GET /last", Duration::from_millis(1), http::StatusCode::OK);
    pulse.flush().await.unwrap();
    place.hand.advance(Duration::from_secs(300));
    pulse.record("GET /last", Duration::from_millis(1), http::StatusCode::OK);
    pulse.flush().await.unwrap();
    let found = stored::read(&*store, place.clock.now_seconds(), None).await;
    // The first of the two later ones is rolled up.
    assert_eq!(found.requests_by_tier()[&21_600], recorded + 1);
}

#[tokio::test]
async fn days_that_the_file_does_not_have_are_made_of_its_six_hours() {
    let mut rng = Rng::with_seed(seed());
    // A file that keeps no days, and one that began to keep them when it had a past.
    for then in [None, Some(30)] {
        let place = Place::new();
        for history in [None, then] {
            let past = Past {
                days: 3,
                contexts: 4,
                history,
                ended_ago: 5_000,
            };
            past.record(&place, &mut rng).await;
        }
        let server = RedisServer::start().await;
        let store = redis(&server.url(), &place, None);
        let import = import(&place)
            .history(Duration::from_secs(30 * DAY))
            .unwrap();
        import.run(Shared::from(store.clone())).await.unwrap();
        let found = stored::read(&*store, place.clock.now_seconds(), Some(30)).await;
        let requests = found.requests_by_tier();
        let recorded = 2 * 5 * (3 * DAY / (47 * 60) + 360);
        assert_eq!(
            (requests[&21_600], requests[&86_400]),
            (recorded, recorded),
            "{then:?}"
        );
    }
}

#[tokio::test]
async fn all_windows_have_what_they_had() {
    let mut rng = Rng::with_seed(seed());
    let place = Place::new();
    let past = Past {
        days: 15,
        contexts: 6,
        history: Some(30),
        ended_ago: 300,
    };
    past.record(&place, &mut rng).await;
    let before = {
        let store = Arc::new(FileStore::open(place.options()).unwrap());
        until("the file is open", async || store.status(0).await.is_ok()).await;
        let builder = Pulse::builder().store(store).clock(place.clock.clone());
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        drop(tasks);
        let windows = windows(&pulse).await;
        pulse.shutdown().await.unwrap();
        windows
    };
    place.released().await;
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    let import = import(&place)
        .history(Duration::from_secs(30 * DAY))
        .unwrap();
    import.run(Shared::from(store.clone())).await.unwrap();
    let after = windows(&instance(&place, store, Some(30))).await;
    for ((window, before), (_, after)) in before.iter().zip(&after) {
        assert_eq!(before, after, "{window}");
        assert!(before.len() > 3, "{window}: {before:?}");
    }
}

/// The rows of each window: what was measured in it, and in the window before.
async fn windows(pulse: &Pulse) -> Vec<(&'static str, Vec<String>)> {
    let mut windows = Vec::new();
    for window in ["1h", "24h", "7d", "30d"] {
        let answer = ask(pulse, &format!("/api/paths?window={window}")).await;
        let rows = answer["paths"].as_array().unwrap().iter();
        let rows = rows.map(|row| {
            let of = |figures: &serde_json::Value| {
                let names = [
                    "count", "errors", "total", "min", "max", "p50", "p95", "p99",
                ];
                names.map(|name| figures[name].to_string()).join(" ")
            };
            format!(
                "{} {} before {}",
                row["context"],
                of(row),
                of(&row["before"])
            )
        });
        windows.push((window, rows.collect()));
    }
    windows
}

async fn ask(pulse: &Pulse, question: &str) -> serde_json::Value {
    use tower::ServiceExt;
    let request = axum::extract::Request::get(question).header("host", "localhost");
    let request = request.body(axum::body::Body::empty()).unwrap();
    let router = pulse.router(tower_pulse::admin::Access::open());
    let response = router.oneshot(request).await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// A change as it is stored.
fn change(id: &str, detected: i64, ended: Option<i64>) -> Change {
    serde_json::from_value(json!({
        "id": id, "kind": "slower", "context": "GET /0", "instance": null,
        "since": detected - 240, "detected": detected, "ended": ended,
        "then": 0.1, "now": 0.2, "ratio": 2.0, "confidence": 0.999_99, "requests": 400,
        "extra_seconds_per_minute": 1.0, "from_traffic": 0.25, "from_code": 0.75,
        "suspects": [], "yesterday": null, "week_ago": null,
    }))
    .unwrap()
}

async fn write_changes(store: Arc<dyn Store>, place: &Place, changes: &[Change]) {
    let judge = TestFolder::new(store, place.clock.clone(), "judge", 1);
    let now = place.clock.now_seconds() / 60 * 60;
    let write = judge.judgement(now, changes, &[]).await.unwrap();
    assert_eq!(judge.write_by_hand(&write).await.unwrap(), Written::Done);
    judge.release().await.unwrap();
}

#[tokio::test]
async fn the_log_of_changes_comes_along_and_no_change_begins() {
    let place = Place::new();
    record_crowd(&place, 3, 5).await;
    let now = place.clock.now_seconds();
    let file = Arc::new(FileStore::open(place.options()).unwrap());
    until("the file is open", async || file.status(0).await.is_ok()).await;
    let stood = change("stood", now - 600, None);
    let changes = [change("ended", now - 900, Some(now - 700)), stood];
    write_changes(file.clone(), &place, &changes).await;
    file.sync().await.unwrap();
    drop(file);
    place.released().await;

    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    let own = [change("own", now - 60, None)];
    write_changes(store.clone(), &place, &own).await;
    let brought = import_into(&place, store.clone()).await.unwrap();
    assert_eq!(brought.changes, 2);
    let pulse = instance(&place, store.clone(), None);
    let mut found: Vec<_> = pulse.changes().await.unwrap();
    found.sort_by_key(|change| change.id.clone());
    let ended = found
        .iter()
        .map(|change| (&*change.id, change.ended.is_some()));
    assert_eq!(
        ended.collect::<Vec<_>>(),
        [("ended", true), ("own", false), ("stood", true)]
    );
    // The fleet's judgement goes on from there.
    place.hand.advance(Duration::from_secs(120));
    pulse.record(
        "GET /page/0",
        Duration::from_millis(1),
        http::StatusCode::OK,
    );
    pulse.flush().await.unwrap();
    pulse.simulation().judge().await.unwrap();
    let begun = pulse.changes().await.unwrap();
    assert_eq!(begun.len(), 3, "{begun:?}");
}

#[tokio::test]
async fn two_thousand_contexts() {
    let place = Place::new();
    record_crowd(&place, 2_000, 20).await;
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    let start = std::time::Instant::now();
    let calls = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = calls.clone();
    let import = import(&place).on_progress(move |_| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let brought = import.run(Shared::from(store.clone())).await.unwrap();
    place.released().await;
    eprintln!("{brought} in {:?}", start.elapsed());
    assert_eq!(brought.contexts, 2_000);
    let calls = calls.load(std::sync::atomic::Ordering::Relaxed);
    assert!(calls > 10, "{calls}");
    let expected = read_file(&place, None).await;
    let found = stored::read(&*store, place.clock.now_seconds(), None).await;
    expected.assert_same(&found);
    assert_eq!(found.requests_by_tier()[&60], 40_000);
}
