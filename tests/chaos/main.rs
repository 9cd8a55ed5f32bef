//! The long form of `tests/faults` and `tests/topologies`: `make chaos` runs it as a release build and prints one
//! table. The program fails if a stored number differs from the expected number.
//!
//! `PULSE_CHAOS_SCALE=0.05` (or `--quick`) shortens every scenario to this part. `PULSE_SEED` repeats a run. Words
//! after `run` select scenarios by name. Without `run`, the program does nothing, so `cargo test` only compiles it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    reason = "a panic fails the test, and the program uses only some items of the shared modules"
)]

#[path = "../faults"]
mod faults {
    pub mod scenarios;
    pub mod service;
}
#[path = "../rig/mod.rs"]
mod rig;
#[path = "../topologies"]
mod topologies {
    #[cfg(feature = "redis-tls")]
    pub mod certificates;
    pub mod place;
    pub mod trials;
    pub mod user;
}

mod away;
mod file;
mod table;

use std::time::Duration;

use crate::faults::scenarios;
use crate::faults::service::Pace;
use crate::topologies::trials;

use table::{Run, Size};

/// The number of fleets that run at once. Most of the time, a fleet waits until a lease expires.
const FLEETS: u64 = 4;

/// The requests of this time before a SIGKILL may be missing: a flush interval of a second, up to 50 ms of jitter, and
/// a flush, on a busy machine.
const LAST_INTERVAL: Duration = Duration::from_millis(1_150);

/// The pace of a service that is alone on the machine.
const HEAVY: Pace = |_| (10, 1);

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|word| word == "--quick");
    words.retain(|word| !word.starts_with('-'));
    if words.first().is_none_or(|word| word != "run") {
        println!("the long fault tests: run them with `make chaos`");
        return;
    }
    let scale = match std::env::var("PULSE_CHAOS_SCALE") {
        Ok(scale) => scale.parse().expect("PULSE_CHAOS_SCALE is a number"),
        Err(_) if quick => 0.05,
        Err(_) => 1.0,
    };
    let mut run = Run::new(scale, words.split_off(1));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(run_scenarios(&mut run));
    if !run.print() {
        std::process::exit(1);
    }
}

async fn run_scenarios(run: &mut Run) {
    run.scenario("kills and freezes", |size: Size| {
        let (kills, freezes) = (size.scaled(1_000), size.scaled(200));
        scenarios::kills_and_freezes(kills, freezes, size.scaled(1_000_000), HEAVY, size.seed)
    })
    .await;
    run.scenario("lost replies", |size: Size| {
        scenarios::lost_replies(size.scaled(500).max(60), size.seed)
    })
    .await;
    run.scenario("Redis away", away::away).await;
    run.scenario("SIGTERM", |size: Size| {
        scenarios::sigterm(size.scaled(50), Duration::from_secs(2), size.seed)
    })
    .await;
    run.scenario("SIGKILL", |size: Size| {
        scenarios::sigkill(size.scaled(100), 1_000, LAST_INTERVAL, size.seed)
    })
    .await;
    run.scenario("SIGKILL on a file", file::sigkill).await;
    run.scenario("deploys on a file", file::deploys).await;
    run.scenario("folder killed", |size: Size| {
        scenarios::folders_killed(size.scaled(100), FLEETS, size.seed)
    })
    .await;
    run.scenario("folder frozen", |size: Size| {
        scenarios::folders_frozen(size.scaled(20), FLEETS, size.seed)
    })
    .await;
    run.scenario("clocks apart", |size: Size| {
        scenarios::clocks_apart(size.scaled(48), size.seed)
    })
    .await;
    run.scenario("journal full", |size: Size| {
        scenarios::journal_full(size.time(60), size.seed)
    })
    .await;
    run.scenario("kill -9 of Redis", |size: Size| {
        scenarios::servers_killed(size.scaled(50), size.seed)
    })
    .await;
    run.scenario("failover", |size: Size| {
        scenarios::failovers(size.scaled(10).max(3), size.seed)
    })
    .await;
    run.scenario("journal deleted", |size: Size| {
        scenarios::deleted(false, size.scaled(10), size.seed)
    })
    .await;
    run.scenario("state deleted", |size: Size| {
        scenarios::deleted(true, size.scaled(10), size.seed)
    })
    .await;
    run.scenario("slot moved", |size: Size| {
        trials::slot_moved(size.scaled(20), HEAVY, size.seed)
    })
    .await;
    run.scenario("cluster failover", |size: Size| {
        trials::failovers(size.scaled(20), HEAVY, size.seed)
    })
    .await;
    run.scenario("Sentinel failover", |size: Size| {
        trials::cut_off_primaries(size.scaled(10), HEAVY, size.seed)
    })
    .await;
    run.scenario("cluster down", |size: Size| {
        let outage = size.time(120).max(Duration::from_secs(3));
        trials::cluster_down(outage, HEAVY, size.seed)
    })
    .await;
    run.scenario("credentials rotated", |size: Size| {
        trials::credentials(size.scaled(100), HEAVY, size.seed)
    })
    .await;
    #[cfg(feature = "redis-tls")]
    run.scenario("TLS cut", |size: Size| {
        trials::tls_cut(size.scaled(200), HEAVY, size.seed)
    })
    .await;
}
