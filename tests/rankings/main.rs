//! Rankings within a moving window as applications use them: the example over HTTP.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "test code: a panic is a failed test"
)]

mod example;
