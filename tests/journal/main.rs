//! The protocol of journal and fold over the real scripts, flusher and folder, on a real server.
//!
//! [`random`] is the random checker: a seeded scheduler decides in which order calls reach the server
//! and which of them are lost, late or repeated; each request served is found again, once, in the book's
//! keys and in the records. Read `net` (calls that wait), `process` (who makes them), `data` (the
//! server, and how it goes back in time), `world` (the scheduler), `fleet`, `faults`, `ledger` and `verdict`
//! (what is right). The other files test what chance is too rare for.
//!
//! `PULSE_SEED=17` tells the story of one schedule; `PULSE_RUNS=1000 PULSE_FIRST=500` runs so many, from
//! that one on. How large the steps of a fold are depends on the real time, and so may differ a little
//! when a schedule is repeated.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "test code: a panic is a failed test"
)]

#[path = "../stores/fixture.rs"]
#[allow(dead_code, reason = "shared with the tests of the stores")]
mod fixture;
#[path = "../rig/mod.rs"]
mod rig;

mod data;
mod drive;
mod faults;
mod fleet;
mod hours;
mod ledger;
mod net;
mod process;
mod step;
mod verdict;
mod world;

mod aside;
mod bounds;
mod random;
mod rolled;
mod rounds;
