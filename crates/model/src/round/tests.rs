use super::*;
use crate::batch::Batch;
use crate::context::{ALL, Kind};
use crate::minute_report::MinuteReport;
use crate::slice::{HOUR, SKEW_ALLOWED, hour_of};
use crate::tests::{contexts, get, history, http, requests};
use crate::tier::{DAY, TIERS};

const NOW: i64 = 1_700_000_000;

fn minutes() -> Precisions {
    Precisions::new([60], 120)
}

fn batch(precisions: Precisions, seconds: &[i64]) -> Batch {
    let mut batch = Batch::new(precisions);
    for second in seconds {
        batch.add(&get().name, Kind::Http, *second, &requests(1, 1_000));
        batch.count(&"sales".into(), *second, 1);
    }
    batch
}

fn add(round: &mut Round, batch: &Batch, appended_at: i64) {
    let packed = crate::entry::pack(batch);
    let mut entry = EntryReader::new(&packed).expect("an entry");
    let mut add_part = || round.add_part(&mut entry, appended_at, 9);
    while add_part().expect("an entry") {}
}

fn empty(appended_at: i64) -> Round {
    Round {
        newest_at: appended_at,
        ..Round::default()
    }
}

/// Instances of all versions must agree, because one instance may finish a round that another began.
#[test]
fn partitions_never_change() {
    assert_eq!(partition("GET /users/{id}"), 224);
    assert_eq!(partition(ALL), 128);
    assert_eq!(PARTITION_OF_MARKS, 0);
    assert_eq!(partition_of_record(http("GET /")), 60);
}

#[test]
fn samples_of_the_future_are_refused_and_counted() {
    let mut round = empty(NOW);
    let (allowed, refused) = (NOW + SKEW_ALLOWED, NOW + SKEW_ALLOWED + HOUR);
    // A batch holds the statistics of at most two hours (`MAX_HOURS`), so each batch has two of the three times.
    let batches = [[NOW, allowed], [NOW, refused], [allowed, refused]];
    for (late, seconds) in batches.iter().enumerate() {
        let mut batch = batch(minutes(), seconds);
        batch.late = late as u64;
        add(&mut round, &batch, NOW);
    }
    assert_eq!(round.groups.len(), 1);
    let group = &round.groups[0];
    let accepted = &group.contexts[&get()];
    assert_eq!((accepted.skewed, accepted.delta.requests()), (2, 4));
    // The time of the last sample is at most the time of the append.
    assert_eq!(accepted.delta.last_seen, NOW);
    let sales: Vec<_> = group.counters["sales"][0].iter().collect();
    let slice = |second| minutes().counters[0].slice(second);
    assert_eq!(sales, [(slice(NOW), &2), (slice(allowed), &2)]);
    assert_eq!(round.late, 3);
}

#[test]
fn records_and_statistics_accept_the_same_samples() {
    let latest = hour_of(NOW + SKEW_ALLOWED) + HOUR;
    for (second, is_accepted) in [(latest - 60, true), (latest - 1, true), (latest, false)] {
        let mut round = empty(NOW);
        add(&mut round, &batch(minutes(), &[second]), NOW);
        let accepted = &round.groups[0].contexts[&get()];
        let counted = (accepted.skewed, accepted.delta.requests());
        assert_eq!(counted, if is_accepted { (0, 1) } else { (1, 0) });
        assert_eq!(accepted.delta.served(), counted.1, "{second}");
    }
}

