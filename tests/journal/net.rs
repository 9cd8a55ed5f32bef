//! Calls to a store that wait until the test delivers them.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::Poll;

use tower_pulse::StoreError;
use tower_pulse_core::store::Precisions;
use tower_pulse_core::store::journal::{
    Acquired, Amendment, Entries, Entry, FieldValues, FoldStep, Journal, VersionedResult,
};
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::table_reads::{Answers, Purpose, TableRead, TableReader};
use tower_pulse_core::store::{
    Append, Appended, AppendedCall, FencedBatch, Generation, Position, Query, Readable, Store,
    Upkeep,
};
use tower_pulse_core::task::BoxFuture;

/// A call to the store that may outlive its caller.
#[derive(Clone, Debug)]
pub enum Request {
    Hello,
    Append(FencedBatch),
    Readable(AppendedCall),
    Acquire(String, String),
    Release(String),
    Read(String, String, Position, u64),
    LoadFields(String, String, Vec<(Table, Vec<Vec<u8>>)>),
    ReadTables(Purpose, Vec<TableRead>),
    Fold(Box<FoldStep>),
    Amend(String, String, Amending),
    RemoveFences(String),
}

#[derive(Clone, Debug)]
pub enum Amending {
    SetAside(Entry),
    WaitForNewer(Entry),
    CloseHole,
}

#[derive(Clone, Debug)]
pub enum Reply {
    Hello(Generation),
    Append(Appended),
    Readable(Readable),
    Acquire(Acquired),
    Release(()),
    Read(VersionedResult<Entries>),
    LoadFields(VersionedResult<Vec<FieldValues>>),
    ReadTables(Answers),
    Fold(VersionedResult<()>),
    Amend(VersionedResult<()>),
    RemoveFences(u64),
}

impl Request {
    pub async fn run(&self, store: &dyn Store) -> Result<Reply, StoreError> {
        let journal = store.journal();
        Ok(match self {
            Self::Hello => Reply::Hello(store.hello().await?),
            Self::Append(call) => Reply::Append(store.append(call).await?),
            Self::Readable(call) => Reply::Readable(store.readable(call).await?),
            Self::Acquire(instance, version) => {
                Reply::Acquire(journal.acquire(instance, version).await?)
            }
            Self::Release(instance) => Reply::Release(journal.release(instance).await?),
            Self::Read(instance, version, after, bytes) => {
                Reply::Read(journal.read(instance, version, *after, *bytes).await?)
            }
            Self::LoadFields(instance, version, fields) => {
                Reply::LoadFields(journal.load_fields(instance, version, fields).await?)
            }
            Self::ReadTables(purpose, reads) => {
                Reply::ReadTables(journal.read_tables(*purpose, reads).await?)
            }
            Self::Fold(step) => Reply::Fold(journal.fold(step).await?),
            Self::Amend(version, next, amending) => {
                let amendment = match amending {
                    Amending::SetAside(entry) => Amendment::SetAside(entry),
                    Amending::WaitForNewer(entry) => Amendment::WaitForNewer(entry),
                    Amending::CloseHole => Amendment::CloseHole,
                };
                Reply::Amend(journal.amend(version, next, amendment).await?)
            }
            Self::RemoveFences(version) => {
                Reply::RemoveFences(journal.remove_fences(version).await?)
            }
        })
    }

    /// Whether the call reads data, and changes nothing but the lease.
    pub fn is_reading(&self) -> bool {
        matches!(
            self,
            Self::Readable(..) | Self::Read(..) | Self::LoadFields(..) | Self::ReadTables(..)
        )
    }
}

/// The state of a process.
#[derive(Default)]
pub struct Slot {
    /// Whether the process pauses between two flushes or folds, until the test resumes the process.
    pub is_paused: bool,
    /// The call whose answer the process waits for.
    pub request: Option<Request>,
    pub reply: Option<Result<Reply, StoreError>>,
    /// Flushes since the last append or failure.
    pub idle_flushes: u32,
}

