//! A real cluster of three primaries with a replica each, for one test or for all tests of a process.

use std::path::PathBuf;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue, RedisResult, cmd};
use tokio::sync::Mutex;

use super::process::free_port_with_bus;
use super::server::{Builder, RedisServer, issue};
use super::wait::{PATIENCE, look_until, until};

/// Number of slots of a cluster.
const SLOTS: u16 = 16_384;
const PRIMARIES: usize = 3;

/// The timeout of the rig's own commands to a node, which may be dead or frozen.
const DEADLINE: Duration = Duration::from_secs(2);

/// The time after which the other nodes consider a silent node as failed.
const NODE_TIMEOUT_MILLIS: &str = "3000";

/// Three primaries and three replicas. Dropping the cluster ends all nodes.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Node>,
    /// Held while a slot moves, because two nodes that send keys to each other at the same time would block each other.
    moving: Mutex<()>,
}

/// A node of a cluster.
#[derive(Debug)]
pub struct Node {
    pub server: RedisServer,
    id: String,
    tls_port: Option<u16>,
}

/// The state of a node, as the node describes it.
#[derive(Debug, Default)]
struct NodeState {
    id: String,
    /// The id of the primary, if the node is a replica.
    primary: Option<String>,
    epoch: u64,
    slots: Vec<(u16, u16)>,
}

/// The folder of the nodes' certificate: `server.pem`, `server.key`, and the authority's `ca.pem`.
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
}

impl RedisCluster {
    /// Starts a cluster that never writes to disk.
    pub async fn start() -> Self {
        Self::start_with(None, |node| node).await
    }

    /// Starts a cluster whose nodes write each change to disk before they answer.
    pub async fn start_durable() -> Self {
        let durable = |node: Builder| {
            let node = node.arg("--appendonly", "yes");
            node.arg("--appendfsync", "always")
        };
        Self::start_with(None, durable).await
    }

    /// Starts a cluster whose nodes also listen with TLS, and announce their TLS ports to clients that connect with
    /// TLS.
    pub async fn start_tls(tls: &Tls) -> Self {
        Self::start_with(Some(tls), |node| node).await
    }

    /// Starts a cluster; `configure` sets up each node.
    pub async fn start_with(tls: Option<&Tls>, configure: impl Fn(Builder) -> Builder) -> Self {
        let nodes = (0..2 * PRIMARIES).map(|_| {
            let node = configure(builder());
            let Some(tls) = tls else {
                return tokio::spawn(start(node, None));
            };
            let port = free_port_with_bus();
            let settings = tls.settings(port).into_iter();
            let node = settings.fold(node, |node, (name, value)| {
                node.arg(&format!("--{name}"), &value)
            });
            let node = node.arg("--tls-cluster", "yes");
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
                let slots = share(at)..share(at + 1);
                let mut add = cmd("CLUSTER");
                add.arg("ADDSLOTS");
                slots.for_each(|slot| _ = add.arg(slot));
                let mut connection = node.server.connection().await;
                add.exec_async(&mut connection).await.expect("ADDSLOTS");
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

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The URLs of all nodes, without TLS.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.server.url()).collect()
    }

    /// The URLs of all nodes with TLS.
    pub fn tls_urls(&self) -> Vec<String> {
        let ports = self.nodes.iter().filter_map(|node| node.tls_port);
        ports
            .map(|port| format!("rediss://127.0.0.1:{port}/"))
            .collect()
    }

    /// The slot of a key.
    pub async fn slot(&self, key: &str) -> u16 {
        let slot = self.nodes[0].ask(&["CLUSTER", "KEYSLOT", key]).await;
        slot.expect("a slot")
    }

    /// The index of the node that owns a slot, as the nodes themselves report. `None` while the slot has no owner or
    /// its owner does not answer.
    pub async fn find_owner(&self, slot: u16) -> Option<usize> {
        let mut owners = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(state) = node.state().await else {
                continue;
            };
            let owns = state
                .slots
                .iter()
                .any(|range| (range.0..=range.1).contains(&slot));
            if state.primary.is_none() && owns {
                owners.push((state.epoch, at));
            }
        }
        owners.into_iter().max().map(|(_, at)| at)
    }

    /// The index of the node that owns a slot. Waits until the slot has an owner.
    pub async fn owner(&self, slot: u16) -> usize {
        let mut owner = None;
        until("the slot has an owner", async || {
            owner = self.find_owner(slot).await;
            owner.is_some()
        })
        .await;
        owner.expect("`until` has found an owner")
    }

    /// A connection to the node that owns a slot.
    pub async fn connection_to(&self, slot: u16) -> MultiplexedConnection {
        self.nodes[self.owner(slot).await].server.connection().await
    }

