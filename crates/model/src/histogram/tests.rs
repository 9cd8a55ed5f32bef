use super::*;
use crate::tests::merged_in_any_order;
use proptest::collection::vec;
use proptest::prelude::*;

fn histogram_of(nanos: &[u64]) -> Histogram {
    Histogram::new(SCALE, nanos.iter().map(|v| (bucket_of(*v) as u16, 1)))
}

#[test]
fn a_histogram_takes_the_memory_of_its_own_buckets() {
    let full = || Histogram::new(SCALE, (0..BUCKETS as u16).map(|index| (index, 1)));
    let mut histogram = full();
    histogram.merge(&full());
    assert!(histogram.buckets.capacity() <= BUCKETS + SLACK);
    histogram.coarsen(COARSE_SCALE);
    assert_eq!(histogram.buckets.len(), BUCKETS / 4);
    assert!(histogram.buckets.capacity() <= BUCKETS / 4 + SLACK);
}

#[test]
fn buckets_cover_1_us_to_1_h_and_each_begins_at_its_bound() {
    let buckets = [0, 1_000, 1_044, 1_045, 1_999, 2_000].map(bucket_of);
    assert_eq!(buckets, [0, 0, 0, 1, 15, 16]);
    let last = [3_600_000_000_000, u64::MAX].map(bucket_of);
    assert_eq!(last, [BUCKETS - 1; 2]);
    assert!(lower_bound(BUCKETS as u16, SCALE) > 3_600.0);
    for index in 1..BUCKETS {
        let first = (lower_bound(index as u16, SCALE) * 1e9).ceil() as u64;
        assert_eq!((bucket_of(first), bucket_of(first - 1)), (index, index - 1));
    }
}

#[test]
fn a_mean_takes_the_point_halfway_through_each_bucket() {
    assert_eq!(Histogram::default().mean(), None);
    // The middle of a bucket differs from a duration in the bucket by at most 2.2 %.
    let mean = histogram_of(&[2_000_000, 4_000_000, 4_000_000]).mean();
    assert!(mean.is_some_and(|mean| (mean / 0.01 * 3.0 - 1.0).abs() < 0.03));
    let middle = histogram_of(&[2_000_000]).mean().expect("one duration");
    let index = bucket_of(2_000_000) as u16;
    let [low, high] = [index, index + 1].map(|index| lower_bound(index, SCALE));
    assert!((middle - (low + high) / 2.0).abs() < 1e-12);
}

#[test]
fn a_quantile_is_limited_to_the_smallest_and_largest_duration() {
    let histogram = histogram_of(&[2_000_000]);
    let within = |min, max| histogram.quantile_within(0.5, min, max);
    let middle = histogram.quantile(0.5);
    assert_eq!(within(None, None), middle);
    assert_eq!(within(Some(1e-3), Some(3e-3)), middle);
    assert_eq!(within(Some(3e-3), None), Some(3e-3));
    assert_eq!(within(None, Some(1e-3)), Some(1e-3));
    let of_none = Histogram::default().quantile_within(0.5, Some(1.0), None);
    assert_eq!(of_none, None);
}

#[test]
fn buckets_without_durations_are_left_out() {
    let pairs = [(3, 0), (7, 2), (9, 0)];
    for histogram in [
        Histogram::new(SCALE, pairs),
        Histogram::from_sorted(SCALE, pairs.to_vec()),
        Histogram::from_counts(0, &[0, 0, 0, 0, 0, 0, 0, 2, 0, 0]),
    ] {
        assert_eq!(histogram.buckets(), [(7, 2)]);
    }
}

fn durations() -> impl Strategy<Value = u64> {
    (1_000f64.log2()..3.6e12f64.log2()).prop_map(|exponent| exponent.exp2() as u64)
}

proptest! {
    #[test]
    fn merging_all_at_once_equals_merging_one_by_one(parts in vec((vec(durations(), 0..40), 2..=6u8), 0..6)) {
        // A scale finer than `SCALE` has more buckets than the array of `merge_all`.
        let parts: Vec<_> = parts.into_iter().map(|(values, scale)| match scale {
            0..=SCALE => {
                let mut part = histogram_of(&values);
                part.coarsen(scale);
                part
            }
            _ => Histogram::new(scale, values.into_iter().map(|nanos| ((nanos % 60_000) as u16, 1))),
        }).collect();
        let mut merged = parts.first().cloned().unwrap_or_default();
        let mut expected = merged.clone();
        for part in parts.iter().skip(1) {
            expected.merge(part);
        }
        merged.merge_all(&parts.iter().skip(1).collect::<Vec<_>>());
        prop_assert_eq!(merged, expected);
    }

    #[test]
    fn quantiles_are_within_the_stated_bound(mut values in vec(durations(), 1..300), q in 0.0..=1.0f64) {
        let mut histogram = histogram_of(&values);
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).max(1);
        let exact = values[rank - 1] as f64 / 1e9;
        let fine = histogram.quantile(q).expect("not empty");
        prop_assert!((fine / exact - 1.0).abs() <= 0.022, "{} for {}", fine, exact);
        histogram.coarsen(COARSE_SCALE);
        let coarse = histogram.quantile(q).expect("not empty");
        prop_assert!((coarse / exact - 1.0).abs() <= 0.09, "{} for {}", coarse, exact);
    }

    #[test]
    fn the_count_below_a_target_is_exact_for_a_target_within_the_stated_error(values in vec(durations(), 1..300), target in durations(), coarse in any::<bool>()) {
        let mut histogram = histogram_of(&values);
        if coarse {
            histogram.coarsen(COARSE_SCALE);
        }
        let (error, target) = (histogram.error() + 1e-6, target as f64 / 1e9);
        let exact = |target: f64| values.iter().filter(|nanos| (**nanos as f64 / 1e9) < target).count() as u64;
        let below = histogram.count_below(target);
        let (least, most) = (exact(target / (1.0 + error)), exact(target / (1.0 - error)));
        prop_assert!((least..=most).contains(&below), "{} <= {} <= {}", least, below, most);
    }

    #[test]
    fn merging_loses_nothing_in_any_order(a in vec(any::<u64>(), 0..50), b in vec(durations(), 0..50), c in vec(durations(), 0..50), coarse in any::<bool>()) {
        let all = [a.clone(), b.clone(), c.clone()].concat();
        let (a, mut b, c) = (histogram_of(&a), histogram_of(&b), histogram_of(&c));
        if coarse {
            b.coarsen(COARSE_SCALE);
        }
        let merged = merged_in_any_order([a, b, c], Histogram::merge);
        prop_assert_eq!(merged.count(), all.len() as u64);
        if !coarse {
            prop_assert_eq!(merged, histogram_of(&all));
        }
    }
}
