//! Tests the files of `docs/prometheus` in a real Prometheus, which scrapes the demo and small services with problems:
//! `make test-all-prometheus`. This takes about three minutes.
//!
//! The rules and alerts are those of the files, but an alert waits two seconds (`for`) instead of minutes. Otherwise, a
//! run would take half an hour. `rules_test.yml`, which runs first, tests each alert with its real times.
//!
//! `PROMETHEUS` and `PROMTOOL` name binaries that are not in `PATH`. `OPENMETRICS` names a directory with PyPI's
//! `prometheus_client`, whose strict parser then reads the answers.
//!
//! Read in this order: [`services`] (what is scraped), [`server`] (Prometheus), this file.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a panic fails the test"
)]

mod server;
mod services;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use pulse_rig::http::Client;
use pulse_rig::wait::look_until;

use server::{Prometheus, docs, promtool};
use services::Services;

/// The time within which an alert must fire. Prometheus scrapes each second, but the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// The alerts that must fire, each with its job. Only `rules_test.yml` tests `PulseFoldBehind`, because here, every
/// instance that appends also folds.
const EXPECTED: [(&str, &str); 12] = [
    ("PulseErrors", "shop"),
    ("PulseChange", "shop"),
    ("PulseTargetMissed", "shop"),
    ("PulseInstancesNotScraped", "shop"),
    ("PulseTargetBurnsFast", "broken"),
    ("PulseTargetBurns", "broken"),
    ("PulseSlow", "broken"),
    ("PulseLosses", "broken"),
    ("PulseTooManyContexts", "broken"),
    ("PulseIncomplete", "lossy"),
    ("PulseStoreAway", "cut_off"),
    ("PulseInstanceMissing", "ended"),
];

/// A job for which no alert may fire.
const HEALTHY: &str = "healthy";

/// The header that Prometheus 2.50 sends.
const ACCEPT: (&str, &str) = (
    "accept",
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
     text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
);

fn main() {
    promtool(&["check", "rules", &docs("rules.yml"), &docs("alerts.yml")]);
    promtool(&["check", "config", &docs("prometheus.yml")]);
    promtool(&["test", "rules", &docs("rules_test.yml")]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run());
}

async fn run() {
    let mut services = Services::start().await;
    let prometheus = Prometheus::start(&services.jobs()).await;
    let up = "count(up == 1)";
    let jobs = services.jobs().len() as f64;
    look_until(PATIENCE, async || {
        let found = prometheus.value(up).await;
        let all = (found == Some(jobs)).then_some(());
        all.ok_or_else(|| format!("{found:?} of {jobs} targets are scraped"))
    })
    .await;
    services.cause_problems().await;

    let expected = EXPECTED.map(|(alert, job)| (alert.to_owned(), job.to_owned()));
    let expected = BTreeSet::from(expected);
    look_until(PATIENCE, async || {
        let firing = prometheus.firing().await;
        let missing: Vec<_> = expected.difference(&firing).collect();
        let all = missing.is_empty().then_some(());
        all.ok_or_else(|| format!("{missing:?} do not fire; {firing:?} do"))
    })
    .await;
    let firing = prometheus.firing().await;
    let others: Vec<_> = firing.difference(&expected).collect();
    assert!(others.iter().all(|(_, job)| job != HEALTHY), "{others:?}");
    println!("alerts that fire as expected: {expected:?}");
    println!("other alerts that fire: {others:?}");

    exemplars_lead_to_a_request(&prometheus, &services).await;
    opentelemetry_names_are_scraped(&prometheus).await;
    for query in ["", "?names=opentelemetry"] {
        the_strict_parser_accepts(&services, query).await;
    }
}

/// Checks the exemplars of durations, and that the API lists the failed request that the newest exemplar names.
async fn exemplars_lead_to_a_request(prometheus: &Prometheus, services: &Services) {
    let query = "pulse_request_duration_seconds_bucket{job=\"shop\"}";
    let durations = prometheus.exemplars(query).await;
    assert!(durations.len() >= 5, "{durations:?}");
    for (labels, exemplars) in &durations {
        let bound = labels["le"].as_str().unwrap();
        let bound: f64 = bound.parse().unwrap();
        for exemplar in exemplars {
            let value: f64 = exemplar["value"].as_str().unwrap().parse().unwrap();
            assert!(value <= bound, "{labels}: {exemplar}");
            let id = exemplar["labels"]["trace_id"].as_str().unwrap();
            let is_id = id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit());
            assert!(is_id, "{id}");
        }
    }
    let mut client = Client::connect(services.shop()).await;
    let query = "pulse_errors_total{job=\"shop\",context=\"POST /checkout\"}";
    look_until(PATIENCE, async || {
        let exemplars = prometheus.exemplars(query).await;
        let newest = exemplars
            .iter()
            .flat_map(|(_, of_series)| of_series.last())
            .last();
        let id = newest.ok_or("no exemplar")?["labels"]["trace_id"].clone();
        let path = "/admin/pulse/api/path?context=POST%20/checkout";
        let answer = client.json(path).await.to_string();
        let is_listed = answer.contains(id.as_str().unwrap()).then_some(());
        is_listed.ok_or_else(|| format!("{id} is not in {answer}"))
    })
    .await;
}

async fn opentelemetry_names_are_scraped(prometheus: &Prometheus) {
    let count = "http_server_request_duration_seconds_count";
    let query =
        format!("{count}{{job=\"otel\",http_request_method=\"POST\",http_route=\"/checkout\"}}");
    let share = "sum by (http_route) (rate(pulse_errors_total{job=\"otel\",http_route=\"/checkout\"}[5m])) / \
                 sum by (http_route) (rate(http_server_request_duration_seconds_count[5m]))";
    look_until(PATIENCE, async || {
        let count = prometheus.value(&query).await;
        let share = prometheus.value(share).await;
        let is_there = count > Some(0.0) && share > Some(0.1);
        let found = || format!("{count:?} requests, a share of errors of {share:?}");
        is_there.then_some(()).ok_or_else(found)
    })
    .await;
}

/// Checks that the reference parser of OpenMetrics, which is stricter than Prometheus, accepts the answers.
async fn the_strict_parser_accepts(services: &Services, query: &str) {
    let Some(library) = std::env::var_os("OPENMETRICS") else {
        println!("OPENMETRICS is not set: the strict parser does not run");
        return;
    };
    let mut client = Client::connect(services.shop()).await;
    let path = format!("/admin/pulse/metrics{query}");
    let answer = client.request("GET", path, &[ACCEPT], "").await;
    let content_type = answer.header("content-type").unwrap();
    assert!(content_type.starts_with("application/openmetrics-text; version=1.0.0"));
    let dir = pulse_rig::process::TempDir::new("openmetrics");
    let file = dir.path().join("metrics");
    std::fs::write(&file, &answer.body).unwrap();
    let script = format!(
        "{}/tests/prometheus/openmetrics.py",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut python = Command::new("python3");
    let python = python.arg(script).arg(&file).env("PYTHONPATH", library);
    let read = python.output().unwrap();
    let stdout = String::from_utf8_lossy(&read.stdout);
    let stderr = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{stdout}\n{stderr}");
    println!("metrics{query}: {stdout}");
}
