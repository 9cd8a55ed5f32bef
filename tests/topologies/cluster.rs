//! A cluster whose slots move, whose nodes die, and whose addresses lead nowhere.

use std::collections::HashMap;
use std::time::Duration;

use tower_pulse::row_cache::RowCache;
use tower_pulse::{Pulse, StoreErrorKind};
use tower_pulse_core::store::Append;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::place::{
    TAGGED, cluster_options, end_exactly_in, mapped, pulse, readable_again, stored_in, under_load,
};
use crate::rig::cluster::{Node, RedisCluster};
use crate::rig::server::{RedisServer, issue};
use crate::rig::shared;
use crate::rig::wait::{PATIENCE, look_until, until};
use crate::service::{Service, pause};

/// How often a node was told that the next command is about a slot that is being moved to it.
async fn asking(node: &Node) -> u64 {
    let stats = node.server.info("commandstats").await;
    let calls = stats.get("cmdstat_asking").and_then(|asking| {
        let calls = asking.strip_prefix("calls=")?;
        calls.split(',').next()?.parse().ok()
    });
    calls.unwrap_or(0)
}

#[tokio::test]
async fn a_slot_that_moves_key_by_key_under_load_loses_nothing() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let slot = cluster.slot(&prefix).await;
    let (service, load) = under_load(pulse(cluster_options(cluster), &prefix)).await;
    let (first, other) = (cluster.owner(slot).await, cluster.other_primary(slot).await);
    for to in [other, first] {
        let before = asking(&cluster.nodes()[to]).await;
        let moved = cluster.move_slot(slot, to, Duration::from_millis(20)).await;
        assert!(moved > 100, "{moved} keys");
        assert!(
            asking(&cluster.nodes()[to]).await > before,
            "no call met ASK"
        );
        service.flushed_again().await;
        readable_again(&service).await;
    }
    load.stop().await;
    end_exactly_in(&service, cluster, &prefix).await;
    assert_eq!(service.health().flush.store_resets, 0);
}

#[tokio::test]
async fn a_slot_that_moves_at_once_under_load_loses_nothing() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let slot = cluster.slot(&prefix).await;
    let (service, load) = under_load(pulse(cluster_options(cluster), &prefix)).await;
    let (first, other) = (cluster.owner(slot).await, cluster.other_primary(slot).await);
    for to in [other, first] {
        if !cluster.move_slot_at_once(slot, to).await {
            eprintln!("skipped: this server has no CLUSTER MIGRATESLOTS, as Valkey 9 has it");
            return load.stop().await;
        }
        service.flushed_again().await;
        readable_again(&service).await;
    }
    load.stop().await;
    end_exactly_in(&service, cluster, &prefix).await;
}

#[tokio::test]
async fn failovers_of_the_owner_lose_nothing() {
    let cluster = RedisCluster::start().await;
    let slot = cluster.slot(TAGGED).await;
    let (service, load) = under_load(pulse(cluster_options(&cluster), TAGGED)).await;
    // Ordered, so that the replica has everything.
    cluster.fail_over(slot).await;
    service.flushed_again().await;
    cluster.healthy().await;
    // And unforeseen: what the replica lacks is replayed.
    let killed = cluster.kill_owner(slot).await;
    service.flushed_again().await;
    readable_again(&service).await;
    cluster.nodes()[killed].server.restart().await;
    service.flushed_again().await;
    load.stop().await;
    end_exactly_in(&service, &cluster, TAGGED).await;
    assert_eq!(service.health().flush.store_resets, 0);
}

#[tokio::test]
async fn a_cluster_that_is_down_for_seconds_loses_nothing() {
    let cluster = RedisCluster::start_durable().await;
    let (service, load) = under_load(pulse(cluster_options(&cluster), TAGGED)).await;
    cluster.kill_all();
    service.flush_failed().await;
    pause(2_000).await;
    cluster.restart_all().await;
    readable_again(&service).await;
    load.stop().await;
    end_exactly_in(&service, &cluster, TAGGED).await;
    let flush = service.health().flush;
    assert_eq!((flush.store_resets, flush.replayed), (0, 0));
}

/// A seed that is down does not matter, nor does one that owns nothing: a replica.
#[tokio::test]
async fn any_node_leads_to_the_owner() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let dead = crate::rig::process::free_port();
    for node in cluster.nodes() {
        let seeds = [format!("redis://127.0.0.1:{dead}"), node.server.url()];
        let options = RedisOptions::cluster(seeds).unwrap().prefix(&*prefix);
        let options = options.unwrap().response_timeout(PATIENCE);
        let store = RedisStore::open(options.connection_timeout(PATIENCE)).unwrap();
        store.hello().await.unwrap();
    }
}

