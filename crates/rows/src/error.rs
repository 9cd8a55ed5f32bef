//! Why a row could not be scheduled, loaded or read.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tower_pulse_core::error::StoreError;

/// Why a row could not be scheduled, loaded or read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RowError {
    /// The store failed. What was scheduled stays scheduled; rows are refreshed once it answers.
    Store(StoreError),
    /// The loader failed, panicked or took too long. A row that was cached before stays.
    #[non_exhaustive]
    Load {
        /// The id of the row.
        id: String,
        /// Why.
        reason: String,
    },
    /// The cached JSON is not of the type that was asked for.
    #[non_exhaustive]
    Type {
        /// The id of the row.
        id: String,
        /// Why.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The id is longer than 256 bytes.
    #[non_exhaustive]
    Id {
        /// Length of the id.
        bytes: usize,
    },
    /// The delay is longer than a year.
    #[non_exhaustive]
    Delay {
        /// The delay, in seconds.
        seconds: f64,
    },
    /// There are as many scheduled rows as the cache may have.
    #[non_exhaustive]
    Full {
        /// The id of the first row that was not scheduled.
        id: String,
        /// Number of scheduled rows.
        rows: usize,
        /// The most rows.
        max_rows: usize,
    },
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(_) => f.write_str("the store of the rows failed"),
            Self::Load { id, reason } => write!(f, "row {id:?} could not be loaded: {reason}"),
            Self::Type { id, .. } => {
                write!(f, "row {id:?} is not of the type that was asked for")
            }
            Self::Id { bytes } => write!(
                f,
                "an id of a row has {bytes} bytes, and at most 256 are allowed"
            ),
            Self::Delay { seconds } => write!(
                f,
                "a delay of {seconds} s: at most a year is allowed, and 0 removes the row"
            ),
            Self::Full { id, rows, max_rows } => write!(
                f,
                "row {id:?} would be one more than `max_rows` allows: {rows} are scheduled, and {max_rows} allowed"
            ),
        }
    }
}

impl Error for RowError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(source) => Some(source),
            Self::Type { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

impl From<StoreError> for RowError {
    fn from(source: StoreError) -> Self {
        Self::Store(source)
    }
}
