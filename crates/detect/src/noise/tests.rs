use super::*;
use crate::tests::{assert_close, normal};

fn residuals(minutes: i32, wobble: f64, correlation: f64, sampling: f64) -> Vec<(i32, f64, f64)> {
    let mut random = fastrand::Rng::with_seed(11);
    let mut normal = || normal(&mut random);
    let fresh = (1.0 - correlation * correlation).sqrt();
    let mut state = normal();
    let minutes = (0..minutes).map(|tick| {
        state = correlation * state + fresh * normal();
        (tick, wobble * state + sampling.sqrt() * normal(), sampling)
    });
    minutes.collect()
}

#[test]
fn the_noise_of_a_long_past_is_estimated() {
    for (wobble, correlation, sampling) in [(0.1, 0.3, 0.005), (0.2, 0.8, 0.02)] {
        let noise = Noise::estimate(&residuals(8_000, wobble, correlation, sampling), 1.0);
        let deviation = noise.variance().sqrt();
        assert!((deviation / wobble - 1.0).abs() < 0.12, "{deviation}");
        let estimated = noise.correlation();
        assert!((estimated - correlation).abs() < 0.08, "{estimated}");
    }
}

#[test]
fn a_short_past_has_the_usual_noise() {
    let usual = Noise::estimate(&[], 2.0);
    assert_eq!((usual.deviation, usual.correlation), (60_000, 600_000));
    // A page without wobble gets the smallest wobble, times the slope of its score (the second argument).
    let quiet: Vec<_> = (0..2_000).map(|tick| (tick, 0.0, 1e-4)).collect();
    assert_eq!(Noise::estimate(&quiet, 1.0).deviation, 10_000);
    assert_eq!(Noise::estimate(&quiet, 2.0).deviation, 20_000);
}

#[test]
fn only_neighbouring_minutes_count_for_the_correlation() {
    let mut apart = residuals(2_000, 0.1, 0.9, 1e-4);
    apart.iter_mut().for_each(|(tick, ..)| *tick *= 2);
    let correlation = Noise::estimate(&apart, 1.0).correlation();
    assert_close(correlation, USUAL_CORRELATION, 1e-5);
}

#[test]
fn few_outliers_do_not_change_the_wobble() {
    let mut some = residuals(500, 0.1, 0.3, 1e-4);
    let before = Noise::estimate(&some, 1.0).deviation;
    for (_, residual, _) in &mut some[100..110] {
        *residual = 30.0;
    }
    let after = Noise::estimate(&some, 1.0).deviation;
    assert!(after < before + before / 4, "{before} {after}");
}

#[test]
fn the_variance_of_a_mean_has_all_its_parts() {
    let window = |deviation: f64, correlation: f64| {
        let [deviation, correlation] = [deviation, correlation].map(|value| (value * 1e6) as u32);
        Window::new(Noise {
            deviation,
            correlation,
        })
    };
    let close = |value: f64, expected: f64| assert_close(value / expected, 1.0, 1e-9);
    // Without a wobble, minutes are weighted by the inverse of their variances.
    let mut quiet = window(0.0, 0.0);
    quiet.grow(9, 1.0, 0.5, 0.0);
    quiet.grow(8, 4.0, 0.25, 0.0);
    close(quiet.mean(), 3.0);
    close(quiet.variance(), 1.0 / 6.0);
    // A correlated wobble adds the covariance of the two minutes, which are three minutes apart.
    let mut wobbling = window(0.2, 0.5);
    wobbling.grow(9, 1.0, 0.01, 0.0);
    wobbling.grow(6, 2.0, 0.01, 0.0);
    close(wobbling.mean(), 1.5);
    close(wobbling.variance(), (0.05 + 0.04 * 0.5f64.powi(3)) / 2.0);
    wobbling.grow(5, 0.0, 0.01, 0.0);
    let covariances = 2.0 * 0.04 * (0.5f64.powi(3) + 0.5f64.powi(4) + 0.5);
    close(wobbling.variance(), (3.0 * 0.05 + covariances) / 9.0);
    // The uncertainty from the shared level (the last argument) is the same in each minute, so a mean does not reduce
    // this uncertainty.
    let mut shared = window(0.0, 0.0);
    shared.grow(9, 1.0, 0.01, 0.3);
    shared.grow(8, 1.0, 0.01, 0.3);
    close(shared.variance(), 0.01 / 2.0 + 0.09);
}
