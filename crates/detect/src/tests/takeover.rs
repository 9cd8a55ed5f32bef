//! Properties for any past: a detector that takes over gives the same verdicts, and no numbers make it panic.

use proptest::array::uniform3;
use proptest::prelude::*;

use super::*;

fn any_aggregate() -> impl Strategy<Value = Aggregate> {
    let number = || prop_oneof![Just(0), 0..50u64, Just(u64::MAX), any::<u64>()];
    let buckets = proptest::collection::vec((any::<u16>(), number()), 0..6);
    let histogram = (0..=8u8, buckets).prop_map(|(scale, pairs)| Histogram::new(scale, pairs));
    (uniform3(number()), uniform3(histogram)).prop_map(|(numbers, [all, failures, censored])| {
        let mut sums = Aggregate::default();
        [sums.times.count, sums.times.sum, sums.outcomes.errors] = numbers;
        (sums.histogram, sums.censored) = (all, censored);
        if sums.outcomes.errors % 2 == 1 {
            sums.failures = failures;
        }
        sums
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_detector_that_takes_over_gives_the_same_verdicts(seed in any::<u64>(), takeover in 40i64..150) {
        let minutes = eventful(seed, 170);
        let mut first = Detector::default();
        let mut second = None;
        for (number, pages) in (0i64..).zip(&minutes) {
            if number == takeover {
                let mut detector = Detector::new(stored(first.state()));
                let recalled = (number - RECALLED_MINUTES).max(0)..number;
                for back in recalled {
                    detector.recall(&with_instances(START + 60 * back, &minutes[back as usize]));
                }
                second = Some(detector);
            }
            let minute = with_instances(START + 60 * number, pages);
            let expected = first.judge(&minute);
            if let Some(second) = &mut second {
                prop_assert_eq!(second.judge(&minute), expected, "minute {}", number);
                prop_assert_eq!(second.state(), first.state());
                prop_assert_eq!(second.coverage(), first.coverage());
            }
        }
    }

    #[test]
    fn no_numbers_make_a_detector_panic(
        sums in proptest::collection::vec(any_aggregate(), 1..8),
        distances in proptest::collection::vec(prop_oneof![Just(1i64), -200..200i64, any::<i64>()], 1..200),
    ) {
        let mut detector = Detector::default();
        let mut start = START;
        for (index, distance) in distances.into_iter().enumerate() {
            start = start.saturating_add(distance.saturating_mul(60));
            let pages: Vec<_> = (0..8).map(|number| (page(number), sums[(index + number) % sums.len()].clone())).collect();
            for verdict in detector.judge(&with_instances(start, &pages)) {
                prop_assert!(!verdict.ratio.is_nan() && !verdict.then.is_nan() && !verdict.now.is_nan(), "{:?}", verdict);
            }
            if index % 3 == 0 {
                start = start.wrapping_add(i64::MAX / 3).clamp(-START, 2 * START);
                start += 60;
            }
        }
    }
}
