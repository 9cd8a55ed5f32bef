//! The files of `crates/core/src/recorder` that the shards need, with the atomics of loom.

#[path = "../../../../../crates/core/src/recorder/cell.rs"]
mod cell;
#[path = "../../../../../crates/core/src/recorder/dirty_bits.rs"]
mod dirty_bits;
#[path = "../../../../../crates/core/src/recorder/shards.rs"]
mod shards;
mod sync;

use std::sync::Arc;

use tower_pulse_model::outcome::Outcome;

/// The cells of a context in two shards, and the context's dirty bit.
#[derive(Clone)]
pub struct Cells {
    cells: shards::Cells,
    dirty_bits: Arc<dirty_bits::DirtyBits>,
}

impl Default for Cells {
    fn default() -> Self {
        let dirty_bits = dirty_bits::DirtyBits::new(1);
        let cells = shards::Cells::new(2, dirty_bits.dirty_bit(0));
        Self { cells, dirty_bits }
    }
}

impl Cells {
    pub fn record(&self, nanos: u64) {
        let sample = cell::Sample(nanos, Outcome::Success, false, 200);
        self.cells.record(0, sample, []);
    }

    /// Drains the context if its dirty bit is set. Returns the number of drained samples.
    pub fn drain(&self) -> u64 {
        let mut count = 0;
        self.dirty_bits.take(|_| {
            let aggregate = self.cells.drain(&mut cell::Scratch::new());
            count += aggregate.unwrap_or_default().times.count;
        });
        count
    }
}
