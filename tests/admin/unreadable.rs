//! Reads fail while writes work: health warns until the reads work again.

use std::time::Duration;

use crate::rig::server::RedisServer;
use http::StatusCode;
use redis::aio::MultiplexedConnection;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};

use crate::admin::client_of;

/// Commands that are needed to read, but not to record.
const COMMANDS: [&str; 4] = ["hscan", "zmscore", "zcard", "memory|usage"];

async fn set_rights(redis: &mut MultiplexedConnection, rights: &str) {
    let mut set = redis::cmd("ACL");
    set.arg(&["SETUSER", "default", rights]);
    let _: () = set.query_async(redis).await.unwrap();
}

#[tokio::test]
async fn health_warns_while_the_store_cannot_be_read() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let (clock, manual_clock) = Clock::manual(1_700_001_000);
    let pulse = Pulse::builder()
        .redis(server.url())
        .clock(clock)
        .build()
        .unwrap();
    pulse.record("GET /", Duration::from_millis(3), StatusCode::OK);
    pulse.counter("sales").add(1);
    pulse.flush().await.unwrap();
    let mut client = client_of(&pulse, Access::open()).await;
    // Other warnings do not count, because folding may lack the same permission.
    let endpoints = "overview paths counters slowest changes marks instances";
    let mut ask = async || {
        let mut failed = 0;
        for endpoint in endpoints.split(' ') {
            let answer = client.get(&format!("/pulse/api/{endpoint}")).await;
            failed += usize::from(answer.status == 503);
        }
        let health = client.json("/pulse/api/health").await;
        let warnings = health["warnings"].as_array().unwrap().iter();
        let warnings = warnings.filter_map(|warning| warning.as_str());
        let about_reading = warnings.filter(|text| text.starts_with("the store cannot be read"));
        (failed, about_reading.collect::<Vec<_>>().join("\n"))
    };
    for command in COMMANDS {
        set_rights(&mut redis, &format!("-{command}")).await;
        manual_clock.advance(Duration::from_secs(2));
        let (failed, warnings) = ask().await;
        let times = warnings.matches(&format!("+{command}")).count();
        assert!(failed > 0 && times == 1, "{command}: {failed}, {warnings}");
        set_rights(&mut redis, &format!("+{command}")).await;
        manual_clock.advance(Duration::from_secs(9));
        let (failed, warnings) = ask().await;
        let is_named = warnings.contains(&format!("+{command}"));
        assert!(failed == 0 && !is_named, "{command}: {failed}, {warnings}");
    }
    // If the store is unreachable, health has other warnings instead.
    server.kill_9();
    manual_clock.advance(Duration::from_secs(2));
    let (failed, warnings) = ask().await;
    assert!(failed > 0 && warnings.is_empty(), "{failed}, {warnings}");
}
