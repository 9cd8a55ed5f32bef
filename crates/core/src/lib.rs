//! This crate has the stages of an instance (recording, flushing, folding, judging and answering) and the store in
//! memory. The crate uses the values of `tower-pulse-model` and the detector of `tower-pulse-detect`, and does not
//! depend on Redis, files, axum, tower or the rendering of answers.
//!
//! This crate is internal to tower-pulse and changes without notice: depend on `tower-pulse`.
//!
//! Read [`recorder`], [`flush`], [`store`], [`fold`], [`changes`], [`query`], then [`handle`], which combines them.

pub mod advice;
pub mod callbacks;
pub mod changes;
pub mod cleaner;
pub mod clock;
pub mod condition;
pub mod error;
pub mod flush;
pub mod fold;
pub mod handle;
pub mod health;
pub mod machine;
#[cfg(feature = "query")]
pub mod query;
pub mod random;
pub mod recorder;
#[cfg(feature = "row-cache")]
pub mod row_lists;
pub mod skew;
pub mod store;
pub mod targets;
pub mod task;
