//! A primary dies before its replica has everything.

use redis::cmd;

use crate::rig::proxy::Proxy;
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::service::{Found, Service, builder, pause, until};
use tower_pulse::Builder;

struct Failover {
    replica: RedisServer,
    service: Service,
}

/// Serves for a while; what is acknowledged after some time never reaches the replica, which takes
/// the primary's place.
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
    pause(300).await;
    // It has the fence, and some calls.
    until("something is replicated", async || {
        Found::read(&mut replica.connection().await).await.total() > 0
    })
    .await;

    let mut conn = replica.connection().await;
    let replicaof = async |conn: &mut _, host: &str, port: &str| {
        cmd("REPLICAOF")
            .arg(host)
            .arg(port)
            .exec_async(conn)
            .await
            .unwrap();
    };
    // Nobody is at that port: replication is cut, and what it has stays.
    replicaof(&mut conn, "127.0.0.1", "1").await;
    let before = service.health().recorded;
    pause(300).await;
    service.settle().await;
    assert!(service.health().recorded > before);

    primary.kill_9();
    pause(100).await;
    // For a moment the name stands for a replica that may not be written.
    proxy.set_upstream(replica.port());
    pause(100).await;
    replicaof(&mut conn, "NO", "ONE").await;
    pause(200).await;
    load.stop().await;
    service.settle().await;
    service.pulse.shutdown().await.unwrap();
    Failover { replica, service }
}

#[tokio::test]
async fn what_the_replica_lacks_is_sent_again() {
    let Failover { replica, service } = failover(|builder| builder).await;
    service.assert_exact(&replica).await;
    let health = service.health();
    assert!(health.replayed > 1, "{health:?}");
    assert_eq!(health.store_resets, 0);
}

#[tokio::test]
async fn what_cannot_be_sent_again_is_counted_as_lost() {
    let Failover { replica, service } = failover(|builder| builder.replay_bytes(0)).await;
    let health = service.health();
    let found = Found::read(&mut replica.connection().await).await;
    assert!(health.lost > 0 && health.replayed == 0, "{health:?}");
    assert_eq!(
        found.by_page() as u64 + health.lost,
        service.oracle.served()
    );
    assert_eq!(
        found.statistics as u64 + health.lost,
        service.oracle.served()
    );
    assert_eq!(health.recorded + health.lost, service.oracle.served());
    let share = health.recorded as f64 / service.oracle.served() as f64;
    assert!((health.completeness - share).abs() < 1e-12);
}

#[tokio::test]
async fn a_small_ring_sends_what_it_has() {
    let Failover { replica, service } = failover(|builder| builder.replay_bytes(60_000)).await;
    let health = service.health();
    let found = Found::read(&mut replica.connection().await).await;
    assert!(health.replayed > 0, "{health:?}");
    assert_eq!(
        found.by_page() as u64 + health.lost,
        service.oracle.served()
    );
}
