//! Random schedules, all of which must end well, and deliberate breaks of the protocol, which must not.

use fastrand::Rng;

use crate::data::Data;
use crate::faults::{Broken, Faults};
use crate::world::World;

/// Schedules of a run, unless `PULSE_RUNS` says otherwise.
const RUNS: u64 = 120;
/// A break must be noticed within so many.
const MAX_RUNS_UNTIL_NOTICED: u64 = 100;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")),
    )
}

/// One schedule. Returns what is wrong in the end, and the story.
fn schedule(data: &Data, seed: u64, broken: Option<Broken>) -> (Vec<String>, Vec<String>) {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let faults = Faults {
        is_harsh: rng.f64() < 0.25,
        is_torn: broken.is_none() && rng.f64() < 0.1,
        is_mixed: rng.f64() < 0.15,
        intensity: [0.2, 0.5, 1.0][rng.usize(..3)],
        broken,
    };
    let steps = [40, 100, 200, 400, 600][rng.usize(..5)];
    let mut world = World::new(data, seed, faults);
    world.run(steps);
    (world.violations, world.story)
}

#[test]
fn every_request_counts_once_whatever_happens() {
    let data = Data::start();
    let (first, runs) = match number("PULSE_SEED") {
        Some(seed) => (seed, 1),
        None => (
            number("PULSE_FIRST").unwrap_or(1),
            number("PULSE_RUNS").unwrap_or(RUNS),
        ),
    };
    let mut bad = Vec::new();
    for seed in first..first + runs {
        let (violations, story) = schedule(&data, seed, None);
        if runs == 1 || !violations.is_empty() && bad.is_empty() {
            eprintln!("{}", story.join("\n"));
        }
        bad.extend(
            violations
                .iter()
                .map(|what| format!("PULSE_SEED={seed}: {what}")),
        );
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Runs schedules until one ends badly.
fn is_noticed(broken: Broken) {
    let data = Data::start();
    for seed in 1..=MAX_RUNS_UNTIL_NOTICED {
        let (violations, _) = schedule(&data, seed, Some(broken));
        if let Some(first) = violations.first() {
            eprintln!("{broken:?} is noticed in schedule {seed}: {first}");
            return;
        }
    }
    panic!("{broken:?} is not noticed in {MAX_RUNS_UNTIL_NOTICED} schedules");
}

#[test]
fn the_checker_notices_a_step_under_another_version() {
    is_noticed(Broken::VersionIgnored);
}

#[test]
fn the_checker_notices_a_step_that_is_done_twice() {
    is_noticed(Broken::StepRepeated);
}

#[test]
fn the_checker_notices_partitions_that_are_folded_again() {
    is_noticed(Broken::DoneForgotten);
}

#[test]
fn the_checker_notices_records_that_are_not_read() {
    is_noticed(Broken::RecordsForgotten);
}

#[test]
fn the_checker_notices_a_fence_that_is_gone() {
    is_noticed(Broken::FenceRemoved);
}

#[test]
fn the_checker_notices_slices_that_are_rolled_up_again() {
    is_noticed(Broken::RolledAgain);
}

#[test]
fn the_checker_notices_slices_that_are_never_rolled_up() {
    is_noticed(Broken::PendingForgotten);
}
