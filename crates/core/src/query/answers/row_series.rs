//! The series in the rows of a list: a value for each slice of the window.

use serde::{Deserialize, Serialize};

use super::MAX_ROWS;
use crate::query::windows::points::Point;

/// The maximum number of rows of an answer with series.
pub(super) const MAX_SERIES_ROWS: usize = 100;

/// The maximum number of rows of an answer, with or without series.
pub(super) fn most_rows(has_series: bool) -> usize {
    match has_series {
        true => MAX_SERIES_ROWS,
        false => MAX_ROWS,
    }
}

/// The metric of the series of a row.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RowMetric {
    /// The number of requests.
    Hits,
    /// The mean, in seconds.
    Mean,
    /// The 95th percentile, in seconds.
    P95,
}

/// The value of a slice.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum PointValue {
    /// A number of requests.
    Count(i64),
    /// Seconds, to three significant digits.
    Time(f32),
}

/// The metric and the slices of a series.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct SeriesSpan {
    /// `"hits"`, `"mean"` or `"p95"`, or `"count"` for counters.
    pub metric: &'static str,
    /// The length of a slice, in seconds.
    pub precision: u32,
    /// The start of the first slice, in Unix seconds.
    pub from: i64,
    /// The end of the last slice, in Unix seconds.
    pub to: i64,
}

impl RowMetric {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Hits => "hits",
            Self::Mean => "mean",
            Self::P95 => "p95",
        }
    }

    /// The values of a metric in slices. A slice without requests has a count of 0, but no time.
    pub(super) fn of_all(self, points: &[Option<Point>]) -> Vec<Option<PointValue>> {
        let value = |point: &Option<Point>| {
            let point = point.as_ref()?;
            match self {
                Self::Hits => Some(PointValue::Count(point.hits.into())),
                Self::Mean => point.mean.map(PointValue::Time),
                Self::P95 => point.p95.map(PointValue::Time),
            }
        };
        points.iter().map(value).collect()
    }
}
