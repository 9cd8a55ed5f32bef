//! A real cluster of three primaries with a replica each, for one test or for all tests of a process.

use std::path::PathBuf;
use std::time::Duration;

use redis::{FromRedisValue, RedisResult};
use tokio::sync::Mutex;

use super::process::free_port_with_bus;
use super::server::{self, Builder, RedisServer, issue};
use super::wait::{PATIENCE, look_until, until};

const SLOTS: u16 = 16_384;
const PRIMARIES: usize = 3;

/// The time after which the other nodes consider a silent node as failed.
const NODE_TIMEOUT_MILLIS: &str = "3000";

/// Three primaries and three replicas. Dropping the cluster ends all nodes.
#[derive(Debug)]
pub struct RedisCluster {
    pub nodes: Vec<Node>,
    /// Held while a slot moves, because two nodes that send keys to each other at the same time would block each other.
    moving: Mutex<()>,
}

#[derive(Debug)]
pub struct Node {
    pub server: RedisServer,
    id: String,
    tls_port: Option<u16>,
}

/// The state that a node reports of itself.
#[derive(Debug, Default)]
struct NodeState {
    id: String,
    /// The id of the primary, if the node is a replica.
    primary: Option<String>,
    epoch: u64,
    slots: Vec<(u16, u16)>,
}

/// The folder with the nodes' certificate: `server.pem`, `server.key`, and the authority's `ca.pem`.
#[derive(Debug, Clone)]
pub struct Tls(pub PathBuf);

impl Tls {
    /// The settings of a server that listens with TLS on a port.
    pub fn settings(&self, port: u16) -> [(&'static str, String); 5] {
        let file = |name: &str| self.0.join(name).display().to_string();
        [
            ("tls-port", port.to_string()),
            ("tls-auth-clients", "no".to_owned()),
            ("tls-cert-file", file("server.pem")),
            ("tls-key-file", file("server.key")),
            ("tls-ca-cert-file", file("ca.pem")),
        ]
    }

    /// Makes a server also listen with TLS, on `port`.
    pub fn add_to(&self, server: Builder, port: u16) -> Builder {
        let settings = self.settings(port).into_iter();
        settings.fold(server, |server, (name, value)| {
            server.arg(&format!("--{name}"), &value)
        })
    }
}

impl RedisCluster {
    /// Starts a cluster without snapshots and append-only files.
    pub async fn start() -> Self {
        Self::start_with(None, |node| node).await
    }

    /// Starts a cluster; `configure` sets up each node. With `tls`, the nodes also listen with TLS, and announce their
    /// TLS ports to clients that connect with TLS.
    pub async fn start_with(tls: Option<&Tls>, configure: impl Fn(Builder) -> Builder) -> Self {
        let nodes = (0..2 * PRIMARIES).map(|_| {
            let node = RedisServer::builder()
                .node_of_a_cluster()
                .arg("--cluster-node-timeout", NODE_TIMEOUT_MILLIS)
                // A replica may replace its primary, however long the primary has been away.
                .arg("--cluster-replica-validity-factor", "0");
            let node = configure(node);
            let Some(tls) = tls else {
                return tokio::spawn(start(node, None));
            };
            let port = free_port_with_bus();
            let node = tls.add_to(node, port).arg("--tls-cluster", "yes");
            let node = node.arg("--tls-replication", "yes");
            tokio::spawn(start(node, Some(port)))
        });
        let mut started = Vec::new();
        for node in nodes.collect::<Vec<_>>() {
            started.push(node.await.expect("a node starts"));
        }
        let cluster = Self {
            nodes: started,
            moving: Mutex::default(),
        };
        cluster.join().await;
        cluster
    }

