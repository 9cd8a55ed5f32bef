//! The row cache beside the book's functions, which use only `delay:`, `schedule:` and `inv:`. The *daemon* is the
//! cache's task that refreshes due rows.

use std::time::Duration;

use redis::AsyncCommands;

use crate::rig::wait::until;
use crate::rows::fixture::{List, Service, Stock};

async fn schedule_row_cache(
    connection: &mut redis::aio::MultiplexedConnection,
    id: &str,
    delay: f64,
    now: f64,
) {
    let _: () = connection.zadd("delay:", id, delay).await.unwrap();
    let _: () = connection.zadd("schedule:", id, now).await.unwrap();
}

#[tokio::test]
async fn a_row_that_the_book_schedules_is_refreshed_and_read_by_the_book() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    let _cache = service.cache();
    let now = || service.clock.now_seconds() as f64;
    schedule_row_cache(&mut connection, "itemX", 5.0, now()).await;
    let read = async || -> Option<String> {
        let mut connection = service.connection().await;
        connection.get("inv:itemX").await.unwrap()
    };
    let is_cached = async || read().await.is_some();
    service.until("the row is cached", is_cached).await;
    let first = "{\"load\":1}";
    assert_eq!(read().await.unwrap(), first);
    service.advance(5_100).await;
    let has_changed = async || read().await.unwrap() != first;
    service.until("the row has changed", has_changed).await;
    let loads = service.database.loads("itemX");
    schedule_row_cache(&mut connection, "itemX", -1.0, now()).await;
    let is_gone = async || read().await.is_none();
    service.until("the row is gone", is_gone).await;
    for set in ["delay:", "schedule:"] {
        let score: Option<f64> = connection.zscore(set, "itemX").await.unwrap();
        assert_eq!(score, None, "{set}");
    }
    assert_eq!(service.database.loads("itemX"), loads);
}

#[tokio::test]
async fn a_row_that_the_book_schedules_again_is_not_overwritten_by_an_older_load() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    let cache = service.cache();
    let gate = service.database.gate("1");
    cache.schedule("1", Duration::from_secs(60)).await.unwrap();
    service.until_loaded("1", 1).await;
    service.database.remove_gate("1");
    service.manual_clock.advance(Duration::from_millis(50));
    let now = service.clock.now_seconds() as f64 + 1.0;
    schedule_row_cache(&mut connection, "1", 30.0, now).await;
    gate.add_permits(1);
    // The cache discards the result of the first load.
    service.until_cached(&cache, "1", 2).await;
    assert_eq!(service.database.loads("1"), 2);
    let rows = cache.list(0, 1).await.unwrap().rows;
    assert!(rows[0].every == 30.0 && rows[0].due_in > 20.0, "{rows:?}");
}

#[tokio::test]
async fn members_that_are_not_rows_do_not_stop_the_daemon() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    let cache = service.cache();
    for (id, delay, due) in [
        (&b"\xff\xfe"[..], 1.0, 0.0),
        (b"eternal", f64::INFINITY, 0.0),
        (b"ancient", 1.0, f64::NEG_INFINITY),
        (b"never", 1.0, f64::INFINITY),
    ] {
        let _: () = connection.zadd("delay:", id, delay).await.unwrap();
        let _: () = connection.zadd("schedule:", id, due).await.unwrap();
    }
    // The daemon removes a scheduled row that has no delay.
    let _: () = connection.zadd("schedule:", "orphan", 5.0).await.unwrap();
    let second = Duration::from_secs(1);
    cache.schedule("good", second).await.unwrap();
    service.until_cached(&cache, "good", 1).await;
    service.advance(3_000).await;
    until("the good row is refreshed", async || {
        service.manual_clock.advance(Duration::from_millis(5));
        service.database.loads("good") >= 3
    })
    .await;
    let orphan: Option<f64> = connection.zscore("schedule:", "orphan").await.unwrap();
    assert_eq!(orphan, None);
    let loads = service.database.loads("ancient");
    assert!((1..20).contains(&loads), "{loads} loads");
    assert!(cache.get::<Stock>("ancient").await.unwrap().is_some());
}

