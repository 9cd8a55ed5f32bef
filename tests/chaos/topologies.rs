//! Clusters whose slots move and whose nodes die, and primaries that Sentinels replace.

use std::time::{Duration, Instant};

#[cfg(feature = "redis-tls")]
use crate::certificates::{behind_proxies, certificates};
use crate::place::{
    TAGGED, cluster_options, pulse, readable_again, sentinel_options, stored_behind, stored_in,
};
use crate::rig::cluster::RedisCluster;
use crate::rig::proxy::Proxy;
use crate::rig::sentinel::Sentinels;
use crate::service::Load;
use crate::service::{PREFIX, Service, pause};
use crate::store::{end_with, load};
use crate::table::{Outcome, Size};
use crate::user::User;

/// After the end of a fault, what is recorded must be readable again within this time.
const READABLE: Duration = Duration::from_secs(10);

/// Covers what a primary acknowledges that is cut off for half a minute: 15,000 requests a second, in 50 calls.
const REPLAY_BYTES: usize = 32 << 20;

/// A service under load, and the longest time until its figures could be read again.
struct Trial {
    service: Service,
    load: Load,
    slowest: Duration,
}

impl Trial {
    async fn start(builder: tower_pulse::Builder, size: Size) -> Self {
        let service = Service::new(builder.replay_bytes(REPLAY_BYTES));
        let load = load(&service, size.seed);
        service.flushed_again().await;
        Self {
            service,
            load,
            slowest: Duration::ZERO,
        }
    }

    /// A fault has ended now.
    async fn recover(&mut self) {
        let took = readable_again(&self.service).await;
        self.slowest = self.slowest.max(took);
    }

    async fn end(
        self,
        stored: impl AsyncFnOnce() -> crate::service::Stored,
        done: String,
    ) -> Outcome {
        self.load.stop().await;
        let mut outcome = end_with(&self.service, stored, done).await;
        let (slowest, flush) = (self.slowest, self.service.health().flush);
        if slowest > READABLE {
            outcome.faults.push(format!("readable after {slowest:?}"));
        }
        if flush.store_resets > 0 {
            let line = format!("{} resets", flush.store_resets);
            outcome.faults.push(line);
        }
        outcome.notes.extend([
            format!("{} calls replayed", flush.replayed),
            format!("readable again within {:.1} s", slowest.as_secs_f64()),
        ]);
        outcome
    }
}

pub async fn slot_moved(size: Size) -> Outcome {
    let moves = size.of(20);
    let cluster = RedisCluster::start().await;
    let slot = cluster.slot(TAGGED).await;
    let mut trial = Trial::start(pulse(cluster_options(&cluster), TAGGED), size).await;
    let ends = [cluster.owner(slot).await, cluster.other_primary(slot).await];
    let (mut keys, mut at_once) = (0, 0);
    for n in 0..moves as usize {
        let to = ends[(n + 1) % 2];
        keys += cluster.move_slot(slot, to, Duration::from_millis(5)).await;
        trial.recover().await;
    }
    for n in 0..moves as usize {
        let to = ends[(n + 1 + moves as usize) % 2];
        if !cluster.move_slot_at_once(slot, to).await {
            break;
        }
        at_once += 1;
        trial.recover().await;
    }
    let done = match at_once {
        0 => "the atomic way skipped, as this server has none".to_owned(),
        n => format!("and {n} times at once"),
    };
    let done = format!("slot moved {moves} times key by key, {keys} keys, {done}");
    trial
        .end(async || stored_in(&cluster, TAGGED).await, done)
        .await
}

pub async fn failovers(size: Size) -> Outcome {
    let rounds = size.of(20);
    let cluster = RedisCluster::start().await;
    let slot = cluster.slot(TAGGED).await;
    let mut trial = Trial::start(pulse(cluster_options(&cluster), TAGGED), size).await;
    for round in 0..rounds {
        if round % 2 == 0 {
            cluster.fail_over(slot).await;
            trial.recover().await;
        } else {
            let killed = cluster.kill_owner(slot).await;
            trial.recover().await;
            cluster.nodes()[killed].server.restart().await;
        }
        cluster.healthy().await;
        pause(300).await;
    }
    let kills = rounds / 2;
    let done = format!("{rounds} failovers of a cluster's primary, {kills} of them by kill -9");
    trial
        .end(async || stored_in(&cluster, TAGGED).await, done)
        .await
}

