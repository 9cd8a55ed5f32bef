use super::*;
use crate::tests::{assert_close, repeated};
use tower_pulse_model::aggregate::Aggregate;

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

/// The finding at the end of the last minute.
fn found(minutes: Vec<(u64, u64)>) -> Option<Increase> {
    search(
        &history(minutes.iter().copied()),
        minutes.len() as Tick - 1,
        0,
        &[],
    )
}

#[test]
fn a_deviance_is_that_of_a_table_of_four_fields() {
    let share = |errors: f64, requests: f64| Share { errors, requests };
    let (a, b) = (share(10.0, 100.0), share(10.0, 1_000.0));
    // Twice the sum over the four fields: the observed count times the logarithm of observed by expected.
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
    assert_close(
        deviance(share(10.0, 100.0), share(100.0, 1_000.0)),
        0.0,
        1e-9,
    );
    assert_close(deviance(share(0.0, 100.0), share(0.0, 1_000.0)), 0.0, 1e-9);
}

#[test]
fn failures_are_found_since_they_began() {
    let increase =
        found(repeated(&[(50, (100, 1)), (5, (100, 30))])).expect("thirty times as many");
    assert_eq!(increase.since, 50);
    assert_close(increase.then, 0.01, 1e-12);
    // The past ends 20 minutes before the last minute. It has 35 minutes, each with one error.
    let share = |errors: f64, requests: f64| Share { errors, requests };
    let (now, past) = (share(150.0, 500.0), share(35.0, 3_500.0));
    let smoothed = 35.5 / 3_501.0;
    let of_minute = (1.0f64 - 100.0 * smoothed).powi(2) / (100.0 * smoothed * (1.0 - smoothed));
    let dispersion = (USUAL_MINUTES * USUAL_DISPERSION + 35.0 * of_minute) / (USUAL_MINUTES + 35.0);
    let strength = (deviance(now, past) / dispersion.max(1.0)).sqrt();
    assert_close(increase.strength, strength, 1e-9);
}

#[test]
fn errors_that_come_in_clusters_say_less() {
    // One error a minute on average, but only every tenth minute has errors.
    let clusters = (0..50).map(|minute| (100, if minute % 10 == 0 { 10 } else { 0 }));
    let clusters = clusters.chain([(100, 30); 5]).collect();
    let increase = found(clusters).expect("it is large");
    let even = found(repeated(&[(50, (100, 1)), (5, (100, 30))])).expect("it is large");
    assert!(
        increase.strength < 0.5 * even.strength,
        "{increase:?} {even:?}"
    );
    // The past has 35 minutes, four of which have errors.
    let share = |errors: f64, requests: f64| Share { errors, requests };
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
fn an_increase_is_of_a_hundredth_and_of_twice_as_many_at_least() {
    let many = |then, now| found(repeated(&[(50, (10_000, then)), (5, (10_000, now))])).is_some();
    assert!(many(10, 120) && !many(10, 90), "from a thousandth");
    assert!(many(500, 1_010) && !many(500, 900), "from a twentieth");
}

#[test]
fn a_few_minutes_with_errors_are_no_increase() {
    let of = |parts: &[(usize, (u64, u64))]| found(repeated(parts)).is_some();
    let usual = (50, (100, 1));
    assert!(!of(&[usual, (2, (100, 30))]) && of(&[usual, (3, (100, 30))]));
    assert!(!of(&[usual, (5, (100, 30)), (3, (100, 0))]), "it is over");
    assert!(!of(&[usual, (2, (100, 60)), (3, (100, 1))]), "two were bad");
    assert!(!of(&[(10, (100, 1)), (5, (100, 30))]), "the past is short");
    assert!(
        !of(&[(50, (0, 0)), (5, (100, 30))]),
        "the past has no requests"
    );
    assert!(
        !of(&[usual, (5, (100, 30)), (1, (0, 0))]),
        "the last minute has no requests"
    );
}

#[test]
fn times_of_alarms_are_no_past() {
    let of = |excluded: &[(Tick, Tick)]| {
        let history = history(repeated(&[(20, (100, 30)), (30, (100, 1)), (5, (100, 30))]));
        search(&history, 54, 0, excluded)
    };
    assert_eq!(of(&[]), None, "half of the past failed");
    let increase = of(&[(0, 19)]).expect("the rest is the past");
    assert_close(increase.then, 0.01, 1e-12);
}

#[test]
fn an_increase_is_over_when_less_than_half_of_it_is_left() {
    let over = |errors: u64| {
        let history = history([
            (100, 50),
            (100, 50),
            (100, errors),
            (100, errors),
            (100, errors),
        ]);
        is_over(&history, 4, 0.1, 0.5)
    };
    assert!(over(10) && over(27) && !over(28 + 1) && !over(50));
    // For a page with few requests, earlier minutes are needed too.
    let few = history((0..12).map(|minute| (2, u64::from(minute < 9))));
    assert!(!is_over(&few, 11, 0.0, 0.5));
}
