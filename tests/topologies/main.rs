//! A real cluster of three primaries and three replicas, and a primary with two replicas and three Sentinels: the suite
//! that every store passes, and short faults. The long form is `make chaos`.
#![allow(
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    reason = "test code: a panic is a failed test; not all of the shared parts are used here"
)]

#[path = "../rig/mod.rs"]
mod rig;

#[macro_use]
#[path = "../stores/conformance.rs"]
mod conformance;

#[path = "../stores/changes.rs"]
mod changes;
#[path = "../stores/fixture.rs"]
mod fixture;
#[path = "../stores/measures.rs"]
mod measures;
#[path = "../faults/scenarios/mod.rs"]
mod scenarios;
#[path = "../faults/service.rs"]
mod service;
#[path = "../stores/suite.rs"]
mod suite;

#[cfg(feature = "redis-tls")]
mod certificates;
mod cluster;
mod credentials;
mod hostile;
mod place;
mod sentinel;
mod stores;
#[cfg(feature = "redis-tls")]
mod tls;
mod trials;
mod user;

/// Runs each test of the suite against a cluster and a primary with Sentinels.
macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod conforms_on_a_cluster {
            $(#[tokio::test]
            async fn $test() {
                crate::suite::$test(&mut crate::stores::on_cluster().await).await;
            })*
        }
        mod conforms_behind_sentinels {
            $(#[tokio::test]
            async fn $test() {
                crate::suite::$test(&mut crate::stores::behind_sentinels().await).await;
            })*
        }
    };
}

each_test_of_the_suite!(conformance);
