//! The journal, for the folder.
//!
//! The journal's *state* holds the name of the generation, the position up to which the journal is folded
//! (`committed`), the end of the begun round, the partitions of this round that are done, a fence per instance, and a
//! *version*. Each step of folding must give this version, and replaces it by another.
//!
//! - A call is appended once, because the fence of its instance says which call comes next.
//! - A step that gives a version other than the state's has no effect. If two instances act as the folder, only one can
//!   write, and a delayed step has no effect. A step without an answer is sent again: if the state has the version that
//!   the step sets, the step has taken effect.
//! - A new folder first finishes the round that was begun, without the partitions that are done.
//! - A position contains a digest of all entries up to this position. After a failover to a replica whose journal
//!   differs, the journal does not contain the position of the round's end, and the round is dropped.

use std::sync::Arc;

use super::additions::Additions;
use super::append::Position;
use super::table::{FieldWrites, Table};
use super::table_reads::TableReader;
use crate::store::StoreFuture;
use tower_pulse_model::pack::packed;
use tower_pulse_model::round::PARTITIONS;
use tower_pulse_model::tier::RolledUp;

/// A set of partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partitions([u64; PARTITIONS / 64]);

impl Partitions {
    /// Adds a partition.
    pub fn insert(&mut self, partition: usize) {
        self.0[partition / 64] |= 1 << (partition % 64);
    }

    /// Whether the set contains a partition.
    pub fn contains(&self, partition: usize) -> bool {
        self.0[partition / 64] & 1 << (partition % 64) != 0
    }
}

packed!(Partitions { 0 });

/// Number of seconds for which entries in a newer form wait for an instance that can read such entries.
pub const NEWER_GRACE: i64 = 600;

/// The answer to an attempt to acquire the lease to fold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// This instance holds the lease.
    Mine(Progress),
    /// Another instance holds the lease, or the store has no journal yet.
    HeldByOther,
    /// Only a newer version of this crate can read the next entries. These entries wait for an instance of that
    /// version.
    Newer,
}

/// How far a journal is folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// All entries up to this position are folded.
    pub committed: Position,
    /// The end of the round that was begun, if any.
    pub round_end: Option<Position>,
    /// The partitions of the begun round that are folded.
    pub done: Partitions,
    /// When the newest entry of the begun round was appended, according to the folder that began it.
    pub newest_at: Option<i64>,
    /// The version of the state. Each step must give this version, and replaces it by another.
    pub version: String,
    /// Positions of entries that no instance can read. These entries are in the begun round, or in the next round if no
    /// round was begun.
    pub unreadable: Vec<Position>,
    /// Which slices were added to coarser tiers.
    pub rolled: RolledUp,
    /// Whether entries in a newer form have waited for [`NEWER_GRACE`] seconds.
    pub is_overdue: bool,
}

packed!(Progress { committed, round_end, done, newest_at, version, unreadable; rolled, is_overdue });

impl Progress {
    /// Notes that all entries of the round up to `round_end` are folded.
    pub fn finish(&mut self, round_end: Position) {
        (self.committed, self.round_end, self.done) = (round_end, None, Partitions::default());
        self.unreadable.clear();
    }
}

/// An entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The position of the entry in the journal.
    pub position: Position,
    /// When the entry was appended, in Unix seconds of the store's clock.
    pub appended_at: i64,
    /// The version of the entry's form.
    pub version: u64,
    /// The number of requests in the entry, as its instance declared it.
    pub requests: u64,
    /// The packed batch.
    pub payload: Vec<u8>,
}

packed!(Entry {
    position,
    appended_at,
    version,
    requests,
    payload
});

/// The result of a [`FoldStep`], or of another call that gives the version of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionedResult<T> {
    /// The call took effect, with this result.
    Done(T),
    /// The call had no effect, because the state has another version, given here: another instance folds, or an earlier
    /// attempt of the step took effect.
    Stale(String),
    /// The round's last entry is not in the journal: after a failover, the server has an earlier state of the journal.
    Absent,
}

