//! The state of a folder between rounds, which holds as long as the journal's state has its version.

use std::collections::VecDeque;

use crate::store::Position;
use crate::store::journal::Progress;
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
    pub(super) sizer: BatchSizer,
}

impl Lease {
    pub(super) fn new(progress: Progress, sizer: BatchSizer) -> Self {
        Self {
            progress,
            folded: VecDeque::new(),
            is_trimmed: false,
            stamp: 0,
            took_millis: 0,
            sizer,
        }
    }
}
