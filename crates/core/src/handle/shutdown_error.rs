//! The error of a shutdown: how much is lost, and why.

use crate::error::StoreError;
use tower_pulse_model::amounts::Amounts;

/// A shutdown could not flush everything that was recorded, or has found that the store lost acknowledged data. The
/// text says why, and the [`source`](std::error::Error::source) is the cause.
#[derive(Debug)]
pub struct ShutdownError {
    lost: Amounts,
    source: StoreError,
}

impl std::fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lost, source } = self;
        // Includes the cause, because a program that ends prints only this text.
        write!(
            f,
            "{lost} could not be flushed before the shutdown: {source}"
        )
    }
}

impl std::error::Error for ShutdownError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl ShutdownError {
    pub(super) fn new(lost: Amounts, source: StoreError) -> Self {
        Self { lost, source }
    }

    /// The number of requests and runs of timers that are lost, or at least in doubt.
    pub fn requests(&self) -> u64 {
        self.lost.requests
    }

    /// The amount of additions to counters and rankings that is lost, or at least in doubt: the sum of the absolute
    /// values. A removal from a ranking counts as 1.
    pub fn additions(&self) -> u64 {
        self.lost.additions
    }

    /// The number of marks, entries in the lists of slow and failed requests, and minute reports (an instance's figures
    /// for a minute) that are lost, or at least in doubt. The last two are details of requests that
    /// [`requests`](Self::requests) or the store counts.
    pub fn details(&self) -> u64 {
        self.lost.details
    }
}
