//! Every request is counted exactly once, in every place.

use super::rig::http::Client;
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
