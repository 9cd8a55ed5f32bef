//! A seed per run, printed so that a failing run can be repeated.

use std::hash::{BuildHasher, RandomState};

/// The seed for every random generator of a test.
///
/// It is `PULSE_SEED` when that is set, and a fresh number otherwise. The seed goes to stderr, which
/// the test runner shows when the test fails.
pub fn seed() -> u64 {
    let seed = match std::env::var("PULSE_SEED") {
        Ok(text) => text
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("PULSE_SEED must be a whole number, not {text:?}")),
        Err(_) => RandomState::new().hash_one(std::time::SystemTime::now()),
    };
    eprintln!("seed: {seed} (PULSE_SEED={seed} to repeat)");
    seed
}
