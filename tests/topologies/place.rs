//! A service on a cluster or behind Sentinels, and the data that the service stores.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tower_pulse::Builder;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::faults::service::{Load, Pace, Service, Stored, with_options};
use crate::rig::cluster::RedisCluster;
use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::sentinel::{SERVICE, Sentinels};
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::{PATIENCE, look_until, until};

/// A prefix that puts all keys of a service into one slot.
pub const TAGGED: &str = "{pulse:shop}:";

/// A builder with short flush intervals.
pub fn builder(options: RedisOptions, prefix: &str) -> Builder {
    with_options(options.prefix(prefix))
}

/// A store with long timeouts, because the tests run at the same time.
pub fn store(options: RedisOptions, prefix: &str) -> RedisStore {
    let options = options.prefix(prefix).response_timeout(PATIENCE);
    RedisStore::open(options.connection_timeout(PATIENCE)).unwrap()
}

/// Makes a node own all slots of its cluster, and waits until the node serves them.
pub async fn own_slots(node: &RedisServer) {
    let mut connection = node.connection().await;
    let slots: Vec<u16> = (0..16_384).collect();
    let () = issue(&mut connection, "CLUSTER", ("ADDSLOTS", slots)).await;
    until("the node serves the slots", async || {
        let info: String = issue(&mut connection, "CLUSTER", "INFO").await;
        info.contains("cluster_state:ok")
    })
    .await;
}

/// Starts a service with traffic, and waits until its first requests can be read.
pub async fn under_load(builder: Builder, pace: Pace, seed: u64) -> (Service, Load) {
    let service = Service::new(builder);
    let load = service.load_at(pace, seed);
    service.flushed_again().await;
    // The first flush writes only the journal. The fold writes the tables, which are most of the keys.
    service.settle().await;
    (service, load)
}

pub fn cluster_options(cluster: &RedisCluster) -> RedisOptions {
    RedisOptions::cluster(cluster.urls()).unwrap()
}

pub fn sentinel_options(sentinels: &Sentinels) -> RedisOptions {
    let options = RedisOptions::sentinel(SERVICE, sentinels.urls()).unwrap();
    mapped(options, sentinels.address_map())
}

pub fn mapped(options: RedisOptions, addresses: HashMap<String, String>) -> RedisOptions {
    options.address_map(move |announced| addresses.get(announced).cloned())
}

/// Reads the data from the node that owns the prefix's slot.
pub async fn stored_in(cluster: &RedisCluster, prefix: &str) -> Stored {
    let owner = cluster.owner(cluster.slot(prefix).await).await;
    let conn = &mut cluster.nodes[owner].server.connection().await;
    Stored::read_below(prefix, conn).await
}

pub async fn stored_behind(sentinels: &Sentinels, prefix: &str) -> Stored {
    let primary = &sentinels.servers[sentinels.primary().await];
    Stored::read_below(prefix, &mut primary.server.connection().await).await
}

/// Waits until all requests that were recorded so far can be read through the service. Returns the time that this took.
pub async fn readable_again(service: &Service) -> Duration {
    let start = Instant::now();
    service.settle().await;
    let store = service.pulse.backend();
    look_until(PATIENCE, async || {
        let hits = store.counter("hits", 86_400).await;
        hits.map(drop).map_err(|error| error.to_string())
    })
    .await;
    start.elapsed()
}

/// Ends a service behind Sentinels, and panics unless every request was counted once.
pub async fn end_exactly_behind(service: &Service, sentinels: &Sentinels, prefix: &str) {
    sentinels.hold().await;
    // After `hold`, the primary no longer changes. The service flushes this request to the primary, and sends again the
    // calls that the primary lacks.
    service.requests(1).await;
    service.end().await;
    service.assert_exact_in(stored_behind(sentinels, prefix).await);
    service.assert_well();
}