    /// The index of a primary other than the owner of a slot.
    pub async fn other_primary(&self, slot: u16) -> usize {
        let owner = self.owner(slot).await;
        for (at, node) in self.nodes.iter().enumerate() {
            let state = node.state().await;
            let is_primary = state.is_some_and(|state| state.primary.is_none());
            if at != owner && is_primary {
                return at;
            }
        }
        panic!("there is only one primary");
    }

    /// Moves a slot to another primary, two keys at a time with a pause after each two, or 100 keys at a time without a
    /// pause. Meanwhile, each of the two nodes has some of the keys, and redirects with ASK. Returns the number of
    /// moved keys.
    pub async fn move_slot(&self, slot: u16, to: usize, pause: Duration) -> usize {
        let _moving = self.moving.lock().await;
        let (source, target) = (&self.nodes[self.owner(slot).await], &self.nodes[to]);
        let word = slot.to_string();
        let set = ["CLUSTER", "SETSLOT", &word];
        let set = |state: [&'static str; 1], id: &str| -> Vec<String> {
            let words = set.into_iter().chain(state).chain([id]);
            words.map(str::to_owned).collect()
        };
        target.tell(&set(["IMPORTING"], &source.id)).await;
        source.tell(&set(["MIGRATING"], &target.id)).await;
        let port = target.server.port().to_string();
        let mut connection = source.server.connection().await;
        let most = if pause.is_zero() { 100 } else { 2 };
        let mut moved = 0;
        loop {
            let arguments = ("GETKEYSINSLOT", &word, most);
            let keys: Vec<String> = issue(&mut connection, "CLUSTER", arguments).await;
            if keys.is_empty() {
                break;
            }
            let mut migrate = cmd("MIGRATE");
            migrate.arg(&["127.0.0.1", &port, "", "0", "5000", "KEYS"]);
            migrate.arg(&keys);
            let migrated = migrate.exec_async(&mut connection).await;
            migrated.expect("MIGRATE");
            moved += keys.len();
            tokio::time::sleep(pause).await;
        }
        let node = set(["NODE"], &target.id);
        target.tell(&node).await;
        source.tell(&node).await;
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
        let replica = self.replica_of(owner).await;
        let replica = &self.nodes[replica];
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

    /// The index of a replica of a node.
    async fn replica_of(&self, primary: usize) -> usize {
        let id = &self.nodes[primary].id;
        let mut replica = None;
        until("there is a replica", async || {
            for (at, node) in self.nodes.iter().enumerate() {
                let state = node.state().await;
                if state.is_some_and(|state| state.primary.as_ref() == Some(id)) {
                    replica = Some(at);
                }
            }
            replica.is_some()
        })
        .await;
        replica.expect("`until` has found a replica")
    }

    /// Kills the owner of a slot, and waits until a replica owns the slot. Returns the killed node's index.
    pub async fn kill_owner(&self, slot: u16) -> usize {
        let owner = self.owner(slot).await;
        self.nodes[owner].server.kill_9();
        until("a replica has taken over", async || {
            self.find_owner(slot).await.is_some()
        })
        .await;
        owner
    }

    /// Kills all nodes.
    pub fn kill_all(&self) {
        for node in &self.nodes {
            node.server.kill_9();
        }
    }

    /// Starts all nodes again. Waits until each node answers.
    pub async fn restart_all(&self) {
        for node in &self.nodes {
            node.server.restart().await;
        }
    }

    /// Sends a command to all nodes. The command must succeed.
    pub async fn tell_all(&self, words: &[&str]) {
        for node in &self.nodes {
            node.tell(words).await;
        }
    }
}

impl Node {
    /// Sends a command, and returns its answer.
    pub async fn ask<T: FromRedisValue>(&self, words: &[impl AsRef<str>]) -> RedisResult<T> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(DEADLINE))
            .set_response_timeout(Some(DEADLINE));
        let client = self.server.client();
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let mut command = cmd(words[0].as_ref());
        words[1..].iter().for_each(|word| {
            command.arg(word.as_ref());
        });
        command.query_async(&mut connection.await?).await
    }

    /// Sends a command that must succeed.
    pub async fn tell(&self, words: &[impl AsRef<str>]) {
        let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
        let answer = self.ask::<redis::Value>(&words).await;
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }

    /// The state of the node, as the node describes it; `None` if it does not answer.
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

fn builder() -> Builder {
    RedisServer::builder()
        .node_of_a_cluster()
        .arg("--cluster-node-timeout", NODE_TIMEOUT_MILLIS)
        // A replica may replace its primary, however long the primary has been away.
        .arg("--cluster-replica-validity-factor", "0")
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
