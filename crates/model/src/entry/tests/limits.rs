//! The largest calls that a sender makes at the builder's maxima are read, and larger ones are refused.

use super::*;
use crate::batch::MAX_CALL_COST;
use crate::context::MAX_NAME;
use crate::entry::MAX_ENTRY_BYTES;
use crate::ranking::MAX_RANKING_SLICES;
use crate::slice::{MAX_PRECISIONS, MAX_RETAINED};
use crate::tally::{MAX_KINDS, MAX_WINDOW_KEYS};
use crate::tier::FINEST;

const NOW: i64 = 1_700_000_000;

fn plain() -> Batch {
    Batch::new(Precisions::new([60], 120))
}

/// A record with a count of many digits in each bucket, and the most separate timers, codes and kinds.
fn full_record() -> Aggregate {
    let buckets = (0..508).map(|bucket| (bucket, u64::MAX / 600));
    let record = aggregate(&[u64::MAX / 2, 1], buckets.collect(), 1);
    let mut record = timed(record, 17);
    for kind in 0..MAX_KINDS {
        let kind = format!("{kind:0MAX_KIND$}");
        record.kinds.add(kind.into(), u64::MAX / 600);
    }
    record.limit();
    record
}

/// Splits a batch into entries as a sender does, and checks each entry.
fn entries(mut batch: Batch) -> usize {
    let mut entries = 0;
    while !batch.is_empty() {
        let part = batch.split(MAX_CALL_COST);
        let packed = pack(&part);
        assert!(packed.len() <= MAX_ENTRY_BYTES, "{} bytes", packed.len());
        assert!(unpacked(&packed) == Ok(part), "the entry is read back");
        entries += 1;
    }
    entries
}

fn ranking(ids: usize) -> Batch {
    let mut delta = RankingDelta::new(spec(60, 1, 100_000));
    // Removals cost the least, so a call has room for more removals than additions.
    (0..ids).for_each(|id| delta.remove(&format!("{id:0MAX_NAME$}").into()));
    let mut batch = plain();
    batch.add_ranking("ranking".into(), delta);
    batch
}

fn reported(contexts: u64, sums: &Aggregate) -> Batch {
    let mut batch = plain();
    batch.add_report(report(NOW, "a", contexts, sums));
    batch
}

#[test]
fn the_largest_counter_is_read() {
    let precisions = Precisions::new(1..=MAX_PRECISIONS as u32, MAX_RETAINED);
    let mut batch = Batch::new(precisions.clone());
    let slices = precisions.counters.iter().map(|precision| {
        let mut slices = Slices::default();
        let newest = precision.slice(NOW);
        for ago in (0..i64::from(MAX_RETAINED)).rev() {
            let start = newest - ago * i64::from(precision.seconds);
            slices.add(start, i64::MIN, usize::MAX);
        }
        slices
    });
    // A backslash is added before a reserved name of a counter, so this name is longer than all others.
    let name = format!("\\{}", "x".repeat(MAX_NAME));
    batch.counters.insert(name.into(), slices.collect());
    assert_eq!(entries(batch), 1);
}

#[test]
fn the_largest_records_and_reports_are_read() {
    let full = full_record();
    let mut batch = plain();
    for context in 0..3 {
        for ago in 0..i64::from(FINEST.retained) {
            let name = format!("GET /{context}").into();
            batch.add(&name, Kind::Http, NOW - 60 * ago, &full);
        }
    }
    let whole = batch.contexts.len();
    assert!((1..=whole).contains(&entries(batch)));
    assert_eq!(entries(reported(600, &full)), 2, "there are too many bytes");
    assert_eq!(entries(reported(3_300, &Aggregate::default())), 2);
    assert_eq!(entries(ranking(13_000)), 2);
}

#[test]
fn entries_that_no_sender_makes_are_refused() {
    let refused = |batch: &Batch| unpacked(&pack(batch)) == Err(Undecodable);
    let one = aggregate(&[1], vec![(0, 1)], 0);
    let of_names = |names: &[usize]| {
        let mut batch = plain();
        for bytes in names {
            batch.add(&"x".repeat(*bytes).into(), Kind::Http, NOW, &one);
        }
        batch
    };
    assert!(!refused(&of_names(&[MAX_NAME])));
    assert!(refused(&of_names(&[1, MAX_NAME + 2])));

    let mut many = Batch::default();
    for n in 0..700 {
        many.add(&n.to_string().into(), Kind::Http, NOW, &one);
    }
    assert!(refused(&many), "the cost is too high");
    assert!(refused(&ranking(13_000)));
    assert!(refused(&reported(3_300, &Aggregate::default())));

    let with_records = |count: u32, record: &Aggregate| {
        let mut batch = of_names(&[1]);
        let delta = batch.contexts.values_mut().next().expect("a context");
        delta.records[0] = Slices::default();
        for ago in 0..i64::from(count) {
            let start = FINEST.slice(NOW) - 60 * ago;
            delta.records[0].add(start, record.clone(), usize::MAX);
        }
        batch
    };
    let mut many_codes = one.clone();
    (0..=4 * MAX_WINDOW_KEYS).for_each(|code| many_codes.codes.add(code as u16, 1));
    for (count, record, surplus) in [
        (1, timed(one.clone(), 65), "timers"),
        (1, many_codes, "codes"),
        (FINEST.retained + 1, Aggregate::default(), "records"),
    ] {
        assert!(refused(&with_records(count, &record)), "too many {surplus}");
    }

    let mut bytes = pack(&of_names(&[1]));
    bytes.resize(MAX_ENTRY_BYTES + 1, 0);
    assert!(EntryReader::new(&bytes).is_err());
}

#[test]
fn a_ranking_without_length_or_slices_and_slices_out_of_order_are_refused() {
    let is_read = |interval, slices| {
        let delta = RankingDelta::new(spec(interval, slices, 10));
        let mut batch = plain();
        batch.add_ranking("hot".into(), delta);
        unpacked(&pack(&batch)) == Ok(batch)
    };
    assert!(is_read(1, 1));
    assert!(is_read(u32::MAX, MAX_RANKING_SLICES));
    for (interval, slices) in [(0, 1), (1, 0), (0, 0), (1, MAX_RANKING_SLICES + 1)] {
        assert!(!is_read(interval, slices), "{interval} s, {slices} slices");
    }

    let mut batch = plain();
    batch.count(&"c".into(), 120, 1);
    batch.count(&"c".into(), 180, 1);
    let mut packed = pack(&batch);
    assert!(unpacked(&packed).is_ok());
    // A slice is two bytes: its start and its value. The last three bytes say that there are no rankings, no reports
    // and no marks.
    let end = packed.len() - 3;
    packed.swap(end - 4, end - 2);
    assert_eq!(unpacked(&packed), Err(Undecodable));
    packed[end - 4] = packed[end - 2];
    assert_eq!(unpacked(&packed), Err(Undecodable));
}
