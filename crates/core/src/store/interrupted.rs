//! Why work under a lease ended early.

use super::journal::Step;
use crate::error::StoreError;

/// Why work under a lease ended early. The lease must not be used again.
#[derive(Debug)]
pub enum Interrupted {
    /// Another instance holds the lease by now, or a failover has taken the journal back in time.
    Lost,
    /// The store failed.
    Failed(StoreError),
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl<T> Step<T> {
    /// The value of a step that took effect.
    pub fn done(self) -> Result<T, Interrupted> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Stale(_) | Self::Absent => Err(Interrupted::Lost),
        }
    }
}
