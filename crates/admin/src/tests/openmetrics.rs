//! The choices of a scraper besides the Prometheus text: OpenMetrics with exemplars, and the names of OpenTelemetry.

use tower_pulse_core::recorder::exemplars::{Exemplar, Exemplars};
use tower_pulse_core::recorder::totals::TargetTotals;
use tower_pulse_core::targets::PathTarget;

use super::*;

/// The `Accept` header of Prometheus 2.50.
const ACCEPT: (&str, &str) = (
    "accept",
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
     text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
);
/// The longest trace id, of characters that need an escape.
const LONGEST_ID: &str = "\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"";

fn exemplar(trace_id: &str, millis: u64, ended: i64) -> Exemplar {
    Exemplar {
        trace_id: trace_id.into(),
        nanos: 1_000_000 * millis,
        ended,
    }
}

/// A service with a target, traces, a path without requests, and requests without a route.
fn router() -> Router {
    let totals = || {
        let mut totals = Totals::new(Kind::Http);
        totals.outcomes.record(Outcome::Success, false);
        totals.outcomes.record(Outcome::ServerError, true);
        // 60 ms, 90 ms and a minute.
        (totals.buckets[6], totals.buckets[7], totals.buckets[17]) = (4, 2, 1);
        totals.nanos = 60_420_000_000;
        let mut exemplars = Exemplars::default();
        exemplars.add(&exemplar("4bf92f3577b34da6", 60, 1_700_000_000_123), false);
        exemplars.add(&exemplar("failed", 90, 1_700_000_001_000), true);
        exemplars.add(&exemplar(LONGEST_ID, 60_000, 1_699_999_999_007), false);
        totals.exemplars = Some(Arc::new(exemplars));
        let target = totals.target.insert(TargetTotals::new(0.4));
        (target.counted, target.bad) = (7, 3);
        let mut timer = Totals::new(Kind::Timer);
        timer.buckets[6] = 1;
        let unmatched = Totals::new(Kind::Http);
        vec![
            ("POST /checkout".into(), totals),
            ("<unmatched>".into(), unmatched.clone()),
            ("<overflow>".into(), unmatched.clone()),
            ("static".into(), unmatched.clone()),
            ("OTHER /users/{id}".into(), unmatched.clone()),
            ("/users".into(), unmatched),
            ("db:find".into(), timer),
        ]
    };
    let targets = Targets {
        of_paths: vec![
            PathTarget::new("POST /checkout", Duration::from_millis(400), 0.995),
            PathTarget::new("GET /never", Duration::from_secs(1), 0.5),
        ],
        ..Targets::default()
    };
    let mut source = source_of(targets, health);
    source.instance.as_mut().expect("an instance").totals = Arc::new(totals);
    super::router(source, Access::open()).expect("open")
}

fn lines<'a>(text: &'a str, beginnings: &[&str]) -> Vec<&'a str> {
    let is_one = |line: &&str| beginnings.iter().any(|one| line.starts_with(one));
    text.lines().filter(is_one).collect()
}

#[tokio::test]
async fn openmetrics_adds_exemplars_and_an_end() {
    let router = router();
    let plain = get(&router, "/metrics").await;
    let open = ask(&router, "/metrics", &[ACCEPT]).await;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open.header("content-type"), content_type);
    assert_eq!(open.header("vary"), "accept");
    assert!(open.body.ends_with("\n# EOF\n") && !plain.body.contains("# EOF"));
    assert!(
        !plain.body.contains(" # {"),
        "the Prometheus text has exemplars"
    );

    // Without its additions, OpenMetrics equals the Prometheus text: Prometheus stores the same series for both.
    let mut counters = Vec::new();
    let mut same = String::new();
    for line in open.body.lines().filter(|line| *line != "# EOF") {
        if let Some(tail) = line.strip_prefix("# UNIT ") {
            let (name, unit) = tail.split_once(' ').expect("a unit");
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
            continue;
        }
        if let Some(tail) = line.strip_prefix("# TYPE ")
            && let Some(name) = tail.strip_suffix(" counter")
        {
            counters.push(name.to_owned());
        }
        same.push_str(line.split(" # {").next().expect("a part"));
        same.push('\n');
    }
    assert!(counters.len() > 15 && counters.iter().all(|name| !name.ends_with("_total")));
    for name in counters {
        for keyword in ["HELP", "TYPE"] {
            let head = format!("# {keyword} {name} ");
            same = same.replace(&head, &format!("# {keyword} {name}_total "));
        }
    }
    assert_eq!(same, plain.body);
}

