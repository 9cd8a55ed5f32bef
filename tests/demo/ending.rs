//! The demo ends after a SIGTERM.

use super::start_without_traffic;
use crate::rig::book;
use crate::rig::fold::fold_rest;
use crate::rig::http::Client;
use crate::rig::server::RedisServer;
use crate::rig::wait::PATIENCE;

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
    demo.signal("TERM");
    // The stream never ends, and the next flush is due in a minute.
    let status = demo.wait_exit(PATIENCE).await.expect("the demo ends");
    assert!(status.success(), "{status}: {}", demo.stderr());
    let _ = streaming.await;
    fold_rest(&redis.url(), "").await;
    let conn = redis.connection().await;
    let hits = |name: &'static str| {
        let mut conn = conn.clone();
        async move {
            let day = book::get_counter(&mut conn, "", name, 86_400).await;
            day.iter().map(|(_, n)| n).sum::<i64>()
        }
    };
    assert_eq!(hits("hits:GET /ping").await, 321);
    assert_eq!(hits("hits:GET /stream").await, 1);
    assert_eq!(hits("hits").await, 322);
}
