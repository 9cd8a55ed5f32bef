//! The points of each context in each slice of a window. A point has the few measurements that a row of the dashboard
//! shows over time.

use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::measures::Measure;

/// The measurements of a context in a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub hits: u32,
    /// In seconds, rounded to three significant digits.
    pub mean: Option<f32>,
    /// In seconds, rounded to three significant digits.
    pub p95: Option<f32>,
    /// The longest poll, in microseconds; 0 if no poll was measured.
    pub longest_poll: u32,
}

impl From<&Aggregate> for Point {
    fn from(sums: &Aggregate) -> Self {
        let count = sums.times.count;
        if count == 0 {
            return Self::default();
        }
        let (min, max) = (sums.times.min as f64 / 1e9, sums.times.max as f64 / 1e9);
        let p95 = sums.histogram.quantile_within(0.95, Some(min), Some(max));
        Self {
            hits: u32::try_from(count).unwrap_or(u32::MAX),
            mean: Some(rounded(sums.times.sum as f64 / 1e9 / count as f64, 3) as f32),
            p95: p95.map(|p95| rounded(p95, 3) as f32),
            longest_poll: longest_poll(sums),
        }
    }
}

/// The longest poll of requests, in microseconds.
pub(crate) fn longest_poll(sums: &Aggregate) -> u32 {
    let nanos = sums.measures.get(Measure::LongestPoll);
    u32::try_from(nanos.div_ceil(1_000)).unwrap_or(u32::MAX)
}

pub(crate) fn rounded(number: f64, digits: i32) -> f64 {
    if !number.is_normal() {
        return 0.0;
    }
    let decimals = digits - 1 - number.abs().log10().floor() as i32;
    // Powers of ten are exact up to 10^22, but their inverses are not. So the division by a power of ten gives the
    // float that prints with the fewest digits.
    match decimals {
        0.. => (number * 10f64.powi(decimals)).round() / 10f64.powi(decimals),
        _ => (number / 10f64.powi(-decimals)).round() * 10f64.powi(-decimals),
    }
}

/// The points of some contexts in each retained slice of a window.
pub struct WindowPoints {
    pub precision: u32,
    /// The start of the first slice, in Unix seconds.
    pub from: i64,
    /// The end of the last slice, in Unix seconds.
    pub to: i64,
    /// The points of each context, oldest first; `None` in slices that were not recorded or are not read yet.
    pub rows: Vec<Vec<Option<Point>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_significant_digits() {
        let shown = [0.0, 0.123_456, 9.999, 12_345.0, 1e-9, 0.000_045_678];
        let shown = shown.map(|value| (rounded(value, 3) as f32).to_string());
        let expected = ["0", "0.123", "10", "12300", "0.000000001", "0.0000457"];
        assert_eq!(shown, expected);
        let numbers = [1.0 / 3.0, 999.96, 1_234_567.0, 60.0, 1e-9 * 1.234_56];
        let shown = numbers.map(|number| rounded(number, 4).to_string());
        let expected = ["0.3333", "1000", "1235000", "60", "0.000000001235"];
        assert_eq!(shown, expected);
        assert_eq!(rounded(f64::MIN_POSITIVE / 4.0, 4), 0.0);
    }
}
