//! The metrics of series, and how each is computed from counters and from records.

use serde::{Deserialize, Serialize};
use tower_pulse_model::order::InOrder;

use super::counters::count_at;
use super::measured::{Measured, Outcomes, Times, share};
use crate::store::CounterSeries;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{Kind, Metric};

/// The metric that a series shows.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SeriesMetric {
    /// The number of requests.
    #[default]
    Hits,
    /// The number of errors.
    Errors,
    /// The mean, in seconds.
    Mean,
    /// The median, in seconds.
    P50,
    /// The 95th percentile, in seconds.
    P95,
    /// The 99th percentile, in seconds.
    P99,
    /// The sum of all access times, in seconds.
    Total,
    /// Errors divided by hits, 0 to 1.
    ErrorShare,
    /// The standard deviation, in seconds.
    Stddev,
    /// The smallest access time, in seconds.
    Min,
    /// The largest access time, in seconds.
    Max,
    /// Counts by outcome.
    Outcomes,
    /// The count, the mean and percentiles of each slice.
    Times,
    /// The mean time of a request within its polls, in seconds.
    Computing,
    /// The mean time of a request outside of its polls, in seconds.
    Waiting,
    /// The longest poll, in seconds.
    LongestPoll,
}

/// The value of a metric in a slice.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SeriesValue {
    /// A number of requests.
    Count(i64),
    /// Seconds, or a share; `None` if the divisor is zero.
    Number(Option<f64>),
    /// Counts by outcome.
    Outcomes(Outcomes),
    /// The count, the mean and percentiles.
    Times(SliceTimes),
}

/// The access times of a slice, in seconds.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct SliceTimes {
    /// Number of requests.
    pub count: u64,
    /// The mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
}

impl SliceTimes {
    pub(super) fn new(count: u64, times: &Times) -> Self {
        Self {
            count,
            mean: times.mean,
            p50: times.p50,
            p95: times.p95,
            p99: times.p99,
        }
    }
}

