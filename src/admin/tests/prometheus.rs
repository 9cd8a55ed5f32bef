//! The Prometheus text, read by a small parser of the format.

use std::collections::{BTreeMap, BTreeSet};

use super::store::FaultMode;
use super::*;

struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Parses the format 0.0.4 strictly: HELP and TYPE once each, before the samples of their metric, which
/// must be adjacent and unique.
fn parse(text: &str) -> Vec<Sample> {
    assert!(text.ends_with('\n'));
    let (mut helped, mut typed) = (BTreeSet::new(), BTreeMap::new());
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(tail) = line.strip_prefix("# HELP ") {
            let (name, help) = tail.split_once(' ').expect("a help");
            assert!(helped.insert(name.to_owned()) && !help.is_empty(), "{line}");
            current = name.to_owned();
        } else if let Some(tail) = line.strip_prefix("# TYPE ") {
            let (name, kind) = tail.split_once(' ').expect("a type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(name, current, "{line}");
            assert!(
                typed.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{line}"
            );
        } else {
            let sample = sample(line);
            let family = match typed[&current].as_str() {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|suffix| sample.name.strip_suffix(suffix))
                    .expect("a suffix"),
                _ => &sample.name,
            };
            assert_eq!(family, current, "{line}");
            assert!(
                seen.insert((sample.name.clone(), sample.labels.clone())),
                "{line}"
            );
            samples.push(sample);
        }
    }
    samples
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).expect("a name");
    let (name, mut tail) = line.split_at(end);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    assert!(name.chars().all(is_name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = tail.strip_prefix('{') {
        tail = inside;
        loop {
            let (label, after) = tail.split_once("=\"").expect("a label");
            assert!(label.chars().all(is_name), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().expect("the end of a label") {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().expect("an escape").1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        other => panic!("\\{other} in {line}"),
                    }),
                    (_, c) => value.push(c),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            match after[end + 1..].split_at(1) {
                (",", after) => tail = after,
                ("}", after) => {
                    tail = after;
                    break;
                }
                _ => panic!("{line}"),
            }
        }
    }
    let value = tail.strip_prefix(' ').expect("a value").parse();
    Sample {
        name: name.to_owned(),
        labels,
        value: value.expect("a number"),
    }
}

fn find<'a>(samples: &'a [Sample], name: &str, label: &str, value: &str) -> Vec<&'a Sample> {
    let named = samples.iter().filter(|sample| sample.name == name);
    let labelled =
        |sample: &&Sample| label.is_empty() || sample.labels.get(label).is_some_and(|v| v == value);
    named.filter(labelled).collect()
}

#[tokio::test]
async fn metrics_have_the_totals_and_the_fleet() {
    let bench = bench();
    let answered = get(&bench.router, "/metrics").await;
    assert_eq!(
        answered.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let samples = parse(&answered.body);

    let odd = "GET /b\"\\\n}";
    let requests = find(&samples, "pulse_requests_total", "context", odd);
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (requests[0].value, requests[0].labels["outcome"].as_str()),
        (3.0, "5xx")
    );
    assert_eq!(requests[0].labels["method"], "GET");
    assert_eq!(requests[0].labels["path"], "/b\"\\\n}");
    assert_eq!(
        find(&samples, "pulse_requests_total", "", "").len(),
        3,
        "neither <all> nor timers"
    );
    assert_eq!(
        find(&samples, "pulse_errors_total", "context", odd)[0].value,
        3.0
    );
    assert_eq!(
        find(&samples, "pulse_errors_total", "context", "GET /a")[0].value,
        0.0
    );

    let counted = |name| find(&samples, "pulse_counted", "name", name)[0].value;
    assert_eq!((counted("sales"), counted("declared")), (12.0, 0.0));
    assert_eq!(counted("odd\"\\\n}"), -4.0);

    for (family, context) in [("request", "GET /a"), ("timer", "db:find")] {
        let name = |suffix: &str| format!("pulse_{family}_duration_seconds_{suffix}");
        let buckets = find(&samples, &name("bucket"), "context", context);
        assert_eq!(buckets.len(), 15);
        let bounds: Vec<f64> = buckets
            .iter()
            .map(|b| b.labels["le"].parse().expect("a bound"))
            .collect();
        assert!(bounds.is_sorted() && bounds[14].is_infinite(), "{bounds:?}");
        let counts: Vec<f64> = buckets.iter().map(|b| b.value).collect();
        assert_eq!(
            (counts[0], counts[3], counts[4], counts[14]),
            (1.0, 1.0, 2.0, 3.0)
        );
        assert!(counts.is_sorted());
        assert_eq!(
            find(&samples, &name("count"), "context", context)[0].value,
            3.0
        );
        assert_eq!(
            find(&samples, &name("sum"), "context", context)[0].value,
            1.5
        );
    }

    for (name, value) in [
        ("pulse_in_flight", 2.0),
        ("pulse_dropped_total", 1.0),
        ("pulse_lost_total", 2.0),
        ("pulse_pending_series", 3.0),
        ("pulse_store_up", 1.0),
        ("pulse_fleet_requests", 8.0),
        ("pulse_fleet_errors", 2.0),
        ("pulse_fleet_instances", 2.0),
        ("pulse_fleet_in_flight", 4.0),
    ] {
        assert_eq!(find(&samples, name, "", "")[0].value, value, "{name}");
    }
}

#[tokio::test]
async fn without_the_store_the_fleet_is_left_out() {
    let bench = bench();
    bench.store.set(FaultMode::Failing);
    let answered = get(&bench.router, "/metrics").await;
    assert_eq!(answered.status, 200);
    let samples = parse(&answered.body);
    assert_eq!(find(&samples, "pulse_store_up", "", "")[0].value, 0.0);
    assert!(
        !samples
            .iter()
            .any(|sample| sample.name.starts_with("pulse_fleet_"))
    );
    assert_eq!(find(&samples, "pulse_requests_total", "", "").len(), 3);
}
