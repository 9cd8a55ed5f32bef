//! Runs the suite of every store on a real cluster of three primaries and three replicas. Also tests short faults of
//! clusters, and of a primary with two replicas and three Sentinels. `make chaos` runs longer faults.

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

/// Runs each test of the suite on a cluster. Sentinels need no such tests, because they only change how a store finds
/// its server.
macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod conforms_on_a_cluster {
            $(#[tokio::test]
            async fn $test() {
                crate::stores::suite::$test(&mut crate::topologies::stores::on_cluster().await).await;
            })*
        }
    };
}

each_test_of_the_suite!(conformance);
