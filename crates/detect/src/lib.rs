//! Change detection for tower-pulse: contexts that are slower, faster, failing, refusing, surging or silent compared
//! with their own past, instances that are out of line with the others, and new kinds of errors. This crate depends
//! only on `tower-pulse-model`: it does no I/O, has no clock and no async code, and is independent of stores.
//!
//! This crate is internal to tower-pulse and changes without notice: depend on `tower-pulse`.
//!
//! The [`detector`] judges one minute after the other and returns a [`Verdict`](detector::Verdict) for each change that
//! is ongoing at the end of the minute. A [`Change`](change::Change) is a verdict with further details for users, such
//! as the name of the context and the suspects. [`Mark`](tower_pulse_model::mark::Mark)s are deploys and other events
//! that may have caused changes.

mod all;
pub mod change;
mod cost;
pub mod detector;
pub mod errors;
mod failing;
mod find;
mod further;
mod history;
pub mod instances;
pub mod last_judgement;
mod lasting;
pub mod log;
mod minute;
mod noise;
mod page;
mod past;
pub mod polls;
mod reference;
mod residual;
mod scored;
pub mod side_by_side;
mod speed;
mod state;
mod statistics;
mod stored;
pub mod suspects;
#[cfg(test)]
mod tests;
mod traffic;
mod verdict;
mod words;