/// The store that a process uses. A call waits in the [`Slot`] until the test delivers the call.
#[derive(Clone, Default)]
pub struct Wire(Arc<Mutex<Slot>>);

impl Wire {
    pub fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap()
    }

    pub async fn pause(&self) {
        self.slot().is_paused = true;
        std::future::poll_fn(|_| match self.slot().is_paused {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    async fn ask(&self, request: Request) -> Result<Reply, StoreError> {
        {
            let mut slot = self.slot();
            (slot.request, slot.reply) = (Some(request), None);
        }
        std::future::poll_fn(|_| match self.slot().reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => Poll::Pending,
        })
        .await
    }
}

/// Makes a call, and unwraps the answer of the same kind.
macro_rules! ask {
    ($self:ident, $kind:ident $($arguments:tt)?) => {
        Box::pin(async move {
            match $self.ask(Request::$kind $($arguments)?).await? {
                Reply::$kind(reply) => Ok(reply),
                other => panic!("not an answer to {}: {other:?}", stringify!($kind)),
            }
        })
    };
}

impl Journal for Wire {
    fn acquire<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
    ) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        ask!(self, Acquire(instance.into(), version.into()))
    }

    fn release<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        ask!(self, Release(instance.into()))
    }

    fn read<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
        after: Position,
        bytes: u64,
    ) -> BoxFuture<'a, Result<VersionedResult<Entries>, StoreError>> {
        ask!(self, Read(instance.into(), version.into(), after, bytes))
    }

    fn load_fields<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
        fields: &'a [(Table, Vec<Vec<u8>>)],
    ) -> BoxFuture<'a, Result<VersionedResult<Vec<FieldValues>>, StoreError>> {
        ask!(
            self,
            LoadFields(instance.into(), version.into(), fields.into())
        )
    }

    fn fold<'a>(
        &'a self,
        step: &'a FoldStep,
    ) -> BoxFuture<'a, Result<VersionedResult<()>, StoreError>> {
        ask!(self, Fold(Box::new(step.clone())))
    }

    fn amend<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
        amendment: Amendment<'a>,
    ) -> BoxFuture<'a, Result<VersionedResult<()>, StoreError>> {
        let amending = match amendment {
            Amendment::SetAside(entry) => Amending::SetAside(entry.clone()),
            Amendment::WaitForNewer(entry) => Amending::WaitForNewer(entry.clone()),
            Amendment::CloseHole => Amending::CloseHole,
        };
        ask!(self, Amend(version.into(), next.into(), amending))
    }

    fn remove_fences<'a>(&'a self, version: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        ask!(self, RemoveFences(version.into()))
    }
}

impl TableReader for Wire {
    fn read_tables<'a>(
        &'a self,
        purpose: Purpose,
        reads: &'a [TableRead],
    ) -> BoxFuture<'a, Result<Answers, StoreError>> {
        ask!(self, ReadTables(purpose, reads.into()))
    }
}

impl Store for Wire {
    fn precisions(&self) -> &Precisions {
        static PRECISIONS: LazyLock<Precisions> =
            LazyLock::new(crate::journal::redis_under_test::precisions);
        &PRECISIONS
    }

    fn journal(&self) -> &dyn Journal {
        self
    }

    fn query(&self) -> &dyn Query {
        unreachable!("processes make no queries")
    }

    fn upkeep(&self) -> &dyn Upkeep {
        unreachable!("processes need no upkeep")
    }

    fn describe(&self) -> String {
        "a store whose calls wait".to_owned()
    }
}

impl Append for Wire {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        ask!(self, Hello)
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        ask!(self, Append(call.clone()))
    }

    fn readable<'a>(
        &'a self,
        call: &'a AppendedCall,
    ) -> BoxFuture<'a, Result<Readable, StoreError>> {
        ask!(self, Readable(call.clone()))
    }
}
