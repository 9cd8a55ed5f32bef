//! A seed per run, printed so that a failing run can be repeated.

use std::hash::{BuildHasher, RandomState};

/// The seed for every random generator of a test.
///
/// It is `PULSE_SEED` when that is set, and a fresh number otherwise. The seed goes to stderr, which
/// the test runner shows when the test fails.
pub fn seed() -> u64 {
    let seed = given().unwrap_or_else(|| RandomState::new().hash_one(std::time::SystemTime::now()));
    eprintln!("seed: {seed} (PULSE_SEED={seed} to repeat)");
    seed
}

/// A seed that is the same in each run, for tests that hold for most seeds but not for all, such as tests of change
/// detection on random traffic. `PULSE_SEED` tries another seed.
pub fn fixed_seed() -> u64 {
    let seed = given().unwrap_or(1);
    eprintln!("seed: {seed}");
    seed
}

fn given() -> Option<u64> {
    let text = std::env::var("PULSE_SEED").ok()?;
    let seed = text.trim().parse();
    Some(seed.unwrap_or_else(|_| panic!("PULSE_SEED must be a whole number, not {text:?}")))
}
