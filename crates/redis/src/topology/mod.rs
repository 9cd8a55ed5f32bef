//! Finds the server with all keys: the configured server, the owner of a cluster's slot, or the primary that Sentinel
//! names.
//!
//! The clients of the crate `redis` for clusters and Sentinel are not used. The cluster client connects to every
//! primary and replica, although all keys of a service are in one slot, so the connections of a fleet would grow with
//! the number of nodes. The Sentinel client asks only when a connection fails. A primary that is cut off from the other
//! servers, however, still accepts writes without an error.

mod address;
mod answer;
mod race;
mod slot;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Cmd, RedisResult, Value, cmd};
use tokio::sync::Notify;

pub(crate) use self::address::{Address, AddressMap};
pub(crate) use self::answer::Redirect;
use self::answer::{named_by_node, named_by_sentinel};
use self::race::first_answer;
pub(crate) use self::slot::hash_tag;
use self::slot::slot_of;
use crate::connection::{Connection, Dialer, Role};
use crate::error::ServerInfo;
use crate::options::RedisOptions;
use crate::permissions::is_refusal;
use crate::value::{items, text};
use tower_pulse_core::condition::{Condition, Warning};
use tower_pulse_core::error::{Result, StoreError, StoreErrorKind};
use tower_pulse_core::task::lock;

/// The interval at which Sentinels are asked while there are calls.
const ASKED_EVERY: Duration = Duration::from_secs(4);

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The server is configured.
    Standalone,
    /// The server is the owner of a slot.
    Cluster,
    /// The server is the primary of this service.
    Sentinel(String),
}

/// The way to find the server, and the server that was found.
pub(crate) struct Topology {
    /// The slot of all keys.
    slot: u16,
    /// Connects to the servers to ask: nodes of the cluster, or the Sentinels.
    dialer: Arc<Dialer>,
    found: Mutex<Found>,
    has_calls: AtomicBool,
    /// Wakes [`Self::ask_while_called`] before its interval is over.
    sooner: Notify,
}

#[derive(Default)]
struct Found {
    /// The server that was named last.
    server: Option<Address>,
    /// Whether another server may have the keys now.
    is_doubted: bool,
    /// The number of changes of `server`. A connection with another number may lead to another server.
    changes: u64,
    nodes: Vec<Address>,
    /// The index of the server to ask first. The index starts at random, to spread the load.
    first: usize,
    /// The reason why no server was named last time.
    trouble: Option<String>,
}

impl Found {
    fn set(&mut self, server: Address) -> u64 {
        self.is_doubted = false;
        if self.server.as_ref() != Some(&server) {
            self.server = Some(server);
            self.changes += 1;
        }
        self.changes
    }
}

impl Topology {
    pub(crate) fn new(options: &RedisOptions, dialer: &Arc<Dialer>) -> Self {
        let dialer = match &options.sentinel_info {
            Some(info) => {
                let mut options = options.clone();
                (options.info, options.credentials) = (info.clone(), None);
                Arc::new(Dialer::new(options, ServerInfo::of_sentinel(info)))
            }
            None => dialer.clone(),
        };
        let seeds = options.seeds.len().max(1);
        let found = Found {
            first: RandomState::new().build_hasher().finish() as usize % seeds,
            ..Found::default()
        };
        Self {
            slot: slot_of(&options.prefix),
            dialer,
            found: Mutex::new(found),
            has_calls: AtomicBool::new(false),
            sooner: Notify::new(),
        }
    }

    fn layout(&self) -> &Layout {
        &self.dialer.options.layout
    }

