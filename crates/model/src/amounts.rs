//! Amounts that are recorded, dropped or lost, by kind.

use std::fmt;
use std::ops::{Add, AddAssign};

use super::slices::{Merge, summed};

const DETAILS: &str = "marks, listed slow and failed requests, an instance's figures for a minute";

/// How much of each kind of data was recorded, dropped or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Samples: requests and runs of timers.
    pub samples: u64,
    /// The sum of the additions to counters and rankings, without their signs. A removal from a ranking counts as 1.
    pub additions: u64,
    /// Data without a sample: marks, listed slow and failed requests, and minute reports.
    pub details: u64,
}

summed!(Amounts {
    samples,
    additions,
    details
});

impl Amounts {
    /// Amounts with this sum of additions, without samples and details.
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

    /// Subtracts `others`. No amount falls below zero.
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
        let counted = |n: u64, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
        let samples = (self.samples > 0).then(|| counted(self.samples, "sample"));
        let additions = (self.additions > 0)
            .then(|| format!("{} in additions to counters and rankings", self.additions));
        let details =
            (self.details > 0).then(|| format!("{} ({DETAILS})", counted(self.details, "detail")));
        let parts = samples.into_iter().chain(additions);
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
    fn only_amounts_above_zero_are_named() {
        let details = "3 details (marks, listed slow and failed requests, an instance's figures for a minute)";
        let additions = "7 in additions to counters and rankings";
        let all = format!("48 samples, {additions}, and {details}");
        for (amounts, text) in [
            (amounts(0, 0, 0), "nothing"),
            (amounts(1, 0, 0), "1 sample"),
            (amounts(0, 0, 3), details),
            (amounts(48, 7, 0), &format!("48 samples, and {additions}")),
            (amounts(48, 7, 3), &all),
        ] {
            assert_eq!(amounts.to_string(), text);
        }
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let most = amounts(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(most + amounts(1, 1, 1), most);
        let left = amounts(1, 5, 0).saturating_sub(amounts(2, 3, 4));
        assert_eq!(left, amounts(0, 2, 0));
        assert!(amounts(1, 5, 0).saturating_sub(most).is_zero());
    }
}
