//! Tests of the row cache. `mod.rs` lists the tests that run on a server, and those that also run in a cluster.

use std::time::Duration;

use tower_pulse::row_cache::{RowCache, RowError};
use tower_pulse_redis::rows::{FinishedRow, LeaseOf, LeasedRow};

use crate::rig::wait::{let_tasks_run, until};
use crate::rows::fixture::{List, Mode, Service, Stock};

const SECOND: Duration = Duration::from_secs(1);

async fn value(cache: &RowCache, id: &str) -> Option<u64> {
    let row = cache.get::<Stock>(id).await.unwrap();
    row.map(|row| row.value.load)
}

/// Advances the clock by `seconds`, 10 ms at a time. Each time, waits until no good row is overdue by more than `most`
/// seconds, because the machine may be busy. The clock also advances during this wait, so that leases whose command got
/// no answer expire. Returns the number of seconds that have passed.
async fn pass_on_time(service: &Service, cache: &RowCache, seconds: i64, most: f64) -> u64 {
    let is_on_time = async || {
        let rows = cache.list(0, 100).await.unwrap().rows;
        let mut good = rows.iter().filter(|row| !row.id.starts_with("bad"));
        good.all(|row| row.due_in > -most)
    };
    let start = service.clock.now_seconds();
    while service.clock.now_seconds() < start + seconds {
        service.advance(10).await;
        service.until("good rows are on time", is_on_time).await;
    }
    (service.clock.now_seconds() - start) as u64
}

/// Waits until the callers of these caches wait for a load. The store answers the read of another row only after the
/// callers' earlier requests on the same connection.
async fn until_callers_wait(caches: &[RowCache]) {
    for _ in 0..4 {
        let_tasks_run().await;
        for cache in caches {
            cache.get::<Stock>("another row").await.unwrap();
        }
    }
}

async fn leased(service: &Service, id: &str, every: f64) -> LeasedRow {
    schedule(service, id, every).await;
    let leased = service.store.lease_rows("", "token", LeaseOf::Due(1), 7.0);
    leased.await.unwrap().rows.remove(0)
}

async fn schedule(service: &Service, id: &str, every: f64) {
    let schedule = [(id.to_owned(), every)];
    let scheduled = service.store.schedule_rows("", &schedule, 9).await;
    assert_eq!(scheduled.unwrap(), Ok(()));
}

fn finished(
    leased: LeasedRow,
    loaded: Result<Option<Vec<u8>>, String>,
    backoff: f64,
) -> FinishedRow {
    FinishedRow {
        leased,
        loaded,
        drop_missing: false,
        ttl: None,
        spread: 1.0,
        backoff,
    }
}

async fn due_in(cache: &RowCache, id: &str) -> f64 {
    let rows = cache.list(0, 100).await.unwrap().rows;
    rows.iter().find(|row| row.id == id).unwrap().due_in
}

pub async fn a_row_is_refreshed_at_its_due_time_plus_its_delay(service: &Service) {
    let cache = service.cache();
    assert_eq!(value(&cache, "1").await, None);
    cache.schedule("1", 5 * SECOND).await.unwrap();
    service.until_cached(&cache, "1", 1).await;
    let left = due_in(&cache, "1").await;
    assert!((4.0..=5.0).contains(&left), "{left}");
    service
        .manual_clock
        .advance(Duration::from_secs_f64(left - 0.2));
    let row = cache.get::<Stock>("1").await.unwrap().unwrap();
    assert!(row.age.unwrap() < 5 * SECOND, "{:?}", row.age);
    assert_eq!(service.database.loads("1"), 1, "the row is not due");
    for load in 2..5 {
        service.until_cached(&cache, "1", load).await;
        let left = due_in(&cache, "1").await;
        assert!((3.0..=5.0).contains(&left), "{left}");
        service.manual_clock.advance(Duration::from_secs_f64(left));
    }
    // Missed refreshes are skipped. The next refresh is due a whole number of delays after the previous refresh.
    service.until_cached(&cache, "1", 5).await;
    let phase = due_in(&cache, "1").await;
    let before = service.clock.now_seconds();
    service.manual_clock.advance(Duration::from_secs(32));
    service.until_cached(&cache, "1", 6).await;
    let passed = (service.clock.now_seconds() - before) as f64;
    let left = due_in(&cache, "1").await;
    let delays = (passed + left - phase) / 5.0;
    assert!((delays - delays.round()).abs() < 0.3, "{delays} delays");
    assert!((0.0..=5.0).contains(&left), "{left}");
}

