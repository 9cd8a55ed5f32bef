//! The verdict on whether all paths of an instance differ from the others, or only some of its paths.

use serde::Serialize;

use super::instance::InstancePath;
use super::instances::{STANDS_OUT, SUSPECT_STANDS_OUT};
use super::measured::Measured;
use crate::query::instance_minutes::MIN_REQUESTS;
use tower_pulse_detect::suspects::fails_more;

/// How many of an instance's paths have a property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Spread {
    /// No path has the property.
    #[default]
    None,
    /// At most half of the paths have the property, or there is only one path, which has it. The cause is the path.
    Some,
    /// More than half of the paths have the property.
    Most,
    /// At least two paths, and at least half of the paths, have the property, and no path surely lacks the property.
    /// The cause is the instance.
    All,
}

/// Whether an instance is slower or fails more often than the others, on all of its paths or on some. By chance alone,
/// about one of a hundred paths is slower, and about one fails more often.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct InstanceVerdict {
    /// Number of compared paths: those with at least 10 requests on the instance, and 10 on the others, in two or more
    /// common minutes.
    pub compared: usize,
    /// How many of the compared paths are slower.
    pub slower: Spread,
    /// Number of slower paths.
    pub slower_paths: usize,
    /// How many of the compared paths fail more often.
    pub failing: Spread,
    /// Number of paths that fail more often.
    pub failing_paths: usize,
    /// Number of compared paths that are surely not slower.
    #[serde(skip)]
    not_slower: usize,
    /// Number of compared paths that do not fail more often, although they have enough requests to show more failures.
    #[serde(skip)]
    not_failing: usize,
}

pub(super) struct Thresholds {
    /// The smallest ratio at which a path is slower.
    slower: f64,
    /// The share of errors among all requests of the instance.
    error_share: f64,
}

/// A path is slower only if its ratio exceeds 1 by this number of standard errors.
const SURE: f64 = 3.0;

/// A path is surely not slower if its ratio is below the threshold by this number of standard errors.
const LIKELY: f64 = 2.0;

impl Thresholds {
    /// A path is slower from a ratio of 1.5 on. If the instance stands out, this threshold is halfway between 1 and the
    /// instance's ratio, but at least 1.1 and at most 1.5.
    pub(super) fn new(ratio: Option<f64>, stands_out: bool, error_share: Option<f64>) -> Self {
        let ratio = ratio.filter(|_| stands_out).unwrap_or(f64::INFINITY);
        Self {
            slower: f64::midpoint(1.0, ratio).clamp(SUSPECT_STANDS_OUT, STANDS_OUT),
            error_share: error_share.unwrap_or(0.0),
        }
    }

    pub(super) fn is_slower(&self, ratio: Option<f64>, own: &Measured, others: &Measured) -> bool {
        ratio.is_some_and(|ratio| {
            let lowest = ratio * (1.0 - SURE * deviation(own, others));
            ratio >= self.slower && lowest > 1.0
        })
    }

    fn is_not_slower(&self, ratio: f64, own: &Measured, others: &Measured) -> bool {
        ratio * (1.0 + LIKELY * deviation(own, others)) < self.slower
    }

    pub(super) fn is_failing(own: &Measured, others: &Measured) -> bool {
        fails_more((own.errors, own.count), (others.errors, others.count))
    }

    /// Whether the path has enough requests to show errors, if its share of errors were that of the whole instance.
    fn has_enough_for_failures(&self, own: &Measured) -> bool {
        own.count as f64 * self.error_share >= MIN_REQUESTS as f64
    }
}

/// The standard error of the ratio of two means, as a share of the ratio.
fn deviation(own: &Measured, others: &Measured) -> f64 {
    let variance = |measured: &Measured| {
        let (mean, stddev) = (measured.times.mean?, measured.times.stddev?);
        (mean > 0.0).then(|| (stddev / mean).powi(2) / measured.count as f64)
    };
    // Without measurements, the standard error is infinite, so no difference is certain.
    variance(own)
        .zip(variance(others))
        .map_or(f64::INFINITY, |(own, others)| (own + others).sqrt())
}

impl InstanceVerdict {
    pub(super) fn add(&mut self, path: &InstancePath, thresholds: &Thresholds) {
        let (Some(ratio), Some(others)) = (path.ratio, &path.others) else {
            return;
        };
        let own = &path.measured;
        self.compared += 1;
        self.slower_paths += usize::from(path.slower);
        self.not_slower +=
            usize::from(!path.slower && thresholds.is_not_slower(ratio, own, others));
        self.failing_paths += usize::from(path.failing);
        self.not_failing += usize::from(!path.failing && thresholds.has_enough_for_failures(own));
        self.slower = Spread::new(self.slower_paths, self.not_slower, self.compared);
        self.failing = Spread::new(self.failing_paths, self.not_failing, self.compared);
    }
}

