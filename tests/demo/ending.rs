//! How the demo ends.

use std::time::{Duration, Instant};

use super::quiet;
use super::rig::book;
use super::rig::fold::fold_rest;
use super::rig::http::Client;
use super::rig::server::RedisServer;

#[tokio::test]
async fn sigterm_flushes_and_ends_within_two_seconds_although_a_stream_is_open() {
    let redis = RedisServer::start().await;
    let env = [
        ("REDIS_URL", &*redis.url()),
        ("PULSE_PREFIX", ""),
        ("PULSE_FLUSH_MS", "60000"),
    ];
    let demo = quiet(&env).await;
    let address = demo.address();
    let streaming = tokio::spawn(async move {
        let mut client = Client::connect(address).await;
        let _ = client.try_request("GET", "/stream", &[], "").await;
    });
    let slow = tokio::spawn(async move {
        let mut client = Client::connect(address).await;
        let _ = client.try_request("GET", "/reports/daily", &[], "").await;
    });
    let mut client = Client::connect(address).await;
    for _ in 0..321 {
        client.get("/ping").await;
    }
    // Both are under way.
    let in_flight = "/admin/pulse/api/health";
    super::until(&mut client, in_flight, |health| {
        health["recording"]["in_flight"].as_i64() >= Some(1)
    })
    .await;
    let start = Instant::now();
    demo.signal("TERM");
    let status = demo
        .wait_exit(Duration::from_secs(5))
        .await
        .expect("it ends");
    let took = start.elapsed();
    assert!(status.success(), "{status}: {}", demo.stderr());
    assert!(took < Duration::from_secs(2), "{took:?}");
    let (_, _) = (streaming.await, slow.await);
    fold_rest(&redis.url(), "").await;
    let mut conn = redis.connection().await;
    let hits = |name: &'static str| {
        let mut conn = conn.clone();
        async move {
            let day = book::get_counter(&mut conn, "", name, 86_400)
                .await
                .unwrap();
            day.iter().map(|(_, n)| n).sum::<i64>()
        }
    };
    assert_eq!(hits("hits:GET /ping").await, 321);
    assert_eq!(hits("hits:GET /stream").await, 1);
    assert_eq!(hits("hits:GET /reports/daily").await, 1);
    assert_eq!(hits("hits").await, 323);
    let _: () = redis::cmd("PING").query_async(&mut conn).await.unwrap();
}

#[tokio::test]
async fn it_ends_within_two_seconds_even_while_redis_hangs_and_a_stream_is_open() {
    let redis = RedisServer::start().await;
    let demo = quiet(&[("REDIS_URL", &*redis.url())]).await;
    let address = demo.address();
    let streaming = tokio::spawn(async move {
        let mut client = Client::connect(address).await;
        let _ = client.try_request("GET", "/stream", &[], "").await;
    });
    let mut client = Client::connect(address).await;
    client.get("/ping").await;
    super::counted(&mut client, "GET /ping", 1).await;
    redis.freeze();
    for _ in 0..10 {
        client.get("/ping").await;
    }
    let start = Instant::now();
    demo.signal("TERM");
    let status = demo.wait_exit(Duration::from_secs(5)).await;
    let took = start.elapsed();
    let status = status.expect("it ends");
    assert!(took < Duration::from_secs(2), "{took:?}");
    // What could not be flushed is said.
    assert!(!status.success());
    let said = demo.stderr();
    assert!(said.contains("could not be flushed"), "{said}");
    let _ = streaming.await;
}
