//! One suite that runs on each store: in memory, in a file and on a real server. The other tests run on some stores.

#[macro_use]
mod conformance;

mod book;
mod changes;
mod counters;
mod credentials;
pub mod fixture;
mod heartbeats;
mod history;
mod hours;
mod large_rankings;
mod oversized;
mod own_keys;
mod path_targets;
mod poison;
mod profiles;
mod rankings;
mod refused_entries;
mod request_timers;
mod series;
mod server;
mod slow_requests;
mod slowest_requests;
pub mod suite;
#[cfg(feature = "redis-tls")]
mod tls;
mod windows;

use fixture::Fixture as Backend;

/// Runs each test of the suite on each store. A test of a store in the process has two threads, so that the test's
/// tasks use the store at the same time.
macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::stores::suite::$test(&mut crate::stores::fixture::Fixture::memory()).await;
            })*
        }
        mod file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::stores::suite::$test(&mut crate::stores::fixture::Fixture::file()).await;
            })*
        }
        mod redis {
            $(#[tokio::test]
            async fn $test() {
                crate::stores::suite::$test(&mut crate::stores::fixture::Fixture::redis().await).await;
            })*
        }
    };
}

each_test_of_the_suite!(conformance);
