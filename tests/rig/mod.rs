//! The test rig as a test sees it, all of `pulse_rig` and what needs tower-pulse itself: [`fold`] and [`reads`].
//!
//! Include it with `mod rig;`.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    missing_docs,
    unused_imports,
    reason = "test code: a panic is a failed test, and no test binary uses every part"
)]

pub use pulse_rig::{
    book, cluster, demo, http, json, log, lua, peer, process, proxy, resp, seed, sentinel, server,
    shared, wait,
};

pub mod fold;
pub mod reads;
