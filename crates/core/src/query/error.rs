//! The reasons that a question has no answer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::error::StoreError;

/// The deadline for an answer of the store.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);

/// The reason that a question has no answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum QueryError {
    /// The store failed. The store is not asked again for at least a second.
    Store(StoreError),
    /// The store did not answer within 2 s. The store is not asked again for at least a second.
    Unanswered,
    /// A parameter of the question has a value that is not allowed.
    #[non_exhaustive]
    Parameter {
        /// The name of the parameter.
        name: String,
        /// The text of the error, which says what is allowed.
        message: String,
    },
    /// No object has the name in the question. The message says what is missing.
    NotFound(&'static str),
    /// The sums of the window do not fit into `query_bytes`. The message names remedies.
    NoRoom(String),
}

impl QueryError {
    pub(crate) fn parameter(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Parameter {
            name: name.into(),
            message: message.into(),
        }
    }

    /// The error of a window whose contexts do not fit into `most` bytes.
    pub(super) fn no_room(contexts: usize, most: usize) -> Self {
        Self::NoRoom(format!(
            "the window of {contexts} contexts does not fit into the {most} bytes that `query_bytes` leaves for windows: \
             raise `query_bytes`, or ask for a shorter window"
        ))
    }
}

/// The maximum number of values in all series of an answer. Answers with 100 rows have fewer values, unless their
/// slices are days.
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