pub async fn cut_off_primaries(size: Size) -> Outcome {
    let rounds = size.of(10);
    let sentinels = Sentinels::start().await;
    let mut trial = Trial::start(pulse(sentinel_options(&sentinels), PREFIX), size).await;
    let (mut faults, mut longest) = (Vec::new(), Duration::ZERO);
    for round in 0..rounds {
        let before = sentinels.primary().await;
        let replayed = trial.service.health().flush.replayed;
        let cut = Instant::now();
        sentinels.cut_off(before);
        sentinels.another_primary(before).await;
        let replaced = Instant::now();
        while trial.service.health().flush.replayed == replayed && replaced.elapsed() < READABLE {
            pause(20).await;
        }
        if trial.service.health().flush.replayed == replayed {
            faults.push(format!("round {round}: nothing was replayed"));
        }
        longest = longest.max(cut.elapsed());
        trial.recover().await;
        // It comes back writable, until a Sentinel makes it a replica.
        sentinels.heal(before);
        trial.recover().await;
        sentinels.healthy().await;
        pause(300).await;
    }
    let done = format!(
        "{rounds} failovers by Sentinel, the old primary cut off, written to, and back as a second primary"
    );
    sentinels.hold().await;
    trial.recover().await;
    let stored = async || stored_behind(&sentinels, PREFIX).await;
    let mut outcome = trial.end(stored, done).await;
    outcome.faults.extend(faults);
    let longest = format!("{:.1} s until it was left, at most", longest.as_secs_f64());
    outcome.notes.push(longest);
    outcome
}

pub async fn cluster_down(size: Size) -> Outcome {
    let outage = Duration::from_secs(120)
        .mul_f64(size.scale)
        .max(Duration::from_secs(3));
    let cluster = RedisCluster::start_durable().await;
    let mut trial = Trial::start(pulse(cluster_options(&cluster), TAGGED), size).await;
    pause(500).await;
    cluster.kill_all();
    tokio::time::sleep(outage).await;
    cluster.restart_all().await;
    trial.recover().await;
    let done = format!(
        "all six nodes killed and away for {:.0} s, appendfsync always",
        outage.as_secs_f64()
    );
    trial
        .end(async || stored_in(&cluster, TAGGED).await, done)
        .await
}

pub async fn credentials(size: Size) -> Outcome {
    let rotations = size.of(100);
    let cluster = RedisCluster::start().await;
    let user = User::new(&cluster, "rotated", TAGGED).await;
    let options = user.given_to(cluster_options(&cluster));
    let mut trial = Trial::start(pulse(options, TAGGED), size).await;
    for _ in 0..rotations {
        user.rotate(&cluster).await;
        trial.recover().await;
    }
    let done = format!(
        "password replaced {rotations} times, connections killed, the old one given first ({} questions)",
        user.asked()
    );
    trial
        .end(async || stored_in(&cluster, TAGGED).await, done)
        .await
}

#[cfg(feature = "redis-tls")]
pub async fn tls_cut(size: Size) -> Outcome {
    let cuts = size.of(200);
    let cluster = RedisCluster::start_tls(&certificates()).await;
    let (proxies, options) = behind_proxies(&cluster).await;
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let mut trial = Trial::start(pulse(options, TAGGED), size).await;
    for cut in 0..cuts {
        proxies.iter().for_each(Proxy::cut);
        match cut % 10 {
            9 => trial.recover().await,
            _ => pause(rng.u64(5..200)).await,
        }
    }
    trial.recover().await;
    let done = format!("{cuts} cuts of all connections with TLS to a cluster");
    trial
        .end(async || stored_in(&cluster, TAGGED).await, done)
        .await
}
