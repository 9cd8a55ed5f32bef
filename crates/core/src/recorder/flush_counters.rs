//! Counts of draining and flushing, which the drain's lock protects.

use tower_pulse_model::amounts::Amounts;

/// Counts since this instance started.
#[derive(Clone, Debug, Default)]
pub struct FlushCounters {
    /// The amounts that were recorded and drained.
    pub recorded: Amounts,
    /// The amounts that the store lacks and will never get.
    pub lost: Amounts,
    /// Flushes that have failed.
    pub flush_errors: u64,
    /// How often the store was reset or came back empty, or had a wrong fence of this instance.
    pub store_resets: u64,
    /// Calls that were sent again after the store had lost them.
    pub replayed: u64,
    /// The last error of the store; `None` once it has recovered.
    pub last_error: Option<String>,
    /// The amounts that were recorded after the shutdown.
    pub dropped: Amounts,
    /// Samples of contexts beyond `max_contexts`, which count as `<overflow>`.
    pub overflowed: u64,
    /// Nanoseconds by which the last drain was late.
    pub lag: i64,
    /// The most nanoseconds by which a drain was late.
    pub max_lag: i64,
}
