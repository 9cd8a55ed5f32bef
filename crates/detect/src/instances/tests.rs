use super::*;
use crate::change::ChangeKind;
use crate::log::tests::slower;
use crate::minute::all_id;
use crate::tests::{only, sums_of};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::Kind;

const PAGES: [&str; 5] = ["GET /a", "GET /b", "GET /c", "GET /d", "GET /e"];
const START: i64 = 1_700_000_040;

/// A fleet whose instances have times around 100 ms, which vary together from minute to minute.
struct Fleet {
    random: fastrand::Rng,
    instances: Vec<Arc<str>>,
    detector: InstanceDetector,
    minute: i64,
    past: Vec<(i64, Vec<Report>)>,
}

type Report = (Arc<str>, Vec<(RecordId, Aggregate)>);

fn borrowed(reports: &[Report]) -> Vec<InstanceMinute<'_>> {
    let reports = reports.iter();
    let minute = reports.map(|(instance, contexts)| InstanceMinute {
        instance: instance.clone(),
        contexts: contexts.iter().map(|(id, sums)| (*id, sums)).collect(),
    });
    minute.collect()
}

/// The fault of an instance on a page: the factor by which it is slower, and its share of errors.
type Fault<'a> = &'a dyn Fn(&str, &str) -> (f64, f64);

impl Fleet {
    fn new(instances: usize, seed: u64) -> Self {
        eprintln!("seed {seed}");
        let names = (1..=instances).map(|n| format!("web-{n}").into());
        Self {
            random: fastrand::Rng::with_seed(seed),
            instances: names.collect(),
            detector: InstanceDetector::default(),
            minute: START,
            past: Vec::new(),
        }
    }

    fn aggregate(&mut self, level: f64, slowness: f64, errors: f64) -> Aggregate {
        let count = self.random.u64(20..40);
        sums_of((0..count).map(|_| {
            let tail = if self.random.f64() < 0.1 { 4.0 } else { 1.0 };
            let seconds = 0.1 * level * slowness * tail * (0.5 + self.random.f64());
            ((seconds * 1e9) as u64, self.random.f64() < errors)
        }))
    }

    fn pass(&mut self, minutes: usize, fault: Fault<'_>) -> Vec<Vec<Verdict>> {
        let verdicts = (0..minutes).map(|_| {
            let level = (0.3 * (self.random.f64() - 0.5)).exp();
            let mut reports = Vec::new();
            for instance in self.instances.clone() {
                let contexts = PAGES.map(|page| {
                    let (slowness, errors) = fault(&instance, page);
                    (http(page), self.aggregate(level, slowness, errors))
                });
                reports.push((instance, contexts.into()));
            }
            self.minute += 60;
            let verdicts = self.detector.judge(self.minute, &borrowed(&reports));
            self.past.push((self.minute, reports));
            verdicts
        });
        verdicts.collect()
    }
}

fn http(page: &str) -> RecordId {
    RecordId::new(Kind::Http, page)
}

fn fine(_: &str, _: &str) -> (f64, f64) {
    (1.0, 0.01)
}

/// An instance is slower by a factor on the pages whose names end with `end`.
fn slow<'a>(instance: &'a str, end: &'a str, factor: f64) -> impl Fn(&str, &str) -> (f64, f64) {
    move |name, page| {
        let is_slow = name == instance && page.ends_with(end);
        (if is_slow { factor } else { 1.0 }, 0.01)
    }
}

/// Whether the figures of a verdict are seconds per request. The dashboard finds their unit in the same way.
fn is_of_time(verdict: &Verdict) -> bool {
    let mean = verdict.cost.taken * f64::from(verdict.minutes) / verdict.requests as f64;
    (mean / verdict.now - 1.0).abs() <= 1e-6
}

#[test]
fn a_fleet_in_line_has_no_verdict() {
    for seed in 0..6 {
        for instances in [1, 2, 3, 4, 8] {
            let verdicts = Fleet::new(instances, seed).pass(120, &fine);
            assert!(verdicts.iter().all(Vec::is_empty), "{verdicts:?}");
        }
    }
}

#[test]
fn an_instance_that_is_slow_on_one_page_is_named_until_it_recovers() {
    for (seed, instances) in (0..10).flat_map(|seed| [(seed, 2), (seed, 4)]) {
        let mut fleet = Fleet::new(instances, seed);
        assert!(fleet.pass(40, &fine).iter().all(Vec::is_empty));
        let began = fleet.minute + 60;
        let verdicts = fleet.pass(12, &slow("web-2", "GET /c", 2.0));
        let verdict = only(&verdicts[11]);
        assert_eq!(verdict.instance.as_deref(), Some("web-2"));
        assert_eq!(verdict.context, http("GET /c"));
        assert!((verdict.since - began).abs() <= 120, "{verdict:?}");
        assert!((verdict.ratio / 2.0 - 1.0).abs() < 0.15, "{verdict:?}");
        assert!(is_of_time(verdict), "{verdict:?}");
        let unnamed = verdicts
            .iter()
            .take_while(|verdicts| verdicts.is_empty())
            .count();
        assert!(unnamed <= 9, "named after {unnamed} minutes");
        let after = fleet.pass(15, &fine);
        assert_eq!(after.last(), Some(&Vec::new()));
    }
}

