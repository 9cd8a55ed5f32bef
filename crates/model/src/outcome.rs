//! The outcomes of requests.

use super::pack::named;

named! {
    /// How a request, or timed code, ended. Each sample has exactly one outcome.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    #[non_exhaustive]
    pub enum Outcome else Failed {
        /// Timed code ran to its end.
        Completed = "completed",
        /// A response of class 1xx.
        Informational = "1xx",
        /// A response of class 2xx.
        Success = "2xx",
        /// A response of class 3xx.
        Redirection = "3xx",
        /// A response of class 4xx.
        ClientError = "4xx",
        /// A response of class 5xx.
        ServerError = "5xx",
        /// The service or the timed future returned an error.
        Failed = "error",
        /// The request was dropped before its response had a head: the client went away, or a timeout elapsed.
        Cancelled = "cancelled",
        /// The handler panicked.
        Panicked = "panicked",
        /// The body was dropped before its end, after the head was sent: the client went away. Recorded only with
        /// `until_body_end`.
        BodyAborted = "body_aborted",
        /// The body ended with an error of the service, after the head was sent. Recorded only with `until_body_end`.
        BodyFailed = "body_failed",
    }
}

/// The number of outcomes.
pub const OUTCOMES: usize = Outcome::ALL.len();

impl Outcome {
    /// The outcome of a response with this status code. A code outside of 100 to 599 counts as a server error.
    #[inline]
    #[doc(hidden)]
    pub fn from_status(status: u16) -> Self {
        match status / 100 {
            1 => Self::Informational,
            2 => Self::Success,
            3 => Self::Redirection,
            4 => Self::ClientError,
            _ => Self::ServerError,
        }
    }

    /// Whether the outcome itself is an error: 5xx, a service error, a panic, a body that failed.
    #[inline]
    pub fn is_error(self) -> bool {
        matches!(
            self,
            Self::ServerError | Self::Failed | Self::Panicked | Self::BodyFailed
        )
    }
}

/// The number of samples by outcome, and the number of errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// The number of samples of each outcome, by the outcome's number.
    pub counts: [u64; OUTCOMES],
    /// The number of errors: by default, samples with [`Outcome::is_error`], or with a gRPC status that is not OK.
    /// `count_as_error` may replace this rule.
    pub errors: u64,
}

impl OutcomeCounts {
    /// Adds a sample.
    #[inline]
    pub fn record(&mut self, outcome: Outcome, is_error: bool) {
        self.counts[outcome as usize] += 1;
        self.errors += u64::from(is_error);
    }

    /// Merges `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine = mine.saturating_add(theirs);
        }
        self.errors = self.errors.saturating_add(other.errors);
    }

    /// Subtracts `other`, which was merged before.
    pub fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine = mine.saturating_sub(theirs);
        }
        self.errors = self.errors.saturating_sub(other.errors);
    }

    /// The number of samples.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The number of samples that ended with `outcome`.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.counts[outcome as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_outcome_of_its_class() {
        let outcomes = [101, 204, 304, 404, 503, 999].map(Outcome::from_status);
        let names = outcomes.map(Outcome::as_str);
        assert_eq!(names, ["1xx", "2xx", "3xx", "4xx", "5xx", "5xx"]);
    }

    #[test]
    fn failures_of_the_service_are_errors_by_themselves() {
        use Outcome::{BodyFailed, Failed, Panicked, ServerError};
        let outcomes = Outcome::ALL.into_iter();
        let errors = outcomes.filter(|outcome| outcome.is_error());
        assert!(errors.eq([ServerError, Failed, Panicked, BodyFailed]));
    }
}
