//! A dashboard gives the same answers as an instance, and writes nothing.

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use serde_json::json;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;
use tower_pulse::query::PathsQuery;

use crate::dashboard::fleet::{Fleet, MINUTE, START, json as get, send};

/// Questions about the fleet.
const SAME: [&str; 26] = [
    "api/overview",
    "api/overview?window=1h",
    "api/paths",
    "api/paths?window=1h&kind=all&series=hits",
    "api/paths?window=7d",
    "api/path?context=GET%20%2Fa",
    "api/path?context=GET%20%2Fa&window=15m",
    "api/fix_first?window=1h",
    "api/changes",
    "api/deploy",
    "api/marks",
    "api/instances",
    "api/instance?instance=web-1&window=1h",
    "api/instances?context=GET%20%2Fa",
    "api/slowest",
    "api/slowest_requests",
    "api/rankings",
    "api/rankings?name=posts",
    "api/counters",
    "api/counters?series=true&window=1h",
    "api/counters?name=sales",
    "api/rows",
    "api/series?window=1h",
    "api/series?metric=p95&window=1h",
    "api/series?metric=times&context=GET%20%2Fa&window=1h",
    "api/series?metric=outcomes",
];

/// Questions about the dashboard's own process, and the HTML.
const OWN: [&str; 5] = [
    "",
    "api/health",
    "api/health?part=status",
    "api/screen?ask=health&ask=overview&ask=paths%3Fwindow%3D1h",
    "metrics",
];

/// Commands for connections, for questions, and for this test.
const ALLOWED: &str = "
    auth select time info hello config|resetstat getrange hstrlen hgetall hkeys hlen
    hmget hscan xlen zcard zcount zmscore memory|usage zrangebylex zrangebyscore
    zrevrange zrevrank zscore";

/// Two instances after ten minutes of requests, failures, timers, a counter, a ranking and a mark.
async fn busy_instances(fleet: &Fleet) -> [Pulse; 2] {
    let instances = ["web-1", "web-2"].map(|name| fleet.instance(name));
    for minute in 0..10 {
        fleet.manual_clock.set_wall(START + minute * MINUTE + 30);
        for (number, pulse) in instances.iter().enumerate() {
            pulse.simulation().heartbeat().await.unwrap();
            pulse.simulation().drain();
            for request in 0..40u64 {
                let duration = Duration::from_millis(5 + request + 20 * number as u64);
                pulse.record("GET /a", duration, StatusCode::OK);
                let codes = [StatusCode::CREATED, StatusCode::BAD_GATEWAY];
                let status = codes[usize::from(request % 10 == 0)];
                pulse.record("POST /b", duration / 2, status);
                pulse.record_duration("db:find", duration / 3);
            }
            pulse.counter("sales").add(3);
            let posts = pulse.ranking("posts").build().unwrap();
            posts.add("first", 1 + number as i64);
            pulse.simulation().drain();
        }
        if minute == 5 {
            fleet.flush(&instances).await;
            // This instance has folded last, so it holds the lease and can fold its mark.
            instances[1].mark("new index").await.unwrap();
        }
    }
    fleet.manual_clock.set_wall(START + 10 * MINUTE);
    for pulse in &instances {
        pulse.simulation().heartbeat().await.unwrap();
    }
    fleet.flush(&instances).await;
    assert!(instances[1].simulation().judge().await.unwrap() > 0);
    instances
}

