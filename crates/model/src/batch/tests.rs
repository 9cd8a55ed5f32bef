mod amounts;
mod marks;
mod reports;

use proptest::array::uniform3;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::context::ALL;
use crate::histogram::COARSE_SCALE;
use crate::outcome::Outcome;
use crate::slice::HOUR;
use crate::tally::MAX_KINDS;
use crate::tests::{get, http, list, lone_run, merged_in_any_order, report, requests, slow, timer};
use crate::tier::TIERS;
use crate::timer_sums::MAX_TIMERS;

const NOW: i64 = 1_700_000_000;

fn collected(nanos: u64, is_error: bool) -> Aggregate {
    let mut aggregate = requests(1, nanos);
    aggregate.outcomes.record(Outcome::Success, is_error);
    aggregate.codes.add(200, 1);
    aggregate
}

fn add_request(batch: &mut Batch, second: i64) {
    batch.add(&get().name, Kind::Http, second, &collected(1_000, false));
}

type Sample = (u8, i64, u64, bool);

fn batch_of(samples: &[Sample]) -> Batch {
    let mut batch = Batch::default();
    for (name, second, nanos, error) in samples {
        let context: Arc<str> = format!("GET /{name}").into();
        let aggregate = collected(*nanos, *error);
        batch.add(&context, Kind::Http, *second, &aggregate);
        batch.count(&"sales".into(), *second, 2);
        let contexts = vec![(http(&context), aggregate)];
        batch.add_report(report(second - second % 60, contexts));
    }
    batch
}

#[test]
fn slow_requests_are_listed_by_hour() {
    let mut batch = Batch::default();
    for (second, nanos) in [(HOUR, 5), (HOUR + 1, 9), (2 * HOUR, 7)] {
        batch.add_slowest(get(), second, list(Kind::Http, &[slow(nanos)]));
    }
    let delta = &batch.contexts[&get()];
    assert_eq!(delta.last_seen, 2 * HOUR);
    let nanos = |list: &SlowRequests| list.iter().map(|slow| slow.nanos).collect::<Vec<_>>();
    let listed = delta.slowest.iter().map(|(hour, list)| (hour, nanos(list)));
    assert!(listed.eq([(HOUR, vec![9, 5]), (2 * HOUR, vec![7])]));
}

fn samples(seconds: std::ops::Range<i64>) -> impl Strategy<Value = Vec<Sample>> {
    let nanos = (0..4_000_000u64).prop_map(|micros| micros * 1_000);
    vec((0..3u8, seconds, nanos, any::<bool>()), 0..60)
}

/// Splits a batch into parts of this cost, and checks that the merged parts equal the batch.
fn parts_of(whole: &Batch, cost: usize) -> Vec<Batch> {
    let (mut left, mut merged, mut parts) = (whole.clone(), Batch::default(), Vec::new());
    while !left.is_empty() {
        let part = left.split(cost);
        assert!(!part.is_empty() && parts.len() < 10_000);
        merged.merge(part.clone());
        parts.push(part);
    }
    assert_eq!(&merged, whole);
    parts
}

/// An aggregate with this many timers and kinds of errors, but without their requests.
fn lone_timers(names: usize) -> Aggregate {
    let mut aggregate = Aggregate::default();
    for number in 0..names {
        let run = lone_run(1_000 + number as u64);
        aggregate.timers.add(timer(number), &run);
        aggregate.kinds.add(number.to_string().into(), 1);
    }
    aggregate
}

#[test]
fn lone_timers_are_only_in_records_and_the_surplus_is_merged() {
    let mut batch = Batch::default();
    for timers in [10, 20, 30] {
        batch.add(&get().name, Kind::Http, NOW, &lone_timers(timers));
    }
    let delta = &batch.contexts[&get()];
    assert!(delta.counters.iter().all(Slices::is_empty) && delta.hours.is_empty());
    assert_eq!((batch.requests(), batch.is_empty()), (0, false));
    let (_, record) = delta.records[0].iter().next().expect("there is one");
    assert_eq!(record.timers.len(), MAX_TIMERS + 1);
    let count: u64 = record.timers.iter().map(|(_, sums)| sums.count).sum();
    assert_eq!(count, 10 + 20 + 30);
    let kinds = &record.kinds;
    assert_eq!((kinds.iter().len(), kinds.total()), (MAX_KINDS, count));
}

