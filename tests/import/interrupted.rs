//! Imports that are interrupted, and run again.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tower_pulse::Clock;
use tower_pulse::import::{FileImport, ImportErrorKind};
use tower_pulse::store::Store as Shared;

use crate::past::{Past, answers, import, import_into, record_crowd, redis};
use crate::service::Place;
use crate::stored::{self, Stored};
use pulse_rig::process::{Leashed, TempDir};
use pulse_rig::proxy::Proxy;
use pulse_rig::seed::seed;
use pulse_rig::server::RedisServer;

/// What an import that nothing interrupts brings into a Redis.
async fn undisturbed(place: &Place) -> Stored {
    let copy = Place {
        dir: TempDir::new("copy"),
        clock: place.clock.clone(),
        hand: place.hand.clone(),
    };
    std::fs::copy(place.path(), copy.path()).unwrap();
    let server = RedisServer::start().await;
    let store = redis(&server.url(), place, None);
    import_into(&copy, store.clone()).await.unwrap();
    stored::read(&*store, place.clock.now_seconds(), None).await
}

/// Imports, in a process of its own, which its parent kills.
async fn import_until_killed(address: &str) {
    let setting = |name| std::env::var(name).unwrap();
    let (clock, hand) = Clock::manual(setting("IMPORT_NOW").parse().unwrap());
    let import = FileImport::new(setting("IMPORT_FILE")).unwrap();
    let place = Place {
        dir: TempDir::new("unused"),
        clock,
        hand,
    };
    let store = redis(address, &place, None);
    import
        .clock(place.clock.clone())
        .run(Shared::from(store))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment() {
    // The process that is killed is this test once more.
    if let Ok(address) = std::env::var("IMPORT_REDIS") {
        return import_until_killed(&address).await;
    }
    let mut rng = Rng::with_seed(seed());
    let place = Place::new();
    let past = Past {
        days: 2,
        contexts: 9,
        history: None,
        ended_ago: 0,
    };
    past.record(&place, &mut rng).await;
    record_crowd(&place, 400, 60).await;
    let expected = undisturbed(&place).await;
    let server = RedisServer::start().await;
    let mut kills = 0;
    loop {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "interrupted::killed_at_any_moment"]);
        command.env("IMPORT_FILE", place.path());
        command.env("IMPORT_NOW", place.clock.now_seconds().to_string());
        command.env("IMPORT_REDIS", server.url());
        command.stdout(std::process::Stdio::null());
        let dir = TempDir::new("killed");
        let mut process = Leashed::spawn(&mut command, dir.path()).unwrap();
        let life = Duration::from_millis(rng.u64(20..200 + 30 * kills));
        match process.wait(life) {
            Some(status) => {
                assert!(status.success(), "{status}");
                break;
            }
            None => process.kill_9(),
        }
        kills += 1;
    }
    eprintln!("{kills} kills");
    assert!(kills > 1, "{kills}");
    let store = redis(&server.url(), &place, None);
    let found = stored::read(&*store, place.clock.now_seconds(), None).await;
    expected.assert_same(&found);
    let error = import_into(&place, store).await.unwrap_err();
    assert_eq!(error.kind(), ImportErrorKind::AlreadyImported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_cut_off_and_answered_late() {
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let place = Place::new();
    record_crowd(&place, 300, 40).await;
    let expected = undisturbed(&place).await;
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    proxy.swallow_replies(0.05, seed, pulse_rig::proxy::Swallow::Cut);
    let mut drops = 0;
    loop {
        let store = redis(&proxy.url(), &place, None);
        let life = Duration::from_millis(rng.u64(20..300 + 100 * drops));
        place.released().await;
        match tokio::time::timeout(life, import(&place).run(Shared::from(store))).await {
            Ok(imported) => {
                imported.unwrap();
                break;
            }
            Err(_) => drops += 1,
        }
    }
    eprintln!("{drops} drops, {} replies swallowed", proxy.swallowed());
    let store = redis(&server.url(), &place, None);
    let found = stored::read(&*store, place.clock.now_seconds(), None).await;
    expected.assert_same(&found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_ends_and_comes_back_with_what_it_had() {
    let place = Place::new();
    record_crowd(&place, 400, 40).await;
    let expected = undisturbed(&place).await;
    let server = RedisServer::builder();
    let server = server
        .arg("--appendonly", "yes")
        .arg("--appendfsync", "always")
        .start()
        .await;
    let store = redis(&server.url(), &place, None);
    let told = Arc::new(AtomicU64::new(0));
    let counted = told.clone();
    let import = import(&place).on_progress(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let importing = tokio::spawn(async move { import.run(Shared::from(store)).await });
    for calls in [1, 3] {
        while told.load(Ordering::Relaxed) < calls && !importing.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.kill_9();
        server.restart().await;
        answers(&server).await;
    }
    importing.await.unwrap().unwrap();
    let store = redis(&server.url(), &place, None);
    let found = stored::read(&*store, place.clock.now_seconds(), None).await;
    expected.assert_same(&found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_comes_back_without_calls_that_it_had_acknowledged() {
    let place = Place::new();
    record_crowd(&place, 400, 60).await;
    let expected = undisturbed(&place).await;
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    let told = Arc::new(AtomicU64::new(0));
    let counted = told.clone();
    let import = import(&place).on_progress(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let importing = tokio::spawn(async move { import.run(Shared::from(store)).await });
    let until_told = async |calls| {
        while told.load(Ordering::Relaxed) < calls && !importing.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    until_told(3).await;
    let mut connection = server.connection().await;
    let () = redis::cmd("SAVE")
        .query_async(&mut connection)
        .await
        .unwrap();
    let saved = told.load(Ordering::Relaxed);
    until_told(saved + 4).await;
    let lost = told.load(Ordering::Relaxed) - saved;
    server.kill_9();
    server.restart().await;
    importing.await.unwrap().unwrap();
    assert!(lost > 2, "{lost}");
    let store = redis(&server.url(), &place, None);
    let found = stored::read(&*store, place.clock.now_seconds(), None).await;
    expected.assert_same(&found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_ends_and_comes_back_empty() {
    let place = Place::new();
    record_crowd(&place, 400, 40).await;
    let expected = undisturbed(&place).await;
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    let told = Arc::new(AtomicU64::new(0));
    let counted = told.clone();
    let import = import(&place).on_progress(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let importing = tokio::spawn(async move { import.run(Shared::from(store)).await });
    while told.load(Ordering::Relaxed) < 3 && !importing.is_finished() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.kill_9();
    server.restart().await;
    importing.await.unwrap().unwrap();
    let store = redis(&server.url(), &place, None);
    let found = stored::read(&*store, place.clock.now_seconds(), None).await;
    expected.assert_same(&found);
}

#[tokio::test]
async fn a_journal_that_is_full() {
    let place = Place::new();
    record_crowd(&place, 300, 40).await;
    let expected = undisturbed(&place).await;
    let server = RedisServer::start().await;
    // Less than one call.
    let store = redis(&server.url(), &place, Some(4_096));
    import_into(&place, store.clone()).await.unwrap();
    let found = stored::read(&*store, place.clock.now_seconds(), None).await;
    expected.assert_same(&found);
}

#[tokio::test]
async fn a_store_that_is_away_for_longer_than_the_patience() {
    let place = Place::new();
    record_crowd(&place, 3, 5).await;
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    proxy.refuse(true);
    let store = redis(&proxy.url(), &place, None);
    let import = import(&place).patience(Duration::from_millis(300));
    let error = import.run(Shared::from(store.clone())).await.unwrap_err();
    assert_eq!(error.kind(), ImportErrorKind::StoreFailed, "{error}");
    proxy.heal();
    place.released().await;
    import.run(Shared::from(store)).await.unwrap();
}

#[tokio::test]
async fn an_import_that_goes_on_after_the_store_has_forgotten_its_calls() {
    let place = Place::new();
    record_crowd(&place, 400, 40).await;
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    let told = Arc::new(AtomicU64::new(0));
    let counted = told.clone();
    let import = import(&place).on_progress(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let until_told = async {
        while told.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        imported = import.run(Shared::from(store.clone())) => panic!("{imported:?}"),
        () = until_told => {}
    }
    place.released().await;
    // As the folder does with fences that are idle for a day.
    place.hand.advance(Duration::from_secs(25 * 3_600));
    let mut connection = server.connection().await;
    let fields: Vec<String> = redis::cmd("HKEYS")
        .arg("pulse:pulse:state")
        .query_async(&mut connection)
        .await
        .unwrap();
    let fence = fields
        .iter()
        .find(|field| field.starts_with("f:import-"))
        .unwrap();
    let () = redis::cmd("HDEL")
        .arg("pulse:pulse:state")
        .arg(fence)
        .query_async(&mut connection)
        .await
        .unwrap();
    let error = import_into(&place, store.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ImportErrorKind::InterruptedForLong, "{error}");
    let () = redis::cmd("FLUSHALL")
        .query_async(&mut connection)
        .await
        .unwrap();
    import_into(&place, redis(&server.url(), &place, None))
        .await
        .unwrap();
}
