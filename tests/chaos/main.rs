//! The long fault tests: the scenarios of `tests/faults` and `tests/topologies` in their long form, and the [`soak`].
//! `make chaos` and `make soak` run release builds. Without `run` or `soak` as the first word, the program only prints
//! a hint. `PULSE_SEED` repeats a run.
//!
//! `run` prints one table, and fails if a scenario fails. `PULSE_CHAOS_SCALE=0.05` or `--quick` shortens most scenarios
//! to a twentieth. Words after `run` select scenarios by a part of the name.
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
    pub mod denials;
    pub mod scenarios;
    pub mod service;
}
#[path = "../rig/mod.rs"]
mod rig;
#[path = "../../examples/signal.rs"]
mod signal;
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
mod soak;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use crate::faults::scenarios;
use crate::faults::service::Pace;
use crate::topologies::trials;

use table::{Run, Size};

/// The number of fleets that run at once. Most of the time, a fleet waits until a lease expires.
const FLEETS: u64 = 4;

/// Requests that ended within this time before a SIGKILL may be missing. The time covers a flush interval of a second,
/// up to 50 ms of jitter, and a flush, on a busy machine.
const LAST_INTERVAL: Duration = Duration::from_millis(1_150);

/// The pace of a service that is alone on the machine.
const HEAVY: Pace = |_| (10, 1);

fn main() -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_all().build().unwrap();
    if std::env::var_os(soak::INSTANCE).is_some() {
        runtime.block_on(soak::serve());
        return ExitCode::SUCCESS;
    }
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let is_quick = words.iter().any(|word| word == "--quick");
    words.retain(|word| !word.starts_with('-'));
    let has_passed = match words.first().map(String::as_str) {
        Some("run") => {
            let scale = match std::env::var("PULSE_CHAOS_SCALE") {
                Ok(scale) => scale.parse().expect("PULSE_CHAOS_SCALE is a number"),
                Err(_) if is_quick => 0.05,
                Err(_) => 1.0,
            };
            let mut run = Run::new(scale, words.split_off(1));
            runtime.block_on(run_scenarios(&mut run));
            run.print()
        }
        Some("soak") => {
            let minutes: f64 = words[1].parse().expect("MINUTES is a number");
            assert!(minutes >= 1.0, "a soak of {minutes} minutes is too short");
            let length = Duration::from_secs_f64(minutes * 60.0);
            runtime.block_on(soak::run(length, rig::seed::seed()))
        }
        _ => {
            println!("the long fault tests: run them with `make chaos` or `make soak`");
            true
        }
    };
    match has_passed {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs scenarios: for each a name, and an expression that makes the report from the size.
macro_rules! run_each {
    ($run:ident: $($(#[$attribute:meta])* $name:literal, |$size:ident| $report:expr;)*) => {
        $($(#[$attribute])* $run.scenario($name, |$size: Size| $report).await;)*
    };
}

async fn run_scenarios(run: &mut Run) {
    run_each! { run:
        "kills and freezes", |size| scenarios::kills_and_freezes(
            size.scaled(1_000), size.scaled(200), size.scaled(1_000_000), HEAVY, size.seed
        );
        "lost replies", |size| scenarios::lost_replies(size.scaled(500).max(60), size.seed);
        "Redis away", |size| away::away(size);
        "SIGTERM", |size| scenarios::sigterm(size.scaled(50), Duration::from_secs(2), size.seed);
        "SIGKILL", |size| scenarios::sigkill(size.scaled(100), 1_000, LAST_INTERVAL, size.seed);
        "SIGKILL on a file", |size| file::sigkill(size);
        "deploys on a file", |size| file::deploys(size);
        "folder killed", |size| scenarios::folders_killed(size.scaled(100), FLEETS, size.seed);
        "folder frozen", |size| scenarios::folders_frozen(size.scaled(20), FLEETS, size.seed);
        "clocks apart", |size| scenarios::clocks_apart(size.scaled(48), size.seed);
        "journal full", |size| scenarios::journal_full(size.time(60), size.seed);
        "kill -9 of Redis", |size| scenarios::servers_killed(size.scaled(50), size.seed);
        "failover", |size| scenarios::failovers(size.scaled(10).max(3), size.seed);
        "journal deleted", |size| scenarios::deleted(false, size.scaled(10), size.seed);
        "state deleted", |size| scenarios::deleted(true, size.scaled(10), size.seed);
        "slot moved", |size| trials::slot_moved(size.scaled(20), HEAVY, size.seed);
        "cluster failover", |size| trials::failovers(size.scaled(20), HEAVY, size.seed);
        "Sentinel failover", |size| trials::cut_off_primaries(size.scaled(10), HEAVY, size.seed);
        "cluster down", |size| trials::cluster_down(
            size.time(120).max(Duration::from_secs(3)), HEAVY, size.seed
        );
        "credentials rotated", |size| trials::credentials(size.scaled(100), HEAVY, size.seed);
        #[cfg(feature = "redis-tls")]
        "TLS cut", |size| trials::tls_cut(size.scaled(200), HEAVY, size.seed);
    }
}
