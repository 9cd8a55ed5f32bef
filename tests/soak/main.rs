//! Three instances of a service under steady HTTP traffic, and a fault every ten seconds: `make soak MINUTES=15`.
//! At the end, the program compares the answered requests with the totals in Redis, and prints a table. Any difference
//! that a fault does not explain is an error.
//!
//! `PULSE_SEED` repeats the faults of a run. Without `run` as its first argument, the program does nothing, so
//! `cargo test` only compiles it.
//!
//! Read in this order: [`order`] (a request and the amounts that it adds in the store), [`service`] (an instance),
//! [`traffic`] (its clients), [`fleet`], [`fault`] (the ten kinds of faults), [`sample`] (memory and journal),
//! [`compare`], [`reported`] (when conditions are reported), [`run`] (one run from start to end).
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a panic fails the test, and the program uses only some items of the shared modules"
)]

#[path = "../faults"]
mod faults {
    pub mod denials;
    pub mod service;
}
#[path = "../rig/mod.rs"]
mod rig;
#[path = "../../examples/signal.rs"]
mod signal;

mod compare;
mod fault;
mod fleet;
mod order;
mod reported;
mod run;
mod sample;
mod service;
mod traffic;

use std::time::Duration;

fn main() -> std::process::ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if std::env::var_os(service::INSTANCE).is_some() {
        runtime.block_on(service::serve());
        return std::process::ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_none_or(|word| word != "run") {
        println!("the soak: run it with `make soak MINUTES=15`");
        return std::process::ExitCode::SUCCESS;
    }
    let minutes = words.get(1).map_or(Ok(15.0), |word| word.parse());
    let Some(length) = minutes
        .ok()
        .filter(|minutes| (1.0..=600.0).contains(minutes))
    else {
        eprintln!("MINUTES must be a number from 1 to 600, not {:?}", words[1]);
        return std::process::ExitCode::FAILURE;
    };
    let length = Duration::from_secs_f64(length * 60.0);
    let seed = rig::seed::seed();
    // After a signal, dropping the run ends all processes that it has started. If this process is killed, the watcher
    // of each child ends the child.
    let passed = runtime.block_on(async {
        tokio::select! {
            passed = run::run(length, seed) => passed,
            () = signal::shutdown_signal() => {
                println!("ended by a signal: nothing was compared; seed {seed}");
                false
            }
        }
    });
    if passed {
        std::process::ExitCode::SUCCESS
    } else {
        std::process::ExitCode::FAILURE
    }
}
