//! The admin API of a running service, with valid and invalid requests.

use super::{start_without_traffic, until};
use crate::rig::demo::built;
use crate::rig::http::Client;
use crate::rig::server::RedisServer;

#[tokio::test]
async fn the_demo_refuses_to_be_open_beyond_loopback() {
    let output = std::process::Command::new(built())
        .env("LISTEN", "0.0.0.0:0")
        .env_remove("PULSE_TOKEN")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("PULSE_TOKEN"), "{text}");
}

#[tokio::test]
async fn an_invalid_environment_variable_is_named() {
    let past = "a number of minutes or hours, 30m to 24h, as 3h";
    let incidents = "slow_query, bad_deploy, bad_instance, errors, surge, busy_host, queue, repeated or blocking";
    for (name, value, says) in [
        ("PULSE_FLUSH_MS", "9", "flush"),
        ("PULSE_FLUSH_MS", "60001", "flush"),
        ("PULSE_FLUSH_MS", "soon", "flush"),
        ("PULSE_CLEAN_SECS", "0", "clean"),
        ("REDIS_URL", "redis//nowhere", "redis"),
        ("PULSE_PREFIX", "a\tb", "prefix"),
        ("LISTEN", "somewhere", "listen"),
        ("DEMO_HISTORY", "29m", past),
        ("DEMO_HISTORY", "25h", past),
        ("DEMO_HISTORY", "3", past),
        ("DEMO_HISTORY", "3d", past),
        ("DEMO_HISTORY", "-1h", past),
        ("DEMO_HISTORY", "99999999999999999999h", past),
        ("DEMO_INCIDENT", "fire", incidents),
        ("DEMO_TRAFFIC", "Off", "on or off"),
    ] {
        let output = std::process::Command::new(built())
            .env("LISTEN", "127.0.0.1:0")
            .env("DEMO_TRAFFIC", "off")
            .env("REDIS_URL", "redis://127.0.0.1:1/")
            .env(name, value)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{name}={value}");
        let text = String::from_utf8_lossy(&output.stderr);
        let says = match name.starts_with("DEMO") {
            true => format!("{name}={value:?}: must be {says}"),
            false => says.to_owned(),
        };
        let is_said = text.contains(&says) || text.to_lowercase().contains(&says);
        assert!(is_said, "{name}={value}: {text}");
    }
}

#[tokio::test]
async fn a_store_that_is_down_at_the_start_only_shows_in_health() {
    let redis = RedisServer::start().await;
    redis.kill_9();
    let demo = start_without_traffic(&[("REDIS_URL", &redis.url())]).await;
    let mut client = Client::connect(demo.address()).await;
    for _ in 0..20 {
        assert_eq!(client.get("/ping").await.status, 200);
    }
    let path = "/admin/pulse/api/health";
    let health = until(&mut client, path, |health| health["status"] == "down").await;
    assert!(health["store"]["last_error"].is_string(), "{health}");
    let failed = client.get("/admin/pulse/api/paths").await;
    assert_eq!(failed.status, 503);
    assert!(failed.json()["error"].is_string());
    assert_eq!(client.get("/admin/pulse").await.status, 200);

    redis.restart().await;
    until(&mut client, path, |health| {
        health["status"] == "ok" && health["recording"]["pending_series"] == 0
    })
    .await;
    super::wait_until_counted(&mut client, "GET /ping", 20).await;
}