    pub(crate) fn deadline(&self) -> Duration {
        match self.layout() {
            Layout::Standalone => Duration::ZERO,
            Layout::Cluster | Layout::Sentinel(_) => self.dialer.deadline(),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        *self.layout() == Layout::Cluster
    }

    /// The server that was named last; `None` for a configured server.
    pub(crate) fn server(&self) -> Option<Address> {
        lock(&self.found).server.clone()
    }

    pub(crate) fn changes(&self) -> u64 {
        lock(&self.found).changes
    }

    /// Makes the next connection look for the server again. Another node or Sentinel is asked first, because the last
    /// one that answered may be cut off.
    pub(crate) fn doubt(&self) {
        let mut found = lock(&self.found);
        found.is_doubted = true;
        found.first += 1;
    }

    pub(crate) async fn connect(
        self: &Arc<Self>,
        dialer: &Dialer,
        role: Role,
    ) -> Result<Connection> {
        if *self.layout() == Layout::Standalone {
            return dialer.dial(None, role).await;
        }
        let known = Some(lock(&self.found)).filter(|found| !found.is_doubted);
        let known = known.and_then(|found| Some((found.server.clone()?, found.changes)));
        let (server, changes) = match known {
            Some(known) => known,
            None => self.ask().await?,
        };
        let connected = self.connect_to(dialer, &server, role).await;
        let mut connection = connected.inspect_err(|_| self.doubt())?;
        connection.changes = changes;
        Ok(connection)
    }

    async fn connect_to(
        &self,
        dialer: &Dialer,
        server: &Address,
        role: Role,
    ) -> Result<Connection> {
        let mut connection = self.dial(dialer, server, role).await?;
        let Layout::Sentinel(service) = self.layout() else {
            return Ok(connection);
        };
        let server_info = dialer.server_info.of_node(server);
        let reply: RedisResult<Value> = cmd("ROLE").query_async(&mut connection.commands).await;
        match reply {
            Ok(reply) if items(&reply).first().and_then(text) == Some("master") => Ok(connection),
            Ok(_) => {
                let message = format!(
                    "Sentinel names it as the primary of `{service}`, but it is a replica: the failover is not over"
                );
                Err(server_info.error(StoreErrorKind::Refused, &message))
            }
            // Without the permission for ROLE, a replica is noticed only when it refuses the first write.
            Err(error) if is_refusal(&error) => Ok(connection),
            Err(error) => Err(server_info.explain(&error)),
        }
    }

    pub(crate) async fn dial(
        &self,
        dialer: &Dialer,
        node: &Address,
        role: Role,
    ) -> Result<Connection> {
        let dialled = dialer.dial(Some(node), role).await;
        dialled.map_err(|error| {
            if error.kind() != StoreErrorKind::Unreachable || dialer.options.seeds.contains(node) {
                return error;
            }
            let namer = match self.layout() {
                Layout::Sentinel(service) => format!("Sentinel names {node} for `{service}`"),
                _ => "the cluster announces this address".to_owned(),
            };
            let message = format!(
                "{error}; {namer}: if this address cannot be reached from here, map it with `redis_address_map`"
            );
            StoreError::new(error.kind(), message)
        })
    }

    /// The redirect in an answer of a cluster, with the reachable address of the node. Fails if the address map is
    /// wrong.
    pub(crate) fn redirect(&self, reply: &Value, from: &Connection) -> Result<Option<Redirect>> {
        let node = from.node.as_ref().filter(|_| self.is_cluster());
        let redirect = node.and_then(|node| Redirect::parse(reply, self.slot, &node.host));
        let reached = redirect.map(|Redirect { node, is_asking }| {
            let node = self.reach(node)?;
            Ok(Redirect { node, is_asking })
        });
        reached.transpose()
    }

    /// Notes that the slot has another owner, unless the owner has changed since `connection` was made.
    pub(crate) fn moved(&self, connection: &Connection, owner: Address) {
        let mut found = lock(&self.found);
        if found.changes == connection.changes {
            found.set(owner);
        }
    }

    /// Notes a call. Returns whether [`Self::ask_while_called`] must run, which is necessary with Sentinels.
    pub(crate) fn note_call(&self) -> bool {
        self.has_calls.store(true, Ordering::Relaxed);
        matches!(self.layout(), Layout::Sentinel(_))
    }

    /// Asks the Sentinels at intervals, as long as there are calls.
    pub(crate) async fn ask_while_called(self: Arc<Self>) {
        while self.has_calls.swap(false, Ordering::Relaxed) {
            let _ = tokio::time::timeout(ASKED_EVERY, self.sooner.notified()).await;
            // An error only causes a warning, because the primary is probably the same.
            let _ = self.ask().await;
        }
    }

    /// Makes [`Self::ask_while_called`] ask at once.
    pub(crate) fn ask_soon(&self) {
        self.sooner.notify_one();
    }

    /// The warning for the operator, if no Sentinel names a primary.
    pub(crate) fn warning(&self) -> Option<Warning> {
        let Layout::Sentinel(service) = self.layout() else {
            return None;
        };
        let trouble = lock(&self.found).trouble.clone()?;
        Some(Condition::Sentinel.warning(format!(
            "no Sentinel tells which server is the primary of `{service}`, so a failover would not be noticed: {trouble}"
        )))
    }

    /// The servers to ask, in order. The last known owner of the slot comes last, because it may be cut off from the
    /// other nodes.
    fn candidates(&self) -> Vec<Address> {
        let (found, seeds) = (lock(&self.found), &self.dialer.options.seeds);
        let mut candidates = seeds.clone();
        let others = found.nodes.iter();
        candidates.extend(others.filter(|node| !seeds.contains(node)).cloned());
        let first = found.first % candidates.len().max(1);
        candidates.rotate_left(first);
        candidates.sort_by_key(|node| Some(node) == found.server.as_ref());
        candidates
    }

    /// Finds the server. Returns the server with the number of changes.
    async fn ask(self: &Arc<Self>) -> Result<(Address, u64)> {
        let answer = first_answer(self.candidates(), |server| {
            let this = self.clone();
            Box::pin(async move { this.ask_one(server).await })
        });
        let answer = answer.await;
        let mut found = lock(&self.found);
        found.trouble = answer.as_ref().err().map(StoreError::to_string);
        let (asked, server, nodes) = answer?;
        let mut seeds = self.dialer.options.seeds.iter();
        if let Some(index) = seeds.position(|seed| *seed == asked) {
            found.first = index;
        }
        if !nodes.is_empty() {
            found.nodes = nodes;
        }
        Ok((server.clone(), found.set(server)))
    }

    /// Asks one server. Returns the asked server, the server that has the keys, and the nodes of the cluster.
    async fn ask_one(&self, asked: Address) -> Result<(Address, Address, Vec<Address>)> {
        let mut connection = self.dialer.dial(Some(&asked), Role::Read).await?;
        let server_info = self.dialer.server_info.of_node(&asked);
        let question = match self.layout() {
            Layout::Sentinel(service) => &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service][..],
            Layout::Cluster | Layout::Standalone => &["CLUSTER", "SLOTS"],
        };
        let question = Cmd::new().arg(question).take();
        let (server, nodes) = match question.query_async(&mut connection.commands).await {
            Ok(reply) if self.is_cluster() => named_by_node(&reply, self.slot, &asked.host),
            Ok(reply) => (named_by_sentinel(&reply), Vec::new()),
            // Without the permission for CLUSTER SLOTS, the node's answer to the first command will name the owner.
            Err(error) if self.is_cluster() && is_refusal(&error) => {
                return Ok((asked.clone(), asked, Vec::new()));
            }
            Err(error) => return Err(server_info.explain(&error)),
        };
        let Some(server) = server else {
            let message = match self.layout() {
                Layout::Sentinel(service) => {
                    format!("it knows no primary of the name `{service}`: check the name")
                }
                _ => "it knows no node for the slot of this service's keys: see its CLUSTER INFO"
                    .to_owned(),
            };
            return Err(server_info.error(StoreErrorKind::Refused, &message));
        };
        // Nodes with an invalid mapped address are omitted, because they cannot be asked. If the server's own mapped
        // address is invalid, this fails.
        let nodes = nodes.into_iter().filter_map(|node| self.reach(node).ok());
        Ok((asked, self.reach(server)?, nodes.collect()))
    }