#[test]
fn an_instance_that_is_slow_on_all_pages_gets_one_verdict() {
    for seed in 0..10 {
        let mut fleet = Fleet::new(4, seed);
        fleet.pass(40, &fine);
        let verdicts = fleet.pass(12, &slow("web-3", "", 2.5));
        for of_minute in verdicts.iter().filter(|verdicts| !verdicts.is_empty()) {
            let verdict = only(of_minute);
            assert_eq!(verdict.context, all_id());
            assert_eq!(verdict.instance.as_deref(), Some("web-3"));
        }
        let first = verdicts.iter().position(|verdicts| !verdicts.is_empty());
        assert_eq!(first, Some(2), "it is named after three minutes");
        let last = only(&verdicts[11]);
        assert!((last.ratio / 2.5 - 1.0).abs() < 0.1, "{}", last.ratio);
        assert!(is_of_time(last), "{last:?}");
        let slower = |context: RecordId, mean_now: f64| Verdict {
            context,
            kind: ChangeKind::Slower,
            instance: None,
            since: last.since,
            detected: fleet.minute - 600,
            mean_then: 0.13,
            mean_now,
            ..last.clone()
        };
        for context in [http("GET /a"), all_id()] {
            assert!(fleet.detector.explains(&slower(context, 0.13 * 1.375)));
            assert!(!fleet.detector.explains(&slower(context, 0.13 * 3.0)));
        }
    }
}

/// Two instances that are equally fast have different means if only one of them has a slow page.
#[test]
fn a_page_that_only_one_instance_has_explains_nothing() {
    let mut fleet = Fleet::new(2, 1);
    let reports = [
        ("web-1", "GET /a", 1.0),
        ("web-2", "GET /a", 1.0),
        ("web-1", "GET /report", 100.0),
    ]
    .map(|(instance, page, level)| {
        let sums = fleet.aggregate(level, 1.0, 0.0);
        (instance.into(), vec![(http(page), sums)])
    });
    let mut detector = InstanceDetector::new(InstanceState {
        on_many: vec![("web-1".into(), tick(START))],
        ..InstanceState::default()
    });
    detector.recall(START, &borrowed(&reports));
    let (_, mut all_slower) = slower("GET /a", START);
    (all_slower.context, all_slower.since) = (all_id(), START);
    assert!(!detector.explains(&all_slower));
}

#[test]
fn a_slow_half_of_a_fleet_has_no_verdict() {
    for seed in 0..10 {
        let mut fleet = Fleet::new(4, seed);
        fleet.pass(40, &fine);
        let slow = |instance: &str, _: &str| match instance {
            "web-1" | "web-2" => (2.0, 0.01),
            _ => (1.0, 0.01),
        };
        let verdicts = fleet.pass(20, &slow);
        assert!(verdicts.iter().all(Vec::is_empty), "{verdicts:?}");
    }
}

#[test]
fn an_instance_that_fails_is_named_with_its_share() {
    for seed in 0..10 {
        let mut fleet = Fleet::new(4, seed);
        fleet.pass(40, &fine);
        let failing = |instance: &str, page: &str| match (instance, page) {
            ("web-4", "GET /b") => (1.0, 0.3),
            _ => (1.0, 0.01),
        };
        let verdicts = fleet.pass(12, &failing);
        let verdict = only(&verdicts[11]);
        assert_eq!(verdict.instance.as_deref(), Some("web-4"));
        assert!((0.2..0.4).contains(&verdict.now), "{}", verdict.now);
        assert!(!is_of_time(verdict), "{verdict:?}");
    }
}

#[test]
fn another_detector_goes_on_with_the_same_verdicts() {
    let slow = |instance: &str, page: &str| match (instance, page) {
        ("web-2", "GET /c") | ("web-3", _) => (2.0, 0.01),
        _ => (1.0, 0.01),
    };
    for seed in 0..4 {
        let mut fleet = Fleet::new(4, seed);
        fleet.pass(40, &fine);
        let before = fleet.pass(8, &slow);
        assert!(before.iter().any(|verdicts| !verdicts.is_empty()));
        let mut other = InstanceDetector::new(fleet.detector.state.clone());
        assert_eq!(fleet.past.len(), 48);
        for (start, reports) in &fleet.past[10..] {
            other.recall(*start, &borrowed(reports));
        }
        let judged = fleet.past.len();
        let mut verdicts = fleet.pass(6, &slow);
        verdicts.extend(fleet.pass(20, &fine));
        for (minute, expected) in fleet.past[judged..].iter().zip(&verdicts) {
            assert_eq!(other.judge(minute.0, &borrowed(&minute.1)), *expected);
        }
        assert!(!verdicts[5].is_empty() && verdicts[25].is_empty());
    }
}

pub(crate) fn frozen_state(instance: &str, context: RecordId) -> InstanceState {
    InstanceState {
        ongoing: vec![OutOfLine {
            instance: instance.into(),
            context,
            measure: Measure::Errors,
            since: 28_333_330,
            detected: 28_333_334,
            effect: 693_147,
            strength: 800,
        }],
        on_many: vec![(instance.into(), 28_333_335)],
    }
}
