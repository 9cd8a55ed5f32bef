//! A journal that something else has touched: another program, or a newer version of this crate. Requests are counted on,
//! and the page's health says what is the matter.

use std::time::Duration;

use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use serde_json::Value;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;
use tower_pulse_model::entry::ENTRY_VERSION;

use crate::rig::asking;
use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::until;

const JOURNAL: &str = "pulse:pulse:journal";
const STATE: &str = "pulse:pulse:state";

fn instance(server: &RedisServer) -> Pulse {
    Pulse::builder()
        .redis(server.url())
        .flush_interval(Duration::from_millis(200))
        .build()
        .unwrap()
}

async fn send<T: FromRedisValue>(conn: &mut MultiplexedConnection, words: &[&str]) -> T {
    issue(conn, words[0], &words[1..]).await
}

/// Runs a timer, and waits until `runs` runs can be read.
async fn count(pulse: &Pulse, runs: i64) {
    pulse.timer("job").stop();
    until("the run can be read", async || {
        let slices = pulse.backend().counter("hits:job", 3_600).await.unwrap();
        slices.iter().map(|(_, n)| n).sum::<i64>() == runs
    })
    .await;
}

/// The answer of the page to `GET …/api/health`.
async fn health(pulse: &Pulse) -> Value {
    asking::json(&pulse.router(Access::open()), "/api/health").await
}

/// Whether a warning contains all of these texts.
async fn warns(pulse: &Pulse, texts: &[&str]) -> bool {
    let health = health(pulse).await;
    let warnings = health["warnings"].as_array().unwrap().iter();
    let mut warnings = warnings.map(|warning| warning.as_str().unwrap());
    warnings.any(|warning| texts.iter().all(|text| warning.contains(text)))
}

#[tokio::test]
async fn a_rollback_stops_no_instance_that_begins_to_fold() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let first = instance(&server);
    count(&first, 1).await;
    // A version that was rolled back has raised it.
    let _: u64 = send(conn, &["HSET", STATE, "need", "4"]).await;
    first.shutdown().await.unwrap();
    let second = instance(&server);
    count(&second, 2).await;
    until("nothing needs the newer version", async || {
        send::<String>(conn, &["HGET", STATE, "need"]).await == "0"
    })
    .await;
    assert!(!warns(&second, &["version"]).await);
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_entry_of_a_newer_version_is_told_at_once_and_can_be_deleted() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (first, second) = (instance(&server), instance(&server));
    count(&first, 1).await;
    let head: String = send(conn, &["HGET", STATE, "head"]).await;
    let offset: u64 = head.split('-').next().unwrap().parse().unwrap();
    let id = format!("{}-7", offset + 2);
    let now: (String, String) = send(conn, &["TIME"]).await;
    let newer = (ENTRY_VERSION + 1).to_string();
    let entry = [
        "i", "x", "s", "1", "t", &now.0, "v", &newer, "n", "1", "p", "?",
    ];
    let _: String = send(conn, &[&["XADD", JOURNAL, &id][..], &entry].concat()).await;
    let _: u64 = send(conn, &["HSET", STATE, "head", &id, "need", &newer]).await;
    // Each instance tells it, also one that has nothing to flush.
    let texts = [
        &*format!("version {newer}"),
        &*format!("up to {ENTRY_VERSION}"),
        "Start an instance of the newer version",
        "pulse:aside",
    ];
    for pulse in [&first, &second] {
        until("it is told", async || warns(pulse, &texts).await).await;
    }
    first.timer("job").stop();
    let _: u64 = send(conn, &["XDEL", JOURNAL, &id]).await;
    count(&second, 3).await;
    for pulse in [&first, &second] {
        until("it is not told any more", async || {
            !warns(pulse, &texts[..1]).await
        })
        .await;
    }
    first.shutdown().await.unwrap();
    second.shutdown().await.unwrap();
}
