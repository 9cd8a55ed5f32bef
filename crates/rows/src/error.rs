//! The errors of the row cache.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tower_pulse_core::error::StoreError;

/// The reason why a row could not be scheduled, loaded or read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RowError {
    /// The store failed. Scheduled rows stay scheduled, and are refreshed once the store answers.
    Store(StoreError),
    /// The row could not be loaded. A cached row stays.
    Load(String),
    /// The cached JSON of the row with this id does not parse as the requested type.
    Type(String, Arc<dyn Error + Send + Sync>),
    /// The id exceeds 256 bytes, or the interval exceeds a year.
    NotAllowed(String),
    /// The cache already has `max_rows` scheduled rows. The text names the first row that was not scheduled.
    Full(String),
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(_) => f.write_str("the store of the rows failed"),
            Self::Type(id, _) => write!(f, "row {id:?} is not of the type that was asked for"),
            Self::Load(text) | Self::NotAllowed(text) | Self::Full(text) => f.write_str(text),
        }
    }
}

impl Error for RowError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(source) => Some(source),
            Self::Type(_, source) => Some(&**source),
            _ => None,
        }
    }
}

impl From<StoreError> for RowError {
    fn from(source: StoreError) -> Self {
        Self::Store(source)
    }
}
