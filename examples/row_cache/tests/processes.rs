//! Tests the example over HTTP: two processes share a database file and a Redis.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::time::Duration;

use pulse_rig::demo::Demo;
use pulse_rig::http::Client;
use pulse_rig::process::TempDir;
use pulse_rig::server::RedisServer;
use pulse_rig::wait::{look_until, until};
use serde_json::Value;

async fn stock(client: &mut Client, id: u32) -> i64 {
    let offer = client.json(&format!("/offers/{id}")).await;
    assert_eq!(offer["id"], id);
    offer["stock"].as_i64().unwrap()
}

async fn stats(client: &mut Client) -> (u64, u64) {
    let stats = client.json("/stats").await;
    let number = |name: &str| stats[name].as_u64().unwrap();
    (number("database_reads"), number("refreshes"))
}

async fn two_processes(redis: &str) -> (TempDir, [Demo; 2], [Client; 2]) {
    let dir = TempDir::new("offers");
    let file = dir.path().join("offers.db").display().to_string();
    let env = [("DB", &*file), ("REDIS_URL", redis)];
    let binary = env!("CARGO_BIN_EXE_row_cache");
    let (a, b) = tokio::join!(Demo::start(binary, &env), Demo::start(binary, &env));
    let clients = [
        Client::connect(a.address()).await,
        Client::connect(b.address()).await,
    ];
    (dir, [a, b], clients)
}

#[tokio::test]
async fn two_processes_read_a_scheduled_offer_from_the_cache() {
    let server = RedisServer::start().await;
    let (_dir, _processes, [mut a, mut b]) = two_processes(&server.url()).await;
    let scheduled = a
        .request("PUT", "/offers/7/schedule?every=0.5", &[], b"")
        .await;
    assert_eq!(scheduled.status, 204);
    let first = look_until(Duration::from_secs(15), async || {
        match stock(&mut b, 7).await {
            stock if stock <= 1_000 => Ok(stock),
            stock => Err(format!("a stock of {stock}")),
        }
    })
    .await;
    until("the stock falls", async || stock(&mut b, 7).await < first).await;
    let before = (stats(&mut a).await, stats(&mut b).await);
    for _ in 0..300 {
        stock(&mut a, 7).await;
        stock(&mut b, 7).await;
    }
    let after = (stats(&mut a).await, stats(&mut b).await);
    let reads = after.0.0 + after.1.0 - before.0.0 - before.1.0;
    assert!(reads < 200, "{reads} database reads for 600 requests");
    let direct = a.json("/offers/7?direct=1").await;
    assert_eq!(direct["name"], "Offer 7");
    assert_eq!(
        stats(&mut a).await.0,
        after.0.0 + 1 + stats(&mut a).await.1 - after.0.1
    );
    let removed = b.request("DELETE", "/offers/7/schedule", &[], b"").await;
    assert_eq!(removed.status, 204);
    let rows: Value = a.json("/admin/pulse/api/rows").await;
    assert_eq!(rows["total"], 0, "{rows}");
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let server = RedisServer::start().await;
    let (_dir, _processes, [mut client, _]) = two_processes(&server.url()).await;
    for (path, status) in [
        ("/offers/1001", 404),
        ("/offers/none", 404),
        ("/offers/7/schedule", 405),
        ("/offers/7", 200),
        ("/offers/7?direct=1", 200),
    ] {
        assert_eq!(client.get(path).await.status, status, "{path}");
    }
    for path in [
        "/offers/7/schedule?every=nan",
        "/offers/7/schedule?every=1e9",
        "/offers/7/schedule",
    ] {
        let refused = client.request("PUT", path, &[], b"").await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
    }
}

#[tokio::test]
async fn the_rows_of_a_process_that_is_killed_are_refreshed_by_another() {
    let server = RedisServer::start().await;
    let (_dir, [first, _second], [mut a, mut b]) = two_processes(&server.url()).await;
    for id in 1..=30 {
        let path = format!("/offers/{id}/schedule?every=0.2");
        assert_eq!(a.request("PUT", path, &[], b"").await.status, 204);
    }
    until("both processes refresh rows", async || {
        stats(&mut a).await.1 > 20 && stats(&mut b).await.1 > 20
    })
    .await;
    first.kill_9();
    // All rows are refreshed, even those that the dead process had leased.
    until("every row is loaded after the kill", async || {
        let rows = b.json("/admin/pulse/api/rows?limit=100").await;
        let rows = rows["rows"].as_array().unwrap().clone();
        let is_fresh = |row: &Value| row["age"].as_f64().is_some_and(|age| age < 1.0);
        rows.len() == 30 && rows.iter().all(is_fresh)
    })
    .await;
}

#[tokio::test]
async fn rows_are_refreshed_again_after_redis_was_away() {
    let server = RedisServer::start().await;
    let (_dir, _processes, [mut a, mut b]) = two_processes(&server.url()).await;
    let scheduled = a
        .request("PUT", "/offers/7/schedule?every=0.2", &[], b"")
        .await;
    assert_eq!(scheduled.status, 204);
    until("the row is refreshed", async || {
        stats(&mut a).await.1 + stats(&mut b).await.1 > 2
    })
    .await;
    server.freeze();
    // While Redis is away, the offer comes from the database.
    let offer = a.get("/offers/7").await;
    assert_eq!(offer.status, 200, "{}", offer.text());
    server.thaw();
    let before = stats(&mut a).await.1 + stats(&mut b).await.1;
    until("the row is refreshed again", async || {
        stats(&mut a).await.1 + stats(&mut b).await.1 > before + 5
    })
    .await;
}
