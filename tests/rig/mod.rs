//! The test rig around the crate: real Redis servers, a network that fails on demand, the book's own
//! functions, a plain HTTP client, and the demo as a child process.
//!
//! Include it with `mod rig;`. Read in this order: [`server`], [`proxy`], [`book`], [`http`], [`demo`],
//! [`fold`], [`reads`], [`lua`], [`peer`], [`log`], [`json`], [`wait`]; [`process`], [`resp`] and [`seed`] are what they stand on.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "test code: a panic is a failed test, and no test binary uses every part"
)]

pub mod book;
pub mod demo;
pub mod fold;
pub mod http;
pub mod json;
pub mod log;
pub mod lua;
pub mod peer;
pub mod process;
pub mod proxy;
pub mod reads;
pub mod resp;
pub mod seed;
pub mod server;
pub mod wait;
