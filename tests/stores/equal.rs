//! For any sequence of calls, the memory store and the Redis store answer alike.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tower_pulse_core::store::{FencedBatch, Heartbeat, RecordIndex, marks};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, Kind, RecordId};
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::minute_report::{MinuteReport, REPORTED_MINUTES};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::HOUR;
use tower_pulse_model::snapshot::{ContextSnapshot, HourSnapshot};
use tower_pulse_model::tier::TierSlice;
use tower_pulse_model::tiers::Tiers;

use crate::rig::reads::{self, StoreReads};
use crate::rig::server::RedisServer;
use crate::stores::fixture::{
    ApplyOutcome, Fixture, Keys, MergeReport, aggregate_of, call, redis_store,
};

/// A step that both stores take.
#[derive(Clone, Debug)]
enum Step {
    /// Sends samples: context, seconds relative to now, nanoseconds.
    Send(Vec<(u8, i64, u64)>),
    /// Sends the last call again.
    Repeat,
    Count(i64, i64),
    Wait(i64),
    Heartbeat(u8, i64),
    /// Sends marks: their seconds relative to now, and the numbers of their versions, 0 for none.
    Mark(Vec<(i64, u8)>),
    Clean,
}

fn step() -> impl Strategy<Value = Step> {
    let second = prop_oneof![
        6 => -5..5i64,
        2 => -4_000..3_600i64,
        // No sample is more than an hour ahead: the records refuse such a sample, but the exported statistics accept it
        // if its hour begins earlier.
        1 => -20_000..3_600i64,
    ];
    let request = (0..8u8, second.clone(), 1_000..90_000_000_000u64);
    let wait = prop_oneof![0..5i64, 0..200i64, 0..9_000i64, Just(90_000), Just(700_000)];
    prop_oneof![
        6 => proptest::collection::vec(request, 1..12).prop_map(Step::Send),
        1 => Just(Step::Repeat),
        1 => (second, -50..1_000i64).prop_map(|(second, n)| Step::Count(second, n)),
        3 => wait.prop_map(Step::Wait),
        1 => (0..3u8, 0..9i64).prop_map(|(instance, n)| Step::Heartbeat(instance, n)),
        2 => proptest::collection::vec((-300..5i64, 0..4u8), 1..60).prop_map(Step::Mark),
        1 => Just(Step::Clean),
    ]
}

/// Two stores whose clocks show the same time.
struct Pair {
    fixtures: [Fixture; 2],
    last: Option<FencedBatch>,
}

impl Pair {
    fn now(&self) -> i64 {
        self.fixtures[0].now()
    }

    async fn step(&mut self, step: &Step) {
        let now = self.now();
        match step {
            Step::Send(requests) => {
                let mut batch = self.fixtures[0].batch(&[]);
                for (context, second, nanos) in requests {
                    let (name, kind): (Arc<str>, _) = match context {
                        0 => (ALL.into(), Kind::All),
                        1 | 2 => (format!("timer {context}").into(), Kind::Timer),
                        // Contexts of two kinds that have one name.
                        6 => ("both".into(), Kind::Http),
                        7 => ("both".into(), Kind::Timer),
                        _ => (format!("GET /{context}").into(), Kind::Http),
                    };
                    let outcome = Outcome::ALL[(nanos % 10) as usize];
                    let aggregate = aggregate_of(&[*nanos, nanos / 3], outcome);
                    batch.add(&name, kind, now + second, &aggregate);
                    let version = [None, Some("1"), Some("2")][(nanos % 3) as usize];
                    batch.add_report(MinuteReport {
                        minute: REPORTED_MINUTES.slice(now + second),
                        instance: version.unwrap_or("none").into(),
                        version: version.map(Arc::from),
                        max_contexts: 3,
                        is_side_by_side: nanos % 2 == 0,
                        contexts: vec![(RecordId::new(kind, &name), aggregate)],
                        machine: (nanos % 2 == 0).then(|| MachineMinute {
                            cpu_millis: Some(*nanos),
                            delay_micros: Some(nanos / 7),
                            ..MachineMinute::default()
                        }),
                    });
                }
                self.send(batch).await;
            }
            Step::Count(second, n) => {
                let mut batch = self.fixtures[0].batch(&[]);
                batch.count(&"sales".into(), now + second, *n);
                self.send(batch).await;
            }
            Step::Repeat => {
                if let Some(call) = &self.last {
                    let [a, b] = self.fixtures.each_ref().map(|of| of.writer.apply(call));
                    assert_eq!(a.await.unwrap(), b.await.unwrap());
                }
            }
            Step::Wait(seconds) => {
                self.fixtures.iter().for_each(|of| of.advance(*seconds));
                // A service cleans each minute. Without cleaning, the exported ranking outlasts the records.
                if *seconds > 60 {
                    self.clean().await;
                }
            }
            Step::Heartbeat(instance, in_flight) => {
                let heartbeat = Heartbeat {
                    in_flight: *in_flight,
                    version: (*instance > 0).then(|| instance.to_string().into()),
                    ..reads::heartbeat(&instance.to_string(), now)
                };
                let mut fleets = Vec::new();
                for fixture in &self.fixtures {
                    let beat = fixture.store.upkeep().heartbeat(&heartbeat).await;
                    fleets.push(beat.unwrap().0);
                }
                assert_eq!(fleets[0], fleets[1]);
            }
            Step::Mark(marks) => {
                let mut batch = self.fixtures[0].batch(&[]);
                for (second, version) in marks {
                    let version = (*version > 0).then(|| version.to_string());
                    let (at, text) = (now + second, version.as_deref().unwrap_or("-"));
                    let id = format!("{at} {text}");
                    let mark = json!({ "id": id, "at": at, "text": text, "version": version });
                    batch
                        .add_mark(serde_json::from_value(mark).unwrap())
                        .unwrap();
                }
                self.send(batch).await;
            }
            Step::Clean => self.clean().await,
        }
    }

