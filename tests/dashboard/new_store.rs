//! A dashboard before the first instance, and dashboards whose store is away or has a key of another program.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::Condition;

use crate::dashboard::fleet::{Fleet, START, json, send};

#[tokio::test]
async fn a_dashboard_waits_for_the_first_instance() {
    let fleet = Fleet::new().await;
    let dashboard = fleet.dashboard();
    for path in [
        "",
        "metrics",
        "api/paths?window=1h",
        "api/instances",
        "api/series?window=1h",
        "api/counters",
        "api/rankings",
        "api/changes",
        "api/marks",
        "api/slowest",
        "api/slowest_requests",
        "api/fix_first?window=1h",
        "api/rows",
    ] {
        let (status, body) = send(&dashboard, "GET", path).await;
        // Without row caches or rankings of its own, a dashboard still answers questions about them.
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
    }
    let overview = json(&dashboard, "api/overview?window=1h").await;
    assert_eq!(overview["hour"]["requests"], 0);
    assert_eq!(overview["instances"], 0);
    let complete = overview["window"]["complete"].as_f64();
    assert!(complete < Some(0.01), "{overview}");
    for path in ["api/health", "api/health?part=status"] {
        let health = json(&dashboard, path).await;
        let warnings = health["warnings"].to_string();
        assert!(warnings.contains("nothing is recorded"), "{health}");
        assert_eq!(health["conditions"][0], Condition::EmptyStore.as_str());
        assert_eq!(health["status"], "ok");
    }
    assert!(fleet.values().await.is_empty());

    let instance = fleet.instance("web-1");
    instance.record("GET /a", Duration::from_millis(7), StatusCode::OK);
    instance.simulation().heartbeat().await.unwrap();
    fleet.flush(&[instance]).await;
    fleet.expire_answers();
    let overview = json(&dashboard, "api/overview?window=1h").await;
    assert_eq!(overview["hour"]["requests"], 1);
    assert!(overview["as_of"].as_i64() > Some(START));
    let paths = json(&dashboard, "api/paths?window=1h").await;
    assert_eq!(paths["paths"][0]["context"], "GET /a");
    let health = json(&dashboard, "api/health").await;
    assert_eq!(health["warnings"], serde_json::json!([]), "{health}");
}

#[tokio::test]
async fn a_dashboard_does_not_change_a_key_of_another_program() {
    let fleet = Fleet::new().await;
    let () = fleet.server.run("SADD pulse:pulse:quarantine x").await;
    let before = fleet.values().await;
    let dashboard = fleet.dashboard();
    assert_eq!(json(&dashboard, "api/overview").await["instances"], 0);
    assert_eq!(json(&dashboard, "api/health").await["status"], "ok");
    assert_eq!(fleet.values().await, before);
}

#[tokio::test]
async fn health_answers_while_the_store_is_away() {
    let fleet = Fleet::new().await;
    fleet.server.kill_9();
    let dashboard = fleet.dashboard();
    assert_eq!(send(&dashboard, "GET", "api/overview").await.0, 503);
    for path in ["api/health", "api/health?part=status"] {
        assert_eq!(json(&dashboard, path).await["status"], "down");
    }
    let health = json(&dashboard, "api/health").await;
    let error = health["store"]["last_error"].as_str().unwrap();
    assert!(error.contains("cannot be reached"), "{health}");
    assert!(health["store"]["contact_age_seconds"].is_null());
    let (_, metrics) = send(&dashboard, "GET", "metrics").await;
    assert!(metrics.contains("\npulse_store_up 0\n"), "{metrics}");
    fleet.server.restart().await;
    fleet.expire_answers();
    assert_eq!(json(&dashboard, "api/health").await["status"], "ok");
}
