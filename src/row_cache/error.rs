//! Why a row could not be scheduled, loaded or read.

use crate::error::StoreError;

/// Why a row could not be scheduled, loaded or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// The store failed. What was scheduled stays scheduled; rows are refreshed once it answers.
    #[error("the store of the rows failed")]
    Store(#[from] StoreError),
    /// The loader failed, panicked or took too long. A row that was cached before stays.
    #[error("row {id:?} could not be loaded: {reason}")]
    Load {
        /// The id of the row.
        id: String,
        /// Why.
        reason: String,
    },
    /// The cached JSON is not of the type that was asked for.
    #[error("row {id:?} is not of the type that was asked for")]
    Type {
        /// The id of the row.
        id: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The id is longer than 256 bytes.
    #[error("an id of a row has {bytes} bytes, and at most 256 are allowed")]
    Id {
        /// Length of the id.
        bytes: usize,
    },
    /// The delay is not a number, infinite, or longer than a year.
    #[error("a delay of {seconds} s: at most a year is allowed, and 0 or less removes the row")]
    Delay {
        /// The delay, in seconds.
        seconds: f64,
    },
    /// There are as many scheduled rows as the cache may have.
    #[error(
        "row {id:?} would be one more than `max_rows` allows: {rows} are scheduled, and {max_rows} allowed"
    )]
    Full {
        /// The id of the first row that was not scheduled.
        id: String,
        /// Number of scheduled rows.
        rows: usize,
        /// The most rows.
        max_rows: usize,
    },
}
