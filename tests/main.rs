//! The tests of the package `tower-pulse` that share a process. Each module except `rig` is a suite. `tests/README.md`
//! lists the suites.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "test code: a panic is a failed test"
)]

#[macro_use]
mod rig;

mod admin;
mod changes;
mod cleaning;
mod dashboard;
mod demo;
mod documents;
mod faults;
mod file;
mod frozen;
mod journal;
mod layering;
mod rankings;
mod replay;
mod rows;
#[macro_use]
mod stores;
mod topologies;
