//! Bounds and times that follow from the place of a store: this process, or a server that other processes use as well.

use std::ops::RangeInclusive;
use std::time::Duration;

use tower_pulse_model::batch::MAX_CALL_COST;

/// The cost of a context for a call or a step, about.
pub const CONTEXT_COST: usize = 24;

/// Bounds and times that follow from the place of a store.
pub struct Locality {
    /// The cost of a call of a flush: the first ones have the least, later ones as much as takes a millisecond.
    pub call_costs: RangeInclusive<usize>,
    /// The cost of a step of folding.
    pub step_costs: RangeInclusive<usize>,
    /// How long a step should take at the most.
    pub step_time: Duration,
    /// About how many bytes of entries one read returns: a larger read would block the server and the runtime.
    pub read_bytes: u64,
    /// About how many names one round folds, which bounds the size of the merged round, and of its steps.
    pub round_names: usize,
    /// Records that a folder remembers for each context that an instance may have.
    pub records_remembered: usize,
    /// How often the instance that folds reads what the others have appended. `None` if all are in this process: each
    /// flush then folds what it has appended.
    pub read_every: Option<Duration>,
    /// How long a caller waits for the store at the most. `None` if there is nothing to wait for: then no timer is
    /// needed, which a runtime would have to run.
    pub deadline: Option<Duration>,
}

/// A store in this process holds up a worker of the runtime for some microseconds for each context, has all records at
/// hand, and pays for no way to a server: small rounds cost no more.
pub static IN_PROCESS: Locality = Locality {
    call_costs: 16 * CONTEXT_COST..=64 * CONTEXT_COST,
    step_costs: 8 * CONTEXT_COST..=64 * CONTEXT_COST,
    step_time: Duration::from_micros(500),
    read_bytes: 64 * 1024,
    round_names: 512,
    records_remembered: 0,
    read_every: None,
    deadline: None,
};

/// To append a context takes a server 0.2 µs, beside 12 µs for a call, and to pack it takes this process 1 µs. The fleet
/// may have more contexts than one instance. The journal is read in real time even under a manual clock, as entries
/// carry their own stamps.
pub static ON_SERVER: Locality = Locality {
    call_costs: 256 * CONTEXT_COST..=MAX_CALL_COST,
    step_costs: 8 * CONTEXT_COST..=128 * CONTEXT_COST,
    step_time: Duration::from_millis(2),
    read_bytes: 512 * 1024,
    round_names: 16 * 1024,
    records_remembered: 3,
    read_every: Some(Duration::from_millis(500)),
    deadline: Some(Duration::from_secs(5)),
};
