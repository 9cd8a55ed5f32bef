//! The end of the demo.

use super::rig::book;
use super::rig::fold::fold_rest;
use super::rig::http::Client;
use super::rig::server::RedisServer;
use super::rig::wait::PATIENCE;
use super::start_without_traffic;

#[tokio::test]
async fn sigterm_flushes_and_ends_although_a_stream_is_open() {
    let redis = RedisServer::start().await;
    let env = [
        ("REDIS_URL", &*redis.url()),
        ("PULSE_PREFIX", ""),
        ("PULSE_FLUSH_MS", "60000"),
    ];
    let demo = start_without_traffic(&env).await;
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
    // Both requests are open.
    let in_flight = "/admin/pulse/api/health";
    super::until(&mut client, in_flight, |health| {
        health["recording"]["in_flight"].as_i64() >= Some(1)
    })
    .await;
    demo.signal("TERM");
    // The stream never ends, and the next flush is due in a minute.
    let status = demo.wait_exit(PATIENCE).await.expect("it ends");
    assert!(status.success(), "{status}: {}", demo.stderr());
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
async fn the_demo_ends_even_while_redis_hangs_and_a_stream_is_open() {
    let redis = RedisServer::start().await;
    let demo = start_without_traffic(&[("REDIS_URL", &*redis.url())]).await;
    let address = demo.address();
    let streaming = tokio::spawn(async move {
        let mut client = Client::connect(address).await;
        let _ = client.try_request("GET", "/stream", &[], "").await;
    });
    let mut client = Client::connect(address).await;
    client.get("/ping").await;
    super::wait_until_counted(&mut client, "GET /ping", 1).await;
    redis.freeze();
    for _ in 0..10 {
        client.get("/ping").await;
    }
    demo.signal("TERM");
    let status = demo.wait_exit(PATIENCE).await.expect("it ends");
    // The error names the samples that could not be flushed.
    assert!(!status.success());
    let said = demo.stderr();
    assert!(said.contains("could not be flushed"), "{said}");
    let _ = streaming.await;
}
