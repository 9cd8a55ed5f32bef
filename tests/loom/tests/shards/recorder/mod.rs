//! As `crates/core/src/recorder`, of which the shards need these files only, with the atomics of loom.

#[path = "../../../../../crates/core/src/recorder/cell.rs"]
mod cell;
#[path = "../../../../../crates/core/src/recorder/shards.rs"]
mod shards;
mod sync;
#[path = "../../../../../crates/core/src/recorder/touched.rs"]
mod touched;

use std::sync::Arc;

use tower_pulse_model::outcome::Outcome;

/// The cells of a context with two shards, and its mark.
#[derive(Clone)]
pub struct Cells {
    cells: shards::Cells,
    touched: Arc<touched::Touched>,
}

impl Default for Cells {
    fn default() -> Self {
        let touched = touched::Touched::new(1);
        let cells = shards::Cells::new(2, touched.mark(0));
        Self { cells, touched }
    }
}

impl Cells {
    /// Adds a sample of a request that succeeded.
    pub fn record(&self, nanos: u64) {
        let sample = cell::Sample(nanos, Outcome::Success, false);
        self.cells.record(0, sample, []);
    }

    /// Takes out all samples if the context is marked, as a drain does, and counts them.
    pub fn drain(&self) -> u64 {
        let mut count = 0;
        self.touched.take(|_| {
            let aggregate = self.cells.drain(&mut cell::Scratch::new());
            count += aggregate.unwrap_or_default().times.count;
        });
        count
    }
}
