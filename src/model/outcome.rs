//! How requests ended.

/// How one request, or one timed piece of code, ended. Each has exactly one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Outcome {
    /// A timer ran to its end.
    Completed,
    /// A response of class 1xx.
    Informational,
    /// A response of class 2xx.
    Success,
    /// A response of class 3xx.
    Redirection,
    /// A response of class 4xx.
    ClientError,
    /// A response of class 5xx.
    ServerError,
    /// The service, or the timed future, gave an error instead of a response.
    Failed,
    /// Dropped before the head of the response was there: the client went away, or a timeout.
    Cancelled,
    /// The handler panicked.
    Panicked,
    /// The head was sent, the body was not sent to its end. Only known with
    /// [`until_body_end`](crate::layer::PulseLayer::until_body_end).
    BodyAborted,
}

/// How many outcomes there are.
pub const OUTCOMES: usize = 10;

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Outcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; OUTCOMES] = [
        Self::Completed,
        Self::Informational,
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Failed,
        Self::Cancelled,
        Self::Panicked,
        Self::BodyAborted,
    ];

    /// The outcome of a response with this status code. A code that HTTP does not know counts as a
    /// server error.
    #[inline]
    pub fn from_status(status: u16) -> Self {
        const BY_CLASS: [Outcome; 8] = [
            Outcome::ServerError,
            Outcome::Informational,
            Outcome::Success,
            Outcome::Redirection,
            Outcome::ClientError,
            Outcome::ServerError,
            Outcome::ServerError,
            Outcome::ServerError,
        ];
        BY_CLASS[usize::from(status / 100).min(7)]
    }

    /// Its name in the API: `"2xx"`, `"panicked"`, …
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Failed => "error",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
            Self::BodyAborted => "body_aborted",
        }
    }

    /// Whether it counts as an error by itself: 5xx, a service error, a panic.
    #[inline]
    pub fn is_error(self) -> bool {
        matches!(self, Self::ServerError | Self::Failed | Self::Panicked)
    }
}

/// How often each outcome happened, and how many were errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// By the number of the outcome.
    pub outcomes: [u64; OUTCOMES],
    /// Those that count as errors: [`Outcome::is_error`], and a gRPC status that is not OK.
    pub errors: u64,
}

impl OutcomeCounts {
    /// Adds one.
    #[inline]
    pub fn record(&mut self, outcome: Outcome, error: bool) {
        self.outcomes[outcome as usize] += 1;
        self.errors += u64::from(error);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.outcomes.iter_mut().zip(other.outcomes) {
            *mine = mine.saturating_add(theirs);
        }
        self.errors = self.errors.saturating_add(other.errors);
    }

    /// How often `outcome` happened.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_order_agree() {
        for (number, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, number, "{}", outcome.as_str());
        }
        assert_eq!(Outcome::from_status(204).as_str(), "2xx");
        assert_eq!(Outcome::from_status(999), Outcome::ServerError);
    }
}
