//! The ground of the fold: reads and writes of the store that are valid under a lease.

use super::lease::Lease;
use crate::error::StoreError;
use crate::model::round::PARTITIONS;
use crate::store::journal::{FieldValues, Journal, Step};
use crate::store::table::Table;

/// Why a part of the fold ended early. The lease must not be used again.
#[derive(Debug)]
pub(super) enum Interrupted {
    /// Another instance folds, or a failover has taken the journal back in time.
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
    pub(super) fn done(self) -> Result<T, Interrupted> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Stale(_) | Self::Absent => Err(Interrupted::Lost),
        }
    }
}

/// The store under a lease.
pub(super) struct Ground<'a> {
    pub(super) journal: &'a dyn Journal,
    /// The name of this instance in the lease.
    pub(super) instance: &'a str,
    pub(super) lease: &'a mut Lease,
}

impl Ground<'_> {
    /// Reads fields of tables.
    pub(super) async fn load(
        &self,
        fields: &[(Table, Vec<Vec<u8>>)],
    ) -> Result<Vec<FieldValues>, Interrupted> {
        let version = self.lease.version();
        let step = self.journal.load_fields(self.instance, version, fields);
        step.await?.done()
    }

    /// Whether a partition of the round that was begun is still to be folded.
    pub(super) fn is_left(&self, partition: usize) -> bool {
        debug_assert!(partition < PARTITIONS);
        !self.lease.progress.done.contains(partition)
    }
}