#[test]
fn an_outage_retains_only_slices_that_can_be_read() {
    let mut batch = Batch::default();
    for second in 0..5 * HOUR {
        add_request(&mut batch, hour_of(NOW) + second);
    }
    let delta = &batch.contexts[&get()];
    assert!(delta.counters.iter().all(|slices| slices.len() <= 120));
    assert_eq!(delta.counters[0].len(), 120);
    assert_eq!(delta.records.each_ref().map(Slices::len), [130, 6, 0]);
    let coarse = delta.records.each_ref().map(|slices| {
        let scales = slices.iter().map(|(_, sums)| sums.histogram.scale());
        scales.filter(|scale| *scale == COARSE_SCALE).count()
    });
    assert_eq!(coarse, [128, 6, 0]);
    let recorded = delta.records.iter().flat_map(Slices::iter);
    let recorded: u64 = recorded.map(|(_, sums)| sums.times.count).sum();
    assert_eq!(recorded, 5 * HOUR as u64);
    assert_eq!(batch.requests() + batch.late, 5 * HOUR as u64);
    assert_eq!(batch.late, 3 * HOUR as u64);
    // A slice that covers the whole outage has all samples.
    let day: u64 = delta.counters[6].iter().map(|(_, h)| h.hits).sum();
    assert_eq!(day, 5 * HOUR as u64);
}

#[test]
fn a_sample_too_old_for_the_finest_tier_is_coarse() {
    let precisions = Precisions::default();
    let mut delta = ContextDelta::new(&precisions);
    for minute in (0..=i64::from(TIERS[0].retained)).rev() {
        delta.add(&precisions, 60 * minute, &collected(1_000, false));
    }
    assert_eq!(delta.records.each_ref().map(Slices::len), [130, 1, 0]);
    let scales = delta.records[1].iter().map(|(_, s)| s.histogram.scale());
    assert!(scales.eq([COARSE_SCALE]));
}

#[test]
fn an_added_aggregate_is_rounded_to_microseconds() {
    let precisions = Precisions::new([60], 120);
    for (nanos, micros) in [(499, 0), (500, 1), (2_345_499, 2_345), (2_345_500, 2_346)] {
        let mut delta = ContextDelta::new(&precisions);
        delta.add(&precisions, 0, &collected(nanos, false));
        let counted = delta.counters[0].get(0).expect("it is counted");
        assert_eq!(counted.micros, micros);
    }
}

#[test]
fn requests_that_a_merge_drops_count_as_late_once() {
    let hours = |hours: std::ops::Range<i64>| {
        let mut batch = Batch::default();
        for hour in hours {
            for (context, kind) in [("GET /", Kind::Http), (ALL, Kind::All)] {
                batch.add(&context.into(), kind, HOUR * hour, &requests(2, 1_000));
            }
        }
        batch
    };
    let mut batch = hours(1..3);
    assert_eq!((batch.requests(), batch.late), (4, 0));
    batch.merge(hours(3..4));
    assert_eq!((batch.requests(), batch.late), (4, 2));
    batch.merge(hours(4..6));
    assert_eq!((batch.requests(), batch.late), (4, 6));
    // Either context is enough to count the requests.
    assert_eq!(batch.requests_and_late(), 10);
    for context in [get(), ContextId::all()] {
        let mut part = batch.clone();
        part.contexts.remove(&context);
        assert_eq!(part.requests_and_late(), 10, "without {context:?}");
    }
}

