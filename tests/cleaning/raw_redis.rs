//! Writes and reads keys in Redis directly, as another program would.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use redis::pipe;

use crate::rig::server::issue;

pub const PREFIX: &str = "pulse:";
pub const KNOWN: &str = "pulse:known:";
pub const LEASE: &str = "pulse:pulse:lease:clean";

pub fn key(precision: u32, name: &str) -> String {
    format!("{PREFIX}count:{precision}:{name}")
}

/// Writes a counter as another program would: its slices, if any, and its member of `known:`.
pub async fn write(
    conn: &mut MultiplexedConnection,
    precision: u32,
    name: &str,
    slices: &BTreeMap<i64, i64>,
) {
    let mut pipeline = pipe();
    if !slices.is_empty() {
        let fields: Vec<_> = slices.iter().collect();
        pipeline
            .hset_multiple(key(precision, name), &fields)
            .ignore();
    }
    pipeline
        .zadd(KNOWN, format!("{precision}:{name}"), 0)
        .ignore();
    pipeline.exec_async(conn).await.unwrap();
}

pub async fn slices(
    conn: &mut MultiplexedConnection,
    precision: u32,
    name: &str,
) -> BTreeMap<i64, i64> {
    issue(conn, "HGETALL", &[key(precision, name)]).await
}

pub async fn known_members(conn: &mut MultiplexedConnection) -> Vec<Vec<u8>> {
    issue(conn, "ZRANGE", (KNOWN, 0, -1)).await
}

pub async fn keys(conn: &mut MultiplexedConnection, pattern: &str) -> Vec<Vec<u8>> {
    issue(conn, "KEYS", pattern).await
}
