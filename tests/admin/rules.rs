//! Compares the rules for Prometheus with the metrics, and with the page about the rules.

use std::collections::BTreeSet;

use tower_pulse::ChangeKind;

use crate::admin::guide::scrape;

const RULES: &str = include_str!("../../docs/prometheus/rules.yml");
const ALERTS: &str = include_str!("../../docs/prometheus/alerts.yml");
const RULES_TEST: &str = include_str!("../../docs/prometheus/rules_test.yml");
const PAGE: &str = include_str!("../../docs/prometheus.md");

/// The words of a text that could be names of metrics and rules.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.split(move |c| !is_part(c))
}

/// The names that follow `keyword` in the lists of a file.
fn declared<'a>(text: &'a str, keyword: &str) -> BTreeSet<&'a str> {
    let declared = text.lines().map(str::trim);
    let declared = declared.filter_map(|line| line.strip_prefix("- ")?.strip_prefix(keyword));
    declared.map(str::trim).collect()
}

/// `guide.rs` checks the metrics in .md files, so this test skips them.
#[tokio::test]
async fn rules_name_only_metrics_and_rules_that_exist() {
    let scrapes = scrape().await;
    let samples = scrapes.iter().flat_map(|scrape| scrape.lines());
    let samples = samples.filter(|line| !line.starts_with('#'));
    let names = samples.filter_map(|line| line.split(['{', ' ']).next());
    let names: BTreeSet<&str> = names.collect();
    let kinds = ChangeKind::ALL.map(ChangeKind::as_str);
    let rules = declared(RULES, "record:");
    assert_eq!(rules.len(), 10, "{rules:?}");
    assert!(names.contains("pulse_request_duration_seconds_bucket"));
    let groups = declared(RULES, "name:");
    let groups: BTreeSet<&str> = groups.union(&declared(ALERTS, "name:")).copied().collect();

    for (file, text) in [
        ("rules.yml", RULES),
        ("alerts.yml", ALERTS),
        ("rules_test.yml", RULES_TEST),
        ("docs/prometheus.md", PAGE),
    ] {
        for word in words(text) {
            let is_rule = word.starts_with("job") && word.contains(":pulse_");
            let is_metric = word.starts_with("pulse_") || word.starts_with("http_server_");
            let is_known = match is_rule {
                true => rules.contains(word),
                false => !is_metric || names.contains(word) || file.ends_with(".md"),
            };
            let is_known = is_known || groups.contains(word);
            assert!(is_known, "{file} names {word}, which does not exist");
        }
        for selected in text.split("kind=~\"").skip(1) {
            let selected = selected.split('"').next().unwrap();
            for kind in selected.split('|') {
                assert!(
                    kinds.contains(&kind),
                    "{file}: no change is of the kind {kind}"
                );
            }
        }
    }
}

#[test]
fn the_page_lists_rules_and_alerts_and_the_test_fires_each_alert() {
    let alerts = declared(ALERTS, "alert:");
    assert_eq!(alerts.len(), 13, "{alerts:?}");
    for alert in &alerts {
        assert!(
            PAGE.contains(&format!("| `{alert}` |")),
            "the page lacks {alert}"
        );
        assert!(RULES_TEST.contains(alert), "no test fires {alert}");
    }
    for rule in declared(RULES, "record:") {
        let is_on_page = PAGE.contains(&format!("`{rule}`"));
        assert!(
            is_on_page || rule.contains("pulse_target_burn"),
            "the page lacks {rule}"
        );
    }
    let is_alert = |word: &&str| {
        word.strip_prefix("Pulse")
            .is_some_and(|name| !name.is_empty())
    };
    for alert in words(PAGE).chain(words(RULES_TEST)).filter(is_alert) {
        assert!(alerts.contains(alert), "{alert} is not an alert");
    }
}