#[tokio::test]
async fn a_prefix_that_spreads_over_slots_is_refused() {
    for prefix in ["", "pulse:", "{}:", "{pulse:"] {
        let pulse = Pulse::builder().redis_cluster(["redis://127.0.0.1:7000"]);
        let error = pulse.prefix(prefix).build().err().unwrap();
        assert_eq!(error.field(), "prefix");
        assert!(error.to_string().contains("{pulse"), "{error}");
    }
}

/// What a managed server denies: CONFIG, KEYS, SCRIPT, CLIENT LIST, MEMORY, DEBUG and INFO, and to ask about permissions.
#[tokio::test]
async fn a_user_without_dangerous_commands_is_enough() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let keys = format!("~{prefix}*");
    let words = ["ACL", "SETUSER", "managed", "on", ">secret", &keys];
    let words = [&words[..], &["+@all", "-@admin", "-@dangerous"]].concat();
    cluster.tell_all(&words).await;
    let urls = cluster.nodes().iter().map(|node| {
        let port = node.server.port();
        format!("redis://managed:secret@127.0.0.1:{port}")
    });
    let (service, load) = under_load(pulse(RedisOptions::cluster(urls).unwrap(), &prefix)).await;
    let slot = cluster.slot(&prefix).await;
    let to = cluster.other_primary(slot).await;
    cluster.move_slot(slot, to, Duration::ZERO).await;
    service.flushed_again().await;
    load.stop().await;
    end_exactly_in(&service, cluster, &prefix).await;
}

/// A node that announces an address at which nobody reaches it, as behind a port mapping.
#[tokio::test]
async fn an_announced_address_that_leads_nowhere_is_mapped() {
    const ANNOUNCED: &str = "127.1.1.1";
    let node = RedisServer::builder()
        .node_of_a_cluster()
        .arg("--cluster-announce-ip", ANNOUNCED)
        .start()
        .await;
    let mut connection = node.connection().await;
    let mut add = redis::cmd("CLUSTER");
    add.arg("ADDSLOTS");
    (0..16_384).for_each(|slot| _ = add.arg(slot));
    add.exec_async(&mut connection).await.unwrap();
    until("it serves", async || {
        let info: String = issue(&mut connection, "CLUSTER", "INFO").await;
        info.contains("cluster_state:ok")
    })
    .await;
    let options = || RedisOptions::cluster([node.url()]).unwrap();
    let lost = RedisStore::open(options().prefix(TAGGED).unwrap()).unwrap();
    let error = lost.hello().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    for part in ["redis_address_map", ANNOUNCED] {
        assert!(error.to_string().contains(part), "{error}");
    }

    let port = node.port();
    let addresses = [(format!("{ANNOUNCED}:{port}"), format!("127.0.0.1:{port}"))];
    let found = mapped(options(), HashMap::from(addresses));
    let service = Service::new(pulse(found, TAGGED));
    service.requests(30).await;
    service.end().await;
    let stored = crate::service::Stored::read_below(TAGGED, &mut connection).await;
    service.assert_exact_in(stored);

    let nonsense = options().address_map(|_| Some("nonsense".to_owned()));
    let nonsense = RedisStore::open(nonsense.prefix(TAGGED).unwrap()).unwrap();
    let error = nonsense.hello().await.unwrap_err().to_string();
    assert!(error.contains("redis_address_map"), "{error}");
    assert!(error.contains("nonsense"), "{error}");
}

/// Rankings are in the service's slot, and so are cached rows.
#[tokio::test]
async fn rankings_and_rows_follow_their_slot() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let slot = cluster.slot(&prefix).await;
    let service = Service::new(pulse(cluster_options(cluster), &prefix));
    let posts = service.pulse.ranking("posts").build().unwrap();
    let rows = RowCache::builder(&service.pulse).loader(async |id: String| {
        let row = serde_json::json!({ "id": id });
        Ok::<_, std::io::Error>(Some(row))
    });
    let rows = rows.build().unwrap();
    let (mut added, mut to) = (0, cluster.other_primary(slot).await);
    for round in 0..3 {
        for n in 0..50 {
            posts.add(&format!("post {}", n % 7), 1);
            added += 1;
        }
        let ids = (0..50).map(|n| (format!("{round} {n}"), Duration::from_secs(3_600)));
        rows.schedule_many(ids).await.unwrap();
        until("the rows are loaded", async || {
            let row = rows.get::<serde_json::Value>(&format!("{round} 49")).await;
            row.is_ok_and(|row| row.is_some())
        })
        .await;
        service.settle().await;
        let from = cluster.owner(slot).await;
        cluster.move_slot(slot, to, Duration::ZERO).await;
        to = from;
        let top = look_until(PATIENCE, async || {
            let top = posts.top(0, 10).await;
            top.map_err(|error| error.to_string())
        })
        .await;
        assert_eq!(top.iter().map(|post| post.score).sum::<i64>(), added);
        until("the rows are read", async || {
            let row = rows.get::<serde_json::Value>(&format!("{round} 0")).await;
            row.is_ok_and(|row| row.is_some())
        })
        .await;
    }
    service.end().await;
}
