use super::*;
use crate::history::WIDTH;
use crate::noise::Noise;
use crate::page::Page;
use crate::reference::Past;
use crate::scored::Scored;
use crate::state::SharedMinute;
use crate::tests::{assert_close, repeated};

const REQUESTS: f32 = 400.0;

/// A page whose times are shifted by these logarithms, minute by minute from minute 0 on.
fn base(shifts: &[f64]) -> Baseline {
    let counts = (60..=140u8).map(|bucket| {
        let distance = (f64::from(bucket) - 100.0) / 8.0;
        let count = 1_000.0 * (-0.5 * distance * distance).exp();
        (bucket, count.round() as u32)
    });
    let past = Past {
        buckets: counts.filter(|(_, count)| *count > 0).collect(),
        minutes: 50,
        noise: [Noise {
            deviation: 10_000,
            correlation: 600_000,
        }; SCORES],
        ..Past::default()
    };
    let mut page = Page::default();
    page.freeze(&past, 0);
    let mut base = *page.base.expect("the past has requests");
    for (tick, shift) in (0..).zip(shifts) {
        let reference = &base.reference;
        let score = |kind| reference.expected(kind, *shift) as f32;
        let scored = Scored {
            tick,
            count: REQUESTS,
            scores: std::array::from_fn(score),
            bucket: (reference.bucket + shift / WIDTH) as f32,
        };
        base.scored.push_back(scored);
    }
    base
}

/// The finding at the end of the last minute.
fn found(parts: &[(usize, f64)]) -> Option<Finding> {
    let shifts = repeated(parts);
    let now = shifts.len() as Tick - 1;
    search(&base(&shifts), &SharedMinutes::default(), now, -1, false)
}

#[test]
fn a_page_is_slower_or_faster_since_its_scores_moved() {
    let slower = found(&[(20, 0.0), (6, 0.3)]).expect("it is slower by a third");
    assert!(slower.since == 20 && slower.effect > 0.0);
    let faster = found(&[(20, 0.0), (6, -0.3)]).expect("it is faster by a quarter");
    assert!(faster.since == 20 && faster.effect < 0.0);
}

#[test]
fn a_change_is_large_enough_and_lasts() {
    let since = |parts: &[(usize, f64)]| found(parts).map(|finding| finding.since);
    assert_eq!(since(&[(20, 0.0), (3, 0.3)]), Some(20));
    assert_eq!(since(&[(16, 0.0), (10, 0.6), (6, 0.3)]), Some(16));
    for (parts, why) in [
        (&[(20, 0.0), (2, 0.3)][..], "two minutes"),
        (&[(20, 0.0), (6, 0.06)], "it is small"),
        (&[(20, 0.0), (6, -0.15)], "it is a little faster"),
        (&[(20, 0.0), (6, 0.3), (2, 0.0)], "it is over"),
    ] {
        assert_eq!(since(parts), None, "{why}");
    }
}

#[test]
fn a_shift_of_all_pages_is_not_a_change_of_a_page() {
    let shifts = repeated(&[(20, 0.0), (6, 0.3)]);
    let size_at = |level: f64| {
        let shared = (0..26).map(|tick| SharedMinute {
            tick,
            level: if tick < 20 { 0 } else { (1e6 * level) as i64 },
            ..SharedMinute::default()
        });
        let shared = SharedMinutes(shared.collect());
        let base = base(&shifts);
        let size = size(&base, &shared, RANK, 20);
        (search(&base, &shared, 25, -1, false), size)
    };
    let (change, size) = size_at(0.3);
    assert_eq!(change, None);
    assert_close(size.body, 1.0, 0.01);
    assert_close(size.shared, 0.3f64.exp(), 1e-6);
    let (_, size) = size_at(0.1);
    assert_close(size.body, 0.2f64.exp(), 0.01);
    assert_close(size.shared, 0.1f64.exp(), 1e-6);
    let (change, size) = size_at(0.0);
    assert!(change.is_some() && !size.is_tail);
    assert_close(size.body, 0.3f64.exp(), 0.01);
}

#[test]
fn the_minutes_before_a_change_do_not_show_it() {
    let base = base(&repeated(&[(10, 0.0), (5, 0.3)]));
    let began = |since, least| shift(&base, &SharedMinutes::default(), since, least);
    assert_close(began(10, 3.0).expect("it begins there"), 0.3, 0.03);
    assert_close(began(11, 3.0).expect("or a minute later"), 0.3, 0.03);
    // In order: two of the three minutes before 12 show the change already; the change is smaller than 1,000 standard
    // deviations; there is no minute 15.
    let others = [began(12, 3.0), began(10, 1_000.0), began(15, 3.0)];
    assert_eq!(others, [None; 3]);
}

#[test]
fn the_size_of_an_effect_is_a_shift() {
    let base = base(&[]);
    for shift in [-0.2, 0.2] {
        for kind in [RANK, LOCATION] {
            let effect = base.reference.expected(kind, shift);
            assert_close(log_size(&base, kind, effect), shift, 0.02);
        }
    }
    // In the tail, the size is the shift of the tail's requests.
    let share = base.reference.tail_share;
    assert_close(log_size(&base, TAIL, 0.5 * share), 0.5, 1e-12);
    assert!(is_large(&base, TAIL, 0.31 * share) && !is_large(&base, TAIL, 0.29 * share));
    assert!(!is_large(&base, TAIL, -0.5 * share), "the tail is shorter");
}

#[test]
fn a_change_is_over_when_its_last_minutes_are_as_before() {
    let followed = |parts: &[(usize, f64)], effect: f64| {
        let base = base(&repeated(parts));
        let effect = base.reference.expected(RANK, effect);
        follow(&base, &SharedMinutes::default(), RANK, 5, effect)
    };
    let over = |parts: &[(usize, f64)], effect| followed(parts, effect).0;
    assert!(!over(&[(5, 0.0), (10, 0.3)], 0.3) && !over(&[(5, 0.0), (10, -0.3)], -0.3));
    assert!(over(&[(5, 0.0), (10, 0.3), (3, 0.0)], 0.3));
    assert!(over(&[(5, 0.0), (10, -0.3), (3, 0.0)], -0.3));
    assert!(!over(&[(5, 0.0), (2, 0.0)], 0.3), "two minutes are too few");
    // The change has grown, and is back to its first size.
    assert!(over(&[(5, 0.0), (10, 0.9), (3, 0.3)], 0.3));
    let is_over = over(&[(5, 0.0), (4, 0.9), (3, 0.3)], 0.3);
    assert!(!is_over, "four minutes are too few");
    let (_, strength) = followed(&[(5, 0.0), (10, 0.3)], 0.3);
    assert!((5.0..500.0).contains(&strength), "{strength}");
}

#[test]
fn a_page_is_watched_after_two_minutes() {
    let likely = |parts: &[(usize, f64)]| {
        let shifts = repeated(parts);
        let now = shifts.len() as Tick - 1;
        watch(&base(&shifts), &SharedMinutes::default(), now, -1, false)
    };
    let found = likely(&[(20, 0.0), (2, 0.3)]).expect("it is likely slower");
    assert!(found.since == 20 && found.effect > 0.0);
    for (parts, why) in [
        (&[(20, 0.0), (2, -0.3)][..], "faster is not urgent"),
        (&[(20, 0.0), (1, 0.3)], "one minute"),
        (&[(20, 0.0), (2, 0.3), (1, 0.0)], "it is over"),
    ] {
        assert_eq!(likely(parts), None, "{why}");
    }
}