/// The members of `schedule:` that are not rows are due before all rows.
#[tokio::test]
async fn many_members_that_are_not_rows_delay_no_row() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    let mut pipeline = redis::pipe();
    for number in 0..2_000u32 {
        let mut id = number.to_be_bytes().to_vec();
        id.extend(match number % 3 {
            0 => &b"\xff"[..],
            1 => &b"\xed\xa0\x80"[..],
            _ => &[b'x'; 300][..],
        });
        pipeline.zadd("delay:", &id, 1.0).ignore();
        pipeline.zadd("schedule:", &id, 0.0).ignore();
        // The daemon removes a scheduled row that has no delay.
        pipeline.zadd("schedule:", format!("orphan {number}"), 1.0);
        pipeline.ignore();
    }
    let _: () = pipeline.query_async(&mut connection).await.unwrap();
    let cache = service.cache();
    let second = Duration::from_secs(1);
    cache.schedule("good", second).await.unwrap();
    service.until_cached(&cache, "good", 1).await;
    let calls = async || service.calls(&["evalsha"]).await;
    let (loads, before) = (service.database.loads("good"), calls().await);
    for _ in 0..100 {
        service.advance(50).await;
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let loads = service.database.loads("good") - loads;
    let calls = calls().await - before;
    assert!((4..=6).contains(&loads), "{loads} loads in 5 s");
    assert!(calls < 60, "{calls} calls of scripts in 5 s");
    let all = service.database.all_loads();
    assert_eq!(all, service.database.loads("good"));
    let total: u64 = connection.zcard("schedule:").await.unwrap();
    assert_eq!(total, 2_001, "other programs' members stay");
    let now = service.clock.now_seconds();
    let in_a_minute = connection.zcount("schedule:", now + 2, now + 61);
    let in_a_minute: u64 = in_a_minute.await.unwrap();
    assert_eq!(in_a_minute, 2_000, "members are due again in a minute");
}

#[tokio::test]
async fn garbage_about_a_row_does_not_stop_its_loads() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    for (id, text) in [
        ("1", "inf x inf inf 1 "),
        ("2", "99999999999 - - - - -"),
        ("3", "nonsense"),
        ("4", "0 - nan nan 0 x"),
    ] {
        let _: () = connection.hset("pulse:rows:", id, text).await.unwrap();
        schedule_row_cache(&mut connection, id, 1.0, 0.0).await;
        let _: () = connection.lpush(format!("inv:{id}"), "x").await.unwrap();
    }
    let cache = service.cache();
    for id in ["1", "2", "3", "4"] {
        service.until_cached(&cache, id, 2).await;
    }
    // An id may be any valid UTF-8.
    let edges = "\u{d7ff}\u{e000}\u{10ffff}\u{10000}\u{7ff}\u{800}";
    for id in ["ß", "日本", "🦀", edges] {
        schedule_row_cache(&mut connection, id, 1.0, 0.0).await;
        service.until_cached(&cache, id, 1).await;
    }
    // A value of another type is also replaced if its row has no schedule.
    let _: () = connection.lpush("inv:free", "x").await.unwrap();
    let row = cache.get_or_load::<Stock>("free");
    let row = tokio::time::timeout(Duration::from_secs(5), row).await;
    let row = row.expect("the row is loaded").unwrap().unwrap();
    assert_eq!(row.value.load, 1);
}

#[tokio::test]
async fn a_row_that_the_book_removes_during_its_load_is_gone() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    let cache = service.cache();
    let gate = service.database.gate("1");
    cache.schedule("1", Duration::from_secs(1)).await.unwrap();
    service.until_loaded("1", 1).await;
    // Removes both members at once. Otherwise, the daemon could find a row that has no delay, and remove the row.
    let mut removal = redis::pipe();
    removal.atomic().zrem("delay:", "1").zrem("schedule:", "1");
    let _: () = removal.query_async(&mut connection).await.unwrap();
    gate.add_permits(1);
    until("no state is left", async || {
        let mut connection = service.connection().await;
        let states: u64 = connection.hlen("pulse:rows:").await.unwrap();
        states == 0
    })
    .await;
    assert!(cache.get::<Stock>("1").await.unwrap().is_none());
}

#[tokio::test]
async fn a_key_of_another_type_is_named_in_the_error() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    let cache = service.cache();
    let keys = ["delay:", "schedule:", "pulse:rows:", "pulse:failing:"];
    for key in keys {
        let _: () = connection.set(key, "garbage").await.unwrap();
        let error = cache.schedule("1", Duration::from_secs(1)).await;
        let error = error.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        for other in keys {
            assert_eq!(source.contains(other), other == key, "{key}: {source}");
        }
        assert!(source.contains("WRONGTYPE"), "{source}");
        let _: () = connection.del(key).await.unwrap();
    }
    cache.schedule("1", Duration::from_secs(1)).await.unwrap();
    service.until_cached(&cache, "1", 1).await;
}
