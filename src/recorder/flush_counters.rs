//! Counts of flushing. They share the lock of the drain.

use tower_pulse_model::amounts::Amounts;

/// Counts since this instance started.
#[derive(Debug, Default)]
pub(crate) struct FlushCounters {
    pub(crate) recorded: Amounts,
    pub(crate) lost: Amounts,
    pub(crate) flush_errors: u64,
    pub(crate) store_resets: u64,
    pub(crate) replayed: u64,
    pub(crate) last_error: Option<String>,
}
