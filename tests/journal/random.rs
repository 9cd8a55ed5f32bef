//! Random schedules, which must end without violations, and schedules in which a rule of the protocol is violated
//! deliberately, which must not.

use fastrand::Rng;

use crate::data::Data;
use crate::faults::{AskForHistory, Broken, Faults};
use crate::ground::Ground;
use crate::in_process::{InFile, InProcess, Memory};
use crate::world::World;

/// Schedules per run, unless `PULSE_RUNS` is set.
const RUNS: u64 = 120;
/// The same in a file, which is written and opened many times in each.
const RUNS_IN_A_FILE: u64 = 40;
/// Schedules within which the checker must notice a violated rule.
const MAX_RUNS_UNTIL_NOTICED: u64 = 100;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")),
    )
}

/// Runs one schedule. Returns its violations and its story.
fn schedule(data: &dyn Ground, seed: u64, broken: Option<Broken>) -> (Vec<String>, Vec<String>) {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let faults = Faults {
        is_harsh: rng.f64() < 0.25,
        is_torn: broken.is_none() && rng.f64() < 0.1 && data.redis().is_some(),
        is_mixed: rng.f64() < 0.15,
        intensity: [0.2, 0.5, 1.0][rng.usize(..3)],
        broken,
        history: [
            AskForHistory::Nobody,
            AskForHistory::Some,
            AskForHistory::All,
        ][rng.usize(..3)],
    };
    let steps = [40, 100, 200, 400, 600][rng.usize(..5)];
    let mut world = World::new(data, seed, faults);
    world.run(steps);
    (world.violations, world.story)
}

#[test]
fn every_request_counts_once_whatever_happens() {
    run_schedules(&Data::start(), RUNS);
}

#[test]
fn every_request_counts_once_in_memory_too() {
    run_schedules(&InProcess::<Memory>::start(), RUNS);
}

#[test]
fn every_request_counts_once_in_a_file_too() {
    run_schedules(&InProcess::<InFile>::start(), RUNS_IN_A_FILE);
}

fn run_schedules(data: &dyn Ground, runs: u64) {
    let (first, runs) = match number("PULSE_SEED") {
        Some(seed) => (seed, 1),
        None => (
            number("PULSE_FIRST").unwrap_or(1),
            number("PULSE_RUNS").unwrap_or(runs),
        ),
    };
    let mut bad = Vec::new();
    for seed in first..first + runs {
        let (violations, story) = schedule(data, seed, None);
        if runs == 1 || !violations.is_empty() && bad.is_empty() {
            eprintln!("{}", story.join("\n"));
        }
        bad.extend(
            violations
                .iter()
                .map(|violation| format!("PULSE_SEED={seed}: {violation}")),
        );
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Checks that one of the first schedules ends with a violation, on each ground.
fn assert_noticed(broken: Broken) {
    let (server, memory) = (Data::start(), InProcess::<Memory>::start());
    assert_noticed_on(&server, broken);
    assert_noticed_on(&memory, broken);
}

fn assert_noticed_on(data: &dyn Ground, broken: Broken) {
    for seed in 1..=MAX_RUNS_UNTIL_NOTICED {
        let (violations, _) = schedule(data, seed, Some(broken));
        if let Some(first) = violations.first() {
            eprintln!("{broken:?} is noticed in schedule {seed}: {first}");
            return;
        }
    }
    panic!("{broken:?} is not noticed in {MAX_RUNS_UNTIL_NOTICED} schedules");
}

#[test]
fn the_checker_notices_a_step_under_another_version() {
    assert_noticed(Broken::VersionIgnored);
}

#[test]
fn the_checker_notices_a_step_that_is_done_twice() {
    assert_noticed(Broken::StepRepeated);
}

#[test]
fn the_checker_notices_partitions_that_are_folded_again() {
    assert_noticed(Broken::DoneForgotten);
}

#[test]
fn the_checker_notices_records_that_are_not_read() {
    assert_noticed(Broken::RecordsForgotten);
}

#[test]
fn the_checker_notices_a_fence_that_is_gone() {
    assert_noticed(Broken::FenceRemoved);
}

#[test]
fn the_checker_notices_slices_that_are_rolled_up_again() {
    assert_noticed(Broken::RolledAgain);
}

#[test]
fn the_checker_notices_slices_that_are_never_rolled_up() {
    assert_noticed(Broken::PendingForgotten);
}
