//! The data of this crate, pure: no I/O, no clock, no async. Everything here is an aggregate that
//! merges, so that it does not matter where or in which order it was collected.
//!
//! Read [`mod@slice`] and [`tier`] (how time is cut), then [`access_time`], [`histogram`] and [`outcome`] (what is
//! known of requests), [`context`] (whose it is), then [`batch`] (what goes down to a store) and
//! [`snapshot`] (what comes up from it).

pub mod access_time;
pub mod batch;
pub mod context;
pub mod health;
pub mod histogram;
pub mod outcome;
pub mod pack;
pub mod records;
pub mod round;
pub mod slice;
mod slices;
pub mod slowest;
pub mod snapshot;
pub mod tier;
pub mod worst_case;
