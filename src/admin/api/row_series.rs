//! The series of the rows of a table: a value for each slice of the window.

use serde::Serialize;

use crate::query::window_points::{Point, WindowPoints};

/// The most rows of an answer that have a series.
pub(super) const MAX_SERIES_ROWS: usize = 100;

/// The metrics of a row's series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowMetric {
    Hits,
    Mean,
    P95,
}

/// The values of the parameter `series`.
pub(super) const ROW_METRICS: [(&str, Option<RowMetric>); 4] = [
    ("none", None),
    ("hits", Some(RowMetric::Hits)),
    ("mean", Some(RowMetric::Mean)),
    ("p95", Some(RowMetric::P95)),
];

/// The value of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum PointValue {
    Count(i64),
    /// Seconds.
    Time(f32),
}

/// The slices that the values of a series belong to.
#[derive(Debug, Serialize)]
pub(super) struct SeriesOf {
    pub(super) metric: &'static str,
    /// The length of a slice, in seconds.
    pub(super) precision: u32,
    /// The start of the first slice, and the end of the last, in Unix seconds.
    pub(super) from: i64,
    pub(super) to: i64,
}

impl SeriesOf {
    pub(super) fn new(metric: &'static str, points: &WindowPoints) -> Self {
        Self {
            metric,
            precision: points.precision,
            from: points.from,
            to: points.to,
        }
    }
}

impl RowMetric {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Hits => "hits",
            Self::Mean => "mean",
            Self::P95 => "p95",
        }
    }

    /// The values of some slices. A slice without requests has a count, and no time.
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
