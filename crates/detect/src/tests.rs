//! The detector on small services that are simulated from a seed.

use std::sync::Arc;

use super::change::ChangeKind;
use super::detector::{Detector, DetectorState, InstanceMinute, Minute, RECALLED_MINUTES, Verdict};
use super::minute::all_id;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{Kind, UNMATCHED};
use tower_pulse_model::histogram::{BUCKETS, Histogram, bucket_of};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slices::Merge;

mod every_verdict;
pub(crate) mod frozen;
mod further;
mod takeover;

const START: i64 = 1_800_000_000;

#[derive(Clone, Copy)]
struct Load {
    requests: u64,
    /// The median time, in seconds.
    median: f64,
    error_share: f64,
    /// The share of the successes that become 4xx.
    refused_share: f64,
}

const USUAL: Load = Load {
    requests: 120,
    median: 0.05,
    error_share: 0.0,
    refused_share: 0.0,
};

pub(crate) fn repeated<T: Clone>(parts: &[(usize, T)]) -> Vec<T> {
    let parts = parts.iter();
    parts
        .flat_map(|(length, value)| vec![value.clone(); *length])
        .collect()
}

#[track_caller]
pub(crate) fn assert_close(value: f64, expected: f64, tolerance: f64) {
    let is_close = (value - expected).abs() <= tolerance;
    assert!(is_close, "{value} instead of {expected}");
}

/// An approximately normal number: the sum of twelve uniform ones.
pub(crate) fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

/// The sums of requests, each with its nanoseconds and whether it failed.
pub(crate) fn sums_of(requests: impl IntoIterator<Item = (u64, bool)>) -> Aggregate {
    let mut sums = Aggregate::default();
    let mut counts = [vec![0u32; BUCKETS], vec![0u32; BUCKETS]];
    for (nanos, failed) in requests {
        let outcome = match failed {
            true => Outcome::ServerError,
            false => Outcome::Success,
        };
        sums.times.record(nanos);
        sums.outcomes.record(outcome, failed);
        counts[0][bucket_of(nanos)] += 1;
        counts[1][bucket_of(nanos)] += u32::from(failed);
    }
    let [all, failures] = counts.map(|counts| Histogram::from_counts(0, &counts));
    (sums.histogram, sums.failures) = (all, failures);
    sums
}

/// Turns `count` successes into 4xx, fast and slow ones evenly.
pub(crate) fn refuse(sums: &mut Aggregate, count: u64) {
    let counts = &mut sums.outcomes.counts;
    counts[Outcome::Success as usize] -= count;
    counts[Outcome::ClientError as usize] += count;
    let (successes, mut passed) = (sums.successes(), 0);
    let refused = successes.buckets().iter().map(|(bucket, n)| {
        let until = |passed: u64| passed * count / successes.count();
        let before = until(passed);
        passed += n;
        (*bucket, until(passed) - before)
    });
    let refused = Histogram::new(successes.scale(), refused);
    sums.failures.merge(&refused);
}

fn requests(random: &mut fastrand::Rng, load: Load) -> Aggregate {
    let jitter = 0.9 + 0.2 * random.f64();
    let count = (load.requests as f64 * jitter) as u64;
    let mut sums = sums_of((0..count).map(|_| {
        let failed = random.f64() < load.error_share;
        let nanos = (load.median * (0.5 * normal(random)).exp() * 1e9) as u64;
        (nanos, failed)
    }));
    let successes = sums.outcomes.count(Outcome::Success) as f64;
    refuse(&mut sums, (successes * load.refused_share) as u64);
    sums
}

fn page(number: usize) -> RecordId {
    RecordId::new(Kind::Http, &format!("GET /{number}"))
}

/// Judges `minutes` of a service of `pages` pages. `load` has the load of each page in each minute.
fn watch(
    pages: usize,
    minutes: i64,
    load: impl Fn(usize, i64) -> Option<Load>,
) -> Vec<Vec<Verdict>> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut detector = Detector::default();
    let verdicts = (0..minutes).map(|minute| {
        let sums = (0..pages).filter_map(|number| {
            Some((page(number), requests(&mut random, load(number, minute)?)))
        });
        judge(&mut detector, minute, sums)
    });
    verdicts.collect()
}

fn judge(
    detector: &mut Detector,
    minute: i64,
    sums: impl Iterator<Item = (RecordId, Aggregate)>,
) -> Vec<Verdict> {
    let sums: Vec<_> = sums.collect();
    detector.judge(&Minute {
        start: START + 60 * minute,
        contexts: sums.iter().map(|(id, sums)| (*id, sums)).collect(),
        instances: Vec::new(),
    })
}

pub(crate) fn only(verdicts: &[Verdict]) -> &Verdict {
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    &verdicts[0]
}

/// The first minute at whose end a verdict is ongoing, and the verdict. Panics if any verdict has another kind or
/// context.
fn first(verdicts: &[Vec<Verdict>], id: RecordId, kind: ChangeKind) -> (usize, &Verdict) {
    assert_no_other(verdicts, id, kind);
    let minute = verdicts.iter().position(|verdicts| !verdicts.is_empty());
    let minute = minute.expect("there is a verdict");
    (minute, only(&verdicts[minute]))
}