    /// Forms a cluster of nodes that do not know each other.
    async fn join(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            // Each node gets a different epoch, because nodes with equal epochs would first resolve the conflict.
            let epoch = (at + 1).to_string();
            node.tell(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if at < PRIMARIES {
                let share = |n: usize| n * usize::from(SLOTS) / PRIMARIES;
                let slots: Vec<_> = (share(at)..share(at + 1)).collect();
                let connection = &mut node.server.connection().await;
                let () = issue(connection, "CLUSTER", ("ADDSLOTS", slots)).await;
            }
            for other in &self.nodes[at + 1..] {
                let port = other.tls_port.unwrap_or(other.server.port()).to_string();
                node.tell(&["CLUSTER", "MEET", "127.0.0.1", &port]).await;
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            until("all nodes know each other", async || {
                let known: String = node.ask(&["CLUSTER", "NODES"]).await.unwrap_or_default();
                known.lines().count() == self.nodes.len() && !known.contains("handshake")
            })
            .await;
            if at >= PRIMARIES {
                let primary = &self.nodes[at - PRIMARIES].id;
                // The command fails until the replica knows that the other node is a primary.
                until("the replica follows its primary", async || {
                    let answer = node.ask::<String>(&["CLUSTER", "REPLICATE", primary]).await;
                    answer.is_ok()
                })
                .await;
            }
        }
        self.wait_until_healthy().await;
    }

    /// Waits until every node considers the cluster as complete, and each replica follows its primary.
    pub async fn wait_until_healthy(&self) {
        for node in &self.nodes {
            until("the cluster is complete", async || {
                let info: String = node.ask(&["CLUSTER", "INFO"]).await.unwrap_or_default();
                let replication = node.ask(&["INFO", "replication"]).await;
                let replication: String = replication.unwrap_or_default();
                info.contains("cluster_state:ok")
                    && info.contains("cluster_known_nodes:6")
                    && !replication.contains("master_link_status:down")
            })
            .await;
        }
    }

    /// The URLs of all nodes, without TLS.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.server.url()).collect()
    }

    pub fn tls_ports(&self) -> impl Iterator<Item = u16> {
        self.nodes.iter().filter_map(|node| node.tls_port)
    }

    pub async fn slot(&self, key: &str) -> u16 {
        let slot = self.nodes[0].ask(&["CLUSTER", "KEYSLOT", key]).await;
        slot.expect("a slot")
    }

    /// The index of the node that owns a slot, as the nodes themselves report. `None` while the slot has no owner or
    /// its owner does not answer.
    async fn find_owner(&self, slot: u16) -> Option<usize> {
        let mut owners = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(state) = node.state().await else {
                continue;
            };
            let mut slots = state.slots.iter();
            let owns = slots.any(|(first, last)| (*first..=*last).contains(&slot));
            if state.primary.is_none() && owns {
                owners.push((state.epoch, at));
            }
        }
        owners.into_iter().max().map(|(_, at)| at)
    }

    /// The index of the node that owns a slot. Waits until the slot has an owner.
    pub async fn owner(&self, slot: u16) -> usize {
        look_until(PATIENCE, async || {
            let owner = self.find_owner(slot).await;
            owner.ok_or_else(|| format!("slot {slot} has no owner"))
        })
        .await
    }

    pub async fn other_primary(&self, slot: u16) -> usize {
        let owner = self.owner(slot).await;
        let found = self.find(async |at, node| {
            let state = node.state().await;
            at != owner && state.is_some_and(|state| state.primary.is_none())
        });
        found.await.expect("another primary")
    }

    /// The index of the first node for which `test` holds.
    async fn find(&self, test: impl AsyncFn(usize, &Node) -> bool) -> Option<usize> {
        for (at, node) in self.nodes.iter().enumerate() {
            if test(at, node).await {
                return Some(at);
            }
        }
        None
    }

    /// Moves a slot to another primary: two keys before each pause, or 100 keys at a time if `pause` is zero.
    /// Meanwhile, each of the two nodes has some of the keys, and the old owner redirects with ASK. Returns the number
    /// of moved keys.
    pub async fn move_slot(&self, slot: u16, to: usize, pause: Duration) -> usize {
        let _moving = self.moving.lock().await;
        let (source, target) = (&self.nodes[self.owner(slot).await], &self.nodes[to]);
        let word = slot.to_string();
        let set = ["CLUSTER", "SETSLOT", &word];
        let set = async |node: &Node, state: &str, id: &str| {
            node.tell(&[&set[..], &[state, id]].concat()).await;
        };
        set(target, "IMPORTING", &source.id).await;
        set(source, "MIGRATING", &target.id).await;
        let port = target.server.port().to_string();
        let mut connection = source.server.connection().await;
        let most = if pause.is_zero() { 100 } else { 2 };
        let mut moved = 0;
        loop {
            let listed = ("GETKEYSINSLOT", &word, most);
            let keys: Vec<String> = issue(&mut connection, "CLUSTER", listed).await;
            if keys.is_empty() {
                break;
            }
            let destination = ["127.0.0.1", &port, "", "0", "5000", "KEYS"];
            let () = issue(&mut connection, "MIGRATE", (&destination, &keys)).await;
            moved += keys.len();
            tokio::time::sleep(pause).await;
        }
        for node in [target, source] {
            set(node, "NODE", &target.id).await;
        }
        moved
    }