pub async fn a_removed_row_is_gone_whatever_its_loader_returns(service: &Service) {
    let cache = service.cache();
    cache.schedule("1", SECOND).await.unwrap();
    service.until_cached(&cache, "1", 1).await;
    let gate = service.database.gate("1");
    service.manual_clock.advance(SECOND);
    service.until_loaded("1", 2).await;
    cache.unschedule("1").await.unwrap();
    assert_eq!(value(&cache, "1").await, None);
    gate.add_permits(1);
    service.advance(3_000).await;
    assert_eq!(value(&cache, "1").await, None);
    assert_eq!(cache.list(0, 9).await.unwrap().total, 0);
    // In the book, a delay of 0 removes a row.
    service.database.remove_gate("1");
    cache.schedule("1", SECOND).await.unwrap();
    service.until_cached(&cache, "1", 3).await;
    cache.schedule("1", Duration::ZERO).await.unwrap();
    assert_eq!(value(&cache, "1").await, None);
}

pub async fn a_later_change_wins_over_an_older_load(service: &Service) {
    let cache = service.cache();
    let gate = service.database.gate("1");
    cache.schedule("1", 60 * SECOND).await.unwrap();
    service.until_loaded("1", 1).await;
    service.database.remove_gate("1");
    assert!(cache.refresh_now("1").await.unwrap());
    assert_eq!(value(&cache, "1").await, Some(2));
    gate.add_permits(1);
    service.advance(500).await;
    assert_eq!(value(&cache, "1").await, Some(2), "the first load is older");

    let gate = service.database.gate("1");
    service.manual_clock.advance(60 * SECOND);
    service.until_loaded("1", 3).await;
    service.database.remove_gate("1");
    cache.schedule("1", 30 * SECOND).await.unwrap();
    service.until_cached(&cache, "1", 4).await;
    gate.add_permits(1);
    service.advance(500).await;
    assert_eq!(value(&cache, "1").await, Some(4), "the third load is older");
}

pub async fn a_row_that_fails_keeps_its_last_value_and_has_a_short_reason(service: &Service) {
    let cache = service.cache();
    for id in ["bad", "good"] {
        cache.schedule(id, SECOND).await.unwrap();
        service.until_cached(&cache, id, 1).await;
    }
    service.database.set_mode("bad", Mode::FailAtLength);
    let last = value(&cache, "bad").await;
    let list = async || cache.list(0, 9).await.unwrap().rows;
    let fails = async || list().await[0].failures >= 2;
    let what = "the row fails, and is listed first";
    service.until(what, fails).await;
    assert_eq!(value(&cache, "bad").await, last);
    let failing = list().await.remove(0);
    assert!(failing.age.is_some(), "{failing:?}");
    let reason = failing.last_error.unwrap();
    assert!(reason.starts_with("1 2"), "{reason}");
    assert!(reason.len() <= 200 && !reason.contains('\n'), "{reason}");
    service.database.set_mode("bad", Mode::Ok);
    // The longest wait after a failure is a minute.
    service.manual_clock.advance(60 * SECOND);
    let recovers = async || value(&cache, "bad").await != last;
    service.until("the row is loaded again", recovers).await;
    let rows = list().await;
    let row = rows.iter().find(|row| row.id == "bad").unwrap();
    assert_eq!((row.failures, &row.last_error), (0, &None));
}

