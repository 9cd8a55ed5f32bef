//! The Prometheus text. In `tests/prometheus`, a real Prometheus reads it.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tokio::sync::Notify;

use super::store::FaultMode;
use super::*;
use tower_pulse_core::health::{Health, JournalHealth};
use tower_pulse_model::aggregate::Aggregate;

#[tokio::test]
async fn without_the_store_the_fleet_is_left_out() {
    let fixture = fixture();
    fixture.store.set(FaultMode::Failing);
    let answered = get(&fixture.router, "/metrics").await;
    assert_eq!(answered.status, 200);
    let text = answered.body;
    assert!(text.contains("\npulse_store_up 0\n"), "{text}");
    assert!(!text.contains("\npulse_fleet_"), "{text}");
    assert_eq!(text.matches("\npulse_requests_total{").count(), 3);
}

/// The indexes in `Totals::buckets` at which the buckets of this crate's histogram end.
const PULSE_ENDS: [usize; 15] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17];

/// Rows of every kind and outcome. Names need escapes at various positions, and numbers have various lengths.
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
        // The first row has more codes than `Totals` keeps, and than the text lists.
        let codes = [503, 200, 404].into_iter().chain(410..426);
        for code in codes.take([19, 2, 10].get(at).copied().unwrap_or(0)) {
            let mut aggregate = Aggregate::default();
            aggregate.codes.add(code, u64::from(code));
            totals.add(&aggregate);
        }
        totals.nanos = 1_234_567_891u128.pow(at as u32 % 4) / 3;
        for (number, end) in PULSE_ENDS.into_iter().enumerate() {
            totals.buckets[end] = 10u64.pow((number % 4) as u32) * at as u64;
        }
        if at == 3 {
            totals.buckets[2] = u64::MAX;
        }
        (name.into(), totals)
    };
    names.into_iter().enumerate().map(row).collect()
}

fn with_journal() -> Health {
    let mut health = health();
    let journal = health.fold.journal.insert(JournalHealth::default());
    (journal.bytes, journal.oldest_age_seconds) = (123_456_789, Some(0.25));
    health
}

/// Scrapers and alerts depend on the text, so it is compared byte for byte: totals, labels and figures of the fleet.
#[tokio::test]
async fn the_text_equals_the_stored_text() {
    let mut source = source_of(Targets::default(), with_journal);
    source.instance.as_mut().expect("an instance").totals = Arc::new(various_totals);
    let router = router(source, Access::open()).expect("open");
    let answered = get(&router, "/metrics").await;
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(answered.header("content-type"), content_type);
    let text = answered.body;
    let expected = include_str!("metrics.txt").replace("{version}", env!("CARGO_PKG_VERSION"));
    let mut lines = text.lines().zip(expected.lines());
    let difference = lines.find(|(line, expected)| line != expected);
    assert_eq!(difference, None);
    assert_eq!(text.len(), expected.len());
}

/// Collecting the totals blocks until another task of the same thread has run.
#[tokio::test]
async fn writing_leaves_the_thread_to_other_tasks() {
    let mut source = source();
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
