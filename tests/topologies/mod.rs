//! A real cluster of three primaries and three replicas, and a primary with two replicas and three Sentinels: the suite
//! that every store passes, and short faults. The long form is `make chaos`.

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
                crate::stores::suite::$test(&mut crate::topologies::stores::on_cluster().await).await;
            })*
        }
        mod conforms_behind_sentinels {
            $(#[tokio::test]
            async fn $test() {
                crate::stores::suite::$test(&mut crate::topologies::stores::behind_sentinels().await).await;
            })*
        }
    };
}

each_test_of_the_suite!(conformance);
