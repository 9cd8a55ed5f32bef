//! Totals of this instance since it started, for the Prometheus text.

use std::sync::{Arc, LazyLock};

use super::exemplars::{Exemplar, Exemplars};
use super::slow::ListedRequests;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::Kind;
use tower_pulse_model::histogram::{BUCKETS, SCALE, lower_bound};
use tower_pulse_model::outcome::OutcomeCounts;
use tower_pulse_model::tally::FirstCodes;

/// Upper bounds of the buckets, in seconds: all bounds of the metrics that a scraper may ask for. The bounds for this
/// crate's own metric names are the defaults of Prometheus, plus 30 s, 1 ms and 2.5 ms: many services answer within 5
/// ms. The bounds for OpenTelemetry's names are those of its conventions.
pub const BOUNDS: [f64; 17] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    30.0,
];

/// Number of buckets between these bounds, and beyond the last bound.
pub const BOUND_BUCKETS: usize = BOUNDS.len() + 1;

/// For each bucket of the exponential histogram, the index of the first of [`BOUNDS`] above the bucket's middle.
static BOUND_BUCKET_OF: LazyLock<[usize; BUCKETS]> = LazyLock::new(|| {
    std::array::from_fn(|index| {
        let low = lower_bound(index as u16, SCALE);
        let middle = low.midpoint(lower_bound(index as u16 + 1, SCALE));
        BOUNDS.partition_point(|bound| *bound < middle)
    })
});

/// Totals of a context.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// The kind of the context.
    pub kind: Kind,
    /// Number of samples.
    pub count: u64,
    /// Sum of their durations, in nanoseconds.
    pub nanos: u128,
    /// Counts by outcome.
    pub outcomes: OutcomeCounts,
    /// Responses by status code.
    pub codes: FirstCodes,
    /// Number of durations in each bucket, not cumulative. The last bucket is beyond all bounds.
    pub buckets: [u64; BOUND_BUCKETS],
    /// Example requests for the buckets, if trace ids are recorded.
    pub exemplars: Option<Arc<Exemplars>>,
    /// How many requests missed the target of the context; `None` without a target.
    pub target: Option<TargetTotals>,
}

/// How many requests of a context missed the context's target since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TargetTotals {
    /// The duration below which a request is good, in seconds.
    pub seconds: f64,
    /// Requests that count: successes and errors.
    pub counted: u64,
    /// Counted requests that were errors, or took too long.
    pub bad: u64,
}

impl TargetTotals {
    /// The totals of a target without any requests.
    pub fn new(seconds: f64) -> Self {
        Self {
            seconds,
            ..Self::default()
        }
    }

    fn add(&mut self, aggregate: &Aggregate) {
        let (good, counted) = aggregate.counts_below(self.seconds);
        self.counted = self.counted.saturating_add(counted);
        self.bad = self.bad.saturating_add(counted.saturating_sub(good));
    }
}

impl Totals {
    /// Totals of a context without samples.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            count: 0,
            nanos: 0,
            outcomes: OutcomeCounts::default(),
            codes: FirstCodes::default(),
            buckets: [0; BOUND_BUCKETS],
            exemplars: None,
            target: None,
        }
    }

    /// Adds an aggregate. A bucket of the exponential histogram may contain a bound. All samples of such a bucket count
    /// as if they were at its middle, so the bounds are exact to 2.2 %.
    pub fn add(&mut self, aggregate: &Aggregate) {
        self.count += aggregate.times.count;
        self.nanos += u128::from(aggregate.times.sum);
        self.outcomes.merge(&aggregate.outcomes);
        for (code, n) in aggregate.codes.iter() {
            self.codes.add(*code, n);
        }
        self.codes.add_other(aggregate.codes.other());
        for (index, n) in aggregate.histogram.buckets() {
            let bucket = BOUND_BUCKET_OF.get(usize::from(*index));
            self.buckets[bucket.copied().unwrap_or(BOUNDS.len())] += n;
        }
        if let Some(target) = &mut self.target {
            target.add(aggregate);
        }
    }

    /// Makes exemplars of the listed requests that have a trace id.
    pub(super) fn add_exemplars(&mut self, listed: &ListedRequests) {
        for request in listed.slow.iter().chain(&listed.failed) {
            if let Some(trace_id) = &request.trace_id {
                let exemplar = Exemplar {
                    trace_id: trace_id.clone(),
                    nanos: request.nanos,
                    ended: request.ended_at,
                };
                let exemplars = Arc::make_mut(self.exemplars.get_or_insert_default());
                exemplars.add(&exemplar, request.ended.is_error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::histogram::{Histogram, bucket_of};
    use tower_pulse_model::outcome::Outcome;

    #[test]
    fn aggregates_add_up_to_totals() {
        let mut totals = Totals::new(Kind::Timer);
        for micros in [900u64, 1_000, 3_000, 700_000, 60_000_000] {
            let mut aggregate = Aggregate::default();
            for _ in 0..2 {
                aggregate.times.record(1_000 * micros);
                aggregate.outcomes.record(Outcome::Completed, false);
            }
            let bucket = bucket_of(1_000 * micros) as u16;
            aggregate.histogram = Histogram::new(SCALE, [(bucket, 2)]);
            aggregate.codes.add(404, 1);
            totals.add(&aggregate);
        }
        let mut codes = Aggregate::default();
        (200..220).for_each(|code| codes.codes.add(code, 2));
        totals.add(&codes);
        let codes: Vec<_> = totals.codes.iter().collect();
        assert_eq!(codes[..2], [(404, 5), (200, 2)]);
        assert_eq!((codes.len(), totals.codes.other()), (16, 10));
        assert_eq!((totals.count, totals.nanos), (10, 2 * 60_704_900_000));
        assert_eq!(totals.outcomes.count(Outcome::Completed), 10);
        let bounds = BOUNDS.iter().copied().chain([f64::INFINITY]);
        let filled = bounds.zip(totals.buckets).filter(|(_, count)| *count > 0);
        // The middle of the bucket that contains 1 ms is above 1 ms.
        let expected = [0.001, 0.0025, 0.005, 0.75, f64::INFINITY];
        assert!(filled.eq(expected.map(|bound| (bound, 2))));
    }
}