    async fn send(&mut self, batch: Batch) {
        let seq = self.last.as_ref().map_or(1, |call| call.seq + 1);
        let call = call("a", seq, batch);
        let [a, b] = self.fixtures.each_ref().map(|of| of.writer.apply(&call));
        // Only exported statistics count late samples, because only they close an hour. The store in memory has no
        // exported statistics, so `late` is not compared.
        let without_late = |outcome| match outcome {
            ApplyOutcome::Merged(merged) => ApplyOutcome::Merged(MergeReport { late: 0, ..merged }),
            other => other,
        };
        assert_eq!(
            without_late(a.await.unwrap()),
            without_late(b.await.unwrap())
        );
        self.last = Some(call);
    }

    async fn clean(&self) {
        let mut counts = Vec::new();
        for fixture in &self.fixtures {
            let cleaned = fixture.store.upkeep().clean(&fixture.pass()).await.unwrap();
            counts.push(cleaned.map(|cleaned| (cleaned.contexts, cleaned.skipped)));
        }
        assert_eq!(counts[0], counts[1]);
        assert!(
            counts[0]
                .as_ref()
                .is_none_or(|(_, skipped)| skipped.is_none())
        );
    }

    async fn compare(&self) {
        let now = self.now();
        let [a, b] = self.fixtures.each_ref().map(|of| &*of.store);
        for at in [now, now + HOUR] {
            let (a, b) = (a.snapshot(at).await.unwrap(), b.snapshot(at).await.unwrap());
            assert_eq!((&a.fleet, &a.problems), (&b.fleet, &b.problems));
            assert_eq!(a.contexts.len(), b.contexts.len());
            for (a, b) in a.contexts.iter().zip(&b.contexts) {
                same_context(a, b);
            }
            same_context(&a.all, &b.all);
        }
        let ranks_a = a.slowest_means().await.unwrap();
        let ranks_b = b.slowest_means().await.unwrap();
        assert_eq!(ranks_a.len(), ranks_b.len());
        for (a, b) in ranks_a.iter().zip(&ranks_b) {
            assert_eq!(a.0, b.0);
            near(a.1, b.1);
        }
        let index_a = a.query().record_index(now).await.unwrap();
        let index_b = b.query().record_index(now).await.unwrap();
        let sorted = |index: &RecordIndex| {
            let mut contexts = index.contexts.clone();
            contexts.sort_unstable();
            contexts
        };
        assert_eq!(sorted(&index_a), sorted(&index_b));
        // In Redis, tables expire by the server's own clock, which hardly moves meanwhile.
        let slices = index_a.revisions.keys().copied();
        let retained = |(seconds, start): &TierSlice| {
            Tiers::default()
                .get(*seconds)
                .is_some_and(|tier| *start > tier.cutoff(now))
        };
        let slices: Vec<_> = slices.filter(retained).collect();
        let records_a = a.query().slice_records(&slices).await.unwrap();
        let records_b = b.query().slice_records(&slices).await.unwrap();
        for (at, (mut a, mut b)) in slices.iter().zip(records_a.into_iter().zip(records_b)) {
            assert!(index_b.revisions.contains_key(at), "{at:?}");
            a.sort_unstable_by_key(|(id, _)| *id);
            b.sort_unstable_by_key(|(id, _)| *id);
            assert_eq!(a, b, "{at:?}");
        }
        let (marks, other) = (marks::list(a), marks::list(b));
        assert_eq!(marks.await.unwrap(), other.await.unwrap());
        let newest = REPORTED_MINUTES.slice(now + HOUR);
        let minutes = (0..).map(|n| newest - 60 * n);
        let retained = minutes.take_while(|minute| *minute > REPORTED_MINUTES.cutoff(now));
        let minutes: Vec<i64> = retained.collect();
        let [reports, other] = [a, b].map(|store| store.query().minute_reports(&minutes));
        assert_eq!(reports.await.unwrap(), other.await.unwrap());
        let [records, other] = [a, b].map(|store| store.query().version_records(&minutes));
        assert_eq!(records.await.unwrap(), other.await.unwrap());
        for context in [ALL, "timer 1", "GET /3", "both"] {
            for precision in [60, 3_600] {
                assert_eq!(
                    a.records_of(context, precision, now).await.unwrap(),
                    b.records_of(context, precision, now).await.unwrap(),
                    "{context} {precision}"
                );
            }
            let (a, b) = (a.context(context, now), b.context(context, now));
            match (a.await.unwrap(), b.await.unwrap()) {
                (Some(a), Some(b)) => same_context(&a, &b),
                (a, b) => assert_eq!(a, b),
            }
        }
    }

