//! The end of the demo.

use super::rig::book;
use super::rig::fold::fold_rest;
use super::rig::http::Client;
use super::rig::server::RedisServer;
use super::rig::wait::PATIENCE;
use super::start_without_traffic;
use crate::rig::server::run;

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
    let mut client = Client::connect(address).await;
    for _ in 0..321 {
        client.get("/ping").await;
    }
    let is_busy = async |client: &mut Client| {
        let health = client.json("/admin/pulse/api/health").await;
        health["recording"]["in_flight"].as_i64() >= Some(1)
    };
    // The head of the stream is answered, so that what is in flight is a slow request. On a busy machine one may have
    // ended before anybody looks.
    let mut slow = Vec::new();
    while slow.is_empty() || !is_busy(&mut client).await {
        let is_over = |last: &tokio::task::JoinHandle<()>| last.is_finished();
        if slow.last().is_none_or(is_over) {
            slow.push(tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                let _ = client.try_request("GET", "/reports/daily", &[], "").await;
            }));
        }
        tokio::task::yield_now().await;
    }
    demo.signal("TERM");
    // The stream never ends, and the next flush is due in a minute.
    let status = demo.wait_exit(PATIENCE).await.expect("it ends");
    assert!(status.success(), "{status}: {}", demo.stderr());
    let _ = streaming.await;
    let asked = slow.len() as i64;
    for request in slow {
        let _ = request.await;
    }
    fold_rest(&redis.url(), "").await;
    let mut conn = redis.connection().await;
    let hits = |name: &'static str| {
        let mut conn = conn.clone();
        async move {
            let day = book::get_counter(&mut conn, "", name, 86_400).await;
            day.iter().map(|(_, n)| n).sum::<i64>()
        }
    };
    assert_eq!(hits("hits:GET /ping").await, 321);
    assert_eq!(hits("hits:GET /stream").await, 1);
    assert_eq!(hits("hits:GET /reports/daily").await, asked);
    assert_eq!(hits("hits").await, 322 + asked);
    let () = run(&mut conn, "PING").await;
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
    // The end is no failure. The log names the samples that could not be flushed.
    let said = demo.stderr();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("could not be flushed"), "{said}");
    let _ = streaming.await;
}
