//! What each context measured in each slice of a window: as little of it as a line in a table shows.

use std::collections::HashMap;

use crate::model::aggregate::Aggregate;
use crate::model::records::{Record, RecordId};

/// What a context measured in a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) hits: u32,
    /// Seconds, to three digits.
    pub(crate) mean: Option<f32>,
    /// Seconds, to three digits.
    pub(crate) p95: Option<f32>,
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
        }
    }
}

/// A number to three digits.
fn rounded(value: f64) -> f32 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    let unit = 10f64.powi(digits);
    ((value * unit).round() / unit) as f32
}

/// The points of all contexts in some slices.
#[derive(Debug, Default)]
pub(crate) struct SlicePoints(HashMap<i64, Box<[(RecordId, Point)]>>);

impl SlicePoints {
    /// Adds a slice.
    pub(crate) fn add(&mut self, start: i64, records: &[(RecordId, Record)]) {
        let points = records.iter();
        let points = points.map(|(id, record)| (*id, Point::from(&record.sums)));
        let mut points: Box<[_]> = points.collect();
        points.sort_unstable_by_key(|(id, _)| *id);
        self.0.insert(start, points);
    }

    /// Takes a slice out.
    pub(crate) fn remove(&mut self, start: i64) {
        self.0.remove(&start);
    }

    /// Takes everything out.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What a context measured in a slice; `None` if the slice is not in it.
    pub(crate) fn get(&self, start: i64, id: RecordId) -> Option<Point> {
        let points = self.0.get(&start)?;
        let at = points.binary_search_by_key(&id, |(id, _)| *id);
        Some(at.map_or_else(|_| Point::default(), |at| points[at].1))
    }
}

/// What some contexts measured in each slice of a window that is retained.
#[derive(Debug)]
pub(crate) struct WindowPoints {
    /// The length of a slice, in seconds.
    pub(crate) precision: u32,
    /// The start of the first slice, and the end of the last, in Unix seconds.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// The points of each context, oldest first; `None` where nothing was recorded, or where it is not read yet.
    pub(crate) rows: Vec<Vec<Option<Point>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::context::Kind;
    use crate::model::histogram::{Histogram, SCALE, bucket_of};

    #[test]
    fn numbers_are_rounded_to_three_digits() {
        let shown = [0.0, 0.123_456, 9.999, 12_345.0, 1e-9, 0.000_045_678];
        let shown = shown.map(|value| rounded(value).to_string());
        let expected = ["0", "0.123", "10", "12300", "0.000000001", "0.0000457"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_context_without_a_record_had_no_requests() {
        let id = |name: &str| RecordId::new(Kind::Http, name);
        let mut record = Record::default();
        for millis in [10u64, 20] {
            record.sums.times.record(millis * 1_000_000);
        }
        let buckets = [10, 20].map(|millis| (bucket_of(millis * 1_000_000) as u16, 1));
        record.sums.histogram = Histogram::new(SCALE, buckets);
        let mut points = SlicePoints::default();
        points.add(60, &[(id("b"), record.clone()), (id("a"), record)]);
        let point = points.get(60, id("a")).expect("the slice is there");
        assert_eq!((point.hits, point.mean), (2, Some(0.015)));
        let p95 = point.p95.expect("there were requests");
        assert!((0.0195..=0.02).contains(&p95), "{p95}");
        assert_eq!(points.get(60, id("c")), Some(Point::default()));
        assert_eq!(points.get(0, id("a")), None);
        points.remove(60);
        assert_eq!(points.get(60, id("a")), None);
    }
}
