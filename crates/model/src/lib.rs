//! The values that tower-pulse records, how they merge, and how they are packed. This crate does no I/O, has no clock
//! and no async code, and is independent of stores, HTTP services and Redis.
//!
//! This crate is internal to tower-pulse and changes without notice: depend on `tower-pulse`.
//!
//! All recorded data can be merged, so the order and place of collection do not matter.
//!
//! Read [`mod@slice`], [`tier`] and [`tiers`] (slices of time), then [`access_time`], [`histogram`], [`outcome`],
//! [`tally`] and [`failure`] (the measurements), [`context`] (the names), then [`batch`] (sent to a store) and
//! [`snapshot`] (read from a store).

pub mod access_time;
pub mod aggregate;
pub mod amounts;
pub mod batch;
pub mod context;
pub mod context_delta;
mod counter;
pub mod entry;
pub mod failure;
pub mod fleet;
pub mod histogram;
pub mod machine;
pub mod mark;
pub mod measures;
pub mod minute_report;
pub mod order;
pub mod outcome;
pub mod pack;
pub mod profile;
pub mod ranking;
pub mod recorded;
pub mod recorded_hours;
pub mod records;
pub mod round;
pub mod running_sums;
mod section;
pub mod slice;
pub mod slices;
pub mod slow_request;
pub mod slowest;
pub mod snapshot;
pub mod sorted;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod tier;
pub mod tiers;
pub mod timer_sums;
