//! Changes: contexts that are slower, faster, failing, surging or silent, compared with their own past, and
//! instances that are out of line with the others.
//!
//! The [`detector`] looks at one minute after the other and says what stands at the end of each: a
//! [`Verdict`](detector::Verdict). A [`Change`](change::Change) is a verdict with everything that a reader
//! asks next: its name, its cost, its suspects. [`mark`](super::mark) has the deploys and other events that changes
//! are compared with.

mod all;
pub mod change;
mod cost;
pub mod detector;
mod failing;
mod find;
mod history;
pub mod instances;
pub mod judged;
mod lasting;
pub mod log;
mod minute;
mod noise;
mod page;
mod past;
mod reference;
mod residual;
mod scored;
pub mod side_by_side;
mod speed;
mod state;
mod stored;
pub mod suspects;
#[cfg(test)]
mod tests;
mod traffic;
mod verdict;

/// The history of a context that is compared with its past, busy in each of its minutes, in bytes.
const JUDGED: u64 = 16 * 1024;
/// The log of changes, and what instances did in the last half hour.
const LOG: u64 = 8 * 1024 * 1024;

/// The most bytes that the instance takes which judges this many contexts.
pub(super) fn judging_bytes(contexts: u64) -> u64 {
    contexts * JUDGED + LOG
}