impl SeriesMetric {
    /// The counters of a context from which the metric is computed; empty if the metric needs records.
    pub(super) fn counters(self) -> &'static [Metric] {
        use Metric::{Errors, Hits, Micros};
        match self {
            Self::Hits => &[Hits],
            Self::Errors => &[Errors],
            Self::Total => &[Micros],
            Self::Mean => &[Hits, Micros],
            Self::ErrorShare => &[Hits, Errors],
            _ => &[],
        }
    }

    /// The values in the slices of [`counters`](Self::counters), oldest first.
    pub(super) fn of_counters(self, counters: &[CounterSeries]) -> Vec<(i64, SeriesValue)> {
        let both = [counters.first(), counters.get(1)];
        let both = both.map(|of| of.map_or(&[][..], |of| &of.slices[..]));
        let mut starts: Vec<i64> = both.iter().copied().flatten().map(|s| s.start).collect();
        starts.order();
        starts.dedup();
        let count = |slices, start| count_at(slices, start).unwrap_or(0);
        let ratio = |part: i64, whole: i64| share(part as f64, whole as f64);
        let value = |[first, second]: [i64; 2]| match self {
            Self::Total => SeriesValue::Number(Some(first as f64 / 1e6)),
            Self::Mean => SeriesValue::Number(ratio(second, first).map(|micros| micros / 1e6)),
            Self::ErrorShare => SeriesValue::Number(ratio(second, first)),
            _ => SeriesValue::Count(first),
        };
        let at = |start| (start, value(both.map(|slices| count(slices, start))));
        starts.into_iter().map(at).collect()
    }

    /// The value in one slice of a context's records.
    pub(super) fn of_record(self, kind: Kind, sums: &Aggregate) -> SeriesValue {
        let count = |n: u64| SeriesValue::Count(i64::try_from(n).unwrap_or(i64::MAX));
        let of = Measured::in_slice(kind, sums);
        let (times, polls) = (&of.times, of.polls.as_ref());
        SeriesValue::Number(match self {
            Self::Hits => return count(sums.times.count),
            Self::Errors => return count(of.errors),
            Self::Outcomes => return SeriesValue::Outcomes(of.outcomes),
            Self::Times => return SeriesValue::Times(SliceTimes::new(of.count, times)),
            Self::Total => Some(of.total),
            Self::Mean => times.mean,
            Self::ErrorShare => of.error_share,
            Self::Stddev => times.stddev,
            Self::Min => times.min,
            Self::Max => times.max,
            Self::P50 => times.p50,
            Self::P95 => times.p95,
            Self::P99 => times.p99,
            Self::Computing => polls.and_then(|polls| polls.computing),
            Self::Waiting => polls.and_then(|polls| polls.waiting),
            Self::LongestPoll => polls.and_then(|polls| polls.longest),
        })
    }

    /// The largest relative error of a value.
    pub(super) fn error(self, sums: &Aggregate) -> f64 {
        match self {
            Self::P50 | Self::P95 | Self::P99 | Self::Times => sums.histogram.error(),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SliceCount;
    use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};
    use tower_pulse_model::measures::Measure;
    use tower_pulse_model::outcome::Outcome;

    fn counter<const N: usize>(slices: [(i64, i64); N]) -> CounterSeries {
        let slices = slices.map(|(start, n)| SliceCount::new(start, n));
        CounterSeries::new("a", slices.into())
    }

    #[test]
    fn counters_are_joined_by_slice() {
        let hits = counter([(0, 4), (60, 0), (180, 2)]);
        let both = [hits.clone(), counter([(0, 1), (120, 3)])];
        let numbers = |metric: SeriesMetric| {
            let number = |(start, value)| match value {
                SeriesValue::Number(number) => (start, number),
                other => panic!("{other:?}"),
            };
            let values = metric.of_counters(&both).into_iter();
            values.map(number).collect::<Vec<_>>()
        };
        let shares = [(0, Some(0.25)), (60, None), (120, None), (180, Some(0.0))];
        assert_eq!(numbers(SeriesMetric::ErrorShare), shares);
        assert_eq!(numbers(SeriesMetric::Mean)[0], (0, Some(0.25e-6)));
        let of = format!("{:?}", &SeriesMetric::Hits.of_counters(&[hits])[1..]);
        assert_eq!(of, "[(60, Count(0)), (180, Count(2))]");
        let total = SeriesMetric::Total.of_counters(&[counter([(0, 2_500_000)])]);
        assert_eq!(format!("{total:?}"), "[(0, Number(Some(2.5)))]");
    }

    #[test]
    fn a_record_has_every_metric() {
        let mut sums = Aggregate::default();
        for (millis, outcome) in [(1, Outcome::Success), (3, Outcome::ServerError)] {
            sums.times.record(millis * 1_000_000);
            sums.outcomes.record(outcome, outcome.is_error());
        }
        for (measure, number) in [
            (Measure::PollTime, 1_000_000),
            (Measure::Waited, 3_000_000),
            (Measure::LongestPoll, 700_000),
            (Measure::Polls, 4),
        ] {
            sums.measures.add(measure, number);
        }
        // The middle of a bucket may lie beyond the exact bounds.
        sums.histogram = Histogram::new(SCALE, [(bucket_of(9_000_000) as u16, 2)]);
        for (metric, expected) in [
            (SeriesMetric::Total, 0.004),
            (SeriesMetric::Mean, 0.002),
            (SeriesMetric::ErrorShare, 0.5),
            (SeriesMetric::Stddev, 0.002f64.sqrt() * 0.001f64.sqrt()),
            (SeriesMetric::Min, 0.001),
            (SeriesMetric::Max, 0.003),
            (SeriesMetric::P50, 0.003),
            (SeriesMetric::Computing, 0.0005),
            (SeriesMetric::Waiting, 0.0015),
            (SeriesMetric::LongestPoll, 0.0007),
        ] {
            match metric.of_record(Kind::Http, &sums) {
                SeriesValue::Number(Some(number)) => {
                    assert!((number - expected).abs() < 1e-9, "{metric:?}: {number}");
                }
                other => panic!("{metric:?}: {other:?}"),
            }
            let is_exact = !matches!(metric, SeriesMetric::P50);
            assert_eq!(metric.error(&sums) == 0.0, is_exact);
        }
        let value = |metric: SeriesMetric| metric.of_record(Kind::Http, &sums);
        assert!(matches!(value(SeriesMetric::Hits), SeriesValue::Count(2)));
        assert!(matches!(value(SeriesMetric::Errors), SeriesValue::Count(1)));
        let SeriesValue::Outcomes(counts) = value(SeriesMetric::Outcomes) else {
            panic!("outcomes");
        };
        let count = |name| counts.iter().find(|(other, _)| *other == name);
        for outcome in [("2xx", 1), ("4xx", 0), ("5xx", 1)] {
            assert_eq!(count(outcome.0), Some(outcome));
        }
        assert_eq!(count("completed"), None, "only timers complete");
        let SeriesValue::Times(times) = value(SeriesMetric::Times) else {
            panic!("times");
        };
        assert_eq!((times.count, times.p95), (2, Some(0.003)));
        assert!((times.mean.expect("two samples") - 0.002).abs() < 1e-9);
    }
}
