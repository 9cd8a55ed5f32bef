//! How much is recorded, dropped or lost, by the kind of what it is.

use std::fmt;
use std::ops::{Add, AddAssign};

use super::batch::Batch;
use super::context::Kind;
use super::slices::Slices;

/// How much there is of each kind: the units in which losses are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Samples: requests and runs of timers.
    pub requests: u64,
    /// How much was added to counters and rankings: the sum of the numbers, without their signs. A removal from a
    /// ranking counts as 1.
    pub additions: u64,
    /// What counts no sample: minute reports, slow or failed requests that are listed, and marks.
    pub details: u64,
}

impl Amounts {
    /// This many samples.
    pub fn of_requests(requests: u64) -> Self {
        Self {
            requests,
            ..Self::default()
        }
    }

    /// This much, added to counters and rankings.
    pub fn of_additions(additions: u64) -> Self {
        Self {
            additions,
            ..Self::default()
        }
    }

    /// This many details.
    pub fn of_details(details: u64) -> Self {
        Self {
            details,
            ..Self::default()
        }
    }

    /// Whether there is nothing.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// What is left without `others`, at least nothing.
    #[must_use]
    pub fn saturating_sub(self, others: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(others.requests),
            additions: self.additions.saturating_sub(others.additions),
            details: self.details.saturating_sub(others.details),
        }
    }
}

impl Add for Amounts {
    type Output = Self;

    fn add(self, others: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(others.requests),
            additions: self.additions.saturating_add(others.additions),
            details: self.details.saturating_add(others.details),
        }
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, others: Self) {
        *self = *self + others;
    }
}

/// Writes what there is, in words.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = (self.requests > 0).then(|| format!("{} requests", self.requests));
        let additions = (self.additions > 0)
            .then(|| format!("additions of {} to counters and rankings", self.additions));
        let details = (self.details > 0)
            .then(|| format!("{} listed requests, minute reports and marks", self.details));
        let parts: Vec<_> = requests
            .into_iter()
            .chain(additions)
            .chain(details)
            .collect();
        match &parts[..] {
            [] => f.write_str("nothing"),
            [parts @ .., last] if !parts.is_empty() => {
                write!(f, "{}, and {last}", parts.join(", "))
            }
            parts => f.write_str(&parts.concat()),
        }
    }
}

impl Batch {
    /// How much it holds.
    pub fn amounts(&self) -> Amounts {
        Amounts {
            requests: self.requests_and_late(),
            ..self.amounts_beside_requests()
        }
    }

    /// How much it holds that is no request.
    pub(crate) fn amounts_beside_requests(&self) -> Amounts {
        let sum_of = |slices: &Slices<i64>| {
            let numbers = slices.iter().map(|(_, n)| n.unsigned_abs());
            numbers.fold(0, u64::saturating_add)
        };
        // The finest slices tell additions apart that cancel each other in a coarser one, but are not kept as long.
        let counters = (self.counters.values())
            .map(|series| series.iter().map(sum_of).max().unwrap_or(0))
            .fold(0, u64::saturating_add);
        let rankings = self.rankings.values().map(|delta| {
            let ids = delta.ids.values();
            let ids = ids.map(|id| sum_of(&id.slices).saturating_add(u64::from(id.is_removed)));
            ids.fold(delta.dropped, u64::saturating_add)
        });
        let contexts = self.contexts.iter().filter(|(id, _)| id.kind != Kind::All);
        let listed = contexts.flat_map(|(_, delta)| delta.slowest.iter());
        let listed: usize = listed.map(|(_, list)| list.len()).sum();
        Amounts {
            requests: 0,
            additions: rankings.fold(counters, u64::saturating_add),
            details: (self.reports.len() + self.marks.len() + listed) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::minute_report::MinuteReport;
    use crate::model::ranking::{RankingDelta, RankingSpec};
    use crate::model::slice::Precisions;

    const NOW: i64 = 1_700_000_040;

    fn of(requests: u64, additions: u64, details: u64) -> Amounts {
        Amounts {
            requests,
            additions,
            details,
        }
    }

    #[test]
    fn each_kind_is_named_if_there_is_some() {
        let details = "3 listed requests, minute reports and marks";
        for (amounts, text) in [
            (of(0, 0, 0), "nothing".to_owned()),
            (of(48, 0, 0), "48 requests".to_owned()),
            (of(0, 0, 3), details.to_owned()),
            (
                of(48, 7, 0),
                "48 requests, and additions of 7 to counters and rankings".to_owned(),
            ),
            (
                of(48, 7, 3),
                format!("48 requests, additions of 7 to counters and rankings, and {details}"),
            ),
        ] {
            assert_eq!(amounts.to_string(), text);
        }
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let most = of(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(most + of(1, 1, 1), most);
        assert_eq!(of(1, 5, 0).saturating_sub(of(2, 3, 4)), of(0, 2, 0));
        assert!(of(1, 5, 0).saturating_sub(most).is_zero());
    }

    #[test]
    fn signs_do_not_matter_and_additions_that_cancel_each_other_count() {
        let mut batch = Batch::new(Precisions::default());
        assert!(batch.amounts().is_zero());
        for (second, n) in [(0, 5), (1, -5), (400_000, 7)] {
            batch.count(&"stock".into(), NOW + second, n);
        }
        // The first two are older than what the finest slices keep.
        for second in 1..=200 {
            batch.count(&"sold".into(), NOW + second, 2);
        }
        assert_eq!(batch.amounts(), of(0, 17 + 400, 0));
        let spec = RankingSpec {
            interval: 60,
            slices: 3,
            max_ids: 2,
        };
        let mut posts = RankingDelta::new(spec);
        let id = |id: &str| Arc::<str>::from(id);
        posts.remove(&id("a"));
        for (id, second, n) in [
            (id("a"), 0, 3),
            (id("b"), 0, 4),
            (id("b"), 60, -4),
            (id("c"), 0, 1),
        ] {
            posts.add(&id, NOW + second, n);
        }
        // There is no room for one that added 1.
        posts.limit();
        let mut ranked = Batch::new(Precisions::default());
        ranked.add_ranking("posts".into(), posts);
        assert_eq!(ranked.amounts(), of(0, 1 + 3 + 8 + 1, 0));
    }

    #[test]
    fn a_batch_is_no_more_than_its_parts() {
        let mut batch = Batch::new(Precisions::default());
        for n in 0..100 {
            batch.count(&n.to_string().into(), NOW, n);
        }
        batch.add_report(MinuteReport {
            minute: NOW,
            instance: "a".into(),
            version: None,
            max_contexts: 1,
            is_side_by_side: false,
            contexts: Vec::new(),
        });
        let (all, mut parts) = (batch.amounts(), Amounts::default());
        while !batch.is_empty() {
            parts += batch.split(24).amounts();
        }
        assert_eq!(parts, all);
        assert_eq!(all, of(0, 4_950, 1));
    }
}
