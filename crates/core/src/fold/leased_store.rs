//! The lease of the folder, and the reads and writes of the store that are valid under it.

use std::collections::VecDeque;

use crate::error::StoreError;
use crate::store::journal::{FieldValues, Journal, Progress, VersionedResult};
use crate::store::pace::CostSizer;
use crate::store::table::Table;
use crate::store::{Position, Store};
use tower_pulse_model::round::PARTITIONS;

/// The right to fold. The right ends when another instance acquires the lease, or when a failover restores an earlier
/// state of the journal. Then the version of the journal's state differs from the version in `progress`.
pub(super) struct Lease {
    pub(super) progress: Progress,
    /// Positions of entries that may be trimmed once they are folded, oldest first.
    pub(super) folded: VecDeque<Position>,
    /// Whether the entries that an earlier folder left are trimmed.
    pub(super) is_trimmed: bool,
    /// When the newest folded entry was appended, or a later time at which overdue minutes were rolled up, in Unix
    /// seconds.
    pub(super) newest_at: i64,
    pub(super) took_millis: u64,
    pub(super) sizer: CostSizer,
}

pub(super) type Leased<T> = Result<T, Interrupted>;

/// Why work under a lease ended early. The lease must not be used again.
pub(super) enum Interrupted {
    /// Another instance holds the lease, or a failover has restored an earlier state of the journal.
    Lost,
    Failed(StoreError),
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl<T> VersionedResult<T> {
    /// The value of a call that took effect.
    pub(super) fn done(self) -> Leased<T> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Stale(_) | Self::Absent => Err(Interrupted::Lost),
        }
    }
}

pub(super) struct LeasedStore<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) journal: &'a dyn Journal,
    pub(super) instance: &'a str,
    pub(super) lease: &'a mut Lease,
}

impl LeasedStore<'_> {
    pub(super) async fn load(&self, fields: &[(Table, Vec<Vec<u8>>)]) -> Leased<Vec<FieldValues>> {
        let version = &self.lease.progress.version;
        let loading = self.journal.load_fields(self.instance, version, fields);
        loading.await?.done()
    }

    /// Whether a partition of the begun round is not folded yet.
    pub(super) fn is_left(&self, partition: usize) -> bool {
        debug_assert!(partition < PARTITIONS);
        !self.lease.progress.done.contains(partition)
    }
}

/// Groups adjacent fields of the same table, in the form that [`LeasedStore::load`] takes.
pub(super) fn fields_by_table(
    fields: impl Iterator<Item = (Table, Vec<u8>)>,
) -> Vec<(Table, Vec<Vec<u8>>)> {
    let mut tables: Vec<(Table, Vec<Vec<u8>>)> = Vec::new();
    for (table, field) in fields {
        match tables.last_mut() {
            Some((last, fields)) if *last == table => fields.push(field),
            _ => tables.push((table, vec![field])),
        }
    }
    tables
}