impl Spread {
    /// `yes` is the number of compared paths that surely have the property. `no` is the number of compared paths that
    /// surely lack the property.
    fn new(yes: usize, no: usize, compared: usize) -> Self {
        match yes {
            0 => Self::None,
            2.. if no == 0 && 2 * yes >= compared => Self::All,
            2.. if 2 * yes > compared => Self::Most,
            _ => Self::Some,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::aggregate::Aggregate;
    use tower_pulse_model::context::Kind;
    use tower_pulse_model::outcome::Outcome;

    use super::super::measured::ContextName;

    /// Requests of these durations. The first `failed` requests fail.
    fn measured(millis: &[u64], failed: usize) -> Measured {
        let mut sums = Aggregate::default();
        for (at, millis) in millis.iter().enumerate() {
            sums.times.record(millis * 1_000_000);
            sums.outcomes.record(Outcome::ServerError, at < failed);
        }
        Measured::in_slice(Kind::Http, &sums)
    }

    fn path(own: Measured, others: Measured, thresholds: &Thresholds) -> InstancePath {
        let ratio = own.times.mean.zip(others.times.mean);
        let ratio = ratio.map(|(own, others)| own / others);
        InstancePath {
            name: ContextName::new("GET /", Kind::Http),
            slower: thresholds.is_slower(ratio, &own, &others),
            failing: Thresholds::is_failing(&own, &others),
            ratio,
            measured: own,
            others: Some(others),
        }
    }

    fn about(millis: u64, count: usize) -> Vec<u64> {
        let around = [millis * 7 / 10, millis, millis * 13 / 10];
        around.into_iter().cycle().take(count).collect()
    }

    fn of_ratio(ratio: f64, stands_out: bool) -> Thresholds {
        Thresholds::new(Some(ratio), stands_out, None)
    }

    /// `paths` has the duration of each path on the instance, in milliseconds. On the others, a path takes 10 ms.
    /// Each path has 300 requests, but the last path has `few`.
    fn slower_or_few(thresholds: &Thresholds, paths: &[u64], few: usize) -> (Spread, usize, usize) {
        let mut verdict = InstanceVerdict::default();
        for (at, millis) in paths.iter().enumerate() {
            let count = if at + 1 == paths.len() { few } else { 300 };
            let own = measured(&about(*millis, count), 0);
            let others = measured(&about(10, 300), 0);
            verdict.add(&path(own, others, thresholds), thresholds);
        }
        (verdict.slower, verdict.slower_paths, verdict.compared)
    }

    #[test]
    fn an_instance_is_slower_on_all_paths_or_on_some() {
        let twice = of_ratio(2.0, true);
        let slower = |thresholds: &Thresholds, paths: &[u64]| slower_or_few(thresholds, paths, 300);
        assert_eq!(slower(&twice, &[20, 19, 22]), (Spread::All, 3, 3));
        // The last path has few requests, so it may be slower too.
        let few = slower_or_few(&twice, &[20, 19, 14], 10);
        assert_eq!(few, (Spread::All, 2, 3));
        assert_eq!(slower(&twice, &[20, 19, 10]), (Spread::Most, 2, 3));
        let alike = of_ratio(1.1, false);
        assert_eq!(slower(&alike, &[20, 10, 10]), (Spread::Some, 1, 3));
        assert_eq!(slower(&alike, &[13, 10]), (Spread::None, 0, 2));
        // An instance that stands out is slightly slower on all paths.
        let slightly = slower(&of_ratio(1.3, true), &[13, 13]);
        assert_eq!(slightly, (Spread::All, 2, 2));
        assert_eq!(slower(&twice, &[20]).0, Spread::Some);
        assert_eq!(slower(&twice, &[]), (Spread::None, 0, 0));
    }

    #[test]
    fn a_path_fails_more_often_beyond_chance() {
        let is_failing = |failed, of_others| {
            let own = measured(&about(10, 200), failed);
            let others = measured(&about(10, 600), of_others);
            Thresholds::is_failing(&own, &others)
        };
        assert!(is_failing(40, 12), "20% beside 2%");
        assert!(!is_failing(40, 120), "20% beside 20%");
        assert!(!is_failing(2, 3), "1% beside 0.5%: two requests");
        assert!(!is_failing(0, 600), "it fails less often");
        assert!(is_failing(200, 0), "all requests fail");
        assert!(!is_failing(200, 600), "all requests fail on all instances");
    }
}
