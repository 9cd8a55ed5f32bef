//! The plan of a round: its steps, and how it ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use crate::model::records::RecordKey;
use crate::store::Position;
use crate::store::journal::Entry;
use crate::store::table::FieldWrites;

/// Names that are merged, and records that are prepared, before the task yields to others.
pub(super) const NAMES_AT_ONCE: usize = 64;

/// How a round ended.
pub(super) enum Outcome {
    /// The round is folded, and there may be more entries.
    Folded,
    /// The round is folded, and there were no more entries when it was read.
    CaughtUp,
    /// There was no entry to fold.
    Idle,
    /// Another instance folds, or a failover has taken the journal back in time.
    Lost,
    /// The next entry is of a newer version, and waits for an instance that can read it.
    Newer(Entry),
}

/// The part of a round that one step writes.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) partitions: Vec<usize>,
    pub(super) records: Vec<RecordKey>,
    /// Fields of tables as they are after the step.
    pub(super) fields: Vec<FieldWrites>,
    /// The rankings that the step adds to.
    pub(super) rankings: BTreeSet<Arc<str>>,
    pub(super) cost: usize,
}

/// The end of a round, its missing bytes, and when this instance began to fold it.
pub(super) struct RoundEnd {
    pub(super) upto: Position,
    pub(super) hole_bytes: u64,
    pub(super) start: Instant,
}
