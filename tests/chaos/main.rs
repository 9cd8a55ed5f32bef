//! The long form of `tests/faults`: `make chaos` runs it in release and prints one table. It ends with an
//! error if any number differs.
//!
//! `PULSE_CHAOS_SCALE=0.05` (or `--quick`) shortens every scenario to that part, `PULSE_SEED` repeats a
//! run, and words after `run` select scenarios by name. Without `run` it does nothing, so that a plain
//! `cargo test` only compiles it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code: a panic is a failed test; not all of the shared parts are used here"
)]

#[cfg(feature = "redis-tls")]
#[path = "../topologies/certificates.rs"]
mod certificates;
#[path = "../faults/folds/mod.rs"]
mod folds;
#[path = "../topologies/place.rs"]
mod place;
#[path = "../rig/mod.rs"]
mod rig;
#[path = "../faults/service.rs"]
mod service;
#[path = "../topologies/user.rs"]
mod user;

mod away;
mod clients;
mod file;
mod fleet;
mod folding;
mod process;
mod store;
mod table;
mod topologies;

use table::Run;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os(fleet::CHILD).is_some() {
        return runtime(1).block_on(fleet::child());
    }
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
    runtime(4).block_on(async {
        run.scenario("kills and freezes", store::kills_and_freezes)
            .await;
        run.scenario("swallowed replies", store::swallowed_replies)
            .await;
        run.scenario("kill -9 of Redis", store::killed_servers)
            .await;
        run.scenario("Redis away", away::away).await;
        run.scenario("failover", store::failovers).await;
        run.scenario("SIGTERM", process::sigterm).await;
        run.scenario("SIGKILL", process::sigkill).await;
        run.scenario("SIGKILL on a file", file::sigkill).await;
        run.scenario("deploys on a file", file::deploys).await;
        run.scenario("eight processes", fleet::eight_processes)
            .await;
        run.scenario("folder killed", folding::folder_killed).await;
        run.scenario("folder frozen", folding::folder_frozen).await;
        run.scenario("clocks apart", folding::clocks_apart).await;
        run.scenario("journal full", folding::journal_full).await;
        run.scenario("Redis killed while folding", folding::servers_killed)
            .await;
        run.scenario("failover while folding", folding::failovers)
            .await;
        run.scenario("journal deleted", folding::journal_deleted)
            .await;
        run.scenario("state deleted", folding::state_deleted).await;
        run.scenario("slot moved", topologies::slot_moved).await;
        run.scenario("cluster failover", topologies::failovers)
            .await;
        run.scenario("Sentinel failover", topologies::cut_off_primaries)
            .await;
        run.scenario("cluster down", topologies::cluster_down).await;
        run.scenario("credentials rotated", topologies::credentials)
            .await;
        #[cfg(feature = "redis-tls")]
        run.scenario("TLS cut", topologies::tls_cut).await;
    });
    if !run.print() {
        std::process::exit(1);
    }
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.worker_threads(threads.max(1));
    builder.enable_all().build().unwrap()
}
