//! The recording shards of tower-pulse, with the atomics of loom: the same source files, but for `sync`.

#![allow(
    dead_code,
    unused_imports,
    rustdoc::broken_intra_doc_links,
    rustdoc::private_intra_doc_links
)]

mod recorder {
    //! As `src/recorder`, of which the shards need these files only.

    #[path = "../../../../src/recorder/cell.rs"]
    mod cell;
    #[path = "../../../../src/recorder/shards.rs"]
    pub(crate) mod shards;
    mod sync;

    pub(crate) use cell::Scratch;
}

use tower_pulse_model::outcome::Outcome;

/// The cells of a context with two shards.
#[derive(Clone, Debug)]
pub struct Cells(recorder::shards::Cells);

impl Default for Cells {
    fn default() -> Self {
        Self(recorder::shards::Cells::new(2))
    }
}

impl Cells {
    /// Adds a sample of a request that succeeded.
    pub fn record(&self, nanos: u64) {
        self.0.record(0, nanos, Outcome::Success, false);
    }

    /// Takes out all samples, and counts them.
    pub fn drain(&self) -> u64 {
        let aggregate = self.0.drain(&mut recorder::Scratch::new());
        aggregate.unwrap_or_default().times.count
    }
}
