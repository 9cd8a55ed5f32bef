use super::*;
use crate::tests::assert_close;

/// The sums of one side in a minute: successes whose times have this mean logarithm and standard deviation.
fn timed(n: f64, log: f64, deviation: f64) -> Moments {
    Moments {
        requests: n,
        successes: n,
        logs: n * log,
        squares: n * (log * log + deviation * deviation),
        ..Moments::default()
    }
}

fn failing(requests: f64, errors: f64) -> Moments {
    Moments {
        requests,
        errors,
        ..Moments::default()
    }
}

fn minutes_of(minutes: impl IntoIterator<Item = (Moments, Moments)>) -> Vec<Sides> {
    let minutes = (0..).zip(minutes);
    let minutes = minutes.map(|(at, (own, others))| (at, own, others));
    minutes.collect()
}

fn compared(measure: Measure, minutes: impl IntoIterator<Item = (Moments, Moments)>) -> Difference {
    compare(&minutes_of(minutes), measure, 0, 3).expect("enough minutes")
}

#[test]
fn times_are_compared_by_their_logarithms() {
    let minute = (timed(40.0, 0.5, 0.3), timed(120.0, 0.1, 0.3));
    let difference = compared(Measure::Time, [minute; 4]);
    assert_close(difference.effect, 0.4, 1e-9);
    assert_close(difference.own, 0.5, 1e-9);
    assert_close(difference.others, 0.1, 1e-9);
    // Four minutes of 160 requests. Each minute loses two degrees of freedom, for its two means.
    let variance: f64 = 4.0 * 160.0 * 0.09 / (4.0 * 158.0);
    let weights = 4.0 * 40.0 * 120.0 / 160.0;
    assert_close(difference.z, 0.4 / (variance / weights).sqrt(), 1e-9);
}

#[test]
fn shares_of_errors_are_compared() {
    let minute = (failing(100.0, 30.0), failing(300.0, 3.0));
    let difference = compared(Measure::Errors, [minute; 3]);
    assert_close(difference.effect, 0.29, 1e-9);
    let variance: f64 = 3.0 * (100.0 * 0.3 * 0.7 + 300.0 * 0.01 * 0.99) / (3.0 * 398.0);
    assert_close(difference.z, 0.29 / (variance / (3.0 * 75.0)).sqrt(), 1e-9);
    let none = (failing(100.0, 0.0), failing(300.0, 0.0));
    let difference = compared(Measure::Errors, [none; 3]);
    assert_eq!((difference.effect, difference.z), (0.0, 0.0));
}

#[test]
fn minutes_that_vary_are_weaker_evidence() {
    let others = timed(100.0, 0.0, 0.3);
    let [even, uneven] = [[0.4; 4], [0.9, -0.1, 0.9, -0.1]].map(|logs| {
        let minutes = logs.map(|log| (timed(100.0, log, 0.3), others));
        compared(Measure::Time, minutes)
    });
    assert_close(even.effect, uneven.effect, 1e-9);
    // The sum of the weighted squares, 4 * 50 * 0.25, divided by 3 degrees of freedom and by the variance of a request.
    let dispersion: f64 = 50.0 / 3.0 / (0.09 * 800.0 / 792.0);
    assert_close(even.z / uneven.z, dispersion.sqrt(), 1e-9);
}

#[test]
fn few_minutes_or_requests_are_not_compared() {
    let minute = (timed(40.0, 0.5, 0.3), timed(120.0, 0.1, 0.3));
    let compared = |minutes: &[(Moments, Moments)], from| {
        let sides = minutes_of(minutes.iter().copied());
        compare(&sides, Measure::Time, from, 3).is_some()
    };
    assert!(compared(&[minute; 3], 0) && !compared(&[minute; 2], 0));
    assert!(compared(&[minute; 5], 2) && !compared(&[minute; 5], 3));
    let (few, many) = (timed(9.0, 0.5, 0.3), timed(10.0, 0.5, 0.3));
    assert!(!compared(&[(few, minute.1); 3], 0) && !compared(&[(minute.0, few); 3], 0));
    assert!(compared(&[(many, minute.1); 3], 0) && compared(&[(minute.0, many); 3], 0));
    // Minutes count only if both sides have requests.
    let none = Moments::default();
    assert!(!compared(&[minute, (minute.0, none), (none, minute.1)], 0));
}

#[test]
fn an_instance_is_out_of_line_since_its_difference_began() {
    let others = timed(100.0, 0.0, 0.3);
    let own = [0.1, -0.1, 0.0, 0.5, 0.3, 0.4].map(|log| (timed(50.0, log, 0.3), others));
    let mut sides = minutes_of(own);
    assert_eq!(turning_point(&sides, Measure::Time, 0.4), 3);
    // Minutes in which a side has no requests are ignored.
    sides[3].2 = Moments::default();
    sides[2].1 = Moments::default();
    assert_eq!(turning_point(&sides, Measure::Time, 0.4), 4);
    // A minute with few requests does not outweigh its neighbours.
    sides[3] = (3, timed(1.0, 0.0, 0.0), others);
    sides[2] = (2, timed(100.0, 0.4, 0.3), others);
    assert_eq!(turning_point(&sides, Measure::Time, 0.4), 2);
    // Minutes are weighted by requests: three small minutes against one large one.
    let small = (timed(10.0, 0.0, 0.3), timed(10.0, 0.0, 0.3));
    let large = (timed(100.0, 0.25, 0.3), timed(100.0, 0.0, 0.3));
    let last = (timed(100.0, 0.4, 0.3), timed(100.0, 0.0, 0.3));
    let minutes = minutes_of([large, small, small, small, last]);
    assert_eq!(turning_point(&minutes, Measure::Time, 0.4), 4);
}
