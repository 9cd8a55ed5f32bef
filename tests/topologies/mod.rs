//! A real cluster of three primaries and three replicas, with the suite that every store passes, and a primary with two
//! replicas and three Sentinels: short faults of both. The long form is `make chaos`.

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

/// Runs each test of the suite against a cluster. Behind Sentinels, a store only finds its server in another way.
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