    /// Moves a slot to another primary at once, by a command of Valkey 9, so clients see MOVED but never ASK. Returns
    /// `false` if the server does not have the command.
    pub async fn move_slot_at_once(&self, slot: u16, to: usize) -> bool {
        let _moving = self.moving.lock().await;
        let (source, target) = (&self.nodes[self.owner(slot).await], &self.nodes[to]);
        let slot_word = slot.to_string();
        let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"];
        let words = [&words[..], &[&slot_word, &slot_word, "NODE", &target.id]].concat();
        match source.ask::<String>(&words).await {
            Ok(_) => {}
            Err(error) if is_unknown(&error) => return false,
            Err(error) => panic!("CLUSTER MIGRATESLOTS: {error}"),
        }
        look_until(PATIENCE, async || {
            if self.find_owner(slot).await == Some(to) {
                return Ok(());
            }
            let migrations = source.ask::<redis::Value>(&["CLUSTER", "GETSLOTMIGRATIONS"]);
            Err(format!("the slot does not move: {:?}", migrations.await))
        })
        .await;
        true
    }

    /// Lets a replica replace the owner of a slot, once the replica has all data.
    pub async fn fail_over(&self, slot: u16) {
        let owner = self.owner(slot).await;
        let id = &self.nodes[owner].id;
        let replica = look_until(PATIENCE, async || {
            let found = self.find(async |_, node| {
                let state = node.state().await;
                state.is_some_and(|state| state.primary.as_ref() == Some(id))
            });
            found.await.ok_or_else(|| format!("{id} has no replica"))
        });
        let replica = &self.nodes[replica.await];
        until("the replica has taken over", async || {
            // Repeats the command, because the replica gives up a failover after five seconds.
            let _ = replica.ask::<String>(&["CLUSTER", "FAILOVER"]).await;
            for _ in 0..100 {
                if self.find_owner(slot).await != Some(owner) {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            false
        })
        .await;
    }

    /// Sends a command to all nodes. The command must succeed.
    pub async fn tell_all(&self, words: &[&str]) {
        for node in &self.nodes {
            node.tell(words).await;
        }
    }
}

impl Node {
    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        server::ask(&self.server.client(), words).await
    }

    /// Sends a command that must succeed.
    async fn tell(&self, words: &[&str]) {
        let answer = self.ask::<redis::Value>(words).await;
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }

    /// `None` if the node does not answer.
    async fn state(&self) -> Option<NodeState> {
        let nodes: String = self.ask(&["CLUSTER", "NODES"]).await.ok()?;
        let line = nodes.lines().find(|line| line.contains("myself"))?;
        let words: Vec<_> = line.split_whitespace().collect();
        let is_replica = words.get(2)?.contains("slave");
        let ranges = words.iter().skip(8).filter_map(|range| {
            // Slots that are being moved are in brackets, and do not parse.
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        Some(NodeState {
            id: (*words.first()?).to_owned(),
            primary: is_replica.then(|| words[3].to_owned()),
            epoch: words.get(6)?.parse().ok()?,
            slots: ranges.collect(),
        })
    }
}

/// Whether an error says that the server does not have the command.
fn is_unknown(error: &redis::RedisError) -> bool {
    let error = error.to_string().to_ascii_lowercase();
    error.contains("unknown subcommand") || error.contains("unknown command")
}

async fn start(node: Builder, tls_port: Option<u16>) -> Node {
    let server = node.start().await;
    let mut node = Node {
        server,
        id: String::new(),
        tls_port,
    };
    let state = node.state().await.expect("the node describes itself");
    node.id = state.id;
    node
}