#[test]
fn reports_are_merged_and_those_that_are_not_retained_are_dropped() {
    let report = |minute, counts: &[(u64, u64)]| MinuteReport {
        version: Some("1".into()),
        max_contexts: counts.len(),
        is_side_by_side: counts.len() > 1,
        ..crate::tests::report(minute, contexts(counts))
    };
    let newest = FINEST.slice(NOW);
    let oldest = FINEST.slice(FINEST.cutoff(NOW)) + 60;
    let mut round = empty(NOW);
    let mut expected = Map::default();
    for (minute, counts, is_retained) in [
        (newest, &[(3, 3), (1, 1)][..], true),
        (oldest - 60, &[(9, 9)], false),
        (oldest, &[(9, 9)], true),
        (newest, &[(5, 5)], true),
        (newest + SKEW_ALLOWED, &[(9, 9)], true),
        (newest + SKEW_ALLOWED + 60, &[(9, 9)], false),
    ] {
        let report = report(minute, counts);
        let mut batch = Batch::default();
        batch.add_report(report.clone());
        add(&mut round, &batch, NOW);
        if is_retained {
            let sums = expected.or_insert_with(minute, MinuteSums::default);
            sums.add(report);
        }
    }
    assert_eq!(round.reports, expected);
}

#[test]
fn each_configuration_of_precisions_has_a_group() {
    let hours = Precisions::new([3_600], 120);
    let mut round = Round::default();
    add(&mut round, &batch(minutes(), &[NOW]), NOW);
    add(&mut round, &batch(hours.clone(), &[NOW]), NOW - 7);
    add(&mut round, &batch(minutes(), &[NOW]), NOW - 3);
    let groups = round.groups.iter();
    let requests = groups.map(|g| (&g.precisions, g.contexts[&get()].delta.requests()));
    assert!(requests.eq([(&minutes(), 2), (&hours, 1)]));
    assert_eq!(round.newest_at, NOW);
}

#[test]
fn records_that_are_already_coarse_are_added_to_the_coarser_tiers() {
    let newest = FINEST.slice(NOW);
    let seconds: Vec<_> = (0..=130).rev().map(|ago| newest - 60 * ago).collect();
    let batch = batch(minutes(), &seconds);
    let rolled = RolledUp::default();
    let records = records(&batch.contexts[&get()], Tiers::default(), &rolled, NOW);
    let coarse = records.filter(|((width, _), _)| *width != FINEST.seconds);
    let coarse: Vec<_> = coarse.map(|(slice, _)| slice).collect();
    let expected = [TIERS[1], TIERS[2]].map(|tier| (tier.seconds, tier.slice(seconds[0])));
    assert_eq!(coarse, expected);
}

#[test]
fn records_are_added_to_the_tiers_that_they_belong_to() {
    let oldest = FINEST.slice(NOW) - 60 * 129;
    let batch = batch(minutes(), &[NOW, oldest, oldest - 60]);
    let delta = &batch.contexts[&get()];
    let days_kept = history(20, 0, 0);
    let history = Some(days_kept);
    let with_days = Tiers { history };
    let slices_in = |tiers, rolled: &RolledUp, now| -> Vec<TierSlice> {
        let records = records(delta, tiers, rolled, now);
        records.map(|(slice, _)| slice).collect()
    };
    let slices = |rolled: &RolledUp, now| slices_in(Tiers::default(), rolled, now);
    let mut rolled = RolledUp::default();
    let newest = FINEST.slice(NOW);
    assert_eq!(slices_in(with_days, &rolled, NOW), slices(&rolled, NOW));
    assert_eq!(slices(&rolled, NOW), [(60, oldest), (60, newest)]);
    // At the start of the newest minute, `oldest - 60` is exactly at the cutoff, and so already too old.
    assert_eq!(slices(&rolled, newest), [(60, oldest), (60, newest)]);
    rolled.advance(NOW + HOUR);
    rolled.finish();
    // The slices have been rolled up, and the finest tier does not retain the two older ones.
    let wider = |start| TIERS.map(|tier| (tier.seconds, tier.slice(start)));
    let mut expected = wider(oldest - 60)[1..].to_vec();
    expected.extend_from_slice(&wider(oldest)[1..]);
    expected.extend(wider(newest));
    assert_eq!(slices(&rolled, NOW + HOUR), expected);
    let days = slices_in(with_days, &rolled, NOW + HOUR);
    let (days, others): (Vec<_>, Vec<_>) = days.into_iter().partition(|at| at.0 == DAY);
    let day = |time| (DAY, days_kept.tier().slice(time));
    assert_eq!(others, expected);
    assert_eq!(days, [day(oldest - 60), day(oldest), day(newest)]);
}
