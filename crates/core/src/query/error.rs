//! Why a question has no answer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::error::StoreError;

/// Deadline for an answer of the store.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);

/// Why a question has no answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum QueryError {
    /// The store failed. It is asked anew a second later at the earliest.
    Store(StoreError),
    /// The store did not answer within 2 s. It is asked anew a second later at the earliest.
    Unanswered,
    /// A part of the question has a value that is not allowed.
    #[non_exhaustive]
    Parameter {
        /// The name of the part.
        name: String,
        /// What is allowed.
        message: String,
    },
    /// There is nothing of the name that was asked for. The message says what there is not.
    NotFound(&'static str),
    /// The sums of the window do not fit into `query_bytes`. The message says what would help.
    NoRoom(String),
}

impl QueryError {
    /// The error of a parameter.
    pub(crate) fn parameter(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Parameter {
            name: name.into(),
            message: message.into(),
        }
    }

    /// The error of a window with so many contexts, for which there are `most` bytes.
    pub(super) fn no_room(contexts: usize, most: usize) -> Self {
        Self::NoRoom(format!(
            "the window of {contexts} contexts does not fit into the {most} bytes that `query_bytes` leaves for windows: \
             raise it, or ask for a shorter window"
        ))
    }
}

/// The most values of the series of an answer: more than a table of 100 rows has of the slices of any tier.
pub(super) const MAX_POINTS: usize = 16_384;

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the store cannot be read: {error}"),
            Self::Unanswered => {
                let deadline = DEADLINE.as_secs();
                write!(f, "the store did not answer within {deadline} s")
            }
            Self::Parameter { message, .. } | Self::NoRoom(message) => f.write_str(message),
            Self::NotFound(message) => f.write_str(message),
        }
    }
}

impl Error for QueryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            _ => None,
        }
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
