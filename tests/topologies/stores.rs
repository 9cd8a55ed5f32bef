//! Stores on the cluster that the tests of this process share.

use crate::rig::shared::{cluster, prefix};
use crate::stores::fixture::{Fixture, Keys};
use crate::topologies::place::{cluster_options, store};

/// A store in the cluster, and a client of the node that has the store's keys.
pub async fn on_cluster() -> Fixture {
    let (cluster, prefix) = (cluster().await, prefix());
    let owner = cluster.owner(cluster.slot(&prefix).await).await;
    let store = store(cluster_options(cluster), &prefix);
    let client = cluster.nodes[owner].server.client();
    Fixture::over(store, Keys { client, prefix })
}
