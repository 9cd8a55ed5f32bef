//! The row cache: rows that are refreshed on schedule. This crate uses the recorder and the clock of
//! `tower-pulse-core` through a handle, and the store in Redis. The crate uses neither axum nor tower.
//!
//! This crate is internal to tower-pulse and changes without notice: depend on `tower-pulse`.

// Read `permits` (how many rows are loaded at once), `loader`, `events` and `local` (counts and rows of this process),
// `single_flight` (callers that share an answer), `cache` (refreshing and reading), `handle` (the public calls),
// `daemon` (the task that refreshes due rows), then `builder` (the configuration).

mod builder;
mod cache;
mod daemon;
mod error;
mod events;
mod handle;
mod loader;
mod local;
mod permits;
mod single_flight;

pub use self::builder::RowCacheBuilder;
pub use self::error::RowError;
pub use self::handle::{Row, RowCache, list};
pub use self::loader::RowLoader;
