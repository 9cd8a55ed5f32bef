//! Tests of packing, of entries and of the values of tables: each form is read back unchanged, and garbage is refused.

mod limits;
mod marks;

use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::aggregate::Aggregate;
use crate::context::Kind;
use crate::failure::{Failure, MAX_KIND};
use crate::histogram::Histogram;
use crate::mark::StoredMark;
use crate::minute_report::MinuteReport;
use crate::outcome::{OUTCOMES as OUTCOME_COUNT, Outcome};
use crate::pack::{
    CENSORED, CODES, FAILURES, OUTCOMES, ROLLED_UNTIL, read_record, record, section,
};
use crate::ranking::RankingDelta;
use crate::slice::{Precision, Precisions};
use crate::slices::Slices;
use crate::slow_request::{LISTED_TIMERS, RequestParts, SlowRequest, SlowRequests, TimerPart};
use crate::tests::{http, list, record_of, spec, timer, timer_sums};

fn unpacked(bytes: &[u8]) -> Result<Batch, Undecodable> {
    let mut reader = EntryReader::new(bytes)?;
    let mut batch = Batch::new(reader.precisions().clone());
    batch.late = reader.late;
    while let Some(item) = reader.next()? {
        match item {
            Item::Context(context, delta) => drop(batch.contexts.insert(context, delta)),
            Item::Counter(name, series) => drop(batch.counters.insert(name, series)),
            Item::Ranking(name, delta) => drop(batch.rankings.insert(name, delta)),
            Item::Report(report) => batch.reports.push(report),
            Item::Mark(mark) => drop(batch.marks.insert(mark.id.clone(), mark)),
        }
    }
    Ok(batch)
}

fn aggregate(nanos: &[u64], buckets: Vec<(u16, u64)>, errors: u64) -> Aggregate {
    let mut aggregate = Aggregate::default();
    nanos.iter().for_each(|n| aggregate.times.record(*n));
    aggregate.outcomes.counts[2] = nanos.len() as u64;
    aggregate.codes.add(200, nanos.len() as u64);
    aggregate.outcomes.errors = errors;
    let part = |number: u16| {
        let part = buckets.iter().filter(|(index, _)| index % 5 == number);
        Histogram::new(4, part.copied())
    };
    aggregate.merge_parts(&part(1), &part(2));
    aggregate.histogram = Histogram::new(4, buckets);
    aggregate
}

#[test]
fn a_batch_of_one_second_omits_the_coarser_precisions() {
    let mut batch = Batch::default();
    for n in 0..200 {
        let name = format!("GET /some/route/{n:03}").into();
        let one = aggregate(&[1_234_567, 2_345_678], vec![(170, 1), (190, 1)], 0);
        batch.add(&name, Kind::Http, 1_700_000_000, &one);
    }
    let packed = pack(&batch);
    assert!(packed.len() < 200 * 80, "{} bytes", packed.len());
}

#[test]
fn sections_and_outcomes_of_a_newer_version_are_skipped() {
    let one = record_of(aggregate(&[5], vec![(0, 1)], 1));
    let mut out = Writer(record(&one));
    out.section(99, |out| out.uint(7));
    assert_eq!(read_record(&out.0), Some(one.clone()));
    let mut out = Writer(Vec::new());
    out.section(OUTCOMES, |out| {
        out.outcomes(&one.sums.outcomes);
        out.uint(OUTCOME_COUNT as u64 + 3);
        out.uint(9);
    });
    let read = read_record(&out.0).expect("it is a record");
    assert_eq!(read.sums.outcomes, one.sums.outcomes);
    assert_eq!(read_record(b""), None);
    assert_eq!(read_record(b"garbage"), None);
}

#[test]
fn a_record_has_only_the_sections_that_it_needs() {
    let sections = |buckets, rolled_until: Option<i64>| {
        let mut one = record_of(aggregate(&[5], buckets, 0));
        one.rolled_until = rolled_until.unwrap_or(one.rolled_until);
        let packed = record(&one);
        [FAILURES, CENSORED, ROLLED_UNTIL].map(|tag| section(&packed, tag).is_some())
    };
    assert_eq!(sections(vec![(0, 1)], None), [false; 3]);
    assert_eq!(sections(vec![(0, 1), (1, 1)], None), [true, false, false]);
    assert_eq!(sections(vec![(0, 1), (2, 1)], None), [false, true, false]);
    assert_eq!(sections(vec![(0, 1)], Some(60)), [false, false, true]);
}