impl<T> VersionedResult<T> {
    /// The same result with another value.
    pub fn map<U>(self, with: impl FnOnce(T) -> U) -> VersionedResult<U> {
        match self {
            Self::Done(value) => VersionedResult::Done(with(value)),
            Self::Stale(version) => VersionedResult::Stale(version),
            Self::Absent => VersionedResult::Absent,
        }
    }
}

/// Entries that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// The position of the newest entry that was ever appended.
    pub head: Position,
    /// The store's time, in Unix seconds.
    pub now: i64,
    /// Entries that are not folded, oldest first.
    pub entries: Vec<Entry>,
}

/// A step of folding: writes some partitions of a round.
#[derive(Clone, Debug)]
pub struct FoldStep {
    /// The version that the state must have.
    pub version: String,
    /// The version that the step sets.
    pub next: String,
    /// The instance that folds.
    pub instance: String,
    /// The end of the round. `None` for a step that folds no entry, which is allowed only between rounds.
    pub round_end: Option<Position>,
    /// The partitions that are folded after this step. With a `round_end`, `None` stands for all partitions, and ends
    /// the round. Without a `round_end`, this field is `None`.
    pub done: Option<Partitions>,
    /// Entries up to this position may be trimmed.
    pub trim: Option<Position>,
    /// When the newest entry of the round was appended, in Unix seconds.
    pub newest_at: i64,
    /// The additions of the step to counters and statistics.
    pub additions: Arc<Additions>,
    /// The fields of tables that the step writes.
    pub fields: Arc<[FieldWrites]>,
    /// Which slices are added to coarser tiers, once the step has taken effect.
    pub rolled: RolledUp,
    /// Bytes of entries that are missing in the round, added to the state when the round ends.
    pub hole_bytes: u64,
    /// The time that the round has taken so far, in milliseconds.
    pub took_millis: u64,
}

/// A change of the journal's state that folds nothing.
#[derive(Clone, Copy, Debug)]
pub enum Amendment<'a> {
    /// Sets aside an entry that cannot be folded.
    SetAside(&'a Entry),
    /// Leaves an entry to an instance of a newer version. Folders that cannot read the entry wait.
    WaitForNewer(&'a Entry),
    /// Skips missing entries.
    CloseHole,
}

/// The values of fields of a table; `None` for a missing field.
pub type FieldValues = Vec<Option<Vec<u8>>>;

/// A journal, for the folder.
///
/// # Cancel safety
/// A step whose future is dropped may have taken effect. Repeating [`fold`](Self::fold) with the same versions shows
/// whether it did.
pub trait Journal: TableReader {
    /// The mutex that instances lock before they fold, if all instances are in one process. An instance then need not
    /// check whether the folder is alive, and a flush returns after its calls are folded.
    fn fold_mutex(&self) -> Option<&tokio::sync::Mutex<()>> {
        None
    }

    /// Acquires or renews the lease to fold, and sets the version of the state.
    fn acquire<'a>(&'a self, instance: &'a str, version: &'a str) -> StoreFuture<'a, Acquired>;

    /// Ends the lease of an instance, usually the caller's own. Another instance can then fold at once.
    fn release<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()>;

    /// Reads the entries after `from`, up to about `bytes`. Reads at least one entry, if there is one, but no entry
    /// after the end of a begun round.
    fn read<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
        from: Position,
        bytes: u64,
    ) -> StoreFuture<'a, VersionedResult<Entries>>;

    /// Reads fields of tables, in the order of `fields`; `None` for a missing field.
    fn load_fields<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
        fields: &'a [(Table, Vec<Vec<u8>>)],
    ) -> StoreFuture<'a, VersionedResult<Vec<FieldValues>>>;

    /// Writes some partitions of a round.
    fn fold<'a>(&'a self, step: &'a FoldStep) -> StoreFuture<'a, VersionedResult<()>>;

    /// Whether the last step with a `trim` has trimmed entries. If a server refuses to trim, the folder tries again.
    fn has_trimmed(&self) -> bool {
        true
    }

    /// Changes the state without folding.
    fn amend<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
        amendment: Amendment<'a>,
    ) -> StoreFuture<'a, VersionedResult<()>>;

    /// Removes the fences of instances that have appended nothing for a day. Returns the number of removed fences.
    fn remove_fences<'a>(&'a self, version: &'a str) -> StoreFuture<'a, u64>;
}