#[test]
fn a_part_has_at_most_the_requested_cost() {
    let mut batch = Batch::new(Precisions::new([60], 120));
    for name in ["a", "b", "c", "d"] {
        batch.add(&name.into(), Kind::Http, 0, &requests(1, 1_000));
        batch.count(&name.into(), 0, 1);
    }
    let cost = batch.contexts[&ContextId::new(Kind::Http, "a")].cost();
    let lens = |part: &Batch| (part.contexts.len(), part.counters.len());
    assert_eq!(lens(&batch.split(2 * cost)), (2, 0));
    assert_eq!(lens(&batch.split(cost)), (1, 0));
    assert_eq!(lens(&batch.split(cost + 1)), (1, 1));
    assert_eq!(lens(&batch.split(2)), (0, 2));
    assert_eq!(lens(&batch.split(0)), (0, 1), "at least one");
    assert!(batch.is_empty());
}

#[test]
fn slices_after_the_latest_moment_are_dropped_and_counted() {
    let (precisions, start) = (Precisions::new([1, 60], 120), hour_of(NOW));
    let mut delta = ContextDelta::new(&precisions);
    for second in [0, 1, 60, HOUR, HOUR] {
        delta.add(&precisions, start + second, &collected(1_000, false));
    }
    let before = delta.clone();
    assert_eq!(delta.drop_future(start + HOUR), 0);
    assert_eq!(delta, before);
    assert_eq!(delta.drop_future(start + HOUR - 1), 2);
    assert_eq!(delta.requests(), 3);
    let lens: Vec<_> = delta.counters.iter().map(Slices::len).collect();
    assert_eq!((lens, delta.records[0].len()), (vec![3, 2], 2));
}

#[test]
fn a_batch_is_made_smaller_without_losing_a_count() {
    let mut whole = Batch::default();
    for minute in 0..3_000 {
        for micros in [1, 40, 1_000, 30_000, 900_000] {
            let aggregate = collected(1_000 * (micros + minute as u64), false);
            let second = hour_of(NOW) + 60 * minute;
            whole.add(&get().name, Kind::Http, second, &aggregate);
        }
    }
    let count = |batch: &Batch| -> u64 {
        let sums = batch.contexts[&get()].records.iter().flat_map(Slices::iter);
        sums.map(|(_, sums)| sums.histogram.count()).sum()
    };
    let lens = |batch: &Batch| batch.contexts[&get()].records.each_ref().map(Slices::len);
    let all = whole.record_bytes();
    let compacted = |bytes: usize| {
        let mut batch = whole.clone();
        batch.compact(bytes);
        assert_eq!(count(&batch), 15_000);
        (lens(&batch), batch.record_bytes() < bytes)
    };
    assert_eq!(compacted(all + 1), ([130, 96, 0], true));
    // The batch takes exactly the permitted bytes, so nothing is compacted.
    assert_eq!(compacted(all), ([130, 96, 0], false));
    assert_eq!(compacted(all - 1), ([2, 98, 1], true));
    assert_eq!(compacted(all / 4), ([2, 2, 9], true));
    // The batch has reached its smallest size.
    assert_eq!(compacted(1), ([2, 2, 9], false));
    let mut least = whole.clone();
    least.compact(1);
    let scales = least.contexts[&get()].records.each_ref();
    let scales = scales.map(|slices| slices.iter().map(|(_, sums)| sums.histogram.scale()).max());
    assert_eq!(scales, [Some(4), Some(0), Some(0)]);
}

proptest! {
    #[test]
    fn merging_is_associative_and_commutative(parts in uniform3(samples(0..400))) {
        let all = batch_of(&parts.concat());
        let merged = merged_in_any_order(parts.map(|part| batch_of(&part)), |a, b| a.merge(b.clone()));
        prop_assert_eq!(merged, all);
    }

    #[test]
    fn splitting_and_merging_again_changes_nothing(samples in samples(0..20_000), cost in 1..400usize) {
        let mut whole = batch_of(&samples);
        // Each part has `since`, because any part may have the oldest sample.
        whole.since = (!samples.is_empty()).then_some(7);
        prop_assert!(parts_of(&whole, cost).iter().all(|part| part.since == whole.since));
    }
}