#[test]
fn codes_have_a_section_unless_all_requests_succeeded_with_200() {
    let mut one = aggregate(&[5, 6], vec![(0, 2)], 0);
    let mut has_codes = |code, n| {
        one.codes.add(code, n);
        section(&record(&record_of(one.clone())), CODES).is_some()
    };
    assert!(!has_codes(200, 0) && has_codes(200, 1) && has_codes(204, 1));
    one.codes = Default::default();
    assert_eq!(
        section(&record(&record_of(one.clone())), CODES),
        Some(&[0][..])
    );
    one.outcomes = Default::default();
    assert_eq!(section(&record(&record_of(one)), CODES), None);
}

#[test]
fn a_record_with_a_kind_that_is_too_long_or_more_than_1024_buckets_is_refused() {
    let with_kind = |bytes: usize| {
        let mut sums = aggregate(&[5], vec![(0, 1)], 0);
        sums.kinds.add("k".repeat(bytes).into(), 1);
        record_of(sums)
    };
    let with_buckets = |buckets: u16| {
        let buckets = (0..buckets).map(|index| (index, 1));
        record_of(aggregate(&[5], buckets.collect(), 0))
    };
    for (largest, larger) in [
        (with_kind(MAX_KIND), with_kind(MAX_KIND + 1)),
        (with_buckets(1_024), with_buckets(1_025)),
    ] {
        assert_eq!(read_record(&record(&larger)), None);
        assert_eq!(read_record(&record(&largest)), Some(largest));
    }
}

fn report(minute: i64, instance: &str, count: u64, parts: &Aggregate) -> MinuteReport {
    let contexts = (0..count).map(|number| (http(number), parts.clone()));
    MinuteReport {
        instance: instance.into(),
        version: count.is_multiple_of(2).then(|| "1.4.2".into()),
        max_contexts: count as usize,
        is_side_by_side: count > 2,
        ..crate::tests::report(minute, contexts.collect())
    }
}

#[test]
fn an_entry_with_a_wrong_version_count_or_precision_is_refused() {
    let mut packed = pack(&Batch::default());
    assert!(unpacked(&packed).is_ok());
    assert_eq!(packed[0], ENTRY_VERSION);
    for version in [0, ENTRY_VERSION + 1] {
        packed[0] = version;
        assert_eq!(unpacked(&packed), Err(Undecodable), "version {version}");
    }
    let empty = pack(&Batch::new(Precisions { counters: vec![] }));
    // The last five numbers count the contexts, counters, rankings, reports and marks.
    let (head, _) = empty.split_at(empty.len() - 5);
    for at in 0..5 {
        let mut out = Writer(head.to_vec());
        let mut numbers = [0; 5];
        numbers[at] = u64::MAX;
        numbers.iter().for_each(|n| out.uint(*n));
        assert_eq!(unpacked(&out.0), Err(Undecodable), "count {at}");
    }
    for (seconds, retained) in [(0, 5), (5, 0)] {
        let counters = vec![Precision::new(seconds, retained)];
        let packed = pack(&Batch::new(Precisions { counters }));
        assert_eq!(unpacked(&packed), Err(Undecodable), "{seconds} s");
    }
}

fn timed(mut aggregate: Aggregate, timers: u64) -> Aggregate {
    for number in 0..timers {
        let sums = timer_sums(2 * number, number, number << 40, 1);
        aggregate.timers.add(timer(number), &sums);
        aggregate.timers.covered += number;
        aggregate.codes.add(400 + number as u16, number);
        let kind = timer(number).to_string();
        aggregate.kinds.add(kind.into(), number);
    }
    aggregate
}

/// The parts of a request with this number of timers, each as large as it can be.
fn parts(timers: usize) -> RequestParts {
    let part = TimerPart {
        timer: timer(7),
        count: u64::MAX,
        covered: u64::MAX,
    };
    RequestParts {
        queue: Some(u64::MAX),
        computing: Some(u64::MAX),
        longest_poll: u64::MAX,
        timed: u64::MAX,
        timers: vec![part; timers],
    }
}

