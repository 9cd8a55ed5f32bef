//! A primary dies before its replica has all of its data.

use crate::rig::fold::JournalKeys;
use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::seed::seed;
use crate::rig::server::{RedisServer, issue, run};
use crate::rig::wait::until;
use crate::service::{PREFIX, Service, Stored, builder, without_flushes};
use tower_pulse::Builder;

struct Failover {
    replica: RedisServer,
    service: Service,
}

/// Serves for a while, and cuts replication; calls that are acknowledged after that never reach the
/// replica, which takes the primary's place.
async fn failover(configure: impl FnOnce(Builder) -> Builder) -> Failover {
    let primary = RedisServer::start().await;
    let replica = RedisServer::builder()
        .replica_of(primary.port())
        .start()
        .await;
    until("the replica follows", async || {
        replica.info("replication").await["master_link_status"] == "up"
    })
    .await;
    let proxy = Proxy::start(primary.port()).await;
    let service = Service::new(configure(builder(&proxy.url())));
    let load = service.load(seed());
    // It has the fence, and some calls.
    until("something is replicated", async || {
        Stored::read(&mut replica.connection().await).await.total() > 0
    })
    .await;

    let mut conn = replica.connection().await;
    // No server listens on that port: replication is cut, and the replica keeps its data.
    let () = run(&mut conn, "REPLICAOF 127.0.0.1 1").await;
    // What it lacks takes more than one call.
    for _ in 0..5 {
        service.flushed_again().await;
    }

    primary.kill_9();
    service.flush_failed().await;
    // For a moment the name stands for a replica that may not be written.
    proxy.set_upstream(replica.port());
    until("the replica refuses", async || {
        let error = service.health().store.last_error.unwrap_or_default();
        error.contains("READONLY")
    })
    .await;
    let () = run(&mut conn, "REPLICAOF NO ONE").await;
    service.flushed_again().await;
    load.stop().await;
    service.settle().await;
    service.pulse.shutdown().await.unwrap();
    Failover { replica, service }
}

#[tokio::test]
async fn calls_that_the_replica_lacks_are_replayed() {
    let Failover { replica, service } = failover(|builder| builder).await;
    service.assert_exact(&replica).await;
    let health = service.health();
    assert!(health.flush.replayed > 1, "{health:?}");
    assert_eq!(health.flush.store_resets, 0);
}

#[tokio::test]
async fn calls_that_cannot_be_replayed_are_lost() {
    let Failover { replica, service } = failover(|builder| builder.replay_bytes(0)).await;
    let health = service.health();
    let stored = Stored::read(&mut replica.connection().await).await;
    assert!(health.flush.lost > 0, "{health:?}");
    assert!(health.flush.replayed == 0, "{health:?}");
    assert_eq!(
        stored.by_page() as u64 + health.flush.lost,
        service.oracle.served()
    );
    assert_eq!(
        stored.statistics as u64 + health.flush.lost,
        service.oracle.served()
    );
    assert_eq!(
        health.recording.recorded + health.flush.lost,
        service.oracle.served()
    );
    let share = health.recording.recorded as f64 / service.oracle.served() as f64;
    assert!((health.completeness - share).abs() < 1e-12);
}

#[tokio::test]
async fn a_small_replay_buffer_replays_its_calls() {
    let Failover { replica, service } = failover(|builder| builder.replay_bytes(60_000)).await;
    let health = service.health();
    let stored = Stored::read(&mut replica.connection().await).await;
    assert!(health.flush.replayed > 0, "{health:?}");
    assert_eq!(
        stored.by_page() as u64 + health.flush.lost,
        service.oracle.served()
    );
}

/// The failover happens while no request is served: the next flush notices it.
#[tokio::test]
async fn the_calls_of_an_idle_service_are_replayed() {
    let primary = RedisServer::start().await;
    let replica = RedisServer::builder()
        .replica_of(primary.port())
        .start()
        .await;
    let proxy = Proxy::start(primary.port()).await;
    let service = Service::new(without_flushes(&proxy.url()));
    service.requests(100).await;
    service.settle().await;
    until("it is replicated", async || {
        Stored::read(&mut replica.connection().await).await.total() == 100
    })
    .await;
    let mut conn = replica.connection().await;
    let () = run(&mut conn, "REPLICAOF 127.0.0.1 1").await;
    service.requests(100).await;
    service.settle().await;
    primary.kill_9();
    let () = run(&mut conn, "REPLICAOF NO ONE").await;
    proxy.set_upstream(replica.port());
    service.end_exactly(&replica).await;
    assert!(service.health().flush.replayed > 0);
}

/// A replica without data yet is not a store that was reset.
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
    let mut conn = server.connection().await;
    let fences = JournalKeys::below(PREFIX).fences(&mut conn).await;
    let [fence] = &fences[..] else {
        panic!("{fences:?}")
    };
    let () = issue(
        &mut conn,
        "HSET",
        ("pulse:pulse:state", fence, "99999999999999999999999 0"),
    )
    .await;
    service.requests(160).await;
    service.end_exactly(&server).await;
    assert_eq!(service.health().flush.store_resets, 1);
}
