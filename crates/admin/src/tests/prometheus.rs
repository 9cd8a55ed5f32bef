//! The Prometheus text, read by a small parser of the format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tokio::sync::Notify;

use super::store::FaultMode;
use super::*;
use tower_pulse_core::health::JournalHealth;

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
        ("pulse_recorded_additions_total", 91.0),
        ("pulse_dropped_additions_total", 11.0),
        ("pulse_lost_total", 2.0),
        ("pulse_lost_additions_total", 12.0),
        ("pulse_lost_details_total", 13.0),
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

/// The places of the buckets of this crate's names.
const PLACES_OF_PULSE: [usize; 15] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17];

/// Rows of every kind and outcome, with names that need an escape anywhere and with numbers of every length.
fn various_totals() -> Vec<(Arc<str>, Totals)> {
    let names = [
        (Kind::Http, "POST /z"),
        (Kind::Http, "GET /users/{id}"),
        (Kind::Http, "/no-method"),
        (Kind::Http, "<unmatched>"),
        (Kind::Http, "GET \"/quoted\""),
        (Kind::Http, "DELETE /back\\slash\\"),
        (Kind::Http, "GET /line\nbreak\n"),
        (Kind::Http, "GET /größe/{名}"),
        (Kind::Http, "\\\\\"\"\n\n"),
        (Kind::Http, ""),
        (Kind::Timer, "db:find"),
        (Kind::Timer, "\\GET /users/{id}"),
        (Kind::Timer, "tém\"plate"),
        (Kind::All, "<all>"),
    ];
    let row = |(at, (kind, name)): (usize, (Kind, &str))| {
        let mut totals = Totals::new(kind);
        for (number, outcome) in Outcome::ALL.into_iter().enumerate() {
            if at == 0 || at % Outcome::ALL.len() == number {
                totals.outcomes.counts[outcome as usize] = 7u64.pow((at + number) as u32);
            }
        }
        totals.outcomes.errors = at as u64;
        totals.nanos = 1_234_567_891u128.pow(at as u32 % 4) / 3;
        for (number, place) in PLACES_OF_PULSE.into_iter().enumerate() {
            totals.buckets[place] = 10u64.pow((number % 4) as u32) * at as u64;
        }
        if at == 3 {
            totals.buckets[2] = u64::MAX;
        }
        (name.into(), totals)
    };
    names.into_iter().enumerate().map(row).collect()
}

/// Scrapers and alerts depend on the text, so it is compared byte for byte.
#[tokio::test]
async fn the_text_is_what_it_has_always_been() {
    let mut health = health();
    let journal = health.fold.journal.insert(JournalHealth::default());
    (journal.bytes, journal.oldest_age_seconds) = (123_456_789, Some(0.25));
    let (clock, _) = Clock::manual(NOW);
    let store = Arc::new(Canned::default());
    let mut source = source_with(query_of(store, clock, None, CannedProcess(health)));
    source.instance.as_mut().expect("an instance").totals = Arc::new(various_totals);
    let router = router(source, Access::open()).expect("open");
    let text = get(&router, "/metrics").await.body;
    parse(&text);
    let expected = include_str!("metrics.txt").replace("{version}", env!("CARGO_PKG_VERSION"));
    let mut lines = text.lines().zip(expected.lines());
    let difference = lines.find(|(line, expected)| line != expected);
    assert_eq!(difference, None);
    assert_eq!(text.len(), expected.len());
}

#[tokio::test]
async fn the_text_is_compressed_for_clients_that_prefer_it() {
    let router = bench().router;
    let plain = get(&router, "/metrics").await;
    for accept in [
        "gzip",
        "br, gzip;q=0.5",
        "*",
        "identity;q=0.2, gzip;q=0.3",
        "identity;q=0, gzip;q=0.001",
        "identity;q=0, *",
    ] {
        let compressed = ask(&router, "/metrics", &[("accept-encoding", accept)]).await;
        assert_eq!(compressed.header("content-encoding"), "gzip", "{accept}");
        assert_eq!(
            compressed.header("vary"),
            "accept, accept-encoding",
            "{accept}"
        );
        let content_type = compressed.header("content-type");
        assert_eq!(content_type, plain.header("content-type"), "{accept}");
        assert_eq!(compressed.body, plain.body, "{accept}");
        assert!(compressed.length < plain.length / 3, "{accept}");
    }
    for accept in [
        "",
        "identity",
        "br",
        "gzip;q=0",
        "gzip;q=0.5, identity",
        "*;q=0",
        // Neither encoding is acceptable: the standard lets the server send the plain one.
        "identity;q=0",
    ] {
        let answered = ask(&router, "/metrics", &[("accept-encoding", accept)]).await;
        assert_eq!(answered.status, 200, "{accept}");
        assert_eq!(answered.header("content-encoding"), "", "{accept}");
        assert_eq!(
            answered.header("vary"),
            "accept, accept-encoding",
            "{accept}"
        );
        assert_eq!(answered.body, plain.body, "{accept}");
    }
}

#[tokio::test]
async fn head_has_the_headers_of_get() {
    let router = bench().router;
    for accept in ["identity", "gzip"] {
        let accept = ("accept-encoding", accept);
        let full = ask(&router, "/metrics", &[accept]).await;
        let head = Request::head("/metrics").header(accept.0, accept.1);
        let head = send(&router, head.body(Body::empty()).expect("valid")).await;
        assert_eq!((head.status, head.length), (full.status, 0));
        assert_eq!(head.header("content-length"), full.length.to_string());
        for name in ["content-type", "content-encoding", "vary", "cache-control"] {
            assert_eq!(head.header(name), full.header(name), "{name}");
        }
    }
}

/// The totals wait for another task of the same thread.
#[tokio::test]
async fn writing_leaves_the_thread_to_other_tasks() {
    let (mut source, _, _) = source(Canned::default());
    let is_asked = Arc::new(Notify::new());
    let (proceed, may_proceed) = mpsc::channel();
    let may_proceed = Mutex::new(may_proceed);
    source.instance.as_mut().expect("an instance").totals = Arc::new({
        let is_asked = is_asked.clone();
        move || {
            is_asked.notify_one();
            let may_proceed = may_proceed.lock().expect("no panic");
            let proceeded = may_proceed.recv_timeout(Duration::from_secs(20));
            proceeded.expect("the other task has run");
            totals()
        }
    });
    let router = router(source, Access::open()).expect("open");
    let (answered, ()) = tokio::join!(get(&router, "/metrics"), async {
        is_asked.notified().await;
        proceed.send(()).expect("the scrape waits");
    });
    assert_eq!(answered.status, 200);
}
