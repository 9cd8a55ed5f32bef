//! The points of each context in each slice of a window. A point has the few measurements that a row of a table shows.

use std::collections::HashMap;

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
            mean: Some(rounded(sums.times.sum as f64 / 1e9 / count as f64)),
            p95: p95.map(rounded),
            longest_poll: longest_poll(sums),
        }
    }
}

/// The longest poll of requests, in microseconds.
pub(crate) fn longest_poll(sums: &Aggregate) -> u32 {
    let nanos = sums.measures.get(Measure::LongestPoll);
    u32::try_from(nanos.div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// Rounds a number to three significant digits.
fn rounded(value: f64) -> f32 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    let unit = 10f64.powi(digits);
    ((value * unit).round() / unit) as f32
}

/// Approximate bytes of a group of points, without the points.
const PER_GROUP: usize = 64;

/// The number of a group of contexts, and the start of a slice.
type GroupSlice = (usize, i64);

/// The points of all contexts in some slices, by group of contexts.
#[derive(Debug, Default)]
pub(crate) struct SlicePoints {
    points: HashMap<GroupSlice, Box<[Point]>>,
    bytes: usize,
}

impl SlicePoints {
    /// Adds the points of a group in a slice, in the order of its contexts.
    pub(crate) fn add(&mut self, slice: GroupSlice, points: Box<[Point]>) {
        self.remove(slice);
        self.bytes += size_of_val(&*points) + PER_GROUP;
        self.points.insert(slice, points);
    }

    /// Removes the points of a group in a slice.
    pub(crate) fn remove(&mut self, slice: GroupSlice) {
        let points = self.points.remove(&slice);
        self.bytes -= points.map_or(0, |points| size_of_val(&*points) + PER_GROUP);
    }

    /// The points of a group in a slice, in the order of its contexts; `None` if the slice has no points.
    pub(crate) fn of_group(&self, slice: GroupSlice) -> Option<&[Point]> {
        self.points.get(&slice).map(|points| &**points)
    }

    /// The point of a context in a slice; `None` if it has no point. `context` is the index of the context in the
    /// group.
    pub(crate) fn get(&self, slice: GroupSlice, context: usize) -> Option<Point> {
        self.points.get(&slice)?.get(context).copied()
    }

    /// Approximate bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The points of some contexts in each retained slice of a window.
pub struct WindowPoints {
    /// The length of a slice, in seconds.
    pub precision: u32,
    /// The start of the first slice, and the end of the last, in Unix seconds.
    pub from: i64,
    pub to: i64,
    /// The points of each context, oldest first; `None` in slices that were not recorded or are not read yet.
    pub rows: Vec<Vec<Option<Point>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};

    #[test]
    fn numbers_are_rounded_to_three_digits() {
        let shown = [0.0, 0.123_456, 9.999, 12_345.0, 1e-9, 0.000_045_678];
        let shown = shown.map(|value| rounded(value).to_string());
        let expected = ["0", "0.123", "10", "12300", "0.000000001", "0.0000457"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_point_has_the_measurements_of_a_context_in_a_slice() {
        let mut sums = Aggregate::default();
        for millis in [10u64, 20] {
            sums.times.record(millis * 1_000_000);
        }
        let buckets = [10, 20].map(|millis| (bucket_of(millis * 1_000_000) as u16, 1));
        sums.histogram = Histogram::new(SCALE, buckets);
        let point = Point::from(&sums);
        assert_eq!((point.hits, point.mean), (2, Some(0.015)));
        let p95 = point.p95.expect("there were requests");
        assert!((0.0195..=0.02).contains(&p95), "{p95}");

        let mut points = SlicePoints::default();
        for _ in 0..2 {
            points.add((1, 60), [Point::default(), point].into());
        }
        assert_eq!(points.get((1, 60), 1), Some(point));
        assert_eq!(points.get((1, 60), 0), Some(Point::default()));
        assert_eq!(points.get((1, 60), 2), None);
        assert_eq!(points.get((0, 60), 1), None);
        assert_eq!(points.bytes(), 2 * size_of::<Point>() + PER_GROUP);
        points.remove((1, 60));
        assert_eq!((points.get((1, 60), 1), points.bytes()), (None, 0));
    }
}
