//! Faults of clusters and of primaries with Sentinels. The short form of each fault is a test, and the long form is a
//! row of `make chaos`.

use std::time::{Duration, Instant};

use crate::faults::scenarios::Report;
use crate::faults::service::{Load, PREFIX, Pace, Service, Stored, pause};
use crate::rig::cluster::{Node, RedisCluster};
#[cfg(feature = "redis-tls")]
use crate::rig::proxy::Proxy;
use crate::rig::sentinel::Sentinels;
use crate::rig::server::{Builder, RedisServer};
use crate::rig::shared;
#[cfg(feature = "redis-tls")]
use crate::topologies::certificates::{behind_proxies, certificates};
use crate::topologies::place::{
    TAGGED, builder, cluster_options, readable_again, sentinel_options, stored_behind, stored_in,
    under_load,
};
use crate::topologies::user::User;

/// The time after a fault within which all requests must be readable again.
const READABLE: Duration = Duration::from_secs(10);

/// Room for the calls that a primary acknowledges while it is cut off for half a minute, with 15,000 requests and 50
/// calls per second.
const REPLAY_BYTES: usize = 32 << 20;

struct Trial {
    service: Service,
    load: Load,
    /// The longest time after a fault until all requests could be read.
    slowest: Duration,
}

impl Trial {
    async fn start(builder: tower_pulse::Builder, pace: Pace, seed: u64) -> Self {
        let (service, load) = under_load(builder.replay_bytes(REPLAY_BYTES), pace, seed).await;
        Self {
            service,
            load,
            slowest: Duration::ZERO,
        }
    }

    /// Measures the recovery from a fault that has just ended.
    async fn recover(&mut self) {
        self.service.flushed_again().await;
        let took = readable_again(&self.service).await;
        self.slowest = self.slowest.max(took);
    }

    async fn end(self, stored: impl AsyncFnOnce() -> Stored, done: String) -> Report {
        self.load.stop().await;
        let mut report = Report::at_the_end_with(&self.service, stored).await;
        report.done = done;
        let line = format!("readable again within {:.1} s", self.slowest.as_secs_f64());
        report.fault_if(self.slowest > READABLE, &*line);
        report.notes.push(line);
        let flush = self.service.health().flush;
        let line = format!("{} resets", flush.store_resets);
        report.fault_if(flush.store_resets > 0, line);
        let line = format!("{} calls replayed", flush.replayed);
        report.notes.push(line);
        report
    }

    async fn end_in(self, cluster: &RedisCluster, prefix: &str, done: String) -> Report {
        self.end(async || stored_in(cluster, prefix).await, done)
            .await
    }
}

/// The number of ASKING commands that a node got. ASKING precedes a command for a slot that is moving to the node.
async fn asking(node: &Node) -> u64 {
    let stats = node.server.info("commandstats").await;
    let calls = stats.get("cmdstat_asking").and_then(|asking| {
        let calls = asking.strip_prefix("calls=")?;
        calls.split(',').next()?.parse().ok()
    });
    calls.unwrap_or(0)
}

pub async fn slot_moved(moves: u64, pace: Pace, seed: u64) -> Report {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let slot = cluster.slot(&prefix).await;
    let mut trial = Trial::start(builder(cluster_options(cluster), &prefix), pace, seed).await;
    let nodes = [cluster.other_primary(slot).await, cluster.owner(slot).await];
    let (mut keys, mut all_redirected, mut at_once) = (0, true, 0);
    for to in nodes.into_iter().cycle().take(moves as usize) {
        let node = &cluster.nodes[to];
        let before = asking(node).await;
        keys += cluster.move_slot(slot, to, Duration::from_millis(5)).await;
        all_redirected &= asking(node).await > before;
        trial.recover().await;
    }
    for _ in 0..moves {
        // A server before Valkey 9 has no CLUSTER MIGRATESLOTS.
        let to = cluster.other_primary(slot).await;
        if !cluster.move_slot_at_once(slot, to).await {
            break;
        }
        at_once += 1;
        trial.recover().await;
    }
    let done = format!(
        "slot moved {moves} times key by key ({keys} keys in all), and {at_once} times in one operation"
    );
    let mut report = trial.end_in(cluster, &prefix, done).await;
    report.fault_if(!all_redirected, "a move without an ASK redirect");
    let few = keys <= 100 * moves as usize;
    report.fault_if(few, format!("only {keys} keys were moved"));
    report
}

