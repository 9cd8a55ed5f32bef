//! Stores on the cluster and behind the Sentinels that the tests of this process share.

use crate::rig::shared::{cluster, prefix, sentinels};
use crate::stores::fixture::{Fixture, Keys};
use crate::topologies::place::{cluster_options, sentinel_options, store};

/// A store in the cluster, and a client of the node that has its keys.
pub async fn on_cluster() -> Fixture {
    let (cluster, prefix) = (cluster().await, prefix());
    let owner = cluster.owner(cluster.slot(&prefix).await).await;
    let store = store(cluster_options(cluster), &prefix);
    let client = cluster.nodes()[owner].server.client();
    Fixture::over(store, Keys { client, prefix })
}

/// A store behind the Sentinels, and a client of their primary.
pub async fn behind_sentinels() -> Fixture {
    let (sentinels, prefix) = (sentinels().await, prefix());
    let primary = sentinels.primary().await;
    let store = store(sentinel_options(sentinels), &prefix);
    let client = sentinels.servers()[primary].server.client();
    Fixture::over(store, Keys { client, prefix })
}
