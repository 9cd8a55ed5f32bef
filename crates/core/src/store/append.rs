//! Appending: the part of a store that a flush uses.

use crate::store::StoreFuture;
use tower_pulse_model::batch::Batch;

/// A generation of a store: the store from its first call until a reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The unique name of the generation.
    pub id: String,
    /// The age of the generation when the store answered, in seconds.
    pub age: u64,
    /// Whether the store was empty when the generation began. Such a store has no calls of an earlier generation.
    pub is_fresh: bool,
}

/// A call: a numbered part of a batch. A call that is sent repeatedly is folded once.
#[derive(Clone, Debug)]
pub struct FencedBatch {
    /// The generation of the store in which the calls of the instance are numbered.
    pub generation: String,
    /// The instance that appends the call: a random name.
    pub instance: String,
    /// The number of the call. The instance numbers its calls from 1 without gaps.
    pub seq: u64,
    /// The number of the last call that the store should have: `seq - 1`, or less if the calls before this one are
    /// lost.
    pub previous: u64,
    /// The samples to fold.
    pub batch: Batch,
}

/// A position in a journal: the end of an entry, or the start of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The bytes of the payloads of all entries up to this position, and one more byte for each entry.
    pub offset: u64,
    /// A digest of all entries up to this position. Journals with different entries have different digests.
    pub chain: u64,
}

tower_pulse_model::pack::packed!(Position { offset, chain });

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.offset, self.chain)
    }
}

impl std::str::FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (offset, chain) = text.split_once('-').ok_or(())?;
        Ok(Self {
            offset: offset.parse().map_err(drop)?,
            chain: chain.parse().map_err(drop)?,
        })
    }
}

/// The position of a call, and the progress of folding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The position of the call in the journal, or a later position.
    pub position: Position,
    /// The position up to which the journal is folded.
    pub folded: Position,
    /// Whether an instance holds the lease to fold.
    pub has_leader: bool,
}

/// The result of appending a [`FencedBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The call is in the journal.
    Done(Receipt),
    /// The call was already in the journal. The store did not change.
    Duplicate(Receipt),
    /// The store lacks calls before this one, for example after a failover. The store did not change.
    Gap {
        /// The number of the last call that the store has; 0 if it has no call.
        fence: u64,
    },
    /// The store has another generation: its data was deleted, evicted, or restored from a backup. The store did not
    /// change.
    Reset,
    /// The journal is full, and has no room until it is folded. The store did not change.
    Full,
    /// The fence of the instance is unreadable, because another program has overwritten it. The store did not change.
    Garbled,
}

/// Whether the data of a call can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// The call is folded.
    Yes,
    /// The call is in the journal, but is not folded yet.
    NotYet,
    /// The store has lost the call.
    Lost,
}

/// Appends each call to the journal once.
///
/// # Cancel safety
/// If the future is dropped, the call may have been appended. Appending the call again shows whether it was.
pub trait Append: Send + Sync {
    /// Returns the store's generation. Begins a generation if the store has none.
    fn hello(&self) -> StoreFuture<'_, Generation>;

    /// Appends a call. A call that the journal already has is not appended again, and the answer is
    /// [`Appended::Duplicate`].
    ///
    /// # Errors
    /// The store failed, or the batch has other precisions than the store.
    fn append<'a>(&'a self, call: &'a FencedBatch) -> StoreFuture<'a, Appended>;

    /// Whether the data of an appended call can be read.
    fn readable<'a>(&'a self, call: &'a AppendedCall) -> StoreFuture<'a, Readable>;
}

/// Identifies an appended call, to ask whether it can be [read](Append::readable).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedCall {
    /// The generation of the store that has the call.
    pub generation: String,
    /// The instance that appended the call.
    pub instance: String,
    /// The number of the call.
    pub seq: u64,
    /// The position of the call in the journal, or a later position.
    pub position: Position,
}
