//! The ten kinds of faults.

use std::time::Duration;

use super::fleet::Instance;
use super::reported::set;
use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

/// The processes and the proxy that a fault can affect.
#[derive(Debug)]
pub struct Site {
    pub server: RedisServer,
    pub proxy: Proxy,
    pub fleet: Vec<Instance>,
}

/// The last four are the names of conditions, whose faults [`set`] begins and ends.
const FAULTS: [&str; 10] = [
    "killed connections",
    "killed instance",
    "killed server (appendfsync always)",
    "slow server",
    "flushed scripts",
    "promoted replica",
    "unreachable",
    "silent_instance",
    "full_server",
    "flush",
];

/// A fault with its random parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub fault: &'static str,
    /// The time from the start of the ten-second period until the fault begins: less than a flush interval.
    pub offset: Duration,
    instance: usize,
    pub length: Duration,
    /// How often a momentary fault happens within `length`.
    times: u32,
    delay: Duration,
}

impl Plan {
    /// Plans `n` faults, in groups of ten. A group has one fault of each kind, in random order.
    pub fn draw(n: usize, instances: usize, rng: &mut fastrand::Rng) -> Vec<Self> {
        let mut plans = Vec::new();
        while plans.len() < n {
            let mut kinds = FAULTS;
            rng.shuffle(&mut kinds);
            plans.extend(kinds.map(|fault| Self {
                fault,
                offset: Duration::from_millis(rng.u64(..1_000)),
                instance: rng.usize(..instances),
                length: Duration::from_millis(rng.u64(500..6_000)),
                times: rng.u32(3..10),
                delay: Duration::from_millis(rng.u64(20..900)),
            }));
        }
        plans.truncate(n);
        plans
    }

    pub async fn inflict(&self, site: &mut Site) {
        let let_it_last = || tokio::time::sleep(self.length);
        // The time between two occurrences of a momentary fault.
        let pause = || tokio::time::sleep(self.length / self.times);
        match self.fault {
            "killed connections" => {
                for _ in 0..self.times {
                    site.server.kill_clients().await;
                    pause().await;
                }
            }
            "killed instance" => {
                let instance = &mut site.fleet[self.instance];
                instance.kill_and_restart(self.length / 4).await;
            }
            "killed server (appendfsync always)" => {
                site.server.kill_9();
                tokio::time::sleep(self.length / 2).await;
                site.server.restart().await;
            }
            "slow server" => {
                site.proxy.delay(self.delay);
                let_it_last().await;
                site.proxy.delay(Duration::ZERO);
            }
            "flushed scripts" => {
                for _ in 0..self.times {
                    let () = site.server.run("SCRIPT FLUSH").await;
                    pause().await;
                }
            }
            "promoted replica" => promote(site, self.length / 6).await,
            condition => {
                set(condition, true, site, self.instance).await;
                let_it_last().await;
                set(condition, false, site, self.instance).await;
            }
        }
    }
}

/// Starts a server that writes each change to disk before it answers.
pub async fn start_server() -> RedisServer {
    // Redis counts the replication backlog as used memory. A small backlog hardly changes the samples of `used_memory`.
    let server = RedisServer::builder().arg("--repl-backlog-size", "64kb");
    server.durable().start().await
}

/// Starts a replica of the server, and cuts the replica off. After the time `behind`, kills the server and promotes the
/// replica, which lacks the writes of this time. The instances have to replay these writes.
async fn promote(site: &mut Site, behind: Duration) {
    let replica = start_server().await;
    let follow = format!("REPLICAOF 127.0.0.1 {}", site.server.port());
    let () = replica.run(&follow).await;
    until("the replica follows", async || {
        let is_following = replica.info("replication").await["master_link_status"] == "up";
        // Until the replica has rewritten its file, a kill would lose the primary's data.
        let persistence = replica.info("persistence").await;
        let is_writing = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .any(|field| persistence[*field] == "1");
        is_following && !is_writing
    })
    .await;
    // No server listens on port 1, so this cuts the replica off.
    let () = replica.run("REPLICAOF 127.0.0.1 1").await;
    tokio::time::sleep(behind).await;
    site.server.kill_9();
    site.proxy.set_upstream(replica.port());
    site.proxy.cut();
    // For a moment, the instances are connected to a replica, which refuses writes.
    tokio::time::sleep(behind / 2).await;
    let () = replica.run("REPLICAOF NO ONE").await;
    site.server = replica;
}
