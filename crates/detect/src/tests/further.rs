//! Further slowdowns of a page that is slower already, and changes that are reported after two minutes.

use super::*;

/// A page whose times grow from minute 90 on, each minute by a fifteenth of the original time. Between the minutes
/// `from` and `to`, the page takes `factor` times as long.
fn growing(from: i64, to: i64, factor: f64) -> impl Fn(usize, i64) -> Option<Load> {
    move |number, minute| {
        let grown = 1.0 + (minute - 90).max(0) as f64 / 15.0;
        let is_further = (from..to).contains(&minute);
        let factor = if is_further { grown * factor } else { grown };
        Some(slow_if(number == 0, factor))
    }
}

/// A page that takes these multiples of its usual time, minute by minute.
fn by_minute(factors: &[f64]) -> impl Fn(usize, i64) -> Option<Load> {
    move |number, minute| Some(slow_if(number == 0, factors[minute as usize]))
}

/// For each minute, the minutes in which the ongoing changes on page 0 began.
fn starts(verdicts: &[Vec<Verdict>]) -> Vec<Vec<i64>> {
    let starts = verdicts.iter().map(|verdicts| {
        let of_page = verdicts.iter().filter(|verdict| verdict.context == page(0));
        of_page
            .map(|verdict| (verdict.since - START) / 60)
            .collect()
    });
    starts.collect()
}

#[test]
fn a_page_that_grows_is_one_change() {
    let verdicts = watch(10, 150, growing(0, 0, 1.0));
    let (minute, verdict) = first(&verdicts, page(0), ChangeKind::Slower);
    assert!((92..=98).contains(&minute), "detected in minute {minute}");
    let since = (verdict.since - START) / 60;
    let starts = starts(&verdicts);
    let is_one = starts[minute..].iter().all(|starts| *starts == [since]);
    assert!(is_one, "{starts:?}");
}

#[test]
fn a_slowdown_on_top_of_growth_is_a_change_of_its_own() {
    for pages in [1, 10] {
        let verdicts = watch(pages, 125, growing(110, 125, 3.0));
        let starts = starts(&verdicts);
        let is_growth = starts[108].len() == 1 && starts[108][0] < 100;
        let is_further = [&starts[113], &starts[124]] == [&[110], &[110]];
        assert!(is_growth && is_further, "{pages} pages: {starts:?}");
        let further = verdicts[124]
            .iter()
            .find(|verdict| verdict.context == page(0));
        let further = further.expect("it is ongoing");
        // The further slowdown is compared with the minutes of growth before.
        assert!((2.5..6.0).contains(&further.ratio), "{further:?}");
    }
}

#[test]
fn the_earlier_change_is_reported_again_after_a_further_slowdown_ends() {
    let factors = repeated(&[(90, 1.0), (15, 2.0), (15, 6.0), (15, 2.0), (15, 1.0)]);
    let verdicts = watch(10, 150, by_minute(&factors));
    let starts = starts(&verdicts);
    let ends = [104, 108, 119, 124, 134, 140].map(|minute: usize| starts[minute].clone());
    let expected = [&[90][..], &[105], &[105], &[90], &[90], &[]];
    assert_eq!(ends, expected, "{starts:?}");
    // Both changes end together.
    let factors = repeated(&[(90, 1.0), (15, 2.0), (15, 6.0), (15, 1.0)]);
    let verdicts = watch(10, 135, by_minute(&factors));
    assert!(verdicts[119].len() == 1 && verdicts[126].is_empty());
    let mut later = verdicts[120..].iter().flatten();
    let is_again = later.any(|verdict| verdict.since == START + 60 * 90);
    assert!(!is_again, "it was reported again for a minute");
}

#[test]
fn an_overwhelming_change_is_reported_after_two_minutes() {
    let verdicts = watch(10, 110, slow_from(90, 93, 3.0));
    let (minute, verdict) = first(&verdicts, page(0), ChangeKind::Slower);
    assert_eq!((minute, verdict.since), (91, START + 60 * 90));
    assert!(verdicts[97].is_empty(), "{:?}", verdicts[97]);
}
