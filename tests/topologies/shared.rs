//! One cluster and one primary with Sentinels for all tests of this process that do no harm to them.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use tower_pulse::store::redis::{RedisOptions, RedisStore};

use crate::fixture::{Fixture, Keys};
use crate::place::{cluster_options, sentinel_options};
use crate::rig::cluster::RedisCluster;
use crate::rig::sentinel::Sentinels;
use crate::rig::wait::PATIENCE;

/// They outlive the runtimes of the tests.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
});
static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
static SENTINELS: OnceCell<Sentinels> = OnceCell::const_new();

/// Starts something in the runtime that outlives that of this test.
async fn outliving<T: Send + 'static>(start: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(start).await.unwrap()
}

pub async fn cluster() -> &'static RedisCluster {
    CLUSTER
        .get_or_init(|| outliving(|| RUNTIME.block_on(RedisCluster::start())))
        .await
}

pub async fn sentinels() -> &'static Sentinels {
    SENTINELS
        .get_or_init(|| outliving(|| RUNTIME.block_on(Sentinels::start())))
        .await
}

/// A prefix that no other test has, in a slot of its own.
pub fn prefix() -> String {
    static PREFIXES: AtomicU64 = AtomicU64::new(0);
    format!("{{pulse:{}}}:", PREFIXES.fetch_add(1, Relaxed))
}

/// Patient, as the tests run at the same time.
fn store(options: RedisOptions, prefix: &str) -> RedisStore {
    let options = options.prefix(prefix).unwrap();
    let options = options.response_timeout(PATIENCE);
    RedisStore::open(options.connection_timeout(PATIENCE)).unwrap()
}

/// A store in the cluster.
pub async fn on_cluster() -> Fixture {
    let (cluster, prefix) = (cluster().await, prefix());
    let owner = cluster.owner(cluster.slot(&prefix).await).await;
    let store = store(cluster_options(cluster), &prefix);
    let client = cluster.nodes()[owner].server.client();
    Fixture::over(store, Keys { client, prefix })
}

/// A store in the primary.
pub async fn behind_sentinels() -> Fixture {
    let (sentinels, prefix) = (sentinels().await, prefix());
    let primary = sentinels.primary().await;
    let store = store(sentinel_options(sentinels), &prefix);
    let client = sentinels.servers()[primary].server.client();
    Fixture::over(store, Keys { client, prefix })
}
