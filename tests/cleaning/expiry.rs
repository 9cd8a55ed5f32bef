//! Keys that go by themselves.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tower_pulse::Clock;
use tower_pulse::model::batch::Batch;
use tower_pulse::model::slice::{Precision, Precisions};
use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse::store::{Pass, Store};

use crate::bed::{Applied, Writer, call};
use crate::hand::{PREFIX, ask, key, known};
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

/// A store of two seconds, in real time.
fn store(server: &RedisServer) -> (Arc<dyn Store>, Precisions) {
    let precisions = Precisions {
        counters: vec![Precision::new(1, 2), Precision::new(86_400, 2)],
    };
    let options = RedisOptions::new(&server.url()).unwrap();
    let options = options.precisions(precisions.clone());
    let options = options.response_timeout(Duration::from_secs(5));
    let store = RedisStore::open(options.prefix(PREFIX).unwrap()).unwrap();
    (Arc::new(store), precisions)
}

async fn count(store: &Arc<dyn Store>, precisions: &Precisions, seq: u64) {
    let mut batch = Batch::default();
    batch.count(precisions, &"sales".into(), now(), 1);
    let writer = Writer::new(store.clone(), Clock::system());
    let applied = writer.apply(&call("a", seq, batch)).await.unwrap();
    assert!(matches!(applied, Applied::Merged(_)));
}

/// Cleans as soon as a pass is due that nobody has done.
async fn clean(store: &Arc<dyn Store>) {
    until("a pass is due", async || {
        store.clean(&pass()).await.unwrap().is_some()
    })
    .await;
}

#[tokio::test]
async fn idle_keys_go_by_themselves_and_the_cleaner_forgets_them() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (store, precisions) = store(&server);
    count(&store, &precisions, 1).await;
    for (seconds, full) in [(1, 2 + 600), (86_400, 4 * 86_400)] {
        let left: i64 = ask(conn, "PTTL", key(seconds, "sales")).await;
        let full = full * 1_000;
        assert!((full - 3_000..=full).contains(&left), "{left} ms");
    }
    // What would happen ten minutes from now.
    let _: i64 = ask(conn, "PEXPIRE", (key(1, "sales"), 300)).await;
    until("it has expired", async || {
        ask::<i64>(conn, "EXISTS", key(1, "sales")).await == 0
    })
    .await;
    assert_eq!(known(conn).await.len(), 2);
    clean(&store).await;
    assert_eq!(known(conn).await, [b"86400:sales"]);
    // It comes back as if nothing had been.
    count(&store, &precisions, 2).await;
    assert_eq!(known(conn).await.len(), 2);
    assert_eq!(store.counter("sales", 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn slices_go_in_real_time() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (store, precisions) = store(&server);
    count(&store, &precisions, 1).await;
    until("two seconds have passed", async || {
        let _ = store.clean(&pass()).await.unwrap();
        store.counter("sales", 1).await.unwrap().is_empty()
    })
    .await;
    assert_eq!(known(conn).await, [b"86400:sales"]);
    assert_eq!(store.counter("sales", 86_400).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_cleaner_prolongs_what_is_alive() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (store, precisions) = store(&server);
    count(&store, &precisions, 1).await;
    let day = key(86_400, "sales");
    let full = 4 * 86_400;
    for spoil in ["EXPIRE", "PERSIST"] {
        match spoil {
            "EXPIRE" => drop(ask::<i64>(conn, spoil, (&day, 99)).await),
            _ => drop(ask::<i64>(conn, spoil, &day).await),
        }
        // Cleaned at its day's pass, which is on the day.
        let mut pass = pass();
        pass.now -= pass.now % 86_400;
        let done = store.clean(&pass).await.unwrap();
        assert!(done.is_some());
        let left: i64 = ask(conn, "TTL", &day).await;
        assert!((full - 5..=full).contains(&left), "{left} after {spoil}");
        let _: i64 = ask(conn, "DEL", "pulse:pulse:lease:clean:last").await;
    }
}
