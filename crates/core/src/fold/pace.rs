//! How much a folder does at once.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::store::pace::BatchSizer;

/// What a context costs a step, about.
const CONTEXT_COST: usize = 24;
/// A step in one process: it holds a worker of the runtime up, and pays for no way to a server.
const IN_PROCESS: RangeInclusive<usize> = 8 * CONTEXT_COST..=64 * CONTEXT_COST;
/// A step on a server: the first one covers about 16 contexts, later ones as many as take two milliseconds.
const ON_SERVER: RangeInclusive<usize> = 8 * CONTEXT_COST..=128 * CONTEXT_COST;
const FIRST_CONTEXTS: usize = 16;

/// How much a folder does at once.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// About how many bytes of entries one read returns: a larger read would block the server and the runtime.
    pub(super) read_bytes: u64,
    /// About how many names one round folds, which bounds the size of the merged round, and of its steps.
    pub(super) round_names: usize,
    /// How many contexts a step covers, if that is fixed.
    pub(super) step_contexts: Option<usize>,
    costs: RangeInclusive<usize>,
    step_time: Duration,
}

impl Pace {
    /// That of a store in this process: small rounds cost no more there.
    pub(super) fn in_process() -> Self {
        Self {
            read_bytes: 64 * 1024,
            round_names: 512,
            step_contexts: None,
            costs: IN_PROCESS,
            step_time: Duration::from_micros(500),
        }
    }

    /// That of a server.
    pub(super) fn on_server() -> Self {
        Self {
            read_bytes: 512 * 1024,
            round_names: 16 * 1024,
            step_contexts: None,
            costs: ON_SERVER,
            step_time: Duration::from_millis(2),
        }
    }

    /// The size of the first step, and how it adapts.
    pub(super) fn sizer(&self) -> BatchSizer {
        match self.step_contexts.map(|contexts| contexts * CONTEXT_COST) {
            Some(cost) => BatchSizer::new(cost, cost..=cost, self.step_time),
            None => BatchSizer::new(
                FIRST_CONTEXTS * CONTEXT_COST,
                self.costs.clone(),
                self.step_time,
            ),
        }
    }
}
