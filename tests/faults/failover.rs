//! A primary dies before its replica has all of its data.

use crate::faults::scenarios::Pair;
use crate::faults::service::{PREFIX, Service, Stored, builder, without_flushes};
use crate::rig::fold::JournalKeys;
use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::seed::seed;
use crate::rig::server::{RedisServer, issue};

/// Calls that are acknowledged after replication was cut never reach the replica, which becomes the primary.
#[tokio::test]
async fn calls_that_cannot_be_replayed_are_lost() {
    for replay_bytes in [0, 60_000] {
        let mut pair = Pair::start().await;
        let service = Service::new(builder(&pair.proxy.url()).replay_bytes(replay_bytes));
        let load = service.load(seed());
        // The replica has the fence, and some calls.
        pair.replicated().await;
        pair.cut().await;
        // The replica lacks more than one call.
        for _ in 0..5 {
            service.flushed_again().await;
        }
        pair.fail_over(&service).await;
        service.flushed_again().await;
        load.stop().await;
        service.end().await;
        let stored = Stored::read(&mut pair.conn).await;
        let (health, served) = (service.health(), service.oracle.served());
        let (lost, recorded) = (health.flush.lost, health.recording.recorded);
        assert_eq!(health.flush.replayed > 0, replay_bytes > 0, "{health:?}");
        assert!(lost > 0 || replay_bytes > 0, "{health:?}");
        for stored in [stored.by_page() as u64, stored.statistics as u64, recorded] {
            assert_eq!(stored + lost, served, "{health:?}");
        }
        let share = recorded as f64 / served as f64;
        assert!((health.completeness - share).abs() < 1e-12);
    }
}

/// A replica that has no data yet must not count as a store that was reset.
#[tokio::test]
async fn a_replica_that_may_not_be_written_changes_nothing() {
    let primary = RedisServer::start().await;
    let empty = RedisServer::builder().replica_of(1).start().await;
    let proxy = Proxy::start(primary.port()).await;
    let service = Service::new(without_flushes(&proxy.url()));
    service.requests(100).await;
    service.settle().await;
    let (keys, conn) = (JournalKeys::below(PREFIX), &mut primary.connection().await);
    let fences = keys.fences(conn).await;
    service.requests(100).await;
    proxy.swallow_replies(1.0, 1, Swallow::Cut);
    service.pulse.flush().await.unwrap_err();
    proxy.heal();
    proxy.set_upstream(empty.port());
    for _ in 0..3 {
        service.pulse.flush().await.unwrap_err();
    }
    let health = service.health();
    assert_eq!((health.flush.store_resets, health.flush.lost), (0, 0));
    proxy.set_upstream(primary.port());
    service.end_exactly(&primary).await;
    assert_eq!(keys.fences(conn).await, fences);
}

#[tokio::test]
async fn a_fence_that_is_ahead_belongs_to_another_instance() {
    let server = RedisServer::start().await;
    let service = Service::new(without_flushes(&server.url()));
    service.requests(20).await;
    service.settle().await;
    let conn = &mut server.connection().await;
    let fences = JournalKeys::below(PREFIX).fences(conn).await;
    let ahead = "99999999999999999999999 0";
    let () = issue(conn, "HSET", ("pulse:pulse:state", &fences[0], ahead)).await;
    service.requests(160).await;
    service.end_exactly(&server).await;
    assert_eq!(service.health().flush.store_resets, 1);
}
