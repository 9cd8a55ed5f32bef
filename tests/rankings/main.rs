//! Rankings within a moving window as applications use them: several processes, faults between them and the server,
//! and the example over HTTP.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "test code: a panic is a failed test"
)]

mod example;
mod million;
mod process;
