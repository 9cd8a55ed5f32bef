//! One cluster and one primary with Sentinels for all tests of this process that do no harm to them. They end with the
//! process.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use super::cluster::RedisCluster;
use super::sentinel::Sentinels;

/// The runtime of the shared servers, which outlives the runtimes of the tests.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    builder.build().expect("a runtime")
});
static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
static SENTINELS: OnceCell<Sentinels> = OnceCell::const_new();

pub async fn cluster() -> &'static RedisCluster {
    let start = || outliving(|| RUNTIME.block_on(RedisCluster::start()));
    CLUSTER.get_or_init(start).await
}

pub async fn sentinels() -> &'static Sentinels {
    let start = || outliving(|| RUNTIME.block_on(Sentinels::start()));
    SENTINELS.get_or_init(start).await
}

/// Starts something in [`RUNTIME`], which outlives the runtime of this test.
async fn outliving<T: Send + 'static>(start: impl FnOnce() -> T + Send + 'static) -> T {
    let started = tokio::task::spawn_blocking(start).await;
    started.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// A prefix that no other test of this process has, in a slot of its own.
pub fn prefix() -> String {
    static PREFIXES: AtomicU64 = AtomicU64::new(0);
    format!("{{pulse:{}}}:", PREFIXES.fetch_add(1, Relaxed))
}