    fn reach(&self, announced: Address) -> Result<Address> {
        let map = self.dialer.options.address_map.as_ref();
        let Some(mapped) = map.and_then(|map| map(&announced.to_string())) else {
            return Ok(announced);
        };
        Address::parse(&mapped, None).ok_or_else(|| {
            let message = format!(
                "`redis_address_map` has returned {mapped:.80?} for an address: host, colon and port are needed"
            );
            StoreError::new(StoreErrorKind::Unexpected, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;

    fn address(text: &str) -> Address {
        Address::parse(text, None).expect("an address")
    }

    #[test]
    fn the_first_node_to_ask_changes_and_the_last_owner_is_asked_last() {
        let options = RedisOptions::cluster(["redis://a:1", "redis://b:2"]).expect("URLs");
        let server_info = ServerInfo::new(&options, &Keys::new("".into()));
        let dialer = Dialer::new(options.clone(), server_info);
        let cluster = Topology::new(&options, &Arc::new(dialer));
        lock(&cluster.found).nodes = ["b:2", "c:3"].map(address).into();
        let first = cluster.candidates();
        assert_eq!(first.len(), 3);
        cluster.doubt();
        assert_ne!(cluster.candidates()[0], first[0]);
        lock(&cluster.found).set(address("c:3"));
        for _ in 0..3 {
            cluster.doubt();
            assert_eq!(cluster.candidates()[2], address("c:3"));
        }
    }
}
