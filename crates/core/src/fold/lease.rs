//! The state of a folder between rounds, which holds as long as the journal's state has its version.

use std::collections::VecDeque;

use super::Attendance;
use super::pace::Pace;
use crate::error::StoreError;
use crate::random::random_name;
use crate::store::Position;
use crate::store::journal::{Acquired, Journal, Progress};
use crate::store::pace::BatchSizer;

/// The right to fold, which ends when the journal's state has another version.
pub(super) struct Lease {
    pub(super) progress: Progress,
    /// Positions of entries that are folded and may be trimmed, oldest first.
    pub(super) folded: VecDeque<Position>,
    /// Whether the entries that an earlier folder has left are trimmed.
    pub(super) is_trimmed: bool,
    /// The newest stamp of a folded entry.
    pub(super) stamp: i64,
    /// How long the last round took, in milliseconds.
    pub(super) took_millis: u64,
    pub(super) pace: Pace,
    pub(super) sizer: BatchSizer,
    /// Whether the store counts what each context does.
    pub(super) has_context_counters: bool,
}

impl Lease {
    /// Acquires the lease, or tells who folds instead.
    pub(super) async fn acquire(
        journal: &dyn Journal,
        instance: &str,
        pace: &Pace,
        has_context_counters: bool,
    ) -> Result<Result<Self, Attendance>, StoreError> {
        let acquired = journal.acquire(instance, &random_name()).await?;
        Ok(match acquired {
            Acquired::Mine(progress) => Ok(Self {
                progress,
                folded: VecDeque::new(),
                is_trimmed: false,
                stamp: 0,
                took_millis: 0,
                pace: pace.clone(),
                sizer: pace.sizer(),
                has_context_counters,
            }),
            Acquired::Newer => Err(Attendance::Newer),
            Acquired::Held | Acquired::Nothing => Err(Attendance::Others),
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.progress.version
    }
}
