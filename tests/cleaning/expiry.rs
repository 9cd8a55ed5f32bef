//! Keys that expire by themselves.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tower_pulse::Clock;
use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse_core::store::Pass;
use tower_pulse_core::store::Store;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::slice::{Precision, Precisions};

use crate::fixture::{ApplyOutcome, Writer, call};
use crate::raw_redis::{PREFIX, ask, key, known_members};
use crate::rig::reads::StoreReads;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs() as i64
}

fn pass() -> Pass {
    Pass {
        instance: "a".into(),
        now: now(),
        interval: 1,
        ranking_retention: 86_400,
        context_retention: 86_400,
    }
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
    store.clean(&pass()).await.unwrap().unwrap();
    assert_eq!(known_members(conn).await, [b"86400:sales"]);
    // The next addition creates the counter anew.
    add_one(&store, &precisions, 2).await;
    assert_eq!(known_members(conn).await.len(), 2);
    assert_eq!(store.counter("sales", 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn cleaning_removes_slices_in_real_time() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (store, precisions) = store(&server);
    add_one(&store, &precisions, 1).await;
    until("two seconds have passed", async || {
        let _ = store.clean(&pass()).await.unwrap();
        store.counter("sales", 1).await.unwrap().is_empty()
    })
    .await;
    assert_eq!(known_members(conn).await, [b"86400:sales"]);
    assert_eq!(store.counter("sales", 86_400).await.unwrap().len(), 1);
}

#[tokio::test]
async fn cleaning_renews_the_time_to_live_of_counters_with_slices() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (store, precisions) = store(&server);
    add_one(&store, &precisions, 1).await;
    let day = key(86_400, "sales");
    let full = 4 * 86_400;
    for spoil in ["EXPIRE", "PERSIST"] {
        match spoil {
            "EXPIRE" => drop(ask::<i64>(conn, spoil, (&day, 99)).await),
            _ => drop(ask::<i64>(conn, spoil, &day).await),
        }
        // The precision of a day is due in the pass at the turn of the day.
        let mut pass = pass();
        pass.now -= pass.now % 86_400;
        store.clean(&pass).await.unwrap().unwrap();
        let left: i64 = ask(conn, "TTL", &day).await;
        assert!((full - 5..=full).contains(&left), "{left} after {spoil}");
    }
}
