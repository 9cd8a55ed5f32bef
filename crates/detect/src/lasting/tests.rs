use super::*;
use crate::noise::Noise;
use crate::page::Page;
use crate::reference::{Past, RANK, SCORES};

/// Minutes with these scores, the last of which is now.
fn minutes(scores: &[f64]) -> Vec<Residual> {
    let minutes = (0..).zip(scores);
    let minutes = minutes.map(|(tick, score)| Residual {
        tick,
        count: 100.0,
        shift: 0.0,
        scores: [*score; SCORES],
        log: *score,
        sampling: [0.01; SCORES],
        response: [0.0; SCORES],
    });
    minutes.collect()
}

fn base() -> Baseline {
    let past = Past {
        buckets: vec![(100, 200), (104, 200)],
        minutes: 40,
        noise: [Noise::default(); SCORES],
        ..Past::default()
    };
    let mut page = Page::default();
    page.freeze(&past, 100);
    *page.base.expect("the past has requests")
}

#[test]
fn a_change_goes_on_while_nearly_all_minutes_show_it() {
    let goes_on = |scores: &[f64]| {
        let opposite: Vec<_> = scores.iter().map(|score| -score).collect();
        let both = [
            goes_on(&minutes(scores), RANK, 1.0),
            goes_on(&minutes(&opposite), RANK, -1.0),
        ];
        assert_eq!(both[0], both[1], "{scores:?}");
        both[0]
    };
    assert!(goes_on(&[1.0, 1.0, 1.0]));
    assert!(!goes_on(&[1.0, 0.0, 1.0]), "all of three must show it");
    assert!(goes_on(&[1.0, 1.0, 0.0, 1.0]), "one of four need not");
    assert!(!goes_on(&[1.0, 0.0, 0.0, 1.0]));
    assert!(!goes_on(&[1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.45]), "it ends");
    // Most of the change comes from the worst minute.
    assert!(!goes_on(&[0.42, 2.0, 0.42, 0.42]));
}

#[test]
fn a_change_may_be_left_over_from_a_larger_change() {
    let left_over = |earlier: f64, effect: f64, length: usize| {
        let (earlier, window) = (minutes(&[earlier; 12]), minutes(&vec![effect; length]));
        is_left_over(&earlier, &window, RANK, effect)
    };
    assert!(left_over(1.0, 0.5, 5) && left_over(-1.0, -0.5, 5));
    assert!(!left_over(1.0, 0.6, 5) && !left_over(-1.0, 0.5, 5));
    assert!(!left_over(1.0, 0.5, LEFT_OVER), "it has lasted");
    // One minute does not count, and neither do minutes long ago.
    let window = minutes(&[0.5; 5]);
    let mut scores = [0.0; 14];
    (scores[0], scores[1], scores[8]) = (1.0, 1.0, 1.0);
    assert!(!is_left_over(&minutes(&scores), &window, RANK, 0.5));
    scores[9] = 1.0;
    assert!(is_left_over(&minutes(&scores), &window, RANK, 0.5));
}

#[test]
fn a_change_begins_in_the_minute_in_which_its_scores_rise() {
    let base = base();
    let since = |scores: &[f64], effect: f64| start(&base, &minutes(scores), RANK, effect);
    assert_eq!(since(&[0.1, -0.1, 0.2, 0.9, 1.1, 0.4, 1.0], 1.0), 3);
    assert_eq!(since(&[0.1, -0.1, 0.2, -0.9, -1.1, -1.0], -1.0), 3);
    assert_eq!(since(&[1.0, 1.0, 1.0], 1.0), 0);
    // A minute with few requests counts less than its neighbour.
    let mut uncertain = minutes(&[0.0, 1.0, 0.2, 1.0, 1.0]);
    uncertain[2].sampling[RANK] = 1.0;
    assert_eq!(start(&base, &uncertain, RANK, 1.0), 1);
    uncertain[2].sampling[RANK] = 0.001;
    assert_eq!(start(&base, &uncertain, RANK, 1.0), 3);
}

#[test]
fn a_change_fades_if_its_last_minutes_are_much_smaller() {
    let base = base();
    let fades = |scores: &[f64], effect: f64| {
        let finding = Finding {
            score_kind: RANK,
            strength: 9.0,
            effect,
            since: 2,
        };
        fades(&base, &minutes(scores), &finding)
    };
    assert!(fades(&[0.0, 0.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5], 0.8));
    assert!(fades(&[0.0, 0.0, -1.0, -1.0, -1.0, -0.5, -0.5, -0.5], -0.8));
    assert!(!fades(&[0.0, 0.0, 1.0, 1.0, 1.0, 0.7, 0.7, 0.7], 0.8));
    assert!(!fades(&[0.0, 0.0, 1.0, 1.0, 1.0, 0.5], 0.8), "it is young");
    // The decrease is within chance.
    assert!(!fades(&[0.0, 0.0, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05], 0.1));
    let mut long = vec![1.0; FADING + 2];
    long[FADING - 1..].fill(0.3);
    assert!(fades(&long, 0.8));
    long.push(0.3);
    assert!(!fades(&long, 0.8), "it has lasted for long");
}
