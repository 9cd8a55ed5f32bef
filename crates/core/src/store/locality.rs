//! Limits and intervals that depend on where the store is: in this process, or on a server that other processes share.

use std::ops::RangeInclusive;
use std::time::Duration;

use tower_pulse_model::batch::MAX_CALL_COST;

/// The approximate cost of a context for a call or a step.
pub const CONTEXT_COST: usize = 24;

/// Limits and intervals that depend on where the store is.
pub struct Locality {
    /// The first and the maximum cost of a call in a flush. The cost grows until a call takes a millisecond.
    pub call_costs: RangeInclusive<usize>,
    /// The smallest and the largest cost of a step of folding.
    pub step_costs: RangeInclusive<usize>,
    /// The longest time that a step should take.
    pub step_time: Duration,
    /// The approximate bytes of entries that one read returns. A larger read would block the server and the runtime.
    pub read_bytes: u64,
    /// The approximate number of names that one round folds. The number bounds the size of the merged round and of its
    /// steps.
    pub round_names: usize,
    /// The number of records that a folder remembers, for each context within `max_contexts`.
    pub records_remembered: usize,
    /// The interval at which the folder reads the entries that other instances have appended. `None` if all instances
    /// are in this process, where each flush folds its own entries.
    pub read_every: Option<Duration>,
    /// The longest time that a caller waits for the store. `None` if the store answers without a wait, and the runtime
    /// needs no timers.
    pub deadline: Option<Duration>,
}

/// A store in this process blocks a worker of the runtime for some microseconds per context, and answers without a
/// round trip: many small calls cost no more than a few large calls.
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

/// A server takes 12 µs for a call and 0.2 µs for each context in it; packing a context takes this process 1 µs. The
/// fleet may have more contexts than one instance. The interval between reads of the journal is in real time even under
/// a manual clock, because entries carry their own times.
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
