//! The error of a shutdown: what is lost, and why.

use crate::error::StoreError;
use tower_pulse_model::amounts::Amounts;

/// A shutdown could not flush everything that was recorded, or has found that the store lost what it had taken. Its
/// text says why, and its [`source`](std::error::Error::source) is the cause.
#[derive(Debug)]
pub struct ShutdownError {
    lost: Amounts,
    source: StoreError,
}

impl std::fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lost, source } = self;
        // With its cause, as a program that ends prints this text and nothing else.
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

    /// How many requests and runs of timers are lost, or at least in doubt.
    pub fn requests(&self) -> u64 {
        self.lost.requests
    }

    /// How much is lost, or at least in doubt, of what was added to counters and rankings: the sum of the numbers,
    /// without their signs. A removal from a ranking counts as 1.
    pub fn additions(&self) -> u64 {
        self.lost.additions
    }

    /// How many minute reports, listed requests and marks are lost, or at least in doubt. The first two are details of
    /// requests that [`requests`](Self::requests) or the store counts.
    pub fn details(&self) -> u64 {
        self.lost.details
    }
}