async fn assert_same(instance: &Router, dashboard: &Router) {
    for path in SAME {
        let (status, expected) = send(instance, "GET", path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {expected}");
        let answer = send(dashboard, "GET", path).await;
        assert_eq!(answer, (status, expected), "{path}");
    }
}

#[tokio::test]
async fn a_dashboard_has_the_answers_of_an_instance_and_writes_nothing() {
    let fleet = Fleet::new().await;
    let instances = busy_instances(&fleet).await;
    let instance = Router::new().merge(instances[0].mount("/pulse", Access::open()));
    fleet.expire_answers();
    let dashboard = fleet.dashboard();
    assert_same(&instance, &dashboard).await;
    let overview = get(&dashboard, "api/overview").await;
    assert_eq!(overview["hour"]["requests"], 2 * 10 * 80);
    assert_without_recording(&dashboard).await;

    // The instances are idle, so only the dashboard sends commands.
    let before = fleet.values().await;
    assert!(before.len() > 20, "only {} keys", before.len());
    let () = fleet.server.run("CONFIG RESETSTAT").await;
    for _ in 0..2 {
        fleet.expire_answers();
        for path in SAME.into_iter().chain(OWN) {
            let (status, body) = send(&dashboard, "GET", path).await;
            assert_eq!(status, StatusCode::OK, "{path}: {body}");
        }
        let (status, body) = send(&dashboard, "POST", "api/marks").await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert!(body.contains("only reads"), "{body}");
    }
    let calls = fleet.calls().await;
    let is_allowed = |name: &String| ALLOWED.split_whitespace().any(|allowed| allowed == name);
    assert!(
        calls.iter().all(is_allowed) && calls.len() > 10,
        "{calls:?}"
    );
    assert_eq!(fleet.values().await, before);

    let answer = get(&dashboard, "api/instances").await;
    let names = answer["instances"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|row| row["instance"].as_str().unwrap()).collect();
    assert_eq!(names, ["web-1", "web-2"]);
    let alive: u64 = fleet.server.run("ZCARD pulse:pulse:instances").await;
    assert_eq!(alive, 2);

    instances[1].record("GET /new", Duration::from_millis(1), StatusCode::OK);
    fleet.flush(&instances).await;
    fleet.expire_answers();
    assert_same(&instance, &dashboard).await;
    let mut query = PathsQuery::default();
    query.contains = "/new".to_owned();
    let in_rust = fleet.builder().build().unwrap();
    assert_eq!(in_rust.query().ask(&query).await.unwrap().total, 1);
}

/// Panics if health, the metrics or the page of a dashboard have figures of a process that records.
async fn assert_without_recording(dashboard: &Router) {
    let health = get(dashboard, "api/health").await;
    assert!(health["instance"].is_null() && health.as_object().unwrap().contains_key("instance"));
    for part in ["completeness", "recording", "flush", "cleaning"] {
        assert!(health.get(part).is_none(), "{part}: {health}");
    }
    assert_eq!(health["status"], "ok", "{health}");
    assert_eq!(health["warnings"], json!([]));
    assert_eq!(health["store"]["contact_age_seconds"], 0.0);
    let description = health["store"]["description"].as_str().unwrap();
    assert!(description.contains("redis"), "{health}");
    assert_eq!(health["fold"]["journal"]["is_folder"], false);
    assert_eq!(health["changes"]["judged_until"], START + 10 * MINUTE);
    assert!(health["reading"].is_object() && health["version"].is_string());

    let (_, metrics) = send(dashboard, "GET", "metrics").await;
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let samples: Vec<_> = samples.collect();
    let allowed = "fleet_ store_up condition{ changes{ wrong_credentials_total";
    for line in &samples {
        let mut names = allowed.split(' ').map(|name| format!("pulse_{name}"));
        assert!(names.any(|name| line.starts_with(&name)), "{line}");
    }
    for gauge in [
        "pulse_fleet_instances 2",
        "pulse_fleet_requests 1600",
        "pulse_fleet_journal_bytes 0",
        "pulse_store_up 1",
        "pulse_wrong_credentials_total 0",
    ] {
        assert!(samples.contains(&gauge), "{gauge}: {metrics}");
    }

    let (_, page) = send(dashboard, "GET", "").await;
    for flag in ["is_instance", "row_cache"] {
        let is_false = format!("&quot;{flag}&quot;:false");
        assert!(page.contains(&is_false), "{page}");
    }
}