fn assert_no_other(verdicts: &[Vec<Verdict>], id: RecordId, kind: ChangeKind) {
    for verdict in verdicts.iter().flatten() {
        assert_eq!((verdict.context, verdict.kind), (id, kind), "{verdict:?}");
    }
}

/// The usual requests. If `is_slow`, they take `factor` times as long.
fn slow_if(is_slow: bool, factor: f64) -> Load {
    let factor = if is_slow { factor } else { 1.0 };
    Load {
        median: USUAL.median * factor,
        ..USUAL
    }
}

/// A service whose page 0 takes `factor` times as long in `from..to`.
fn slow_from(from: i64, to: i64, factor: f64) -> impl Fn(usize, i64) -> Option<Load> {
    move |number, minute| {
        let is_slow = number == 0 && (from..to).contains(&minute);
        Some(slow_if(is_slow, factor))
    }
}

#[test]
fn a_page_that_is_slower_is_named_with_its_start_and_ratio_until_it_is_fast_again() {
    let verdicts = watch(10, 130, slow_from(90, 110, 1.5));
    let (minute, verdict) = first(&verdicts, page(0), ChangeKind::Slower);
    assert!((92..=95).contains(&minute), "detected in minute {minute}");
    assert_eq!(verdict.since, START + 60 * 90);
    assert_eq!(verdict.detected, START + 60 * (minute as i64 + 1));
    assert!((verdict.ratio / 1.5 - 1.0).abs() < 0.1, "{verdict:?}");
    assert_eq!(verdict.ratio, verdict.now / verdict.then);
    assert!(verdict.confidence > 0.999_999);
    assert!(verdict.requests >= 200);
    assert!(verdicts[109].len() == 1 && verdicts[116].is_empty());
}

#[test]
fn a_page_that_is_slower_or_faster_is_named_also_in_a_small_or_young_service() {
    use ChangeKind::{Faster, Slower};
    let small = (1..=5).map(|pages| (pages, 90, 1.5, Slower, 97));
    let cases = small.chain([(10, 32, 2.0, Slower, 42), (10, 90, 0.5, Faster, 97)]);
    for (pages, from, factor, kind, latest) in cases {
        let verdicts = watch(pages, from + 20, slow_from(from, from + 20, factor));
        let (minute, verdict) = first(&verdicts, page(0), kind);
        assert!(minute <= latest, "{pages} pages: in minute {minute}");
        assert!((verdict.ratio / factor - 1.0).abs() < 0.2, "{verdict:?}");
    }
}

#[test]
fn slow_minutes_of_all_pages_are_not_a_change_of_a_page() {
    let verdicts = watch(10, 130, |_, minute| {
        let is_slow = matches!(minute, 70 | 90..=93 | 110);
        Some(slow_if(is_slow, 2.5))
    });
    assert_eq!(verdicts.concat(), []);
}

#[test]
fn all_pages_that_stay_slower_are_one_change() {
    let verdicts = watch(10, 130, |_, minute| {
        Some(slow_if((90..115).contains(&minute), 1.6))
    });
    let (minute, verdict) = first(&verdicts, all_id(), ChangeKind::Slower);
    assert!(minute <= 100, "detected in minute {minute}");
    assert!((verdict.ratio / 1.6 - 1.0).abs() < 0.1, "{verdict:?}");
    assert_eq!(verdict.since, START + 60 * 90);
    assert!(verdicts[120].is_empty());
}

#[test]
fn the_ratio_of_a_mixture_is_at_most_the_ratio_of_the_slowed_requests() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut detector = Detector::default();
    let mut last = Vec::new();
    for minute in 0..110 {
        let sums = (0..10).map(|number| {
            let mut half = |is_slow| {
                let mut load = slow_if(is_slow, 2.0);
                load.requests = 300;
                requests(&mut random, load)
            };
            let mut sums = half(false);
            sums.merge(&half(number == 0 && minute >= 90));
            (page(number), sums)
        });
        last = judge(&mut detector, minute, sums);
    }
    let verdict = only(&last);
    assert!((1.3..=1.7).contains(&verdict.ratio), "{verdict:?}");
}

#[test]
fn errors_surges_and_silence_are_named() {
    let (mut failing, mut refusing, mut surging) = (USUAL, USUAL, USUAL);
    failing.error_share = 0.2;
    refusing.refused_share = 0.2;
    surging.requests = 500;
    let cases = [
        (ChangeKind::Failing, Some(failing)),
        (ChangeKind::Refusing, Some(refusing)),
        (ChangeKind::Surging, Some(surging)),
        (ChangeKind::Silent, None),
    ];
    for (kind, change) in cases {
        let verdicts = watch(10, 110, |number, minute| {
            let is_changed = number == 0 && minute >= 90;
            if is_changed { change } else { Some(USUAL) }
        });
        let (minute, verdict) = first(&verdicts, page(0), kind);
        assert!(minute <= 95, "{kind} detected in minute {minute}");
        assert_eq!(verdict.since, START + 60 * 90, "{kind}");
    }
}

