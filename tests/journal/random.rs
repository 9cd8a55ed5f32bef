//! Random schedules, which must end without violations.

use fastrand::Rng;

use crate::journal::faults::{AskForHistory, Faults};
use crate::journal::in_process::InProcess;
use crate::journal::redis_under_test::RedisUnderTest;
use crate::journal::scheduler::Scheduler;
use crate::journal::tested_store::TestedStore;

/// The number of schedules in memory, unless `PULSE_RUNS` is set.
const RUNS: u64 = 120;
/// The number of schedules on a server: fewer, because all data is copied after each call.
const RUNS_ON_A_SERVER: u64 = 60;
/// The number of schedules in a file: fewer, because the file is written and opened many times.
const RUNS_IN_A_FILE: u64 = 40;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

/// Returns the violations and the events of a schedule.
fn schedule(data: &dyn TestedStore, seed: u64) -> (Vec<String>, Vec<String>) {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let faults = Faults {
        delays_calls: rng.f64() < 0.25,
        deletes_keys: rng.f64() < 0.1 && data.redis().is_some(),
        has_newer_instances: rng.f64() < 0.15,
        intensity: [0.2, 0.5, 1.0][rng.usize(..3)],
        history: [
            AskForHistory::NoInstance,
            AskForHistory::Some,
            AskForHistory::All,
        ][rng.usize(..3)],
    };
    let turns = [40, 100, 200, 400, 600][rng.usize(..5)];
    let mut scheduler = Scheduler::new(data, seed, faults);
    scheduler.run(turns);
    (scheduler.violations, scheduler.events)
}

#[test]
fn every_request_counts_once_on_a_server() {
    run_schedules(&RedisUnderTest::start(), RUNS_ON_A_SERVER);
}

#[test]
fn every_request_counts_once_in_memory() {
    run_schedules(&InProcess::in_memory(), RUNS);
}

#[test]
fn every_request_counts_once_in_a_file() {
    run_schedules(&InProcess::in_file(), RUNS_IN_A_FILE);
}

fn run_schedules(data: &dyn TestedStore, runs: u64) {
    let (first, runs) = match number("PULSE_SEED") {
        Some(seed) => (seed, 1),
        None => (
            number("PULSE_FIRST").unwrap_or(1),
            number("PULSE_RUNS").unwrap_or(runs),
        ),
    };
    let mut all_violations = Vec::new();
    for seed in first..first + runs {
        let (violations, events) = schedule(data, seed);
        if runs == 1 || !violations.is_empty() && all_violations.is_empty() {
            eprintln!("{}", events.join("\n"));
        }
        let violations = violations.iter();
        all_violations
            .extend(violations.map(|violation| format!("PULSE_SEED={seed}: {violation}")));
    }
    assert!(all_violations.is_empty(), "{all_violations:#?}");
}
