//! Why a question has no answer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::error::StoreError;

/// Deadline for an answer of the store.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);

/// A question that the store did not answer. It is asked anew a second later at the earliest.
#[derive(Clone, Debug)]
pub(crate) enum QueryError {
    /// The store failed.
    Store(StoreError),
    /// The store did not answer in time.
    Unanswered,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Unanswered => {
                let deadline = DEADLINE.as_secs();
                write!(f, "the store did not answer within {deadline} s")
            }
        }
    }
}

impl Error for QueryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Unanswered => None,
        }
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
