//! The test rig, which a test program includes as `crate::rig`: the modules of `pulse_rig`, and modules with more
//! dependencies.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    missing_docs,
    unused_imports,
    reason = "a panic fails the test, and most test programs use only some of the modules"
)]

pub use pulse_rig::{
    book, cluster, demo, http, json, log, lua, peer, process, proxy, resp, seed, sentinel, server,
    shared, wait,
};

/// Makes two tests of each function: one in memory, one in Redis. The function gets the suite's `Backend`. If two
/// values follow the function's name, the function also gets the first value in memory, or the second in Redis.
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

/// Makes a test of each scenario. The report of the scenario must be exact.
#[allow(unused_macros)]
macro_rules! each_is_exact {
    ($($test:ident: $report:expr;)*) => {
        $(#[tokio::test]
        async fn $test() {
            $report.await.assert_exact();
        })*
    };
}

pub mod asking;
pub mod fold;
pub mod instances;
pub mod reads;
