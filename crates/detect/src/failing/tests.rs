use super::*;
use crate::change::ChangeKind::{Failing, Refusing};
use crate::history::History;
use crate::tests::{assert_close, repeated};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::histogram::{Histogram, SCALE};

/// Minutes with these numbers of requests and errors, from minute 0 on.
fn history(minutes: impl IntoIterator<Item = (u64, u64)>) -> History {
    let mut history = History::default();
    for (tick, (requests, errors)) in (0..).zip(minutes) {
        let mut sums = Aggregate::default();
        (sums.times.count, sums.outcomes.errors) = (requests, errors);
        history.push(tick, &sums);
    }
    history
}

const USUAL: (usize, (u64, u64)) = (50, (100, 1));

/// The finding at the end of the last minute. Each part is a number of minutes with these requests and errors.
fn found(parts: &[(usize, (u64, u64))]) -> Option<Increase> {
    let minutes = repeated(parts);
    let now = minutes.len() as Tick - 1;
    search(Failing, &history(minutes).minutes, now, 0, &[])
}

fn share(errors: f64, requests: f64) -> Share {
    Share { errors, requests }
}

#[test]
fn a_deviance_is_the_g_statistic_of_a_two_by_two_table() {
    let (a, b) = (share(10.0, 100.0), share(10.0, 1_000.0));
    // Twice the sum of `observed * ln(observed / expected)` over the four fields.
    let common = 20.0 / 1_100.0;
    let fields = [
        (10.0, 100.0 * common),
        (90.0, 100.0 * (1.0 - common)),
        (10.0, 1_000.0 * common),
        (990.0, 1_000.0 * (1.0 - common)),
    ];
    let fields = fields.iter();
    let fields = fields.map(|(seen, expected): &(f64, f64)| seen * (seen / expected).ln());
    let expected = 2.0 * fields.sum::<f64>();
    assert_close(deviance(a, b), expected, 1e-9);
    for errors in [0.0, 10.0] {
        let same = deviance(share(errors, 100.0), share(10.0 * errors, 1_000.0));
        assert_close(same, 0.0, 1e-9);
    }
}

#[test]
fn an_increase_begins_with_the_first_failures() {
    let increase = found(&[USUAL, (5, (100, 30))]).expect("thirty times as many");
    assert_eq!(increase.since, 50);
    assert_close(increase.then, 0.01, 1e-12);
    // The past ends 20 minutes before the last minute, and has 35 minutes, each with one error.
    let (now, past) = (share(150.0, 500.0), share(35.0, 3_500.0));
    let smoothed = 35.5 / 3_501.0;
    let of_minute = (1.0f64 - 100.0 * smoothed).powi(2) / (100.0 * smoothed * (1.0 - smoothed));
    let dispersion = (USUAL_MINUTES * USUAL_DISPERSION + 35.0 * of_minute) / (USUAL_MINUTES + 35.0);
    let strength = (deviance(now, past) / dispersion.max(1.0)).sqrt();
    assert_close(increase.strength, strength, 1e-9);
}

#[test]
fn errors_in_clusters_are_weaker_evidence() {
    // One error a minute on average, but only every tenth minute has errors.
    let clusters = [[(1, (100, 10)), (9, (100, 0))]; 5].concat();
    let now = (5, (100, 30));
    let increase = found(&[&clusters[..], &[now]].concat()).expect("it is large");
    let even = found(&[USUAL, now]).expect("it is large").strength;
    assert!(increase.strength < 0.5 * even, "{increase:?} {even}");
    // The past has 35 minutes, four of which have errors.
    let past = share(40.0, 3_500.0);
    let smoothed: f64 = 40.5 / 3_501.0;
    let squares = |errors: f64| {
        let expected = 100.0 * smoothed;
        (errors - expected).powi(2) / (expected * (1.0 - smoothed))
    };
    let dispersion = (13.0 + 4.0 * squares(10.0) + 31.0 * squares(0.0)) / 45.0;
    let strength = (deviance(share(150.0, 500.0), past) / dispersion).sqrt();
    assert_close(increase.strength, strength, 1e-9);
}

#[test]
fn an_increase_is_at_least_a_hundredth_and_a_doubling() {
    let many = |then, now| found(&[(50, (10_000, then)), (5, (10_000, now))]).is_some();
    assert!(many(10, 120) && !many(10, 90), "from a thousandth");
    assert!(many(500, 1_010) && !many(500, 900), "from a twentieth");
}

#[test]
fn an_increase_of_refused_requests_is_at_least_a_twentieth() {
    let found = |then: u64, now: u64| {
        let refused = repeated(&[(50, then), (5, now)]);
        let mut history = History::default();
        for (tick, refused) in (0..).zip(refused) {
            let mut sums = Aggregate::default();
            (sums.times.count, sums.outcomes.errors) = (10_000, 10);
            // Errors are failures, too.
            sums.failures = Histogram::new(SCALE, [(100, refused + 10)]);
            history.push(tick, &sums);
        }
        assert_eq!(search(Failing, &history.minutes, 54, 0, &[]), None);
        search(Refusing, &history.minutes_for(Refusing), 54, 0, &[])
    };
    assert_eq!(found(100, 590), None);
    let increase = found(100, 610).expect("it is large");
    assert_eq!((increase.since, increase.then), (50, 0.01));
}

#[test]
fn a_few_minutes_with_errors_are_no_increase() {
    assert!(found(&[USUAL, (3, (100, 30))]).is_some());
    for (parts, why) in [
        (&[USUAL, (2, (100, 30))][..], "only two minutes"),
        (&[USUAL, (5, (100, 30)), (3, (100, 0))], "it is over"),
        (&[USUAL, (2, (100, 60)), (3, (100, 1))], "two bad minutes"),
        (&[(10, (100, 1)), (5, (100, 30))], "the past is short"),
        (&[(50, (0, 0)), (5, (100, 30))], "the past has no requests"),
        (&[USUAL, (5, (100, 30)), (1, (0, 0))], "the last has none"),
    ] {
        assert_eq!(found(parts), None, "{why}");
    }
}

#[test]
fn minutes_of_alarms_are_not_part_of_a_past() {
    let found_without = |excluded: &[(Tick, Tick)]| {
        let history = history(repeated(&[(20, (100, 30)), (30, (100, 1)), (5, (100, 30))]));
        search(Failing, &history.minutes, 54, 0, excluded)
    };
    assert_eq!(found_without(&[]), None, "the past fails too");
    let increase = found_without(&[(0, 19)]).expect("the other minutes are the past");
    assert_close(increase.then, 0.01, 1e-12);
}

#[test]
fn an_increase_is_over_when_less_than_45_percent_of_it_is_left() {
    let over = |errors: u64| {
        let history = history(repeated(&[(2, (100, 50)), (3, (100, errors))]));
        is_over(&history.minutes, 4, 0.1, 0.5)
    };
    assert!(over(10) && over(27) && !over(28 + 1) && !over(50));
    // For a page with few requests, earlier minutes are needed too.
    let few = history((0..12).map(|minute| (2, u64::from(minute < 9))));
    assert!(!is_over(&few.minutes, 11, 0.0, 0.5));
}