pub async fn failovers(rounds: u64, pace: Pace, seed: u64) -> Report {
    let cluster = RedisCluster::start().await;
    let slot = cluster.slot(TAGGED).await;
    let mut trial = Trial::start(builder(cluster_options(&cluster), TAGGED), pace, seed).await;
    for round in 0..rounds {
        if round % 2 == 0 {
            // A planned failover: the replica has all data.
            cluster.fail_over(slot).await;
            trial.recover().await;
        } else {
            // An unplanned failover: the calls that the replica lacks are replayed.
            let killed = &cluster.nodes[cluster.owner(slot).await].server;
            killed.kill_9();
            // Waits until a replica owns the slot.
            cluster.owner(slot).await;
            trial.recover().await;
            killed.restart().await;
        }
        cluster.wait_until_healthy().await;
        pause(300).await;
    }
    let kills = rounds / 2;
    let done = format!("{rounds} failovers of a cluster's primary, {kills} of them by kill -9");
    trial.end_in(&cluster, TAGGED, done).await
}

pub async fn cut_off_primaries(rounds: u64, pace: Pace, seed: u64) -> Report {
    let sentinels = Sentinels::start().await;
    let mut trial = Trial::start(builder(sentinel_options(&sentinels), PREFIX), pace, seed).await;
    let (mut all_replayed, mut longest) = (true, Duration::ZERO);
    for _ in 0..rounds {
        let replayed = || trial.service.health().flush.replayed;
        let (before, primary) = (replayed(), sentinels.primary().await);
        let cut = Instant::now();
        // The service still writes to the primary, but the replicas do not get the writes.
        sentinels.cut_off(primary);
        sentinels.another_primary(primary).await;
        let replaced = Instant::now();
        while replayed() == before && replaced.elapsed() < READABLE {
            pause(20).await;
        }
        all_replayed &= replayed() > before;
        longest = longest.max(cut.elapsed());
        trial.recover().await;
        // Sentinels reach the old primary again, which is a second primary until a Sentinel makes it a replica.
        sentinels.heal(primary);
        trial.recover().await;
        sentinels.wait_until_healthy().await;
        pause(300).await;
    }
    sentinels.hold().await;
    trial.recover().await;
    let done = format!(
        "{rounds} failovers by Sentinel: the old primary was cut off, still got writes for at most {:.1} s, and came \
         back as a second primary",
        longest.as_secs_f64()
    );
    let stored = async || stored_behind(&sentinels, PREFIX).await;
    let mut report = trial.end(stored, done).await;
    report.fault_if(!all_replayed, "after a failover, no call was replayed");
    report
}

pub async fn cluster_down(outage: Duration, pace: Pace, seed: u64) -> Report {
    let cluster = RedisCluster::start_with(None, Builder::durable).await;
    let mut trial = Trial::start(builder(cluster_options(&cluster), TAGGED), pace, seed).await;
    let servers = || cluster.nodes.iter().map(|node| &node.server);
    servers().for_each(RedisServer::kill_9);
    trial.service.flush_failed().await;
    tokio::time::sleep(outage).await;
    for server in servers() {
        server.restart().await;
    }
    trial.recover().await;
    let seconds = outage.as_secs_f64();
    let done =
        format!("all six nodes, with appendfsync always, were killed and away for {seconds:.0} s");
    trial.end_in(&cluster, TAGGED, done).await
}

pub async fn credentials(rotations: u64, pace: Pace, seed: u64) -> Report {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let user = User::new(cluster, "rotated", &prefix).await;
    let options = user.with_credentials(cluster_options(cluster));
    let mut trial = Trial::start(builder(options, &prefix), pace, seed).await;
    let mut is_asked = true;
    for _ in 0..rotations {
        let before = user.asked();
        user.rotate(cluster).await;
        trial.recover().await;
        // The application is asked twice, because it gives the old password first.
        is_asked &= user.asked() >= before + 2;
    }
    let done = format!(
        "password replaced {rotations} times: connections were killed, and the application gave the old password first"
    );
    let mut report = trial.end_in(cluster, &prefix, done).await;
    let line = "the application was not asked for the new password";
    report.fault_if(!is_asked, line);
    report
}

#[cfg(feature = "redis-tls")]
pub async fn tls_cut(cuts: u64, pace: Pace, seed: u64) -> Report {
    let cluster = RedisCluster::start_with(Some(&certificates()), |node| node).await;
    let (proxies, options) = behind_proxies(&cluster).await;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut trial = Trial::start(builder(options, TAGGED), pace, seed).await;
    for cut in 1..=cuts {
        proxies.iter().for_each(Proxy::cut);
        pause(rng.u64(5..200)).await;
        if cut == 5 {
            // The service connects with TLS to the new owner, which MOVED names.
            cluster.fail_over(cluster.slot(TAGGED).await).await;
        }
        if cut % 5 == 0 {
            trial.recover().await;
        }
    }
    let done = format!("{cuts} cuts of all connections with TLS to a cluster");
    trial.end_in(&cluster, TAGGED, done).await
}
