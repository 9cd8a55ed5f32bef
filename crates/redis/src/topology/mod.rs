//! Finds the server that has all keys: one address, the owner of a cluster's slot, or the primary that Sentinel names.
//!
//! No call is sent here. A redirect or a Sentinel's answer says where the next connection leads, over the same
//! transport: TLS stays TLS.

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

/// The configured way to find the server.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    Standalone,
    Cluster {
        seeds: Vec<Address>,
    },
    Sentinel {
        service: String,
        sentinels: Vec<Address>,
        /// The transport and the credentials of the Sentinels.
        info: Box<ConnectionInfo>,
    },
}

/// The way to find the server.
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

    /// The number of times that another server was named. A connection made before a change leads to the wrong server.
    pub(crate) fn changes(&self) -> u64 {
        match self {
            Self::Standalone => 0,
            Self::Cluster(cluster) => cluster.owner().changes(),
            Self::Sentinel(sentinels) => sentinels.primary().changes(),
        }
    }

    /// Notes that a call is made.
    pub(crate) fn called(&self) {
        if let Self::Sentinel(sentinels) = self {
            sentinels.watch();
        }
    }

    /// Notes that no answer came in time.
    pub(crate) fn timed_out(&self) {
        if let Self::Sentinel(sentinels) = self {
            sentinels.ask_soon();
        }
    }

    /// Makes the next connection look for the server again. Sentinels are asked for each connection anyway.
    pub(crate) fn doubt(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.owner().doubt();
        }
    }

    /// The redirect in a server's error, if the topology has redirects. The error is a wrong address map.
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

    /// Notes that the slot has another owner than the node of a connection.
    pub(crate) fn moved(&self, connection: &Connection, owner: Address) {
        if let Self::Cluster(cluster) = self {
            cluster.owner().set_since(connection.changes, owner);
        }
    }

    /// Explains why a node that the cluster has named cannot be reached.
    pub(crate) fn unreachable(&self, node: &Address, error: StoreError) -> StoreError {
        match self {
            Self::Cluster(cluster) => cluster.unreachable(node, error),
            _ => error,
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// The server that has the keys, if it is not configured directly.
    pub(crate) fn server(&self) -> Option<Address> {
        match self {
            Self::Standalone => None,
            Self::Cluster(cluster) => cluster.owner().last(),
            Self::Sentinel(sentinels) => sentinels.primary().last(),
        }
    }

    /// The warning for the operator, if any.
    pub(crate) fn warning(&self) -> Option<Warning> {
        match self {
            Self::Sentinel(sentinels) => sentinels.warning(),
            _ => None,
        }
    }
}
