//! Folding, observed from outside: the folder, its progress, and the entries that are not folded.
#![cfg(feature = "redis")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use pulse_rig::wait::PATIENCE;
use redis::aio::MultiplexedConnection;
use redis::cmd;
use tower_pulse::Clock;
use tower_pulse_core::testing::TestFolder;
use tower_pulse_redis::{RedisOptions, RedisStore};

/// The journal's keys below a prefix.
#[derive(Clone, Debug)]
pub struct JournalKeys {
    pub state: String,
    pub journal: String,
    pub lease: String,
}

impl JournalKeys {
    pub fn below(prefix: &str) -> Self {
        Self {
            state: format!("{prefix}pulse:state"),
            journal: format!("{prefix}pulse:journal"),
            lease: format!("{prefix}pulse:lease:fold"),
        }
    }

    /// The name of the instance that folds, without the id behind it.
    pub async fn folder(&self, conn: &mut MultiplexedConnection) -> Option<String> {
        let mut get = cmd("GET");
        let holder: Option<String> = get.arg(&self.lease).query_async(conn).await.unwrap();
        let name = |holder: String| {
            holder
                .rsplit_once(':')
                .map_or(holder.clone(), |(name, _)| name.to_owned())
        };
        holder.map(name)
    }

    /// The fields of the fences: an instance has another one after a reset.
    pub async fn fences(&self, conn: &mut MultiplexedConnection) -> Vec<String> {
        let mut get = cmd("HKEYS");
        let fields: Vec<String> = get.arg(&self.state).query_async(conn).await.unwrap();
        let mut fences: Vec<_> = fields
            .into_iter()
            .filter(|field| field.starts_with("f:"))
            .collect();
        fences.sort_unstable();
        fences
    }

    /// A field of the state; empty if it does not exist.
    pub async fn field(&self, conn: &mut MultiplexedConnection, name: &str) -> String {
        let mut get = cmd("HGET");
        let value: Option<String> = get
            .arg(&self.state)
            .arg(name)
            .query_async(conn)
            .await
            .unwrap();
        value.unwrap_or_default()
    }

    /// Whether a round has begun and not ended.
    pub async fn is_in_a_round(&self, conn: &mut MultiplexedConnection) -> bool {
        !self.field(conn, "upto").await.is_empty()
    }

    /// The position, in appended bytes, up to which the journal is folded.
    pub async fn folded(&self, conn: &mut MultiplexedConnection) -> u64 {
        offset(&self.field(conn, "low").await)
    }

    /// Bytes of entries that are not folded.
    pub async fn unfolded(&self, conn: &mut MultiplexedConnection) -> u64 {
        let mut get = cmd("HMGET");
        let get = get.arg(&self.state).arg(&["head", "low"]);
        let fields: (String, String) = get.query_async(conn).await.unwrap();
        offset(&fields.0) - offset(&fields.1)
    }

    /// Acquires the lease between two rounds for an instance that does nothing, for two minutes at most.
    pub async fn stop_folding(&self, conn: &mut MultiplexedConnection) {
        // Sets a new version, as every instance does that acquires the lease.
        let script = redis::Script::new(
            "if redis.call('HGET', KEYS[1], 'upto') ~= '' then return 0 end
            redis.call('SET', KEYS[2], 'nobody', 'EX', 120)
            redis.call('HSET', KEYS[1], 'v', ARGV[1])
            return 1",
        );
        let version = format!("{:032x}", fastrand::u128(..));
        let end = Instant::now() + PATIENCE;
        let mut call = script.key(&self.state);
        call.key(&self.lease).arg(version);
        while call.invoke_async::<i64>(conn).await.unwrap() == 0 {
            assert!(Instant::now() < end, "one round of folding never ends");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Gives this lease to an instance that does nothing with it, for ten minutes: a longer lease is none.
    pub async fn hold_lease(&self, conn: &mut MultiplexedConnection) {
        let mut set = cmd("SET");
        set.arg(&self.lease).arg("another").arg("PX").arg(600_000);
        set.exec_async(conn).await.unwrap();
    }

    /// Frees this lease, or that of a killed instance.
    pub async fn free_lease(&self, conn: &mut MultiplexedConnection) {
        let mut del = cmd("DEL");
        del.arg(&self.lease).exec_async(conn).await.unwrap();
    }
}

/// The first part of an entry's id, in bytes.
fn offset(id: &str) -> u64 {
    id.split('-').next().unwrap().parse().unwrap_or(0)
}

/// Folds the entries that ended instances have left in the journal, as the next instance would.
pub async fn fold_rest(url: &str, prefix: &str) {
    let options = RedisOptions::new(url).unwrap().prefix(prefix).unwrap();
    let options = options.response_timeout(PATIENCE);
    let store = Arc::new(RedisStore::open(options).unwrap());
    let client = redis::Client::open(url).unwrap();
    let mut conn = super::server::connect(&client).await;
    JournalKeys::below(prefix).free_lease(&mut conn).await;
    let folder = TestFolder::new(store, Clock::system(), "the next", 10_000);
    let end = Instant::now() + PATIENCE;
    while !folder.fold().await.unwrap() {
        assert!(
            Instant::now() < end,
            "another instance folds, or nothing was ever appended"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    folder.release().await.unwrap();
}
