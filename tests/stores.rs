//! Conformance of the stores: one suite, run against the memory store, a store in a file, and a real server; and tests
//! of behaviour that only the Redis store has.

#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

#[macro_use]
mod rig;

#[macro_use]
#[path = "stores/conformance.rs"]
mod conformance;

#[path = "stores/book.rs"]
mod book;
#[path = "stores/changes.rs"]
mod changes;
#[path = "stores/counters.rs"]
mod counters;
#[path = "stores/credentials.rs"]
mod credentials;
#[path = "stores/equal.rs"]
mod equal;
#[path = "stores/fixture.rs"]
mod fixture;
#[path = "stores/heartbeats.rs"]
mod heartbeats;
#[path = "stores/history.rs"]
mod history;
#[path = "stores/hours.rs"]
mod hours;
#[path = "stores/large_rankings.rs"]
mod large_rankings;
#[path = "stores/measures.rs"]
mod measures;
#[path = "stores/minute_reports.rs"]
mod minute_reports;
#[path = "stores/oversized.rs"]
mod oversized;
#[path = "stores/own_keys.rs"]
mod own_keys;
#[path = "stores/path_targets.rs"]
mod path_targets;
#[path = "stores/poison.rs"]
mod poison;
#[path = "stores/profiles.rs"]
mod profiles;
#[path = "stores/rankings.rs"]
mod rankings;
#[path = "stores/refused_entries.rs"]
mod refused_entries;
#[path = "stores/request_timers.rs"]
mod request_timers;
#[path = "stores/series.rs"]
mod series;
#[path = "stores/server.rs"]
mod server;
#[path = "stores/slow_requests.rs"]
mod slow_requests;
#[path = "stores/slowest_requests.rs"]
mod slowest_requests;
#[path = "stores/suite.rs"]
mod suite;
#[cfg(feature = "redis-tls")]
#[path = "stores/tls.rs"]
mod tls;
#[path = "stores/windows.rs"]
mod windows;

use fixture::Fixture as Backend;

/// Runs each test of the suite against each store.
macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $test() {
                crate::suite::$test(&mut crate::fixture::Fixture::memory()).await;
            })*
        }
        mod file {
            $(#[tokio::test]
            async fn $test() {
                crate::suite::$test(&mut crate::fixture::Fixture::file()).await;
            })*
        }
        mod redis {
            $(#[tokio::test]
            async fn $test() {
                crate::suite::$test(&mut crate::fixture::Fixture::redis().await).await;
            })*
        }
    };
}

each_test_of_the_suite!(conformance);
