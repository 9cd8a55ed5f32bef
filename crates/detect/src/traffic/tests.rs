use super::*;
use crate::state::SharedMinute;
use crate::tests::repeated;

/// The traffic of a page whose first forty minutes are its past, from minute 0 on.
fn traffic(counts: &[f64], rate: f64, dispersion: f64) -> Traffic {
    Traffic {
        counts: (0..).zip(counts.iter().copied()).collect(),
        past: 40,
        rate,
        dispersion,
    }
}

fn silent(parts: &[(usize, f64)], rate: f64, dispersion: f64) -> Option<(Tick, f64)> {
    let change = silence(&traffic(&repeated(parts), rate, dispersion))?;
    assert_eq!(change.now, 0.0);
    Some((change.since, change.strength))
}

#[test]
fn a_silence_is_longer_than_chance_allows() {
    let silent = |rate, length, dispersion| silent(&[(50, rate), (length, 0.0)], rate, dispersion);
    assert_eq!(silent(10.0, 5, 1.0), Some((50, 10.0)));
    assert_eq!(silent(10.0, 3, 1.0).map(|change| change.0), Some(50));
    assert_eq!(silent(10.0, 2, 1.0), None, "it is short");
    assert_eq!(silent(8.0, 3, 1.0), None, "under 25 are missing");
    assert_eq!(silent(10.0, 4, 4.0), None, "under 50 are missing");
    let strength = (2.0 * 50.0 / 4.0f64).sqrt();
    assert_eq!(silent(10.0, 5, 4.0), Some((50, strength)));
}

#[test]
fn only_the_usual_requests_of_a_busy_page_count_as_missing() {
    let silent = silent(&[(40, 10.0), (10, 20.0), (5, 0.0)], 10.0, 1.0);
    assert_eq!(silent, Some((50, 10.0)));
}

#[test]
fn a_silence_is_three_times_as_long_as_any_before() {
    let past = [(20, 10.0), (2, 0.0), (28, 10.0)];
    let silent = |length| silent(&[&past[..], &[(length, 0.0)]].concat(), 10.0, 1.0);
    assert_eq!(
        (silent(5), silent(6).map(|change| change.0)),
        (None, Some(50))
    );
}

#[test]
fn a_page_that_fades_does_not_fall_silent() {
    let faded = |count| silent(&[(40, 10.0), (10, count), (9, 0.0)], 10.0, 1.0);
    assert_eq!(faded(3.9), None);
    assert_eq!(faded(4.0).map(|change| change.0), Some(50));
    let long = silent(&[(40, 10.0), (20, 0.0)], 10.0, 1.0);
    assert_eq!(long, None, "it has been silent for long");
}

fn surged(parts: &[(usize, f64)], shared: &SharedMinutes) -> Option<TrafficChange> {
    surge(&traffic(&repeated(parts), 10.0, 1.0), shared, 0)
}

#[test]
fn a_surge_begins_where_there_are_more_requests() {
    let none = SharedMinutes::default();
    let change = surged(&[(55, 10.0), (5, 40.0)], &none).expect("it is four times as much");
    assert_eq!((change.since, change.now), (55, 40.0));
    // Twice the difference of the square roots of 200 and 50 requests.
    let strength = 2.0 * (200f64.sqrt() - 50f64.sqrt());
    assert!((change.strength - strength).abs() < 1e-9, "{change:?}");
    for (parts, why) in [
        (&[(58, 10.0), (2, 40.0)][..], "it is short"),
        (&[(55, 10.0), (5, 25.0)], "it is small"),
        (&[(55, 10.0), (4, 40.0), (1, 10.0)], "it ended"),
        (&[(58, 10.0), (1, 200.0), (1, 12.0)], "it is one burst"),
    ] {
        assert_eq!(surged(parts, &none), None, "{why}");
    }
}

#[test]
fn more_requests_of_all_pages_are_not_a_surge_of_a_page() {
    let shared = (0..60).map(|tick| SharedMinute {
        tick,
        traffic: if tick < 55 { 0 } else { 1_386_294 },
        ..SharedMinute::default()
    });
    let shared = SharedMinutes(shared.collect());
    assert_eq!(surged(&[(55, 10.0), (5, 40.0)], &shared), None);
    assert!(surged(&[(55, 10.0), (5, 160.0)], &shared).is_some());
}

#[test]
fn a_surge_is_larger_than_those_of_the_past() {
    let none = SharedMinutes::default();
    let past = |count| [(20, 10.0), (5, count), (30, 10.0), (5, 40.0)];
    assert!(surged(&past(30.0), &none).is_some());
    assert_eq!(surged(&past(31.0), &none), None);
}

#[test]
fn a_surge_is_over_when_less_than_45_percent_of_it_is_left() {
    let over = |counts: &[f64]| {
        let counts: Vec<_> = (0..).zip(counts.iter().copied()).collect();
        surge_is_over(&counts, 10.0, 30.0)
    };
    assert!(over(&[18.9; 3]) && !over(&[19.1; 3]));
    assert!(over(&[]) && over(&[18.0]) && !over(&[20.0]));
}

#[test]
fn a_surge_goes_on_if_it_shows_in_the_last_minute_and_without_the_two_largest() {
    let on = |counts: &[f64]| {
        let window: Vec<_> = (0..).zip(counts.iter().copied()).collect();
        goes_on(&window, 10.0, 30.0, 1.0)
    };
    assert!(on(&[30.0; 5]));
    assert!(!on(&[90.0, 90.0, 10.0, 10.0, 30.0]));
    assert!(!on(&[30.0, 30.0, 30.0, 30.0, 18.0]) && on(&[30.0, 30.0, 30.0, 30.0, 19.0]));
}
