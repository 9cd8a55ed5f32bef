//! Amounts that are recorded, dropped or lost, by kind.

use std::fmt;
use std::ops::{Add, AddAssign};

use super::slices::{Merge, summed};

/// The amount of each kind: the units in which losses are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Samples: requests and runs of timers.
    pub requests: u64,
    /// The sum of the additions to counters and rankings, without their signs. A removal from a ranking counts as 1.
    pub additions: u64,
    /// Data without a sample: marks, entries in the lists of slow and failed requests, and minute reports.
    pub details: u64,
}

summed!(Amounts {
    requests,
    additions,
    details
});

impl Amounts {
    /// An amount of these additions to counters and rankings.
    pub fn of_additions(additions: u64) -> Self {
        Self {
            additions,
            ..Self::default()
        }
    }

    /// Whether all amounts are zero.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// The amounts without `others`, at least zero.
    #[must_use]
    pub fn saturating_sub(mut self, others: Self) -> Self {
        self.subtract(&others);
        self
    }
}

impl Add for Amounts {
    type Output = Self;

    fn add(mut self, others: Self) -> Self {
        self += others;
        self
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, others: Self) {
        self.merge(&others);
    }
}

/// Writes the amounts that are not zero, in words.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = (self.requests > 0).then(|| format!("{} requests", self.requests));
        let additions = (self.additions > 0)
            .then(|| format!("additions of {} to counters and rankings", self.additions));
        let details = (self.details > 0).then(|| {
            format!(
                "{} details (marks, listed slow and failed requests, an instance's figures for a minute)",
                self.details
            )
        });
        let parts = requests.into_iter().chain(additions);
        let parts: Vec<_> = parts.chain(details).collect();
        match &parts[..] {
            [] => f.write_str("nothing"),
            [parts @ .., last] if !parts.is_empty() => {
                write!(f, "{}, and {last}", parts.join(", "))
            }
            parts => f.write_str(&parts.concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::amounts;

    #[test]
    fn each_kind_is_named_if_there_is_some() {
        let details = "3 details (marks, listed slow and failed requests, an instance's figures for a minute)";
        let additions = "additions of 7 to counters and rankings";
        for (amounts, text) in [
            (amounts(0, 0, 0), "nothing"),
            (amounts(48, 0, 0), "48 requests"),
            (amounts(0, 0, 3), details),
            (amounts(48, 7, 0), &format!("48 requests, and {additions}")),
            (
                amounts(48, 7, 3),
                &format!("48 requests, {additions}, and {details}"),
            ),
        ] {
            assert_eq!(amounts.to_string(), text);
        }
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let most = amounts(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(most + amounts(1, 1, 1), most);
        assert_eq!(
            amounts(1, 5, 0).saturating_sub(amounts(2, 3, 4)),
            amounts(0, 2, 0)
        );
        assert!(amounts(1, 5, 0).saturating_sub(most).is_zero());
    }
}
