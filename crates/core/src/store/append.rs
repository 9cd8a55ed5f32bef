//! Appending: what a flush needs of a store.

use crate::store::StoreFuture;
use tower_pulse_model::batch::Batch;

/// A generation of a store: a store from its first call until it loses its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its name, which no other generation has.
    pub id: String,
    /// Its age in seconds when the store was asked.
    pub age: u64,
    /// Whether the store was empty when the generation began: then it has no call of an earlier generation.
    pub is_fresh: bool,
}

/// A call: a numbered part of a batch, which is folded once however often it is appended.
#[derive(Clone, Debug)]
pub struct FencedBatch {
    /// The generation of the store in which the calls of the instance are numbered.
    pub generation: String,
    /// The instance that appends the call: a random name that ends with its process.
    pub instance: String,
    /// The number of the call. The instance numbers its calls from 1 without gaps.
    pub seq: u64,
    /// The number of the last call that the store is expected to have: `seq - 1`, except for the first call after lost
    /// ones.
    pub previous: u64,
    /// The samples to fold.
    pub batch: Batch,
}

/// A place in a journal: the id of an entry, or the end of the folded entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Bytes appended until the end of the entry.
    pub offset: u64,
    /// A digest of all entries up to this place, which distinguishes two histories.
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
    /// The position of the call in the journal, or one after it.
    pub position: Position,
    /// The position up to which the journal is folded.
    pub folded: Position,
    /// Whether an instance folds.
    pub has_leader: bool,
}

/// The result of appending a [`FencedBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The call is in the journal.
    Done(Receipt),
    /// The call had been appended before; the store did not change.
    Duplicate(Receipt),
    /// The store lacks calls before this one, as after a failover; it did not change.
    Gap {
        /// The number of the last call that the store has, 0 for none.
        fence: u64,
    },
    /// The store is of another generation: it was flushed, restored or evicted. The call changed nothing.
    Reset,
    /// The journal is at its bound, and has no room until it is folded; the store did not change.
    Full,
    /// The fence of the instance is unreadable, as another program has overwritten it; the store did not change.
    Garbled,
}

/// Whether a call can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// The call is folded.
    Yes,
    /// The call is in the journal.
    NotYet,
    /// The store has lost the call.
    Lost,
}

/// Appends calls to the journal, each once.
///
/// # Cancel safety
/// A call whose future is dropped may have been appended. Appending it again shows whether it was.
pub trait Append: Send + Sync {
    /// Returns the store's generation, and begins one if there is none.
    fn hello(&self) -> StoreFuture<'_, Generation>;

    /// Appends a call once, however often it is repeated; the answer to a repetition tells whether it had been
    /// appended.
    ///
    /// # Errors
    /// Fails also if the batch has other precisions than the store.
    fn append<'a>(&'a self, call: &'a FencedBatch) -> StoreFuture<'a, Appended>;

    /// Whether a call that was appended can be read.
    fn readable<'a>(&'a self, call: &'a AppendedCall) -> StoreFuture<'a, Readable>;
}

/// A call that was appended, to ask whether it can be [read](Append::readable).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedCall {
    /// The generation of the store that has it.
    pub generation: String,
    /// The instance that appended it.
    pub instance: String,
    /// Its number.
    pub seq: u64,
    /// Its position in the journal, or one after it.
    pub position: Position,
}
