use super::*;
use crate::tests::assert_close;

/// The counts of a normal distribution around a bucket, with a standard deviation of eight buckets.
fn hill(height: f64, middle: usize) -> Counts {
    let mut counts = [0; BUCKETS];
    for (bucket, count) in counts.iter_mut().enumerate() {
        let distance = bucket.abs_diff(middle) as f64 / 8.0;
        *count = (height * (-0.5 * distance * distance).exp()).round() as u32;
    }
    counts
}

fn reference(counts: &Counts) -> Reference {
    Reference::new(counts).expect("there are requests")
}

/// The mean of `function` over the scores of a kind, for all requests.
fn mean(reference: &Reference, counts: &Counts, kind: usize, function: impl Fn(f64) -> f64) -> f64 {
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    let counts = counts.iter().enumerate();
    let scores = counts.map(|(bucket, count)| {
        let score = f64::from(reference.of(bucket)[kind]);
        f64::from(*count) * function(score)
    });
    scores.sum::<f64>() / total
}

#[test]
fn the_scores_of_the_past_have_mean_zero_and_the_stated_variance() {
    let counts = hill(100_000.0, 100);
    let reference = reference(&counts);
    for kind in 0..SCORES {
        assert_close(mean(&reference, &counts, kind, |score| score), 0.0, 1e-5);
        assert_close(reference.expected(kind, 0.0), 0.0, 1e-9);
        let variance = mean(&reference, &counts, kind, |score| score.powi(2));
        assert_close(reference.variance[kind] / variance, 1.0, 1e-3);
        let third = mean(&reference, &counts, kind, |score| score.powi(3));
        assert_close(reference.skew[kind], third / variance, 1e-3);
    }
}

#[test]
fn a_shift_follows_from_its_expected_score() {
    let reference = reference(&hill(1_000.0, 100));
    for shift in [-1.5, -0.3, 0.0, 0.05, 0.4, 1.5] {
        let found = reference.shift_of(reference.expected(RANK, shift));
        assert_close(found, shift, 1e-3);
    }
    let farthest = FARTHEST as f64 * WIDTH;
    assert_eq!(reference.shift_of(-1.0), -farthest);
    assert_eq!(reference.shift_of(1.0), farthest);
    for kind in [RANK, LOCATION] {
        let rise = reference.expected(kind, WIDTH) - reference.expected(kind, -WIDTH);
        assert_close(reference.slope(kind), rise / (2.0 * WIDTH), 1e-9);
    }
}

#[test]
fn the_location_score_rises_across_the_mode() {
    let reference = reference(&hill(1_000.0, 100));
    let location = |bucket: usize| f64::from(reference.of(bucket)[LOCATION]);
    for distance in 1..=16 {
        assert_close(location(100 + distance), -location(100 - distance), 0.02);
    }
    // For a normal distribution, the score is the distance in standard deviations.
    for (distance, deviations) in [(0, 0.0), (4, 0.5), (8, 1.0), (16, 2.0)] {
        assert_close(location(100 + distance), deviations, 0.15);
    }
    let locations = (0..BUCKETS).map(location);
    let [least, most] = [f64::min, f64::max].map(|choose| locations.clone().fold(0.0, choose));
    assert_close(most, LARGEST_LOCATION, 0.1);
    assert_close(least, -LARGEST_LOCATION, 0.1);
}

#[test]
fn means_are_of_all_and_of_the_slowest_tenth() {
    let mut counts = [0; BUCKETS];
    (counts[80], counts[120]) = (95, 5);
    let means = Means::of(&counts);
    let (fast, slow) = (seconds(80), seconds(120));
    assert_close(slow / fast, 32.0, 1e-9);
    let sum = 95.0 * fast + 5.0 * slow;
    assert_close(means.all, sum / 100.0, 1e-12);
    assert_close(means.tail, (fast + slow) / 2.0, 1e-12);
    let squares = 95.0 * fast.powi(2) + 5.0 * slow.powi(2);
    assert_close(means.variance, squares / sum.powi(2) - 0.01, 1e-12);
    let none = Means::of(&[0; BUCKETS]);
    assert_eq!((none.all, none.tail, none.variance), (0.0, 0.0, 0.0));
}
