//! Compares the guide with real answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use serde_json::Value;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Condition, Pulse};

use crate::admin::{client_of, serve};
use crate::rig::http::Client;
use crate::rig::server::RedisServer;
use crate::rig::wait::{PATIENCE, look_until};

/// Adds the names of an answer's fields. The name of a nested field begins with its object's name: `flush.lost`.
fn add_fields(prefix: &str, value: &Value, names: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let name = format!("{prefix}{name}");
        add_fields(&format!("{name}."), value, names);
        if !value.is_object() {
            names.push(name);
        }
    }
}

#[tokio::test]
async fn the_guide_names_every_field_of_health() {
    let page = include_str!("../../src/guide/reading_health.md");
    let (clock, manual_clock) = Clock::manual(1_700_000_000);
    let pulse = Pulse::builder().clock(clock).build().unwrap();
    let mut client = client_of(&pulse, Access::open()).await;
    let health = loop {
        let answer = client.get("/pulse/api/health").await;
        let health: Value = serde_json::from_str(&answer.text()).unwrap();
        if health["cleaning"]["passes"] != 0 {
            break health;
        }
        manual_clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    };
    let mut names = Vec::new();
    add_fields("", &health, &mut names);
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        let shown = format!("`{name}`");
        assert!(page.contains(&shown), "the guide lacks {name}");
    }
    pulse.shutdown().await.unwrap();
}

#[test]
fn the_guide_has_the_table_of_conditions() {
    let page = include_str!("../../src/guide/reading_health.md");
    let table = page.split("## Conditions").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let rows: Vec<_> = rows.take(Condition::ALL.len() + 1).collect();
    for (row, condition) in rows.iter().zip(Condition::ALL) {
        assert_eq!(row[1], format!("`{condition}`"));
        assert_eq!(format!("{}.", row[2]), condition.meaning());
        assert!(!row[3].is_empty(), "{row:?}");
    }
    let is_next_table = rows.last().unwrap()[1].starts_with("`recording.");
    assert!(is_next_table, "the guide has more conditions");
}

#[test]
fn the_guide_names_the_object_of_each_answer() {
    let page = include_str!("../../src/guide/api.md");
    for (endpoint, object) in crate::frozen::answers::objects() {
        let (begin, link) = (format!("| `api/{endpoint}` |"), format!("| [`{object}`]"));
        let mut rows = page.lines().filter(|line| line.starts_with(&begin));
        assert!(rows.any(|row| row.contains(&link)), "{endpoint}: {object}");
    }
}

/// The names of the labels of each metric.
type Metrics = BTreeMap<String, BTreeSet<String>>;

/// The name and the labels in a text such as `pulse_changes{kind}` or `pulse_changes{kind="slower"}`.
fn metric(text: &str) -> (String, BTreeSet<String>) {
    let (name, labels) = text.split_once('{').unwrap_or((text, ""));
    let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
    let names = labels.split(',').filter(|label| !label.is_empty());
    let names = names.map(|label| label.split('=').next().unwrap().trim().to_owned());
    (name.to_owned(), names.collect())
}

fn metrics_in(document: &str) -> Vec<(String, BTreeSet<String>)> {
    let spans = document.split('`').skip(1).step_by(2);
    let metrics =
        spans.filter(|span| span.starts_with("pulse_") || span.starts_with("http_server_"));
    // `pulse_fleet_…` stands for several metrics.
    let metrics = metrics.map(metric).filter(|(name, _)| !name.contains('…'));
    metrics.collect()
}

/// The families of metrics in a scrape, and its samples and families together. A histogram is one family with samples
/// of several names.
fn served(text: &str) -> (Metrics, Metrics) {
    let (mut families, mut samples) = (Metrics::new(), Metrics::new());
    let mut family = "";
    for line in text.lines() {
        if let Some(begun) = line.strip_prefix("# TYPE ") {
            (family, _) = begun.split_once(' ').unwrap();
        } else if !line.starts_with('#') {
            let (name, mut labels) = metric(line.rsplit_once(' ').unwrap().0);
            samples.insert(name, labels.clone());
            labels.remove("le");
            let before = families.insert(family.to_owned(), labels.clone());
            assert!(before.is_none_or(|before| before == labels), "{line}");
        }
    }
    let typed = text.lines().filter(|line| line.starts_with("# TYPE "));
    let (typed, sampled) = (typed.count(), families.len());
    assert_eq!(typed, sampled, "each family has a sample: {text}");
    samples.extend(families.clone());
    (families, samples)
}

/// Two scrapes of an instance on Redis that exports every metric: with the crate's own names, and with OpenTelemetry's.
pub async fn scrape() -> [String; 2] {
    let server = RedisServer::start().await;
    let target = Duration::from_millis(100);
    let builder = Pulse::builder().redis(server.url());
    let pulse = builder.target_for("GET /users/{id}", target, 0.99).build();
    let pulse = pulse.unwrap();
    let app = Router::new()
        .route("/users/{id}", get(|| async { "a user" }))
        .layer(pulse.layer())
        .merge(pulse.mount("/pulse", Access::open()));
    let mut client = Client::connect(serve(app).await).await;
    client.get("/users/7").await;
    pulse.timer("db:find_user").failed();
    pulse.counter("lookups").increment();
    pulse.flush().await.unwrap();
    // The instance learns of the journal and of the fleet by its heartbeats.
    let plain = look_until(PATIENCE, async || {
        let text = client.get("/pulse/metrics").await.text();
        match text.contains("pulse_fleet_journal_age_seconds") {
            true => Ok(text),
            false => Err(text),
        }
    })
    .await;
    let named = client.get("/pulse/metrics?names=opentelemetry").await;
    pulse.shutdown().await.unwrap();
    [plain, named.text()]
}

#[tokio::test]
async fn the_guide_names_every_metric_with_its_labels() {
    let [plain, opentelemetry] = scrape().await;
    let (families, mut samples) = served(&plain);

    let page = include_str!("../../src/guide/api.md");
    let (_, section) = page.split_once("\n# `metrics`\n").unwrap();
    let (section, _) = section.split_once("\n# ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let table: Metrics = rows.flat_map(metrics_in).collect();
    let differing = |a: &Metrics, b: &Metrics| {
        let differ = a
            .iter()
            .filter(|(name, labels)| b.get(*name) != Some(labels));
        let differ = differ.map(|(name, labels)| format!("{name}{labels:?}"));
        differ.collect::<Vec<_>>()
    };
    assert_eq!(
        (differing(&table, &families), differing(&families, &table)),
        (vec![], vec![]),
        "only in the table of api.md, and only in `metrics`"
    );

    // Documents may omit labels, but may name only labels that exist.
    for (name, labels) in served(&opentelemetry).1 {
        samples.entry(name).or_default().extend(labels);
    }
    let mut found = 0;
    for (document, text) in [
        ("api.md", page),
        (
            "axum_prometheus.md",
            include_str!("../../src/guide/axum_prometheus.md"),
        ),
        (
            "quick_start.md",
            include_str!("../../src/guide/quick_start.md"),
        ),
        (
            "counters_rankings_rows.md",
            include_str!("../../src/guide/counters_rankings_rows.md"),
        ),
        ("prometheus.md", include_str!("../../docs/prometheus.md")),
    ] {
        for (name, labels) in metrics_in(text) {
            let known = samples.get(&name);
            let is_known = known.is_some_and(|known| labels.is_subset(known));
            assert!(is_known, "{document}: {name}{labels:?}");
            found += 1;
        }
    }
    assert!(found > 60, "only {found}");
}