#[tokio::test]
async fn an_exemplar_is_in_the_bucket_of_its_duration() {
    let router = router();
    let open = ask(&router, "/metrics", &[ACCEPT]).await.body;
    let context = "{context=\"POST /checkout\"";
    let bucket = format!("pulse_request_duration_seconds_bucket{context},le=\"");
    let errors = format!("pulse_errors_total{context}}}");
    let lines_with = |beginning: &str| lines(&open, &[beginning]).join("\n");
    let newer = "# {trace_id=\"failed\"} 0.09 1700000001.000";
    assert_eq!(lines_with(&errors), format!("{errors} 1 {newer}"));
    // 60 and 90 ms are both in the bucket from 50 to 100 ms, which has the newer one as its exemplar.
    assert!(lines_with(&format!("{bucket}0.1\"}} 6 ")).ends_with(newer));
    let escaped = LONGEST_ID.replace('\\', "\\\\").replace('"', "\\\"");
    let last = format!("{bucket}+Inf\"}}");
    let longest = format!("{last} 7 # {{trace_id=\"{escaped}\"}} 60 1699999999.007");
    assert_eq!(lines_with(&last), longest);
    assert_eq!(
        "trace_id".len() + LONGEST_ID.len(),
        72,
        "OpenMetrics allows 128"
    );
    assert_eq!(open.matches(" # {").count(), 3, "there are other exemplars");

    // OpenTelemetry's bounds put 60 and 90 ms into different buckets.
    let named = ask(&router, "/metrics?names=opentelemetry", &[ACCEPT]).await;
    let head = "http_server_request_duration_seconds_bucket{http_request_method=\"POST\",http_route=\"/checkout\",le=\"";
    let bucket_of = |bound: &str| lines(&named.body, &[&format!("{head}{bound}\"}}")]).join("\n");
    assert!(
        bucket_of("0.075").ends_with("} 4 # {trace_id=\"4bf92f3577b34da6\"} 0.06 1700000000.123")
    );
    assert!(bucket_of("0.1").ends_with("} 6 # {trace_id=\"failed\"} 0.09 1700000001.000"));
}

#[tokio::test]
async fn opentelemetrys_names_are_a_choice_of_the_scraper() {
    let router = router();
    let named = get(&router, "/metrics?names=opentelemetry").await;
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(named.header("content-type"), content_type);
    let text = named.body;
    let route = "http_request_method=\"POST\",http_route=\"/checkout\"";
    let name = "http_server_request_duration_seconds";
    let buckets = lines(&text, &[&format!("{name}_bucket{{{route}")]).into_iter();
    let bounds = buckets.map(|line| line.split('"').nth(5).expect("a bound"));
    // The bounds that the conventions advise.
    let advised = "0.005 0.01 0.025 0.05 0.075 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 +Inf";
    assert_eq!(bounds.collect::<Vec<_>>().join(" "), advised);
    let count = format!("{name}_count");
    let counts = lines(&text, &[&count, "pulse_errors_total", "http_server_active"]);
    let other = "http_request_method=\"_OTHER\",http_route=\"/users/{id}\"";
    let expected = [
        "pulse_errors_total{http_route=\"/users\"} 0".to_owned(),
        "pulse_errors_total{otel_metric_overflow=\"true\"} 0".to_owned(),
        "pulse_errors_total 0".to_owned(),
        format!("pulse_errors_total{{{other}}} 0"),
        format!("pulse_errors_total{{{route}}} 1"),
        "pulse_errors_total{context=\"static\"} 0".to_owned(),
        format!("{count}{{http_route=\"/users\"}} 0"),
        format!("{count}{{otel_metric_overflow=\"true\"}} 0"),
        format!("{count} 0"),
        format!("{count}{{{other}}} 0"),
        format!("{count}{{{route}}} 7"),
        format!("{count}{{context=\"static\"}} 0"),
        "http_server_active_requests 2".to_owned(),
    ];
    assert_eq!(counts, expected);
    let requests = |outcome| format!("pulse_requests_total{{{route},outcome=\"{outcome}\"}} 1");
    let expected = ["2xx", "5xx"].map(requests);
    assert_eq!(lines(&text, &["pulse_requests_total{"]), expected);
    // The conventions for HTTP have no names for timers.
    let timer = "pulse_timer_duration_seconds_count{context=\"db:find\"} 1";
    assert_eq!(lines(&text, &[timer]).len(), 1);
    for old in ["pulse_request_duration_seconds", "pulse_in_flight"] {
        assert!(!text.contains(old), "the text has {old} too");
    }
    let pulse = get(&router, "/metrics?names=pulse").await;
    assert_eq!(pulse.body, get(&router, "/metrics").await.body);
}

#[tokio::test]
async fn a_target_has_metrics_before_its_first_request() {
    let text = get(&router(), "/metrics").await.body;
    let (checkout, never) = ("{context=\"POST /checkout\"}", "{context=\"GET /never\"}");
    let expected = [
        format!("pulse_target_requests_total{checkout} 7"),
        format!("pulse_target_requests_total{never} 0"),
        format!("pulse_target_bad_requests_total{checkout} 3"),
        format!("pulse_target_bad_requests_total{never} 0"),
        format!("pulse_target_share{checkout} 0.995"),
        format!("pulse_target_share{never} 0.5"),
        format!("pulse_target_duration_seconds{checkout} 0.4"),
        format!("pulse_target_duration_seconds{never} 1"),
    ];
    assert_eq!(lines(&text, &["pulse_target_"]), expected);
}
