//! The steps in which a log is drained: as fine as what can be seen at its end.

use super::steps::Steps;

const LAST: i64 = 1_700_000_123;

/// The start and the end of a step.
fn step(steps: &Steps, second: i64) -> (i64, i64) {
    let (start, seconds) = steps.step(second);
    (start, start + seconds)
}

#[test]
fn each_second_is_in_one_step_which_slices_that_can_be_seen_do_not_divide() {
    for judged in [None, Some(LAST - 3 * 3_600), Some(0)] {
        let mut steps = Steps::until(LAST);
        if let Some(from) = judged {
            steps.judged_from(from);
        }
        let mut lengths = Vec::new();
        let mut second = LAST - 30 * 3_600;
        second -= second.rem_euclid(1_800);
        while second <= LAST {
            let (start, end) = step(&steps, second);
            assert_eq!(start, second, "{judged:?}: steps follow each other");
            let seconds = end - start;
            for within in [start, start + seconds / 2, end - 1] {
                assert_eq!(step(&steps, within), (start, end), "{judged:?}");
            }
            // Every slice whose retention lasts until the end is made of whole steps.
            let slices = [1, 5, 60, 300, 3_600, 18_000, 86_400].map(|width| (width, 120));
            let records = [(60, 130), (1_800, 98), (21_600, 60)];
            for (width, retained) in slices.into_iter().chain(records) {
                let is_seen = start > LAST - (retained + 1) * width;
                assert!(
                    !is_seen || width % seconds == 0,
                    "{judged:?} {width}: {seconds}"
                );
            }
            // As the lists of three hours have the time of each request.
            let hour = LAST - LAST.rem_euclid(3_600);
            assert!(start < hour - 7_200 || seconds == 1);
            let is_recalled = judged.is_some_and(|from| start >= from - 5_400);
            assert!(!is_recalled || seconds <= 60, "{judged:?} {start}");
            lengths.push(seconds);
            second = end;
        }
        lengths.dedup();
        let expected: &[i64] = match judged {
            None => &[1_800, 300, 1],
            Some(0) => &[60, 1],
            Some(_) => &[1_800, 300, 60, 1],
        };
        assert_eq!(lengths, expected, "{judged:?}");
    }
}

#[test]
fn a_log_of_the_first_hours_of_the_epoch_has_steps_too() {
    let steps = Steps::until(7);
    assert_eq!(step(&steps, 5), (5, 6));
    let steps = Steps::until(40_000);
    assert_eq!(step(&steps, 0), (0, 1_800));
}
