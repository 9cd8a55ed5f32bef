//! The ten kinds of faults.

use std::time::Duration;

use crate::fleet::Instance;
use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

/// The processes and the proxy that a fault can affect.
#[derive(Debug)]
pub struct Site {
    pub server: RedisServer,
    /// The proxy between the instances and the server.
    pub proxy: Proxy,
    pub fleet: Vec<Instance>,
}

const FAULTS: [&str; 10] = [
    "killed connections",
    "frozen server",
    "frozen instance",
    "killed instance",
    "killed server (appendfsync always)",
    "memory limit",
    "slow server",
    "flushed scripts",
    "denied commands",
    "promoted replica",
];

/// A fault with its random parameters. A seed repeats them.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub fault: &'static str,
    /// The time from the start of the ten-second period until the fault begins: up to a second, so that faults begin at
    /// every point of a flush interval.
    pub offset: Duration,
    instance: usize,
    /// How long the fault lasts.
    pub length: Duration,
    /// How often a momentary fault happens within `length`.
    times: u32,
    delay: Duration,
    denied: &'static str,
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
                denied: ["evalsha", "xadd"][rng.usize(..2)],
            }));
        }
        plans.truncate(n);
        plans
    }

    /// Causes the fault, and ends it.
    pub async fn inflict(&self, site: &mut Site) {
        let run = async |command: &str| -> () { site.server.run(command).await };
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
            "frozen server" => {
                site.server.freeze();
                let_it_last().await;
                site.server.thaw();
            }
            "frozen instance" => {
                let process = &site.fleet[self.instance].process;
                process.freeze();
                let_it_last().await;
                process.thaw();
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
            "memory limit" => {
                run("CONFIG SET maxmemory 1mb").await;
                let_it_last().await;
                run("CONFIG SET maxmemory 0").await;
            }
            "slow server" => {
                site.proxy.delay(self.delay);
                let_it_last().await;
                site.proxy.delay(Duration::ZERO);
            }
            "flushed scripts" => {
                for _ in 0..self.times {
                    run("SCRIPT FLUSH").await;
                    pause().await;
                }
            }
            "denied commands" => {
                run(&format!("ACL SETUSER default -{}", self.denied)).await;
                let_it_last().await;
                run(&format!("ACL SETUSER default +{}", self.denied)).await;
            }
            "promoted replica" => promote(site, self.length / 6).await,
            other => panic!("{other}"),
        }
    }
}

/// Starts a server that writes each change to disk before it answers.
pub async fn start_server() -> RedisServer {
    RedisServer::builder()
        .arg("--appendonly", "yes")
        .arg("--appendfsync", "always")
        // Redis counts the backlog as used memory. A small backlog hardly changes the samples of `used_memory`.
        .arg("--repl-backlog-size", "64kb")
        .start()
        .await
}

/// Starts a replica of the server, and cuts the replica off. After the time `behind`, kills the server and promotes the
/// replica, which lacks the writes of this time. The instances have to replay these writes.
async fn promote(site: &mut Site, behind: Duration) {
    let replica = start_server().await;
    let follow = format!("REPLICAOF 127.0.0.1 {}", site.server.port());
    let () = replica.run(&follow).await;
    until("the replica follows", async || {
        let follows = replica.info("replication").await["master_link_status"] == "up";
        // Until the replica has rewritten its file, a kill would lose the data that it got from the primary.
        let persistence = replica.info("persistence").await;
        let is_writing = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .any(|field| persistence[*field] == "1");
        follows && !is_writing
    })
    .await;
    // No server listens on that port.
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
