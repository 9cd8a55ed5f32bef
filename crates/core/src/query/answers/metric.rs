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
    /// The sum of all durations, in seconds.
    Total,
    /// Errors divided by hits, 0 to 1.
    ErrorShare,
    /// The standard deviation, in seconds.
    Stddev,
    /// The smallest duration, in seconds.
    Min,
    /// The largest duration, in seconds.
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

/// The durations of a slice, in seconds.
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
    /// The counters of a context from which the metric is computed; none if the metric needs records.
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
        let both = both.map(|counter| counter.map_or(&[][..], |counter| &counter.slices[..]));
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

    pub(super) fn of_record(self, kind: Kind, sums: &Aggregate) -> SeriesValue {
        let count = |n: u64| SeriesValue::Count(i64::try_from(n).unwrap_or(i64::MAX));
        let measured = Measured::in_slice(kind, sums);
        let (times, polls) = (&measured.times, measured.polls.as_ref());
        SeriesValue::Number(match self {
            Self::Hits => return count(sums.times.count),
            Self::Errors => return count(measured.errors),
            Self::Outcomes => return SeriesValue::Outcomes(measured.outcomes),
            Self::Times => return SeriesValue::Times(SliceTimes::new(measured.count, times)),
            Self::Total => Some(measured.total),
            Self::Mean => times.mean,
            Self::ErrorShare => measured.error_share,
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

    pub(super) fn error(self, sums: &Aggregate) -> f64 {
        match self {
            Self::P50 | Self::P95 | Self::P99 | Self::Times => sums.histogram.error(),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SeriesMetric::{Computing, Waiting};
    use super::*;
    use tower_pulse_model::measures::Measure::{PollTime, Polls, Waited};

    #[test]
    fn a_record_has_the_times_within_polls_and_outside() {
        let mut sums = Aggregate::default();
        sums.times.record(4_000_000);
        for (measure, number) in [(PollTime, 1_000_000), (Waited, 3_000_000), (Polls, 4)] {
            sums.measures.add(measure, number);
        }
        for (metric, expected) in [(Computing, 0.001), (Waiting, 0.003)] {
            let SeriesValue::Number(Some(number)) = metric.of_record(Kind::Http, &sums) else {
                panic!("{metric:?} is no number");
            };
            assert!((number - expected).abs() < 1e-9, "{metric:?}: {number}");
        }
    }
}
