//! Limits and intervals that depend on where the store is: in this process, or on a server that other processes share.

use std::ops::RangeInclusive;
use std::time::Duration;

use tower_pulse_model::batch::MAX_CALL_COST;

/// The approximate cost of a context in a call or a step. The unit of costs is a command: a small write of the store.
pub const CONTEXT_COST: usize = 24;

/// Limits and intervals that depend on where the store is.
pub struct Locality {
    /// The first and smallest cost of a call in a flush, and the largest. In between, the cost shrinks while calls are
    /// slow, and grows while they are fast.
    pub call_costs: RangeInclusive<usize>,
    /// The smallest and the largest cost of a step of folding.
    pub step_costs: RangeInclusive<usize>,
    /// The longest time that a step should take.
    pub step_time: Duration,
    /// The approximate bytes of entries that one read returns. A larger read would block the server or the runtime for
    /// too long.
    pub read_bytes: u64,
    /// The approximate number of names that one round folds. The number bounds the size of the merged round and of its
    /// steps.
    pub round_names: usize,
    /// The number of records that a folder remembers, per context that `max_contexts` allows.
    pub records_remembered: usize,
    /// The interval at which the folder reads the entries that other instances have appended. `None` if all instances
    /// are in this process, where each flush folds its own entries.
    pub read_every: Option<Duration>,
    /// The longest time that a caller waits for the store. `None` if the store answers without a wait: the runtime then
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

/// A server takes 12 µs for a call and 0.2 µs for each context in it; packing a context takes this process 1 µs.
/// `records_remembered` is 3, because the fleet may have more contexts than one instance. `read_every` is real time,
/// even under a manual clock, because entries carry their own times.
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
