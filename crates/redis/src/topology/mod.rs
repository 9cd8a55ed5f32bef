//! Where the server is that has all keys: one address, the owner of a cluster's slot, or the primary that Sentinel names.
//!
//! Nothing here sends a call. A redirect or a Sentinel's answer says where the next connection leads, over the same
//! transport: what begins with TLS stays TLS.

mod address;
mod cluster;
mod primary;
mod race;
mod redirect;
mod sentinel;
mod slot;

use std::sync::Arc;

use redis::ConnectionInfo;

pub(crate) use self::address::{Address, AddressMap};
use self::cluster::Cluster;
pub(crate) use self::redirect::Redirect;
use self::sentinel::Sentinels;
pub(crate) use self::slot::hash_tag;
use self::slot::slot_of;
use crate::connection::{Connection, Dialer, Role};
use tower_pulse_core::condition::Warning;
use tower_pulse_core::error::{Result, StoreError};

/// How the server is found, as it is configured.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    Standalone,
    Cluster {
        seeds: Vec<Address>,
    },
    Sentinel {
        service: String,
        sentinels: Vec<Address>,
        /// Transport and credentials of the Sentinels.
        info: Box<ConnectionInfo>,
    },
}

/// How the server is found.
pub(crate) enum Topology {
    Standalone,
    Cluster(Cluster),
    Sentinel(Sentinels),
}

impl Topology {
    /// The cluster in which all keys of a prefix are in one slot.
    pub(crate) fn cluster(prefix: &str, seeds: Vec<Address>, map: Option<AddressMap>) -> Self {
        Self::Cluster(Cluster::new(slot_of(prefix), seeds, map))
    }

    /// The Sentinels of a service, and how to connect to them.
    pub(crate) fn sentinel(
        service: String,
        sentinels: Vec<Address>,
        dialer: Dialer,
        map: Option<AddressMap>,
    ) -> Self {
        Self::Sentinel(Sentinels::new(service, sentinels, dialer, map))
    }

    /// Connects to the server that has the keys.
    pub(crate) async fn connect(&self, dialer: &Arc<Dialer>, role: Role) -> Result<Connection> {
        match self {
            Self::Standalone => dialer.dial(role).await,
            Self::Cluster(cluster) => cluster.connect(dialer, role).await,
            Self::Sentinel(sentinels) => sentinels.connect(dialer, role).await,
        }
    }

    /// How often another server was named. A connection that was made before a change leads to the wrong one.
    pub(crate) fn changes(&self) -> u64 {
        match self {
            Self::Standalone => 0,
            Self::Cluster(cluster) => cluster.owner().changes(),
            Self::Sentinel(sentinels) => sentinels.primary().changes(),
        }
    }

    /// Called at each call.
    pub(crate) fn called(&self) {
        if let Self::Sentinel(sentinels) = self {
            sentinels.watch();
        }
    }

    /// Called when no answer came in time.
    pub(crate) fn timed_out(&self) {
        if let Self::Sentinel(sentinels) = self {
            sentinels.ask_soon();
        }
    }

    /// Lets the next connection look for the server anew. Sentinels are asked for each connection anyway.
    pub(crate) fn doubt(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.owner().doubt();
        }
    }

    /// The redirect that an error of a server is, if there are redirects here. The error is a wrong map of addresses.
    pub(crate) fn redirect(
        &self,
        error: (&str, &str),
        connection: &Connection,
    ) -> Option<Result<Redirect>> {
        match (self, &connection.node) {
            (Self::Cluster(cluster), Some(node)) => cluster.redirect(error, node),
            _ => None,
        }
    }

    /// Notes that the slot has another owner than that of a connection.
    pub(crate) fn moved(&self, connection: &Connection, owner: Address) {
        if let Self::Cluster(cluster) = self {
            cluster.owner().set_since(connection.changes, owner);
        }
    }

    /// Explains that a node cannot be reached which the cluster has named.
    pub(crate) fn unreachable(&self, node: &Address, error: StoreError) -> StoreError {
        match self {
            Self::Cluster(cluster) => cluster.unreachable(node, error),
            _ => error,
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// The server that has the keys, where that is not configured.
    pub(crate) fn server(&self) -> Option<Address> {
        match self {
            Self::Standalone => None,
            Self::Cluster(cluster) => cluster.owner().last(),
            Self::Sentinel(sentinels) => sentinels.primary().last(),
        }
    }

    /// What an operator should know.
    pub(crate) fn warning(&self) -> Option<Warning> {
        match self {
            Self::Sentinel(sentinels) => sentinels.warning(),
            _ => None,
        }
    }
}
