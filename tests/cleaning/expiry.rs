//! Keys that expire by themselves.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tower_pulse::Clock;
use tower_pulse_core::store::Pass;
use tower_pulse_core::store::Store;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::slice::{Precision, Precisions};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::fixture::{ApplyOutcome, Writer, call, pass_of};
use crate::raw_redis::{PREFIX, ask, key, known_members};
use crate::rig::reads::StoreReads;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs() as i64
}

fn pass() -> Pass {
    pass_of("a", now(), 1)
}

/// A store in real time whose finest precision is retained for two seconds.
fn store(server: &RedisServer) -> (Arc<dyn Store>, Precisions) {
    let mut precisions = Precisions::default();
    precisions.counters = vec![Precision::new(1, 2), Precision::new(86_400, 2)];
    let options = RedisOptions::new(&server.url()).unwrap();
    let options = options.precisions(precisions.clone());
    let options = options.response_timeout(Duration::from_secs(5));
    let store = RedisStore::open(options.prefix(PREFIX).unwrap()).unwrap();
    (Arc::new(store), precisions)
}

async fn add_one(store: &Arc<dyn Store>, precisions: &Precisions, seq: u64) {
    let mut batch = Batch::new(precisions.clone());
    batch.count(&"sales".into(), now(), 1);
    let writer = Writer::new(store.clone(), Clock::system());
    let applied = writer.apply(&call("a", seq, batch)).await.unwrap();
    assert!(matches!(applied, ApplyOutcome::Merged(_)));
}

#[tokio::test]
async fn idle_keys_expire_and_the_cleaner_removes_them_from_the_list() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (store, precisions) = store(&server);
    add_one(&store, &precisions, 1).await;
    for (seconds, full) in [(1, 2 + 600), (86_400, 4 * 86_400)] {
        let left: i64 = ask(conn, "PTTL", key(seconds, "sales")).await;
        let full = full * 1_000;
        assert!((full - 3_000..=full).contains(&left), "{left} ms");
    }
    // Expires the key now instead of in ten minutes.
    let _: i64 = ask(conn, "PEXPIRE", (key(1, "sales"), 300)).await;
    until("it has expired", async || {
        ask::<i64>(conn, "EXISTS", key(1, "sales")).await == 0
    })
    .await;
    assert_eq!(known_members(conn).await.len(), 2);
    store.upkeep().clean(&pass()).await.unwrap().unwrap();
    assert_eq!(known_members(conn).await, [b"86400:sales"]);
    // The next addition creates the counter anew.
    add_one(&store, &precisions, 2).await;
    assert_eq!(known_members(conn).await.len(), 2);
    assert_eq!(store.counter("sales", 1).await.unwrap().len(), 1);
}
