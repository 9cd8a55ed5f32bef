//! Cleaning and retention: data beyond its retention is removed and all other data stays, under faults too.
//! Each test has a real server of its own.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "test code: a panic is a failed test"
)]

#[path = "../stores/fixture.rs"]
#[allow(dead_code, reason = "shared with the tests of the stores")]
mod fixture;
#[path = "../rig/mod.rs"]
mod rig;

mod flat;
mod fleet;
mod forgotten;
mod misled;
mod raw_redis;
mod trouble;