    /// Compares the slices of counters that are within their retention. Until it is cleaned, Redis has more: slices
    /// that no new slice has pushed out.
    async fn compare_counters(&self) {
        let now = self.now();
        let [a, b] = self.fixtures.each_ref().map(|of| &*of.store);
        for name in ["hits", "errors", "sales", "hits:GET /3", "micros:timer 1"] {
            for precision in &self.fixtures[0].precisions.counters {
                let seconds = precision.seconds;
                let live = |mut slices: Vec<(i64, i64)>| {
                    slices.retain(|(slice, _)| *slice > precision.cutoff(now));
                    let surplus = slices.len().saturating_sub(precision.retained as usize);
                    slices.split_off(surplus)
                };
                let (a, b) = (a.counter(name, seconds), b.counter(name, seconds));
                let (a, b) = (live(a.await.unwrap()), live(b.await.unwrap()));
                assert_eq!(a, b, "{name} at {seconds} s");
            }
        }
    }
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-12 * a.abs().max(b.abs()), "{a} and {b}");
}

fn same_context(a: &ContextSnapshot, b: &ContextSnapshot) {
    assert_eq!((&a.context, a.kind), (&b.context, b.kind));
    for (a, b) in [(&a.hour, &b.hour), (&a.last_hour, &b.last_hour)] {
        match (a, b) {
            (Some(a), Some(b)) => same_hour(a, b),
            (a, b) => assert_eq!(a, b),
        }
    }
}

fn same_hour(a: &HourSnapshot, b: &HourSnapshot) {
    assert_eq!((a.start, &a.aggregate), (b.start, &b.aggregate));
    let values = |t: &AccessTimeStats| [t.count, t.sum, t.sumsq, t.min, t.max];
    for (a, b) in values(&a.times).into_iter().zip(values(&b.times)) {
        near(a, b);
    }
}

#[test]
fn memory_and_redis_answer_alike() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(RedisServer::start());
    let case = std::cell::Cell::new(0);
    let config = Config {
        cases: 30,
        failure_persistence: None,
        ..Config::default()
    };
    let steps = proptest::collection::vec(step(), 1..25);
    let mut runner = TestRunner::new(config);
    let result = runner.run(&steps, |steps| {
        case.set(case.get() + 1);
        runtime.block_on(async {
            let prefix = format!("case-{}:", case.get());
            let keys = Keys {
                client: server.client(),
                prefix: prefix.clone(),
            };
            let redis = Fixture::over(redis_store(&server.url(), &prefix), keys);
            let mut pair = Pair {
                fixtures: [Fixture::memory(), redis],
                last: None,
            };
            for (number, step) in steps.iter().enumerate() {
                pair.step(step).await;
                if number % 4 == 3 || number + 1 == steps.len() {
                    pair.compare().await;
                }
            }
            pair.compare_counters().await;
        });
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
