//! Folding, observed from outside: the folder, its progress, and the entries that are not folded.
#![cfg(feature = "redis")]

use std::sync::Arc;

use pulse_rig::server::issue;
use pulse_rig::wait::{PATIENCE, until};
use redis::aio::MultiplexedConnection;
use tower_pulse::Clock;
use tower_pulse_redis::{RedisOptions, RedisStore};

use super::instances::TestFolder;

/// The journal's keys with a prefix.
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

    /// The name of the instance that holds the lease, without the id that follows the name.
    pub async fn folder(&self, conn: &mut MultiplexedConnection) -> Option<String> {
        let holder: Option<String> = issue(conn, "GET", &self.lease).await;
        let name = |holder: &str| Some(holder.rsplit_once(':')?.0.to_owned());
        holder.map(|holder| name(&holder).unwrap_or(holder))
    }

    /// The sorted names of the fields with fences. Each name contains the id of an instance. A reset changes the ids.
    pub async fn fences(&self, conn: &mut MultiplexedConnection) -> Vec<String> {
        let mut fences: Vec<String> = issue(conn, "HKEYS", &self.state).await;
        fences.retain(|field| field.starts_with("f:"));
        fences.sort_unstable();
        fences
    }

    /// A field of the state; empty if there is none.
    pub async fn field(&self, conn: &mut MultiplexedConnection, name: &str) -> String {
        let value: Option<String> = issue(conn, "HGET", (&self.state, name)).await;
        value.unwrap_or_default()
    }

    pub async fn is_in_a_round(&self, conn: &mut MultiplexedConnection) -> bool {
        !self.field(conn, "upto").await.is_empty()
    }

    /// The position, in appended bytes, up to which the journal is folded.
    pub async fn folded(&self, conn: &mut MultiplexedConnection) -> u64 {
        offset(&self.field(conn, "low").await)
    }

    /// Bytes of entries that are not folded.
    pub async fn unfolded(&self, conn: &mut MultiplexedConnection) -> u64 {
        let fields: (String, String) = issue(conn, "HMGET", (&self.state, "head", "low")).await;
        offset(&fields.0) - offset(&fields.1)
    }

    /// Waits until no round is in progress, and gives the lease for two minutes to an instance that does not fold.
    pub async fn stop_folding(&self, conn: &mut MultiplexedConnection) {
        // A new version of the state makes steps of the previous folder fail, as when an instance acquires the lease.
        let script = redis::Script::new(
            "if redis.call('HGET', KEYS[1], 'upto') ~= '' then return 0 end
            redis.call('SET', KEYS[2], 'another', 'EX', 120)
            redis.call('HSET', KEYS[1], 'v', ARGV[1])
            return 1",
        );
        let mut call = script.key(&self.state);
        let version = format!("{:032x}", fastrand::u128(..));
        call.key(&self.lease).arg(version);
        let has_ended = async || call.invoke_async::<i64>(conn).await.unwrap() == 1;
        until("the round of folding ends", has_ended).await;
    }

    /// Gives the lease for ten minutes to an instance that does not fold. A longer lease would be ignored.
    pub async fn hold_lease(&self, conn: &mut MultiplexedConnection) {
        let () = issue(conn, "SET", (&self.lease, "another", "PX", 600_000)).await;
    }

    /// Frees the lease, which [`Self::hold_lease`] or a killed instance holds.
    pub async fn free_lease(&self, conn: &mut MultiplexedConnection) {
        let () = issue(conn, "DEL", &self.lease).await;
    }
}

/// The first part of an entry's id: a position in appended bytes.
fn offset(id: &str) -> u64 {
    id.split('-').next().unwrap().parse().unwrap_or(0)
}

/// Folds the entries of instances that have ended, as the next instance would do.
pub async fn fold_unfolded(url: &str, prefix: &str) {
    let options = RedisOptions::new(url).unwrap().prefix(prefix);
    let options = options.response_timeout(PATIENCE);
    let store = Arc::new(RedisStore::open(options).unwrap());
    let client = redis::Client::open(url).unwrap();
    let mut conn = super::server::connect(&client).await;
    JournalKeys::below(prefix).free_lease(&mut conn).await;
    let folder = TestFolder::new(store, Clock::system(), "the next", 10_000);
    let folds = async || folder.fold().await.unwrap();
    until("the next instance folds what was appended", folds).await;
    folder.release().await.unwrap();
}
