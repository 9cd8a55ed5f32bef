//! Every request is counted exactly once, in every place.

use super::rig::book;
use super::rig::http::Client;
use super::rig::server::RedisServer;
use super::{PRECISIONS, start_without_traffic, until, wait_until_counted};

#[tokio::test]
async fn a_thousand_requests_are_counted_in_memory() {
    let demo = start_without_traffic(&[]).await;
    let mut client = Client::connect(demo.address()).await;
    for _ in 0..1_000 {
        assert_eq!(client.get("/ping").await.text(), "pong");
    }
    wait_until_counted(&mut client, "GET /ping", 1_000).await;
    for precision in PRECISIONS {
        for name in ["hits", "hits:GET%20/ping"] {
            let path = format!("/admin/pulse/api/counters?name={name}&precision={precision}");
            until(&mut client, &path, |answer| total(answer) == 1_000).await;
        }
    }
}

fn total(counter: &serde_json::Value) -> i64 {
    let samples = counter["samples"].as_array().unwrap();
    samples
        .iter()
        .map(|sample| sample[1].as_i64().unwrap())
        .sum()
}

#[tokio::test]
async fn the_book_reads_a_thousand_requests_from_redis() {
    let redis = RedisServer::start().await;
    let demo = start_without_traffic(&[("REDIS_URL", &redis.url()), ("PULSE_PREFIX", "")]).await;
    let mut client = Client::connect(demo.address()).await;
    for _ in 0..1_000 {
        client.get("/ping").await;
    }
    wait_until_counted(&mut client, "GET /ping", 1_000).await;
    let mut conn = redis.connection().await;
    for precision in PRECISIONS {
        for name in ["hits", "hits:GET /ping"] {
            let counter = book::get_counter(&mut conn, "", name, precision)
                .await
                .unwrap();
            let sum: i64 = counter.iter().map(|(_, n)| n).sum();
            assert_eq!(sum, 1_000, "{name} at {precision} s");
            assert!(counter.iter().all(|(slice, _)| slice % precision == 0));
        }
    }
    let stats = book::get_stats(&mut conn, "", "GET /ping", "AccessTime")
        .await
        .unwrap();
    let slowest = book::slowest(&mut conn, "").await.unwrap();
    let ranked = slowest
        .iter()
        .find(|(name, _)| name == "GET /ping")
        .unwrap();
    // This hour has all requests, unless the hour has just turned.
    if stats.count == 1_000.0 {
        assert!(stats.min <= stats.average && stats.average <= stats.max);
    }
    assert_eq!(ranked.1, stats.sum / stats.count);
}

#[tokio::test]
async fn the_books_data_is_read_and_added_to() {
    let redis = RedisServer::start().await;
    let mut conn = redis.connection().await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs() as i64;
    book::update_counter(&mut conn, "", "hits:GET /ping", 500, now, &PRECISIONS)
        .await
        .unwrap();
    for seconds in [0.25, 0.75] {
        book::access_time(&mut conn, "", "GET /ping", seconds)
            .await
            .unwrap();
        book::access_time(&mut conn, "", "/of/the/book", seconds)
            .await
            .unwrap();
    }
    let demo = start_without_traffic(&[("REDIS_URL", &redis.url()), ("PULSE_PREFIX", "")]).await;
    let mut client = Client::connect(demo.address()).await;
    // Only the book's writer has written this context.
    wait_until_counted(&mut client, "/of/the/book", 2).await;
    for _ in 0..10 {
        client.get("/ping").await;
    }
    wait_until_counted(&mut client, "GET /ping", 12).await;
    let day = book::get_counter(&mut conn, "", "hits:GET /ping", 86_400)
        .await
        .unwrap();
    assert_eq!(day.iter().map(|(_, n)| n).sum::<i64>(), 510);
    let path = "/admin/pulse/api/counters?name=hits:GET%20/ping&precision=86400";
    until(&mut client, path, |answer| total(answer) == 510).await;
}

#[tokio::test]
async fn ten_thousand_unknown_paths_share_one_context() {
    let demo = start_without_traffic(&[]).await;
    let mut client = Client::connect(demo.address()).await;
    let methods = ["GET", "POST", "PURGE", "M-SEARCH", "PROPFIND", "DELETE"];
    let mut before = 0;
    for i in 0..10_000u32 {
        let path = format!("/none/{i}/{:x}?q=%ff%00", i.wrapping_mul(2_654_435_761));
        let response = client.request(methods[i as usize % 6], path, &[], "").await;
        assert_eq!(response.status, 404);
        if i == 2_000 {
            before = demo.rss_bytes();
        }
    }
    let grown = demo.rss_bytes().saturating_sub(before);
    wait_until_counted(&mut client, "<unmatched>", 10_000).await;
    let overview = client.json("/admin/pulse/api/overview").await;
    assert_eq!(overview["contexts"], 1);
    // A context takes some kilobytes: 2,000, the most that there may be, would take more.
    assert!(grown < 4 << 20, "{grown} bytes more");
}
