//! Beside the book's functions, which know `delay:`, `schedule:` and `inv:` only.

use std::time::Duration;

use redis::AsyncCommands;

use crate::fixture::{Service, Stock};
use crate::rig::wait::until;

/// The book's schedule_row_cache().
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
    let mut connection = service.server.as_ref().unwrap().connection().await;
    let _cache = service.cache();
    let now = || service.clock.now_seconds() as f64;
    schedule_row_cache(&mut connection, "itemX", 5.0, now()).await;
    let read = async || -> Option<String> {
        let mut connection = service.server.as_ref().unwrap().connection().await;
        connection.get("inv:itemX").await.unwrap()
    };
    service
        .until("it is cached", async || read().await.is_some())
        .await;
    assert_eq!(read().await.unwrap(), "{\"load\":1}");
    service.advance(5_100).await;
    service
        .until("it has changed", async || {
            read().await.unwrap() != "{\"load\":1}"
        })
        .await;
    let loads = service.database.loads("itemX");
    schedule_row_cache(&mut connection, "itemX", -1.0, now()).await;
    service
        .until("it is gone", async || read().await.is_none())
        .await;
    for set in ["delay:", "schedule:"] {
        let score: Option<f64> = connection.zscore(set, "itemX").await.unwrap();
        assert_eq!(score, None, "{set}");
    }
    assert_eq!(service.database.loads("itemX"), loads);
}

#[tokio::test]
async fn a_row_that_the_book_schedules_again_is_not_overwritten_by_an_older_answer() {
    let service = Service::redis().await;
    let mut connection = service.server.as_ref().unwrap().connection().await;
    let cache = service.cache();
    let gate = service.database.gate("1");
    cache.schedule("1", Duration::from_secs(60)).await.unwrap();
    service
        .until("the first load begins", async || {
            service.database.loads("1") == 1
        })
        .await;
    service.database.open("1");
    service.manual.advance(Duration::from_millis(50));
    let now = service.clock.now_seconds() as f64 + 1.0;
    schedule_row_cache(&mut connection, "1", 30.0, now).await;
    gate.add_permits(1);
    service.until_cached(&cache, "1", 2).await;
    let rows = cache.list(0, 1).await.unwrap().rows;
    assert!(rows[0].every == 30.0 && rows[0].due_in > 20.0, "{rows:?}");
}

#[tokio::test]
async fn entries_that_are_no_rows_stop_nothing() {
    let service = Service::redis().await;
    let mut connection = service.server.as_ref().unwrap().connection().await;
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
    // A scheduled row without a delay is removed.
    let _: () = connection.zadd("schedule:", "orphan", 5.0).await.unwrap();
    cache
        .schedule("good", Duration::from_secs(1))
        .await
        .unwrap();
    service.until_cached(&cache, "good", 1).await;
    service.advance(3_000).await;
    until("the good row is refreshed", async || {
        service.manual.advance(Duration::from_millis(5));
        service.database.loads("good") >= 3
    })
    .await;
    let orphan: Option<f64> = connection.zscore("schedule:", "orphan").await.unwrap();
    assert_eq!(orphan, None);
    assert!(service.database.loads("ancient") >= 1);
    let loads = service.database.loads("ancient");
    assert!(loads < 20, "{loads}: not in a hot loop");
    let row = cache.get::<Stock>("ancient").await.unwrap();
    assert!(row.is_some());
}

#[tokio::test]
async fn keys_of_another_type_are_reported() {
    let service = Service::redis().await;
    let mut connection = service.server.as_ref().unwrap().connection().await;
    let _: () = connection.set("schedule:", "garbage").await.unwrap();
    let cache = service.cache();
    let error = cache
        .schedule("1", Duration::from_secs(1))
        .await
        .unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("WRONGTYPE"), "{source}");
    let _: () = connection.del("schedule:").await.unwrap();
    cache.schedule("1", Duration::from_secs(1)).await.unwrap();
    service.until_cached(&cache, "1", 1).await;
}
