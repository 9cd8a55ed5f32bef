//! The test rig, which a test program includes as `crate::rig`: the modules of `pulse_rig`, and [`asking`], [`fold`],
//! [`instances`] and [`reads`], which are not in `pulse_rig` because they depend on other crates.

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
/// values follow its name, the function also gets the first value in memory, and the second in Redis.
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