pub async fn a_loader_that_hangs_panics_or_returns_too_much_fails(service: &Service) {
    let patient = service.builder().max_bytes(1_000).build().unwrap();
    // On a busy machine, any load may take longer than this deadline, so only the load that hangs gets this deadline.
    let hurried = service.builder().name("hurried");
    let hurried = hurried.deadline(SECOND / 30).build().unwrap();
    for (cache, id, mode, why) in [
        (&patient, "panic", Mode::Panic, "panicked"),
        (&hurried, "hang", Mode::Hang, "longer than"),
        (&patient, "huge", Mode::Huge, "max_bytes"),
        (&patient, "fail", Mode::Fail, "failed"),
    ] {
        service.database.set_mode(id, mode);
        cache.schedule(id, SECOND).await.unwrap();
        let error = cache.refresh_now(id).await.unwrap_err();
        assert!(matches!(error, RowError::Load(_)));
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(value(cache, id).await, None);
    }
    patient.schedule("good", SECOND).await.unwrap();
    service.until_cached(&patient, "good", 1).await;
}

pub async fn a_row_that_is_too_old_is_removed(service: &Service) {
    let cache = service.builder().max_age(2 * SECOND).build().unwrap();
    cache.schedule("1", 10 * SECOND).await.unwrap();
    service.until_cached(&cache, "1", 1).await;
    service.database.set_mode("1", Mode::Fail);
    // Redis removes the row by its own clock.
    service.manual_clock.advance(Duration::from_millis(2_100));
    let is_removed = async || value(&cache, "1").await.is_none();
    until("the row is removed", is_removed).await;
    let rows = cache.list(0, 9).await.unwrap().rows;
    assert_eq!(rows[0].age, None, "a row that is not cached has no age");
}

pub async fn a_missing_row_stays_scheduled_unless_it_is_dropped(service: &Service) {
    let cache = service.cache();
    let dropping = service.builder().name("dropping").drop_missing(true);
    let dropping = dropping.build().unwrap();
    for cache in [&cache, &dropping] {
        service.database.set_mode("1", Mode::Ok);
        cache.schedule("1", 5 * SECOND).await.unwrap();
        let load = service.database.loads("1") + 1;
        service.until_cached(cache, "1", load).await;
        service.database.set_mode("1", Mode::Missing);
        assert!(!cache.refresh_now("1").await.unwrap());
        assert_eq!(value(cache, "1").await, None);
    }
    // Only the cache that does not drop missing rows keeps the row scheduled.
    assert_eq!(cache.list(0, 9).await.unwrap().total, 1);
    assert_eq!(dropping.list(0, 9).await.unwrap().total, 0);
    service.database.set_mode("1", Mode::Ok);
    service.manual_clock.advance(5 * SECOND);
    let is_there = async || value(&cache, "1").await.is_some();
    service.until("the row is cached again", is_there).await;
    assert_eq!(value(&dropping, "1").await, None);
}

pub async fn each_refresh_is_made_by_one_of_several_daemons(service: &Service) {
    let caches = [service.cache(), service.cache(), service.cache()];
    let rows = (0..50).map(|id| (id.to_string(), 10 * SECOND));
    caches[0].schedule_many(rows).await.unwrap();
    let are_loaded = async || service.database.all_loads() >= 50;
    service.until("all rows are loaded", are_loaded).await;
    service.advance(30).await;
    let loads = service.database.all_loads();
    assert!((50..=53).contains(&loads), "{loads} loads of 50 rows");
    // The first intervals are shortened; after that, each row is refreshed every ten seconds.
    pass_on_time(service, &caches[0], 10, 2.0).await;
    let before = service.database.all_loads();
    let passed = pass_on_time(service, &caches[0], 20, 2.0).await;
    let refreshes = service.database.all_loads() - before;
    // Three daemons that ignored leases would load 15 rows a second. Rows may be overdue at the start and at the end.
    let overdue = refreshes.abs_diff(5 * passed);
    assert!(overdue <= 10, "{refreshes} in {passed} s");
}

