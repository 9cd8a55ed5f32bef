//! The test rig as a test sees it: all of `pulse_rig`, and [`fold`], [`instances`] and [`reads`], which need tower-pulse
//! itself.
//!
//! A test program has it as `crate::rig`.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    missing_docs,
    unused_imports,
    reason = "test code: a panic is a failed test, and most programs use only parts"
)]

pub use pulse_rig::{
    book, cluster, demo, http, json, log, lua, peer, process, proxy, resp, seed, sentinel, server,
    shared, wait,
};

/// Makes two tests of each function: one in memory, one in Redis. The function gets a `Backend` of the suite, and, if
/// given, a value for its store.
#[allow(unused_macros)]
macro_rules! in_both {
    ($($test:ident $(($memory:expr, $redis:expr))?),* $(,)?) => {
        mod in_memory {
            #[allow(unused_imports)]
            use super::*;
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::super::Backend::memory() $(, $memory)?).await;
            })*
        }
        mod in_redis {
            #[allow(unused_imports)]
            use super::*;
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::super::Backend::redis().await $(, $redis)?).await;
            })*
        }
    };
}

pub mod asking;
pub mod fold;
pub mod instances;
pub mod reads;
