//! What a folder holds between rounds: the version of the state, and what it remembers under it.

use std::collections::VecDeque;

use crate::error::StoreError;
use crate::model::records::Records;
use crate::store::Position;
use crate::store::journal::{Acquired, Journal, Progress};
use crate::store::pace::BatchSizer;

/// Slices of the finest tier whose records are remembered: the open one, and the one before for those that
/// come late.
pub(super) const SLICES_REMEMBERED: usize = 2;
/// A step covers about 16 contexts at first, and as many as the server folds in two milliseconds later.
const FIRST_COST: usize = 16 * 24;
const COSTS: std::ops::RangeInclusive<usize> = 8 * 24..=128 * 24;
const STEP_TIME: std::time::Duration = std::time::Duration::from_millis(2);

/// The right to fold, until another version of the state is found.
pub(super) struct Lease {
    pub(super) progress: Progress,
    /// Records as the store has them.
    pub(super) records: Records,
    /// Entries that are folded and may be trimmed, oldest first.
    pub(super) folded: VecDeque<Position>,
    /// Entries that an earlier folder has left may have to be trimmed too.
    pub(super) is_trimmed: bool,
    /// The newest stamp that was folded.
    pub(super) stamp: i64,
    /// How long the last round took, in milliseconds.
    pub(super) took_millis: u64,
    pub(super) sizer: BatchSizer,
}

impl Lease {
    /// Acquires it. `None` when another instance has it, or nobody can fold.
    pub(super) async fn acquire(
        journal: &dyn Journal,
        instance: &str,
        step_contexts: Option<usize>,
    ) -> Result<Option<Self>, StoreError> {
        let acquired = journal.acquire(instance, &new_version()).await?;
        let sizer = match step_contexts.map(|contexts| contexts * 24) {
            Some(cost) => BatchSizer::new(cost, cost..=cost, STEP_TIME),
            None => BatchSizer::new(FIRST_COST, COSTS, STEP_TIME),
        };
        Ok(match acquired {
            Acquired::Mine(progress) => Some(Self {
                progress,
                records: Records::default(),
                folded: VecDeque::new(),
                is_trimmed: false,
                stamp: 0,
                took_millis: 0,
                sizer,
            }),
            Acquired::Held | Acquired::Newer | Acquired::Nothing => None,
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.progress.version
    }

    /// Forgets records that hardly anything will be added to any more, and all of them when there are
    /// too many.
    pub(super) fn forget_ended(&mut self, max_records: usize) {
        self.records.retain_newest(SLICES_REMEMBERED);
        if self.records.len() > max_records {
            self.records.clear();
        }
    }
}

/// A name for a version that no other has had.
pub(super) fn new_version() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}
