//! A seed per run, printed so that a failing run can be repeated.

use std::hash::{BuildHasher, RandomState};

/// The seed for the random generators of a test: `PULSE_SEED` if it is set, otherwise a new number. Prints the seed to
/// stderr, which the test runner shows if the test fails.
pub fn seed() -> u64 {
    let new_seed = || RandomState::new().hash_one(std::time::SystemTime::now());
    let seed = configured().unwrap_or_else(new_seed);
    eprintln!("seed: {seed} (PULSE_SEED={seed} to repeat)");
    seed
}

/// A seed that is the same in each run, for tests that may fail with a few seeds. An example is change detection on
/// random traffic. `PULSE_SEED` sets another seed.
pub fn fixed_seed() -> u64 {
    let seed = configured().unwrap_or(1);
    eprintln!("seed: {seed}");
    seed
}

fn configured() -> Option<u64> {
    let text = std::env::var("PULSE_SEED").ok()?;
    let seed = text.trim().parse();
    Some(seed.unwrap_or_else(|_| panic!("PULSE_SEED must be a whole number, not {text:?}")))
}
