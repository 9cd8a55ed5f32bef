//! `DEMO_HISTORY`: the simulated past, and the live shop after it.

use std::collections::BTreeSet;

use super::past::{Backend, RATES};
use super::rig::demo::{Demo, built};
use super::rig::http::Client;
use super::rig::server::RedisServer;
use super::{row, until};

#[tokio::test]
async fn the_past_is_recorded_in_memory() {
    the_past_is_recorded(Backend::Memory).await;
}

#[tokio::test]
async fn the_past_is_recorded_in_redis() {
    the_past_is_recorded(Backend::Redis).await;
}

async fn the_past_is_recorded(backend: Backend) {
    let mut demo = backend.start(&[("DEMO_HISTORY", "3h")]).await;
    let past_end = demo.last_simulated_minute() + 60;
    let (past, minutes) = demo.pages(past_end - 3_600, past_end).await;
    assert_eq!(past.len(), RATES.len(), "{past:#?}");
    for (context, rate) in RATES {
        let row = past.iter().find(|row| row["context"] == context);
        let count = row.unwrap()["count"].as_f64().unwrap();
        let (expected, deviation) = (rate * minutes, (rate * minutes).sqrt());
        let difference = (count - expected).abs();
        assert!(difference < 5.0 * deviation, "{context}: {count}");
    }
    let day = demo.get("overview?window=24h").await;
    let total: f64 = RATES.iter().map(|(_, rate)| rate * 180.0).sum();
    let count = day["window"]["count"].as_f64().unwrap();
    assert!((count / total - 1.0).abs() < 0.05, "{count} of {total}");
    assert_eq!(day["instances"], 4);

    let mut instances = BTreeSet::new();
    for window in ["hour", "last_hour"] {
        let slow = demo.get(&format!("slowest_requests?window={window}")).await;
        for request in slow["requests"].as_array().unwrap() {
            instances.insert(request["instance"].as_str().unwrap().to_owned());
        }
    }
    let expected = ["web-1", "web-2", "web-3", "web-4"].map(str::to_owned);
    assert_eq!(instances, expected.into());
    assert_eq!(demo.get("health").await["instance"], "web-1");

    let report = demo.get("path?context=GET%20/search&window=1h").await;
    let timers = report["window"]["timers"].as_array().unwrap();
    let timers: BTreeSet<_> = timers
        .iter()
        .map(|timer| timer["timer"].as_str().unwrap())
        .collect();
    let expected = ["db:search", "template:results"];
    assert_eq!(timers, expected.into());
}

#[tokio::test]
async fn a_past_is_not_added_to_what_a_service_has_recorded() {
    let redis = RedisServer::start().await;
    let url = redis.url();
    let env = [("REDIS_URL", &*url), ("DEMO_TRAFFIC", "off")];
    let env = [&env[..], &[("PULSE_FLUSH_MS", "100")]].concat();
    let demo = Demo::start(built(), &env).await;
    let mut client = Client::connect(demo.address()).await;
    client.get("/ping").await;
    super::wait_until_counted(&mut client, "GET /ping", 1).await;
    drop(demo);

    let env = [&env[..], &[("DEMO_HISTORY", "30m")]].concat();
    let demo = Demo::start(built(), &env).await;
    let log = demo.stderr();
    assert!(log.contains("the simulated past is left out"), "{log}");
    assert!(log.contains("set PULSE_PREFIX"), "{log}");
    let mut client = Client::connect(demo.address()).await;
    let path = "/admin/pulse/api/paths?window=1h";
    let paths = until(&mut client, path, |paths| paths["total"] == 1).await;
    assert_eq!(row(&paths, "GET /ping").unwrap()["count"], 1);
}

#[tokio::test]
async fn without_a_store_the_past_is_left_out() {
    let env = [
        ("REDIS_URL", "redis://127.0.0.1:1/"),
        ("DEMO_TRAFFIC", "off"),
    ];
    let env = [&env[..], &[("DEMO_HISTORY", "30m")]].concat();
    let demo = Demo::start(built(), &env).await;
    let log = demo.stderr();
    assert!(log.contains("the simulated past is left out"), "{log}");
    let mut client = Client::connect(demo.address()).await;
    assert_eq!(client.get("/ping").await.status, 200);
}

#[tokio::test]
async fn an_incident_without_a_past_begins_at_the_start() {
    let demo = Demo::start(built(), &[("DEMO_INCIDENT", "surge")]).await;
    let mut client = Client::connect(demo.address()).await;
    let path = "/admin/pulse/api/overview";
    // 1,464 requests a minute, and 1,800 more.
    until(&mut client, path, |overview| {
        overview["instances"] == 4 && overview["requests_per_second"].as_f64() > Some(40.0)
    })
    .await;
}
