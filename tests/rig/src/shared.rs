//! One cluster for all tests of this process that do not damage the cluster. The cluster ends with the process.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use super::cluster::RedisCluster;

/// The runtime of the cluster, which outlives the runtimes of the tests.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    builder.build().expect("a runtime")
});
static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();

pub async fn cluster() -> &'static RedisCluster {
    let start = || async {
        let started = tokio::task::spawn_blocking(|| RUNTIME.block_on(RedisCluster::start())).await;
        started.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    };
    CLUSTER.get_or_init(start).await
}

/// A prefix that no other test of this process has. Different prefixes are usually in different slots.
pub fn prefix() -> String {
    static PREFIXES: AtomicU64 = AtomicU64::new(0);
    format!("{{pulse:{}}}:", PREFIXES.fetch_add(1, Relaxed))
}
