//! The number of loads at once. Loads of the daemon (the task that refreshes due rows) and loads for callers share the
//! *places* that `concurrency` allows.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tower_pulse::row_cache::RowCache;

use crate::rig::wait::{let_tasks_run, until};
use crate::rows::fixture::{Mode, Service, Stock};

const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

fn cache(service: &Service, concurrency: usize) -> RowCache {
    let builder = service.builder().concurrency(concurrency);
    let builder = builder.unscheduled_age(HOUR).deadline(60 * SECOND);
    builder.build().unwrap()
}

fn spawn(cache: &RowCache, id: String) -> JoinHandle<bool> {
    let cache = cache.clone();
    tokio::spawn(async move { cache.get_or_load::<Stock>(&id).await.is_ok() })
}

/// Asks for two rows, whose loads wait until their gates are opened.
async fn take_both_places(service: &Service, cache: &RowCache) -> [JoinHandle<bool>; 2] {
    let gated = ["gate 0", "gate 1"].map(|id| {
        service.database.gate(id);
        spawn(cache, id.to_owned())
    });
    let are_taken = async || service.database.running() == 2;
    until("both places are taken", are_taken).await;
    gated
}

fn open_gates(service: &Service) {
    for id in ["gate 0", "gate 1"] {
        service.database.gate_of(id).unwrap().add_permits(1);
    }
}

pub async fn all_loads_together_are_bounded(service: &Service) {
    let mut random = fastrand::Rng::with_seed(crate::rig::seed::seed());
    let (cache, database) = (cache(service, 16), &service.database);
    let scheduled: Vec<_> = (0..60).map(|n| format!("scheduled {n}")).collect();
    let rows = scheduled.iter().map(|id| (id.clone(), SECOND));
    cache.schedule_many(rows).await.unwrap();
    let callers = (0..1_000).map(|number| {
        let (id, mode) = (number.to_string(), random.usize(0..30));
        match mode {
            0 => database.set_mode(&id, Mode::Fail),
            1 => database.set_mode(&id, Mode::Panic),
            _ => {}
        }
        (spawn(&cache, id.clone()), id, mode)
    });
    let callers: Vec<_> = callers.collect();
    for (caller, _, _) in callers.iter().filter(|(_, _, mode)| *mode == 2) {
        caller.abort();
    }
    for (caller, id, mode) in callers {
        let is_ok = caller.await.unwrap_or(false);
        assert!(mode < 3 || (is_ok && database.loads(&id) == 1), "{id}");
        service.manual_clock.advance(Duration::from_millis(1));
    }
    let are_loaded = async || scheduled.iter().all(|id| database.loads(id) >= 2);
    service.until("all rows are loaded twice", are_loaded).await;
    let most = database.max_running();
    assert!((2..=16).contains(&most), "{most} loads at once");
    until("no load is left", async || database.running() == 0).await;
}

pub async fn a_dropped_caller_leaves_the_queue(service: &Service) {
    let (cache, database) = (cache(service, 2), &service.database);
    let gated = take_both_places(service, &cache).await;
    let waiting: Vec<_> = (0..20).map(|n| spawn(&cache, n.to_string())).collect();
    let_tasks_run().await;
    let last = spawn(&cache, "last".to_owned());
    tokio::time::sleep(Duration::from_millis(20)).await;
    waiting.iter().for_each(JoinHandle::abort);
    for caller in waiting {
        assert!(caller.await.unwrap_err().is_cancelled());
    }
    // Loads that have begun continue, even if their callers are dropped.
    gated.iter().for_each(JoinHandle::abort);
    open_gates(service);
    assert!(last.await.unwrap());
    // The rows of the dropped callers, whose loads had not begun, are never loaded.
    assert_eq!(database.order()[2..], ["last"]);
    until("no load is left", async || database.running() == 0).await;
    assert_eq!(database.max_running(), 2);
}

pub async fn the_daemon_and_callers_share_the_places(service: &Service) {
    let (cache, database) = (cache(service, 2), &service.database);
    let gated = take_both_places(service, &cache).await;
    let callers = (0..100).map(|n| spawn(&cache, format!("caller {n}")));
    let callers: Vec<_> = callers.collect();
    let rows = (0..100).map(|n| (format!("due {n}"), HOUR));
    cache.schedule_many(rows).await.unwrap();
    for _ in 0..20 {
        service.advance(100).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    open_gates(service);
    for caller in gated.into_iter().chain(callers) {
        assert!(caller.await.unwrap());
    }
    let are_loaded = async || (0..100).all(|n| database.loads(&format!("due {n}")) == 1);
    service.until("all rows are loaded", are_loaded).await;
    let order = database.order();
    let first = |start: &str| order.iter().position(|id| id.starts_with(start)).unwrap();
    // The daemon does not wait for all callers, and the callers do not wait for all due rows.
    assert!(first("due") < 60 && first("caller") < 60, "{order:?}");
    assert_eq!(database.max_running(), 2);
}

pub async fn a_loader_may_ask_its_own_cache(service: &Service) {
    let (cache, database) = (cache(service, 1), &service.database);
    let many: Vec<_> = (0..10).map(|n| format!("other {n}")).collect();
    for (id, others) in [
        ("a", vec!["b".to_owned()]),
        ("b", vec!["c".to_owned()]),
        ("d", vec!["c".to_owned()]),
        ("due", vec!["e".to_owned()]),
        ("many 0", many.clone()),
        ("many 1", many.clone()),
        ("many 2", many),
    ] {
        database.set_mode(id, Mode::Asks(cache.clone(), others));
    }
    // The load of `a` has the only place. Meanwhile, another caller waits to load `b`, which `a` asks for next.
    let gate = database.gate("a");
    let first = spawn(&cache, "a".to_owned());
    until("the place is taken", async || database.running() == 1).await;
    let others = ["b", "c", "c", "d"].map(|id| spawn(&cache, id.to_owned()));
    let_tasks_run().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    gate.add_permits(1);
    let many = (0..3).map(|n| spawn(&cache, format!("many {n}")));
    let all = join_all([first].into_iter().chain(others).chain(many));
    let ended = tokio::time::timeout(20 * SECOND, all).await;
    for caller in ended.expect("no caller waits for itself") {
        assert!(caller.unwrap());
    }
    cache.schedule("due", HOUR).await.unwrap();
    let is_loaded = async || database.loads("e") == 1;
    service.until("the daemon's row is loaded", is_loaded).await;
    for id in ["a", "b", "c", "d", "due", "other 9"] {
        assert_eq!(database.loads(id), 1, "{id}");
    }
    assert_eq!(database.max_running(), 1);
}
