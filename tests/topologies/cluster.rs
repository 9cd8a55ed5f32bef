//! A cluster whose slots move, whose nodes die, and whose announced addresses cannot be reached.

use std::collections::HashMap;
use std::time::Duration;

use tower_pulse::StoreErrorKind;
use tower_pulse::row_cache::RowCache;
use tower_pulse_core::store::Append;
use tower_pulse_redis::RedisOptions;

use crate::faults::service::{LIGHT, Service, Stored};
use crate::rig::process::free_port;
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::shared;
use crate::rig::wait::{PATIENCE, look_until, until};
use crate::topologies::place::{
    TAGGED, builder, cluster_options, mapped, own_slots, store, stored_in, under_load,
};
use crate::topologies::trials;

each_is_exact! {
    a_slot_that_moves_under_load_loses_nothing: trials::slot_moved(2, LIGHT, seed());
    failovers_of_the_owner_lose_nothing: trials::failovers(2, LIGHT, seed());
    credentials_rotated_under_load_lose_nothing: trials::credentials(5, LIGHT, seed());
    a_cluster_that_is_down_for_seconds_loses_nothing:
        trials::cluster_down(Duration::from_secs(2), LIGHT, seed());
}

/// One of the two nodes that the store knows is down, and the other node may be a replica, which owns no slot.
#[tokio::test]
async fn any_node_leads_to_the_owner() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let dead = free_port();
    for node in &cluster.nodes {
        let urls = [format!("redis://127.0.0.1:{dead}"), node.server.url()];
        let options = RedisOptions::cluster(urls).unwrap();
        store(options, &prefix).hello().await.unwrap();
    }
}

/// As on managed servers, the user must not use CONFIG, KEYS, CLIENT LIST, DEBUG and INFO, nor ask about permissions.
#[tokio::test]
async fn a_user_without_dangerous_commands_is_enough() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let keys = format!("~{prefix}*");
    let words = ["ACL", "SETUSER", "managed", "on", ">secret", &keys];
    let words = [&words[..], &["+@all", "-@admin", "-@dangerous"]].concat();
    cluster.tell_all(&words).await;
    let urls = cluster.nodes.iter().map(|node| {
        let port = node.server.port();
        format!("redis://managed:secret@127.0.0.1:{port}")
    });
    let builder = builder(RedisOptions::cluster(urls).unwrap(), &prefix);
    let (service, load) = under_load(builder, LIGHT, seed()).await;
    let slot = cluster.slot(&prefix).await;
    let to = cluster.other_primary(slot).await;
    cluster.move_slot(slot, to, Duration::ZERO).await;
    service.flushed_again().await;
    load.stop().await;
    service.end().await;
    service.assert_exact_in(stored_in(cluster, &prefix).await);
    service.assert_well();
}

/// The node announces an address at which clients cannot reach the node, as behind a port mapping.
#[tokio::test]
async fn an_announced_address_that_cannot_be_reached_is_mapped() {
    const ANNOUNCED: &str = "127.1.1.1";
    let node = RedisServer::builder()
        .node_of_a_cluster()
        .arg("--cluster-announce-ip", ANNOUNCED)
        .start()
        .await;
    own_slots(&node).await;
    let options = || RedisOptions::cluster([node.url()]).unwrap();
    let error = store(options(), TAGGED).hello().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    for part in ["redis_address_map", ANNOUNCED] {
        assert!(error.to_string().contains(part), "{error}");
    }

    let port = node.port();
    let addresses = [(format!("{ANNOUNCED}:{port}"), format!("127.0.0.1:{port}"))];
    let reachable = mapped(options(), HashMap::from(addresses));
    let service = Service::new(builder(reachable, TAGGED));
    service.requests(30).await;
    service.end().await;
    let stored = Stored::read_below(TAGGED, &mut node.connection().await).await;
    service.assert_exact_in(stored);

    let nonsense = options().address_map(|_| Some("nonsense".to_owned()));
    let error = store(nonsense, TAGGED).hello().await.unwrap_err();
    for part in ["redis_address_map", "nonsense"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn rankings_and_rows_follow_their_slot() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let slot = cluster.slot(&prefix).await;
    let service = Service::new(builder(cluster_options(cluster), &prefix));
    let posts = service.pulse.ranking("posts").build().unwrap();
    let rows = RowCache::builder(&service.pulse).loader(async |id: String| {
        let row = serde_json::json!({ "id": id });
        Ok::<_, std::io::Error>(Some(row))
    });
    let rows = rows.build().unwrap();
    let mut added = 0;
    for round in 0..3 {
        for n in 0..50 {
            posts.add(&format!("post {}", n % 7), 1);
            added += 1;
        }
        let ids = (0..50).map(|n| (format!("{round} {n}"), Duration::from_secs(3_600)));
        rows.schedule_many(ids).await.unwrap();
        let readable = async |n: usize| {
            until("the rows can be read", async || {
                let row = rows.get::<serde_json::Value>(&format!("{round} {n}")).await;
                row.is_ok_and(|row| row.is_some())
            })
            .await;
        };
        readable(49).await;
        service.settle().await;
        let to = cluster.other_primary(slot).await;
        cluster.move_slot(slot, to, Duration::ZERO).await;
        let top = look_until(PATIENCE, async || {
            let top = posts.top(0, 10).await;
            top.map_err(|error| error.to_string())
        })
        .await;
        assert_eq!(top.iter().map(|post| post.score).sum::<i64>(), added);
        readable(0).await;
    }
    service.end().await;
}
