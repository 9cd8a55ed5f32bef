//! The state of a folder between rounds: the version of the journal's state, and the records that the folder
//! remembers under that version.

use std::collections::VecDeque;

use super::Attendance;
use super::known_rankings::KnownRankings;
use super::pace::Pace;
use crate::error::StoreError;
use crate::model::records::Records;
use crate::random::random_name;
use crate::store::Position;
use crate::store::journal::{Acquired, Journal, Progress};
use crate::store::pace::BatchSizer;

/// Slices of the finest tier whose records are remembered: the open slice, and the slice before it for samples
/// that arrive after its end.
pub(super) const SLICES_REMEMBERED: usize = 2;

/// The right to fold, which ends when the journal's state has another version.
pub(super) struct Lease {
    pub(super) progress: Progress,
    /// Records as the store holds them.
    pub(super) records: Records,
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
    pub(super) rankings: KnownRankings,
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
                records: Records::default(),
                folded: VecDeque::new(),
                is_trimmed: false,
                stamp: 0,
                took_millis: 0,
                pace: pace.clone(),
                sizer: pace.sizer(),
                rankings: KnownRankings::default(),
                has_context_counters,
            }),
            Acquired::Newer => Err(Attendance::Newer),
            Acquired::Held | Acquired::Nothing => Err(Attendance::Others),
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.progress.version
    }

    /// What cannot be kept up, although entries are folded.
    pub(super) fn upkeep_failures(&self) -> impl Iterator<Item = String> {
        self.rankings.failures().map(str::to_owned)
    }

    /// Forgets the records of slices that have ended, as they rarely change, and all records when there are
    /// more than `max_records`.
    pub(super) fn forget_ended(&mut self, max_records: usize) {
        self.records.retain_newest(SLICES_REMEMBERED);
        if self.records.len() > max_records {
            self.records.clear();
        }
    }
}