#[test]
fn paths_without_a_route_are_never_named_as_refusing() {
    let (mut random, mut detector) = (fastrand::Rng::with_seed(7), Detector::default());
    let unmatched = RecordId::new(Kind::Http, UNMATCHED);
    let mut refusing = Vec::new();
    for minute in 0..100 {
        let sums = [unmatched, page(1)].map(|id| {
            let mut load = USUAL;
            load.refused_share = if minute < 90 { 0.1 } else { 0.6 };
            (id, requests(&mut random, load))
        });
        let verdicts = judge(&mut detector, minute, sums.into_iter());
        let verdicts = verdicts
            .iter()
            .filter(|verdict| verdict.kind == ChangeKind::Refusing);
        refusing.extend(verdicts.map(|verdict| verdict.context));
    }
    refusing.dedup();
    assert_eq!(refusing, [page(1)]);
}

#[test]
fn minutes_without_any_request_are_a_gap_and_not_a_silence() {
    let verdicts = watch(10, 130, |_, minute| {
        (!(90..100).contains(&minute)).then_some(USUAL)
    });
    assert_eq!(verdicts.concat(), []);
}

#[test]
fn a_page_that_is_slower_after_a_gap_than_before_it_is_found() {
    let gap = 90..110;
    let slow = slow_from(110, 150, 1.5);
    let verdicts = watch(10, 150, |number, minute| {
        slow(number, minute).filter(|_| !gap.contains(&minute))
    });
    let (minute, verdict) = first(&verdicts, page(0), ChangeKind::Slower);
    assert!((112..=116).contains(&minute), "detected in minute {minute}");
    assert_eq!(verdict.since, START + 60 * 110);
    assert!((verdict.ratio / 1.5 - 1.0).abs() < 0.15, "{verdict:?}");
}

#[test]
fn an_alarm_outlasts_a_gap_even_if_its_page_returns_last() {
    let gap = 100..130;
    let slow = slow_from(90, 140, 2.0);
    let verdicts = watch(10, 140, |number, minute| {
        let is_away = gap.contains(&minute) || number == 0 && minute == 130;
        slow(number, minute).filter(|_| !is_away)
    });
    for minute in (95..100).chain(130..140) {
        let mut about = verdicts[minute]
            .iter()
            .map(|verdict| (verdict.context, verdict.kind));
        let is_ongoing = about.any(|subject| subject == (page(0), ChangeKind::Slower));
        assert!(is_ongoing, "minute {minute}: {:?}", verdicts[minute]);
    }
}

#[test]
fn if_all_pages_but_one_stop_there_is_at_most_one_silence() {
    let verdicts = watch(10, 110, |number, minute| {
        (number == 0 || minute < 90).then_some(USUAL)
    });
    assert_no_other(&verdicts, all_id(), ChangeKind::Silent);
}

/// Minutes drawn from a seed, with events of many kinds.
fn eventful(seed: u64, minutes: i64) -> Vec<Vec<(RecordId, Aggregate)>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let changes: [_; 9] = std::array::from_fn(|number| {
        let from = random.i64(20..minutes);
        (number, random.usize(0..6), from, from + random.i64(1..60))
    });
    let minute = |minute: i64, random: &mut fastrand::Rng| {
        if random.f64() < 0.03 {
            return Vec::new();
        }
        let host = if random.f64() < 0.05 { 2.0 } else { 1.0 };
        let mut pages = Vec::new();
        for (number, change, from, to) in &changes {
            let mut load = Load {
                requests: 20 + 15 * *number as u64,
                median: 0.01 * host,
                error_share: 0.01,
                refused_share: 0.02,
            };
            match ((*from..*to).contains(&minute), change) {
                // In the second half, a further slowdown.
                (true, 0) if minute > (from + to) / 2 => load.median *= 6.0,
                (true, 0) => load.median *= 2.0,
                (true, 1) => load.median *= 0.5,
                (true, 2) => load.requests *= 5,
                (true, 3) => load.error_share = 0.4,
                (true, 4) => load.refused_share = 0.4,
                (true, _) => continue,
                _ => {}
            }
            pages.push((page(*number), requests(random, load)));
        }
        pages
    };
    let minutes = (0..minutes).map(|number| minute(number, &mut random));
    minutes.collect()
}

fn with_instances(start: i64, pages: &[(RecordId, Aggregate)]) -> Minute<'_> {
    let contexts: Vec<_> = pages.iter().map(|(id, sums)| (*id, sums)).collect();
    let instances = [("x", 0), ("y", 1)].map(|(name, skipped)| InstanceMinute {
        instance: Arc::from(name),
        contexts: contexts.iter().skip(skipped).copied().collect(),
    });
    Minute {
        start,
        contexts,
        instances: instances.into(),
    }
}

pub(crate) fn stored(state: &DetectorState) -> DetectorState {
    let parts = state.parts();
    let parts = parts.iter().rev();
    DetectorState::from_parts(parts.map(|(name, part)| (&**name, &**part)))
}
