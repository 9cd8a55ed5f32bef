//! Old and new versions of the application in the same minutes.

use std::collections::HashMap;
use std::sync::Arc;

use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::minute_report::ReportedContext;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slices::Merge;

/// The most minutes that are compared.
pub const MAX_MINUTES: i64 = 10;

/// The fewest successful responses on each side of a comparison.
const MIN_RESPONSES: u64 = 10;

/// The sums of a new version of the application and of the others, in the minutes in which both ran.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    contexts: HashMap<RecordId, OldAndNew>,
}

#[derive(Clone, Debug, Default)]
struct OldAndNew {
    minutes: usize,
    sums: [Aggregate; 2],
}

/// A new version compared with the others, in the same minutes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SideBySide {
    /// Number of minutes in which both sides had requests.
    pub minutes: usize,
    /// The new version.
    pub new: Side,
    /// The other versions.
    pub old: Side,
    /// The mean of the new version divided by that of the others; `None` if either side has fewer than 10 successful
    /// responses.
    pub ratio: Option<f64>,
}

/// The figures of a version.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Side {
    /// Number of requests.
    pub count: u64,
    /// Errors divided by `count`, 0 to 1.
    pub error_share: Option<f64>,
    /// The mean of the successful responses, in seconds.
    pub mean: Option<f64>,
    /// The median of the successful responses, in seconds.
    pub p50: Option<f64>,
    /// The 95th percentile of the successful responses, in seconds.
    pub p95: Option<f64>,
    /// The 99th percentile of the successful responses, in seconds.
    pub p99: Option<f64>,
}

impl Side {
    pub(crate) fn new(sums: &Aggregate) -> Self {
        let (count, successes) = (sums.times.count, sums.successes());
        Self {
            count,
            error_share: (count > 0).then(|| sums.outcomes.errors as f64 / count as f64),
            mean: successes.mean(),
            p50: successes.quantile(0.50),
            p95: successes.quantile(0.95),
            p99: successes.quantile(0.99),
        }
    }
}

impl Versions {
    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        let sums = self.contexts.values().flat_map(|sides| &sides.sums);
        sums.map(Aggregate::bytes).sum()
    }

    /// Adds a minute of the `new` version and of the other versions.
    pub fn add_minute(&mut self, new: &str, versions: &[(Arc<str>, Vec<ReportedContext>)]) {
        let mut minute: HashMap<RecordId, [Aggregate; 2]> = HashMap::new();
        for (version, records) in versions {
            for (id, sums) in records {
                let of_both = minute.entry(*id).or_default();
                of_both[usize::from(**version == *new)].merge(sums);
            }
        }
        for (id, of_both) in minute {
            if of_both.iter().all(|sums| sums.times.count > 0) {
                let sides = self.contexts.entry(id).or_default();
                sides.minutes += 1;
                for (sums, added) in sides.sums.iter_mut().zip(&of_both) {
                    sums.merge(added);
                }
            }
        }
    }

    /// Compares the versions on a context. `None` if the two sides never had requests of the context in the same
    /// minute.
    pub fn compare(&self, id: RecordId) -> Option<SideBySide> {
        let OldAndNew { minutes, sums } = self.contexts.get(&id)?;
        let [old, new] = sums.each_ref().map(Side::new);
        let is_enough = |sums: &Aggregate| sums.successes().count() >= MIN_RESPONSES;
        let ratio = new.mean.zip(old.mean).map(|(new, old)| new / old);
        Some(SideBySide {
            minutes: *minutes,
            ratio: ratio.filter(|_| sums.iter().all(is_enough)),
            new,
            old,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sums_of;
    use tower_pulse_model::context::Kind;

    fn requests(count: usize, millis: u64) -> Aggregate {
        sums_of(vec![(1_000_000 * millis, false); count])
    }

    #[test]
    fn only_minutes_of_both_versions_are_compared() {
        let id = RecordId::new(Kind::Http, "GET /");
        let mut versions = Versions::default();
        for minute in [
            &[("1", 30, 100), ("2", 20, 200)][..],
            &[("1", 500, 900)],
            &[("2", 500, 900)],
            &[("0", 4, 100), ("2", 1, 200)],
        ] {
            let records = minute.iter();
            let records = records.map(|(version, count, millis)| {
                ((*version).into(), vec![(id, requests(*count, *millis))])
            });
            versions.add_minute("2", &records.collect::<Vec<_>>());
        }
        let both = versions.compare(id).expect("both had requests");
        assert_eq!((both.minutes, both.new.count, both.old.count), (2, 21, 34));
        let ratio = both.ratio.expect("there are enough");
        assert!((ratio / 2.0 - 1.0).abs() < 0.03, "{ratio}");
        let other = RecordId::new(Kind::Http, "GET /a");
        assert!(versions.compare(other).is_none());
    }

    #[test]
    fn few_responses_have_no_ratio() {
        let id = RecordId::new(Kind::Http, "GET /");
        let mut versions = Versions::default();
        let (few, many) = (vec![(id, requests(9, 200))], vec![(id, requests(90, 100))]);
        versions.add_minute("2", &[("2".into(), few), ("1".into(), many)]);
        let both = versions.compare(id).expect("both had requests");
        assert_eq!((both.minutes, both.ratio), (1, None));
    }
}
