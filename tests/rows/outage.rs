//! The row cache while Redis is away.

use std::time::{Duration, Instant};

use tower_pulse::Condition;
use tower_pulse::row_cache::{RowCache, RowError};

use crate::rig::wait::{PATIENCE, until};
use crate::rows::fixture::{List, Mode, Service, Stock};

#[tokio::test]
async fn reads_fail_at_once_or_answer_from_this_process() {
    let service = Service::redis().await;
    let plain = service.cache();
    let fallback = service.builder().max_age(Duration::from_secs(40));
    let fallback = fallback.local_fallback(true).build().unwrap();
    plain.schedule("1", Duration::from_secs(1)).await.unwrap();
    service.until_cached(&plain, "1", 1).await;
    service.until_cached(&fallback, "1", 1).await;
    let server = service.server.as_ref().unwrap();
    server.freeze();
    let start = Instant::now();
    let error = plain.get::<Stock>("1").await.unwrap_err();
    let took = start.elapsed();
    assert!(matches!(error, RowError::Store(_)), "{error}");
    assert!(took < PATIENCE, "the read is repeated: {took:?}");
    service.manual_clock.advance(Duration::from_secs(30));
    let row = fallback.get::<Stock>("1").await.unwrap().unwrap();
    assert!(row.age.unwrap() >= Duration::from_secs(30), "{:?}", row.age);
    service.manual_clock.advance(Duration::from_secs(11));
    let too_old = fallback.get::<Stock>("1").await;
    assert!(too_old.is_err(), "{too_old:?}");
    let never_seen = fallback.get::<Stock>("2").await;
    assert!(never_seen.is_err());
    let loaded = plain.get_or_load::<Stock>("3").await.unwrap().unwrap();
    assert_eq!(loaded.value.load, 1, "the row is loaded, but not cached");
    let failing = service.cache();
    service.database.set_mode("4", Mode::Fail);
    failing.get_or_load::<Stock>("4").await.unwrap_err();
    server.thaw();
    let list = async || failing.list(0, 9).await;
    let answers = async || list().await.is_ok();
    until("the server answers again", answers).await;
    let list = list().await.unwrap();
    assert_eq!((list.sums.failures, &*list.failed[0].id), (1, "4"));
    // A lease whose command got no answer lasts for 7 s.
    service.manual_clock.advance(Duration::from_secs(8));
    let loads = service.database.loads("1");
    let is_refreshed = async || service.database.loads("1") > loads;
    service.until("rows are refreshed", is_refreshed).await;
    // The killed server has nothing on disk.
    server.kill_9();
    server.restart().await;
    let is_scheduled = async || plain.schedule("1", Duration::from_secs(1)).await.is_ok();
    service.until("the row is scheduled", is_scheduled).await;
    let is_cached = async || matches!(plain.get::<Stock>("1").await, Ok(Some(_)));
    service.until("the row is cached", is_cached).await;
}

#[tokio::test]
async fn denied_refreshes_are_reported_until_they_are_allowed() {
    let service = Service::redis().await;
    let pulse = service.pulse();
    let cache = RowCache::builder(&pulse).loader(service.database.clone());
    let cache = cache.build().unwrap();
    cache.schedule("1", Duration::from_secs(1)).await.unwrap();
    service.until_cached(&cache, "1", 1).await;
    let server = service.server.as_ref().unwrap();
    for (rule, is_denied) in [("-evalsha", true), ("+evalsha", false)] {
        let () = server.run(&format!("ACL SETUSER default {rule}")).await;
        let is_reported = async || {
            service.manual_clock.advance(Duration::from_millis(500));
            let conditions = pulse.health().conditions;
            conditions.contains(&Condition::RowRefresh) == is_denied
        };
        let what = "the condition is reported, or has ended";
        service.until(what, is_reported).await;
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_written_is_returned() {
    let service = Service::redis().await;
    let cache = service.cache();
    let server = service.server.as_ref().unwrap();
    let () = server.run("ACL SETUSER default -set").await;
    let row = cache.get_or_load::<Stock>("1").await.unwrap().unwrap();
    assert_eq!(row.value.load, 1);
    let error = cache.refresh_now("2").await.unwrap_err();
    assert!(matches!(error, RowError::Store(_)), "{error}");
}

#[tokio::test]
async fn callers_share_a_load_and_its_wait_while_redis_is_away() {
    let service = Service::redis().await;
    let cache = service.builder().read_through(Duration::from_secs(1));
    let cache = cache.build().unwrap();
    cache.get::<Stock>("1").await.unwrap();
    service.server.as_ref().unwrap().freeze();
    let start = Instant::now();
    let reads = (0..40).map(|_| {
        let cache = cache.clone();
        tokio::spawn(async move { cache.get::<Stock>("1").await })
    });
    for read in reads.collect::<Vec<_>>() {
        assert!(read.await.unwrap().is_err());
    }
    // One after another, the reads would take more than a minute.
    let took = start.elapsed();
    assert!(took < PATIENCE, "{took:?}");
    let gate = service.database.gate("1");
    let loads = (0..40).map(|_| {
        let cache = cache.clone();
        tokio::spawn(async move { cache.get_or_load::<Stock>("1").await.unwrap() })
    });
    let loads: Vec<_> = loads.collect();
    until("a load begins", async || service.database.loads("1") > 0).await;
    // This read begins after the reads of all callers, and so times out last.
    cache.get::<Stock>("2").await.unwrap_err();
    gate.add_permits(100);
    for load in loads {
        assert!(load.await.unwrap().is_some());
    }
    let loads = service.database.loads("1");
    assert!(loads <= 2, "{loads} loads for 40 callers");
}
