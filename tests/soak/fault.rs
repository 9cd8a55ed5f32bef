//! The ten kinds of faults.

use std::time::Duration;

use crate::fleet::{Instance, Kill};
use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

/// Whatever a fault may befall.
#[derive(Debug)]
pub struct Site {
    pub server: RedisServer,
    /// Between the instances and the server.
    pub proxy: Proxy,
    pub fleet: Vec<Instance>,
    pub kills: Vec<Kill>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    KilledConnections,
    FrozenServer,
    FrozenInstance,
    KilledInstance,
    KilledServer,
    MemoryLimit,
    SlowServer,
    FlushedScripts,
    DeniedCommands,
    PromotedReplica,
}

impl Fault {
    pub const ALL: [Self; 10] = [
        Self::KilledConnections,
        Self::FrozenServer,
        Self::FrozenInstance,
        Self::KilledInstance,
        Self::KilledServer,
        Self::MemoryLimit,
        Self::SlowServer,
        Self::FlushedScripts,
        Self::DeniedCommands,
        Self::PromotedReplica,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::KilledConnections => "killed connections",
            Self::FrozenServer => "frozen server",
            Self::FrozenInstance => "frozen instance",
            Self::KilledInstance => "killed instance",
            Self::KilledServer => "killed server (appendfsync always)",
            Self::MemoryLimit => "memory limit",
            Self::SlowServer => "slow server",
            Self::FlushedScripts => "flushed scripts",
            Self::DeniedCommands => "denied commands",
            Self::PromotedReplica => "promoted replica",
        }
    }
}

/// A fault with all that is drawn for it, so that a seed repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub fault: Fault,
    /// How long after its ten seconds it begins, so that faults meet each part of the fleet's seconds.
    pub offset: Duration,
    instance: usize,
    /// For how long it lasts.
    length: Duration,
    /// How often it happens within that time, if it lasts for a moment only.
    times: u32,
    delay: Duration,
    denied: &'static str,
}

impl Plan {
    /// Plans `n` faults. Each ten of them are of all kinds, in random order.
    pub fn draw(n: usize, instances: usize, rng: &mut fastrand::Rng) -> Vec<Self> {
        let mut plans = Vec::new();
        while plans.len() < n {
            let mut kinds = Fault::ALL;
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

    /// Lets it happen, and ends it. Returns what happened, in words.
    pub async fn inflict(&self, site: &mut Site) -> String {
        let seconds = self.length.as_secs_f64();
        match self.fault {
            Fault::KilledConnections => {
                let mut killed = 0;
                for _ in 0..self.times {
                    killed += site.server.kill_clients().await;
                    self.pause().await;
                }
                format!("{killed} in {} moments", self.times)
            }
            Fault::FrozenServer => {
                site.server.freeze();
                tokio::time::sleep(self.length).await;
                site.server.thaw();
                format!("for {seconds:.1} s")
            }
            Fault::FrozenInstance => {
                let instance = &site.fleet[self.instance];
                instance.process.freeze();
                tokio::time::sleep(self.length).await;
                instance.process.thaw();
                format!("{} for {seconds:.1} s", instance.name())
            }
            Fault::KilledInstance => {
                let instance = &mut site.fleet[self.instance];
                let kill = instance.kill_and_restart(self.length / 4).await;
                let name = kill.life.id();
                site.kills.push(kill);
                name
            }
            Fault::KilledServer => {
                site.server.kill_9();
                tokio::time::sleep(self.length / 2).await;
                site.server.restart().await;
                format!("for {:.1} s", seconds / 2.0)
            }
            Fault::MemoryLimit => {
                let () = site.server.run("CONFIG SET maxmemory 1mb").await;
                tokio::time::sleep(self.length).await;
                let () = site.server.run("CONFIG SET maxmemory 0").await;
                format!("1 MB for {seconds:.1} s")
            }
            Fault::SlowServer => {
                site.proxy.delay(self.delay);
                tokio::time::sleep(self.length).await;
                site.proxy.delay(Duration::ZERO);
                let millis = self.delay.as_millis();
                format!("by {millis} ms for {seconds:.1} s")
            }
            Fault::FlushedScripts => {
                for _ in 0..self.times {
                    let () = site.server.run("SCRIPT FLUSH").await;
                    self.pause().await;
                }
                format!("{} times", self.times)
            }
            Fault::DeniedCommands => {
                let set = |sign: char| format!("ACL SETUSER default {sign}{}", self.denied);
                let () = site.server.run(&set('-')).await;
                tokio::time::sleep(self.length).await;
                let () = site.server.run(&set('+')).await;
                format!("{} for {seconds:.1} s", self.denied)
            }
            Fault::PromotedReplica => {
                let behind = self.length / 6;
                promote(site, behind).await;
                format!("{:.1} s behind", behind.as_secs_f64())
            }
        }
    }

    /// The time between two of its moments.
    async fn pause(&self) {
        tokio::time::sleep(self.length / self.times).await;
    }
}

/// A server that loses nothing that it has acknowledged when it is killed.
pub async fn start_server() -> RedisServer {
    RedisServer::builder()
        .arg("--appendonly", "yes")
        .arg("--appendfsync", "always")
        // It counts as used memory: a small one, so that it shows nowhere.
        .arg("--repl-backlog-size", "64kb")
        .start()
        .await
}

/// Gives the server a replica and cuts it off. After `behind`, which is what the replica then lacks, kills the server
/// and promotes the replica. Its instances have to replay what it lacks.
async fn promote(site: &mut Site, behind: Duration) {
    let replica = start_server().await;
    let follow = format!("REPLICAOF 127.0.0.1 {}", site.server.port());
    let () = replica.run(&follow).await;
    until("the replica follows", async || {
        let follows = replica.info("replication").await["master_link_status"] == "up";
        // Until it has written its file anew, a kill would lose what it has read.
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
    // For a moment the instances reach a replica, which refuses writes.
    tokio::time::sleep(behind / 2).await;
    let () = replica.run("REPLICAOF NO ONE").await;
    site.server = replica;
}

/// Panics unless a seed repeats the faults, and each ten of them are of all kinds.
pub fn check_plans() {
    let draw = || Plan::draw(30, 3, &mut fastrand::Rng::with_seed(7));
    assert_eq!(draw(), draw());
    for ten in draw().chunks(10) {
        let mut kinds: Vec<_> = ten.iter().map(|plan| plan.fault).collect();
        kinds.sort();
        assert_eq!(kinds, Fault::ALL);
    }
}