#[test]
fn the_parts_of_a_request_have_a_limit() {
    let packed = crate::pack::pack(&parts(LISTED_TIMERS));
    assert_eq!(packed.len(), 267);
    for (timers, is_read) in [(LISTED_TIMERS, true), (LISTED_TIMERS + 1, false)] {
        let request = SlowRequest {
            parts: parts(timers),
            ..slow(1, 1)
        };
        let packed = list(Kind::Http, &[request]).pack();
        let read = SlowRequests::unpack(&packed, Kind::Http);
        assert_eq!(read.is_some(), is_read, "{timers} timers");
    }
}

fn slow(nanos: u64, number: u64) -> SlowRequest {
    let text = (number > 0).then(|| number.to_string().into());
    SlowRequest {
        ended: -1_700_000_000_123,
        outcome: Outcome::ALL[number as usize],
        is_error: number == 2,
        status: (number > 0).then_some(500),
        trace_id: text.clone(),
        path: text,
        parts: parts(number as usize),
        failure: (number > 0).then(|| Failure::new(number.to_string()).with_message(nanos)),
        ..crate::tests::slow(nanos)
    }
}

fn batches() -> impl Strategy<Value = Batch> {
    let precisions = btree_map(1u32..100_000, 1u32..200, 1..5);
    let buckets = vec((0..508u16, 1..u64::MAX / 600), 0..20);
    let (seconds, nanos) = (-5_000i64..1_700_009_000, 0..u64::MAX / 8);
    let samples = vec((0..4u8, seconds, nanos, buckets, 0..3u64), 0..30);
    (precisions, samples, 0..9u64).prop_map(|(counters, samples, late)| {
        let counters = counters.into_iter();
        let counters = counters.map(|(seconds, retained)| Precision::new(seconds, retained));
        let counters = counters.collect();
        let mut batch = Batch::new(Precisions { counters });
        for (name, second, nanos, buckets, errors) in samples {
            let kind = [Kind::Timer, Kind::Http, Kind::All][usize::from(name % 3)];
            let one = aggregate(&[nanos, nanos / 3], buckets, errors);
            let name: Arc<str> = format!("n{name}").into();
            batch.add(&name, kind, second, &timed(one, errors));
            batch.count(&format!("c{name}").into(), second, second - 7);
            let slowest = list(kind, &[slow(nanos, errors)]);
            batch.add_slowest(ContextId::new(kind, name.clone()), second, slowest);
            let empty = || RankingDelta::new(spec(60, 24, 5));
            let ranking = batch.rankings.or_insert_with(name.clone(), empty);
            ranking.add(&name, second, 5 - errors as i64);
            ranking.dropped += errors;
            if errors == 1 {
                ranking.remove(&name);
                let mark = marks::mark_of(&format!("{name}-{second}"), second, nanos);
                batch.add_mark(mark).expect("there is room");
            }
            let parts = batch.contexts.values().next().into_iter();
            let parts = parts.flat_map(|delta| delta.records[0].iter());
            if let Some((_, parts)) = parts.last() {
                let report = report(second, &name, errors, parts);
                batch.reports.push(report);
            }
        }
        batch.late += late;
        batch
    })
}

proptest! {
    #[test]
    fn an_entry_is_read_back(batch in batches()) {
        let packed = pack(&batch);
        prop_assert_eq!(unpacked(&packed), Ok(batch));
    }

    #[test]
    fn a_record_is_read_back(nanos in vec(any::<u64>(), 0..9), buckets in vec((0..508u16, 1..u64::MAX / 600), 0..600), outcomes in any::<[u64; OUTCOME_COUNT]>(), errors in any::<u64>(), rolled_until in any::<i64>()) {
        let mut one = record_of(aggregate(&nanos, buckets, errors));
        one.sums.outcomes.counts = outcomes;
        one.rolled_until = rolled_until;
        one.sums = timed(one.sums, errors % 20);
        prop_assert_eq!(read_record(&record(&one)), Some(one));
    }

    #[test]
    fn garbage_is_refused_or_read_but_never_panics(mut bytes in vec(any::<u8>(), 0..300), batch in batches(), at in any::<prop::sample::Index>()) {
        let _ = read_record(&bytes);
        let _ = StoredMark::unpack(b"id", &bytes);
        if let Some(first) = bytes.first_mut() {
            *first = ENTRY_VERSION;
        }
        let _ = unpacked(&bytes);
        let mut packed = pack(&batch);
        let at = at.index(packed.len());
        packed[at] ^= bytes.last().copied().unwrap_or(1);
        let _ = unpacked(&packed);
        packed.truncate(at);
        let _ = unpacked(&packed);
    }
}
