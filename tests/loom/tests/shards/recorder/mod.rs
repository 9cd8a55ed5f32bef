//! As `crates/core/src/recorder`, of which the shards need these files only, with the atomics of loom.

#[path = "../../../../../crates/core/src/recorder/cell.rs"]
mod cell;
#[path = "../../../../../crates/core/src/recorder/shards.rs"]
mod shards;
mod sync;

use tower_pulse_model::outcome::Outcome;

/// The cells of a context with two shards.
#[derive(Clone, Debug)]
pub struct Cells(shards::Cells);

impl Default for Cells {
    fn default() -> Self {
        Self(shards::Cells::new(2))
    }
}

impl Cells {
    /// Adds a sample of a request that succeeded.
    pub fn record(&self, nanos: u64) {
        self.0.record(0, nanos, Outcome::Success, false);
    }

    /// Takes out all samples, and counts them.
    pub fn drain(&self) -> u64 {
        let aggregate = self.0.drain(&mut cell::Scratch::new());
        aggregate.unwrap_or_default().times.count
    }
}