pub async fn the_rows_of_a_dead_daemon_are_loaded_by_another(service: &Service) {
    let (cache, task) = service.builder().build_with_task().unwrap();
    cache.schedule("1", SECOND).await.unwrap();
    // Another daemon leases the row, and dies.
    let lease = service.store.lease_rows("", "dead", LeaseOf::Due(5), 7.0);
    assert_eq!(lease.await.unwrap().rows.len(), 1);
    let _running = tokio::spawn(task);
    // The loads of another row show that the daemon asks the store and gets answers.
    cache.schedule("2", SECOND).await.unwrap();
    let start = service.clock.now_seconds();
    let asks = async || service.database.loads("2") >= 2;
    service.until("the daemon asks", asks).await;
    let passed = service.clock.now_seconds() - start;
    assert!(passed < 6, "the lease has ended");
    assert_eq!(service.database.loads("1"), 0, "the row is leased");
    service.until_cached(&cache, "1", 1).await;
}

pub async fn rows_without_a_schedule_expire(service: &Service) {
    let age = Duration::from_millis(300);
    let cache = service.builder().unscheduled_age(age).build().unwrap();
    let load = async || {
        let row = cache.get_or_load::<Stock>("1").await.unwrap();
        row.unwrap().value.load
    };
    assert_eq!(load().await, 1);
    let row = cache.get::<Stock>("1").await.unwrap().unwrap();
    assert!(row.age.unwrap() <= age);
    assert_eq!(cache.list(0, 9).await.unwrap().total, 0);
    service.manual_clock.advance(Duration::from_millis(400));
    let is_gone = async || value(&cache, "1").await.is_none();
    until("the row has expired", is_gone).await;
    assert_eq!(load().await, 2);
}

