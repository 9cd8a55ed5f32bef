//! The journal's other end: what whoever folds it asks of a store.
//!
//! The journal's *state* holds the name of its generation, the position up to which it is folded (`low`),
//! the end of the round that was begun and the partitions of it that are done, a fence per instance, and a
//! *version*: a name that each step of folding must give and replaces.
//!
//! - A call is appended once: its instance's fence says which one comes next.
//! - A step that gives another version than the state's does nothing. So two instances that both take
//!   themselves for the one that folds cannot both write, whatever leases say, and a step that was frozen on
//!   its way is harmless. A step without an answer is repeated: if the state has the version that it was to
//!   give, it was done.
//! - Whoever takes over finishes the round that was begun, without the partitions that are done, before
//!   beginning another.
//! - An entry's id commits to all entries before it. A journal that a failover has taken back to another
//!   history does not have the round's last entry, and the round is dropped.

use super::Position;
use crate::error::StoreError;
use crate::model::records::{Record, RecordId, RecordKey};
use crate::model::round::{PARTITIONS, Round};
use crate::model::tier::{RolledUp, TierSlice};
use crate::task::BoxFuture;

/// A set of partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partitions([u64; PARTITIONS / 64]);

impl Partitions {
    /// Adds one.
    pub fn insert(&mut self, partition: usize) {
        self.0[partition / 64] |= 1 << (partition % 64);
    }

    /// Whether it is one of them.
    pub fn contains(&self, partition: usize) -> bool {
        self.0[partition / 64] & 1 << (partition % 64) != 0
    }

    /// As the journal's state holds them: hexadecimal.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|word| format!("{word:016x}")).collect()
    }

    /// From what the journal's state holds; nothing for anything else.
    pub fn from_hex(text: &str) -> Self {
        let mut set = Self::default();
        for (word, digits) in set.0.iter_mut().zip(text.as_bytes().chunks(16)) {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            *word = u64::from_str_radix(digits, 16).unwrap_or(0);
        }
        set
    }
}

/// Who folds, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// We do.
    Mine(Progress),
    /// Another instance does.
    Held,
    /// There are entries that only a newer version of this crate understands.
    Newer,
    /// There is no journal yet.
    Nothing,
}

/// How far a journal is folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The version of the state, which every step must name and changes.
    pub version: String,
    /// Everything up to here is folded.
    pub low: Position,
    /// The end of the round that was begun, if one was.
    pub upto: Option<Position>,
    /// Its partitions that are folded.
    pub done: Partitions,
    /// Entries that were set aside.
    pub aside: Vec<Position>,
    /// Which slices are part of the coarser tiers.
    pub rolled: RolledUp,
}

/// An entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands.
    pub position: Position,
    /// When it was appended, in Unix seconds of the store's clock.
    pub stamp: i64,
    /// The version of its form.
    pub version: u64,
    /// How many requests it says to hold.
    pub requests: u64,
    /// The packed batch.
    pub payload: Vec<u8>,
}

/// What a step under a version gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// It was done.
    Done(T),
    /// The state has this version: another instance folds, or the step was done when it was tried
    /// before.
    Stale(String),
    /// The round's last entry is not in the journal, which has gone back in time.
    Absent,
}

/// Entries that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// The newest entry that was ever appended.
    pub head: Position,
    /// The store's time, in Unix seconds.
    pub now: i64,
    /// Some that are not folded, oldest first.
    pub entries: Vec<Entry>,
}

/// Some partitions of a round, to be written.
#[derive(Debug)]
pub struct FoldStep<'a> {
    /// The version of the state.
    pub version: &'a str,
    /// The version that it is to have.
    pub next: &'a str,
    /// The instance that folds.
    pub instance: &'a str,
    /// The end of the round; `None` to fold nothing, while no round is begun.
    pub upto: Option<Position>,
    /// The partitions that are folded after this; `None` for all, which ends the round.
    pub done: Option<Partitions>,
    /// Entries up to here are not needed any more.
    pub trim: Option<Position>,
    /// What the round adds.
    pub round: &'a Round,
    /// The partitions of it to write.
    pub partitions: &'a [usize],
    /// Records as they are afterwards.
    pub records: &'a [(RecordKey, &'a Record)],
    /// Which slices are part of the coarser tiers afterwards.
    pub rolled: &'a RolledUp,
    /// Slices that need not be kept any longer than their tier retains them.
    pub released: &'a [TierSlice],
    /// Bytes of entries that are gone from within the round, told when it ends.
    pub hole_bytes: u64,
    /// How long the round has taken until now, in milliseconds.
    pub took_millis: u64,
}

/// A journal as whoever folds it sees it.
///
/// # Cancel safety
/// A step whose future is dropped may have been done; [`fold`](Self::fold) repeated with the same
/// versions finds out whether it was.
pub trait Journal: Send + Sync {
    /// Takes or prolongs the lease to fold under a new version.
    fn acquire<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
    ) -> BoxFuture<'a, Result<Acquired, StoreError>>;

    /// Gives the lease back.
    fn release<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Reads about `bytes` of the entries after `from`, at least one if there is one, and none after the end
    /// of a round that was begun.
    fn read<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
        from: Position,
        bytes: u64,
    ) -> BoxFuture<'a, Result<Step<Entries>, StoreError>>;

    /// Names the contexts that have a record in each of these slices.
    fn recorded<'a>(
        &'a self,
        slices: &'a [TierSlice],
    ) -> BoxFuture<'a, Result<Vec<Vec<RecordId>>, StoreError>>;

    /// Reads records; an empty one where there is none.
    fn load<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
        keys: &'a [RecordKey],
    ) -> BoxFuture<'a, Result<Step<Vec<Record>>, StoreError>>;

    /// Writes some partitions of a round.
    fn fold<'a>(&'a self, step: &'a FoldStep<'a>) -> BoxFuture<'a, Result<Step<()>, StoreError>>;

    /// Sets an entry aside that cannot be folded.
    fn set_aside<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
        entry: &'a Entry,
    ) -> BoxFuture<'a, Result<Step<()>, StoreError>>;

    /// Goes on behind entries that are gone.
    fn close_hole<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
    ) -> BoxFuture<'a, Result<Step<()>, StoreError>>;

    /// Removes fences of instances that have not appended for a day. Returns how many.
    fn remove_fences<'a>(&'a self, version: &'a str) -> BoxFuture<'a, Result<u64, StoreError>>;
}

#[cfg(test)]
mod tests {
    use super::Partitions;

    #[test]
    fn partitions_come_back() {
        let mut set = Partitions::default();
        for partition in [0, 63, 64, 255] {
            set.insert(partition);
        }
        assert_eq!(Partitions::from_hex(&set.to_hex()), set);
        assert!(set.contains(63) && !set.contains(62));
        assert_eq!(Partitions::from_hex("garbage"), Partitions::default());
    }
}
