//! Counts of flushing, which share the lock of the drain.

/// What flushing has done since this instance started.
#[derive(Debug, Default)]
pub(crate) struct FlushCounters {
    pub(crate) recorded: u64,
    pub(crate) lost: u64,
    pub(crate) flush_errors: u64,
    pub(crate) store_resets: u64,
    pub(crate) replayed: u64,
    pub(crate) last_error: Option<String>,
}