pub async fn rows_beyond_the_maximum_are_refused(service: &Service) {
    let builder = service.builder().max_rows(250);
    let (cache, _task) = builder.build_with_task().unwrap();
    let rows = (0..300).map(|id| (id.to_string(), SECOND));
    let error = cache.schedule_many(rows).await.unwrap_err();
    let text = error.to_string();
    for part in [
        "row \"200\"",
        "max_rows",
        "200 are scheduled, and 250 allowed",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(matches!(error, RowError::Full(_)));
    assert_eq!(cache.list(0, 1).await.unwrap().total, 200);
    // A row that is named twice counts once.
    let rows = (0..100).map(|id| (format!("new {}", id % 50), SECOND));
    cache.schedule_many(rows).await.unwrap();
    assert!(cache.schedule("250", SECOND).await.is_err());
    cache.schedule("3", 2 * SECOND).await.unwrap();
    cache.unschedule("1").await.unwrap();
    cache.schedule("250", SECOND).await.unwrap();
    assert_eq!(cache.list(0, 1).await.unwrap().total, 250);
}

pub async fn bad_ids_delays_and_settings_are_refused(service: &Service) {
    let cache = service.cache();
    let error = cache.schedule("1", 366 * 86_400 * SECOND).await;
    assert!(matches!(error, Err(RowError::NotAllowed(_))), "{error:?}");
    let long = "x".repeat(257);
    for error in [
        cache.schedule(&long, SECOND).await.unwrap_err(),
        cache.get::<Stock>(&long).await.unwrap_err(),
    ] {
        assert!(matches!(&error, RowError::NotAllowed(text) if text.contains("257")));
    }
    assert_eq!(cache.list(0, 9).await.unwrap().total, 0);
    let (long, zero) = ("ü".repeat(128), Duration::ZERO);
    cache.schedule(&long, SECOND).await.unwrap();
    service.until_cached(&cache, &long, 1).await;
    for (builder, field) in [
        (service.builder().name("a:b"), "name"),
        (service.builder().concurrency(0), "concurrency"),
        (service.builder().deadline(zero), "deadline"),
        (service.builder().max_rows(0), "max_rows"),
        (service.builder().max_bytes(0), "max_bytes"),
        (service.builder().max_age(zero), "max_age"),
        (service.builder().read_through(zero), "read_through"),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

pub async fn rows_scheduled_together_are_spread(service: &Service) {
    let cache = service.cache();
    let rows = (0..40).map(|id| (id.to_string(), 100 * SECOND));
    cache.schedule_many(rows).await.unwrap();
    let are_written = async || {
        let rows = cache.list(0, 100).await.unwrap().rows;
        rows.iter().all(|row| row.age.is_some())
    };
    service.until("all rows are written", are_written).await;
    let rows = cache.list(0, 100).await.unwrap().rows;
    let (first, last) = (rows[0].due_in, rows[39].due_in);
    assert!(first < 40.0, "{first} {last}");
    assert!(last > 60.0, "{first} {last}");
    assert!(last <= 100.0, "{first} {last}");
}

pub async fn rows_are_listed_the_most_overdue_first(service: &Service) {
    let (cache, _task) = service.builder().build_with_task().unwrap();
    for (at, id) in ["c", "a", "b"].into_iter().enumerate() {
        let every = (at as u32 + 1) * SECOND;
        cache.schedule(id, every).await.unwrap();
        service.manual_clock.advance(SECOND);
    }
    let list = cache.list(0, 2).await.unwrap();
    let (total, rows) = (list.total, list.rows);
    let ids: Vec<_> = rows.iter().map(|row| (&*row.id, row.every)).collect();
    assert_eq!((total, ids), (3, vec![("c", 1.0), ("a", 2.0)]));
    assert!((-3.1..=-2.9).contains(&rows[0].due_in), "{rows:?}");
    let rows = cache.list(2, 5).await.unwrap().rows;
    assert_eq!(rows.len(), 1);
    for (offset, limit) in [(9, 5), (0, 0)] {
        let list = cache.list(offset, limit).await.unwrap();
        assert_eq!((list.total, list.rows.len()), (3, 0));
    }
}

pub async fn several_rows_are_read_at_once(service: &Service) {
    let cache = service.cache();
    cache.schedule("1", 60 * SECOND).await.unwrap();
    service.until_cached(&cache, "1", 1).await;
    let rows = cache.get_many::<Stock>(&["2", "1", "3"]).await.unwrap();
    let rows = rows.into_iter();
    let loads = rows.map(|row| row.map(|row| row.value.load));
    assert!(loads.eq([None, Some(1), None]));
    let none = cache.get_many::<Stock>(&[] as &[&str]).await;
    assert!(none.unwrap().is_empty());
    let error = cache.get::<Vec<u8>>("1").await.unwrap_err();
    assert!(matches!(&error, RowError::Type(id, _) if id == "1"));
    assert!(std::error::Error::source(&error).is_some(), "{error}");
}

pub async fn caches_with_different_names_are_separate(service: &Service) {
    let pulse = service.pulse();
    let named = RowCache::builder(&pulse).loader(service.database.clone());
    let (plain, named) = (service.cache(), named.name("offers").build().unwrap());
    plain.schedule("1", 60 * SECOND).await.unwrap();
    service.until_cached(&plain, "1", 1).await;
    assert_eq!(value(&named, "1").await, None);
    named.schedule("1", 60 * SECOND).await.unwrap();
    service.until_cached(&named, "1", 2).await;
    assert_eq!((plain.name(), named.name()), ("", "offers"));
    named.unschedule("1").await.unwrap();
    assert_eq!(value(&plain, "1").await, Some(1));
    pulse.simulation().drain();
    pulse.flush().await.unwrap();
    for name in ["row:offers:misses", "hits:row:offers:load"] {
        let days = pulse.store().counter(name, 86_400).await.unwrap();
        assert!(days[0].1 > 0, "{name}");
    }
}

pub async fn a_read_through_asks_the_store_once(service: &Service) {
    let cache = service.builder().read_through(SECOND).build().unwrap();
    cache.schedule("1", 60 * SECOND).await.unwrap();
    service.until_cached(&cache, "1", 1).await;
    let commands = async || service.server.as_ref().unwrap().commands().await;
    value(&cache, "1").await;
    let before = commands().await;
    for _ in 0..1_000 {
        assert_eq!(value(&cache, "1").await, Some(1));
    }
    let sent = commands().await - before;
    assert!(sent < 100, "{sent} commands");
    let other = service.cache();
    other.refresh_now("1").await.unwrap();
    service.until_cached(&cache, "1", 2).await;
}

/// Loaders of a tenth of the rows hang, panic or fail.
pub async fn rows_beside_bad_rows_are_on_time(service: &Service) {
    let cache = service.builder().deadline(SECOND / 20).build().unwrap();
    let bad = [Mode::Hang, Mode::Panic, Mode::Fail];
    for (at, mode) in bad.iter().cycle().take(6).enumerate() {
        let id = format!("bad {at}");
        service.database.set_mode(&id, mode.clone());
    }
    let rows = (0..60).map(|id| match id {
        0..54 => (format!("good {id}"), SECOND),
        _ => (format!("bad {}", id - 54), SECOND),
    });
    cache.schedule_many(rows).await.unwrap();
    let good = || -> Vec<u64> {
        let loads = (0..54).map(|id| service.database.loads(&format!("good {id}")));
        loads.collect()
    };
    let are_loaded = async || good().iter().all(|loads| *loads > 0);
    service.until("all good rows are loaded", are_loaded).await;
    let before = good();
    // Loaders that hang time out in real time.
    let passed = pass_on_time(service, &cache, 8, 0.5).await;
    let likely = passed * 7 / 10..=passed + 2;
    for (after, before) in good().into_iter().zip(before) {
        let loads = after - before;
        assert!(likely.contains(&loads), "{loads}, not {likely:?}");
    }
    let rows = cache.list(0, 6).await.unwrap().rows;
    assert!(rows.iter().all(|row| row.id.starts_with("bad")), "{rows:?}");
}

/// At first, the daemon (the task that refreshes rows) has no other row, so nothing else wakes the daemon.
pub async fn a_delay_below_a_second_is_kept(service: &Service) {
    let cache = service.cache();
    cache.schedule("1", SECOND / 5).await.unwrap();
    service.until_cached(&cache, "1", 1).await;
    let before = service.database.loads("1");
    let passed = pass_on_time(service, &cache, 4, 0.1).await;
    let refreshes = service.database.loads("1") - before;
    let is_kept = (3 * passed..=5 * passed + 6).contains(&refreshes);
    assert!(is_kept, "{refreshes} refreshes in {passed} s");
    // A row with a delay of nearly zero is loaded continuously.
    cache.schedule("2", Duration::from_nanos(1)).await.unwrap();
    for load in [1, 2, 3] {
        let is_loaded = async || service.database.loads("2") >= load;
        service.until("the row is loaded again", is_loaded).await;
    }
}

pub async fn many_callers_cause_one_load(service: &Service) {
    let caches = [service.cache(), service.cache()];
    for (id, mode, cache_count) in [
        ("1", Mode::Ok, 2),
        ("none", Mode::Missing, 1),
        ("bad", Mode::Fail, 1),
    ] {
        service.database.set_mode(id, mode);
        let gate = service.database.gate(id);
        let callers = (0..40).map(|number| {
            let cache = caches[number % cache_count].clone();
            tokio::spawn(async move { cache.get_or_load::<Stock>(id).await })
        });
        let callers: Vec<_> = callers.collect();
        let begins = async || service.database.loads(id) == 1;
        until("the row is being loaded", begins).await;
        until_callers_wait(&caches).await;
        gate.add_permits(100);
        for caller in callers {
            match (id, caller.await.unwrap()) {
                ("1", row) => assert_eq!(row.unwrap().unwrap().value.load, 1),
                ("none", row) => assert!(row.unwrap().is_none()),
                (_, row) => assert!(matches!(row, Err(RowError::Load(_))), "{row:?}"),
            }
        }
        assert_eq!(service.database.loads(id), 1, "{id}");
        // A later caller does not get the earlier answer, if the row was missing or failed.
        let _ = caches[0].get_or_load::<Stock>(id).await;
        assert_eq!(service.database.loads(id), 3 - cache_count as u64, "{id}");
    }
}

pub async fn a_read_does_not_wait_for_a_load(service: &Service) {
    let cache = service.builder().read_through(SECOND).build().unwrap();
    let gate = service.database.gate("1");
    let asking = cache.clone();
    let caller = tokio::spawn(async move { asking.get_or_load::<Stock>("1").await });
    let begins = async || service.database.loads("1") == 1;
    until("the row is being loaded", begins).await;
    let read = tokio::time::timeout(5 * SECOND, cache.get::<Stock>("1")).await;
    assert!(read.expect("the read ends").unwrap().is_none());
    // A caller that is dropped does not block the next caller.
    caller.abort();
    gate.add_permits(9);
    let row = cache.get_or_load::<Stock>("1").await.unwrap().unwrap();
    assert_eq!(row.value.load, 1, "the load goes on without its caller");
}

pub async fn a_shutdown_does_not_wait_for_a_loader_that_hangs(service: &Service) {
    let pulse = service.pulse();
    let cache = RowCache::builder(&pulse).loader(service.database.clone());
    let cache = cache.deadline(600 * SECOND).build().unwrap();
    service.database.set_mode("1", Mode::Hang);
    cache.schedule("1", SECOND).await.unwrap();
    service.until_loaded("1", 1).await;
    let shutdown = tokio::time::timeout(10 * SECOND, pulse.shutdown()).await;
    shutdown.expect("the shutdown ends").unwrap();
}

/// Another daemon has leased the first rows of the schedule.
pub async fn rows_after_many_leased_rows_are_on_time(service: &Service) {
    let cache = service.cache();
    let rows = (0..1_000).map(|id| (format!("leased {id}"), 60 * SECOND));
    cache.schedule_many(rows).await.unwrap();
    let rows = &service.store;
    let lease = rows.lease_rows("", "other", LeaseOf::Due(1_000), 600.0);
    assert!(lease.await.unwrap().rows.len() > 900);
    service.manual_clock.advance(Duration::from_millis(10));
    cache.schedule("1", SECOND).await.unwrap();
    service.until_cached(&cache, "1", 2).await;
}

/// The due time alone does not distinguish the second schedule from the first.
pub async fn a_row_that_is_scheduled_again_at_once_discards_its_first_load(service: &Service) {
    let rows = &service.store;
    let row = leased(service, "1", 5.0).await;
    let row = finished(row, Ok(Some(b"{}".to_vec())), 0.0);
    schedule(service, "1", 5.0).await;
    let report = rows.finish_row("", "token", &row).await.unwrap();
    assert!(!report.is_written);
    let leased = rows.lease_rows("", "token", LeaseOf::Due(1), 7.0).await;
    assert_eq!(leased.unwrap().rows.len(), 1, "the row is due again");
    let report = rows.finish_row("", "token", &row).await.unwrap();
    assert!(report.is_written);
    let next = report.next.unwrap();
    assert!((4.99..=5.01).contains(&next), "{next}");
    let cached = rows.cached_rows("", &["1".to_owned()], 99).await.unwrap();
    assert!(cached[0].is_some());
}

pub async fn a_caller_that_is_dropped_leaves_no_lease(service: &Service) {
    let cache = service.cache();
    for polls in 0..40 {
        let id = polls.to_string();
        let polled = async {
            for _ in 0..polls {
                std::thread::sleep(Duration::from_micros(50));
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = cache.get_or_load::<Stock>(&id) => {}
            () = polled => {}
        }
        // No lease expires, because the clock does not advance.
        let row = tokio::time::timeout(5 * SECOND, cache.get_or_load::<Stock>(&id)).await;
        let row = row.expect("no lease holds the row").unwrap().unwrap();
        assert_eq!(row.value.load, 1, "{id}");
    }
}

pub async fn a_cached_row_is_not_leased_for_a_caller(service: &Service) {
    let cache = service.cache();
    cache.get_or_load::<Stock>("1").await.unwrap();
    let rows = &service.store;
    let (id, max_bytes) = ("1", 99);
    let free = LeaseOf::Free { id, max_bytes };
    for (which, leased) in [(free, 0), (LeaseOf::Row("1"), 1)] {
        let rows = rows.lease_rows("", "token", which, 7.0).await.unwrap();
        assert_eq!(rows.rows.len(), leased, "{which:?}");
    }
}

pub async fn rows_that_fail_equally_often_are_listed_the_most_overdue_first(service: &Service) {
    for (id, backoff) in [("b", 5.0), ("a", 3.0), ("c", 4.0)] {
        let row = leased(service, id, 60.0).await;
        let row = finished(row, Err("it failed".to_owned()), backoff);
        let report = service.store.finish_row("", "token", &row).await;
        assert!(report.unwrap().is_written);
    }
    let (cache, _task) = service.builder().build_with_task().unwrap();
    let rows = cache.list(0, 9).await.unwrap().rows;
    let ids: Vec<_> = rows.iter().map(|row| &*row.id).collect();
    assert_eq!(ids, ["a", "c", "b"]);
}

/// Compares the list of failed loads with the counter and the timer of the same loads.
pub async fn a_failed_load_is_listed_wherever_it_is_counted(service: &Service) {
    let pulse = service.pulse();
    let cache = RowCache::builder(&pulse).loader(service.database.clone());
    let cache = cache.build().unwrap();
    for id in ["bad", "left", "asked for", "mended"] {
        service.database.set_mode(id, Mode::Fail);
    }
    let gate = service.database.gate("left");
    cache.schedule("left", SECOND).await.unwrap();
    service.until_loaded("left", 1).await;
    cache.unschedule("left").await.unwrap();
    gate.add_permits(1);
    cache.schedule("good", 60 * SECOND).await.unwrap();
    service.until_cached(&cache, "good", 1).await;
    cache.schedule("bad", SECOND).await.unwrap();
    let list = async || cache.list(0, 9).await.unwrap();
    let has_failed = async || list().await.rows.iter().any(|row| row.failures == 2);
    service.until("the row has failed twice", has_failed).await;
    for id in ["mended", "asked for", "asked for"] {
        cache.get_or_load::<Stock>(id).await.unwrap_err();
    }
    let failed: Vec<_> = list().await.failed.into_iter().map(|row| row.id).collect();
    assert_eq!(failed, ["asked for", "mended", "left"]);
    service.database.set_mode("mended", Mode::Ok);
    cache.get_or_load::<Stock>("mended").await.unwrap().unwrap();

    let list = list().await;
    let failed = list.failed.iter();
    let failed = failed.map(|row| (&*row.id, row.failures, &*row.last_error));
    let failed: Vec<_> = failed.collect();
    let asked_for = ("asked for", 2, "load 2 failed");
    assert_eq!(failed, [asked_for, ("left", 1, "load 1 failed")]);
    let rows = list.rows.iter();
    let rows: Vec<_> = rows.map(|row| (&*row.id, row.failed_loads)).collect();
    let bad = service.database.loads("bad");
    assert_eq!(rows, [("bad", bad), ("good", 0)]);
    assert_eq!(list.sums.failures, bad + 1 + 2 + 1);
    assert_eq!(list.sums.refreshes, 2);

    pulse.simulation().drain();
    pulse.flush().await.unwrap();
    let count = async |name: &str| {
        let days = pulse.store().counter(name, 86_400).await.unwrap();
        days.iter().map(|(_, n)| *n as u64).sum::<u64>()
    };
    let sums = list.sums;
    for (name, sum) in [
        ("row:hits", sums.hits),
        ("row:misses", sums.misses),
        ("row:stale", sums.stale),
        ("row:refreshes", sums.refreshes),
        ("row:failures", sums.failures),
        ("errors:row:load", sums.failures),
        ("hits:row:load", service.database.all_loads()),
    ] {
        assert_eq!(count(name).await, sum, "{name}");
    }
}
