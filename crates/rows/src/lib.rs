//! Rows that are refreshed on schedule: the recipe *row cache*. This crate knows the recorder, the clock and the stores of
//! `tower-pulse-core`, as a handle gives them. It knows nothing of Redis, of files, of axum and tower, and who lists rows.
//!
//! It is internal to tower-pulse, and changes without notice: depend on `tower-pulse`.

// Read `places` (how many rows are loaded at once), `loader`, `events` and `local` (what this process counts and
// remembers), `flights` (callers that share an answer), `cache` (refreshing and reading), `list`, `handle`
// (what the application calls), `daemon` (the task that refreshes due rows), then `builder` (the configuration).

mod builder;
mod cache;
mod daemon;
mod error;
mod events;
mod flights;
mod handle;
mod list;
mod loader;
mod local;
mod places;

pub use self::builder::RowCacheBuilder;
pub use self::error::RowError;
pub use self::handle::{Delay, Row, RowCache};
pub use self::loader::RowLoader;
pub use tower_pulse_core::row_lists::{FailedRow, RowInfo, RowList, RowSums};

use tower_pulse_core::handle::Handle;

/// What a [`RowCache`] belongs to: a `Pulse`. Sealed.
pub trait Host: sealed::Sealed {}

/// What only a `Pulse` implements.
pub mod sealed {
    /// Something that has the handle of an instance.
    pub trait Sealed {
        /// Whose store, recorder, clock and shutdown a cache uses.
        fn handle(&self) -> &super::Handle;
    }
}
