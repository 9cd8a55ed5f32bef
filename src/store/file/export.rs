//! What an import into another store needs of a file: a look at the file before it is opened, the tables and counters
//! that it has, and notes of how far the import is. A file with notes is not recorded into any more.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use redb::{ReadableTable, TableDefinition};

use super::disk::{Disk, PlainIo};
use super::fields::FileFields;
use super::kept::{COUNTERS, KeptCount};
use super::options::FileOptions;
use super::trouble::Trouble;
use super::{FILE_BYTES, FileStore};
use crate::error::{BuildError, StoreError, StoreErrorKind};
use crate::model::pack;
use crate::store::in_process::{Access, InProcess, State};
use crate::store::table::Table;

/// Notes of imports, by the generation of the store that they go to, and a number.
const IMPORTS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("imports");

/// Why a file cannot be imported.
#[derive(Clone, Debug)]
pub(crate) enum Unusable {
    /// There is none.
    Missing,
    /// This process holds it, or another one whose id may be known.
    Held(Option<u32>),
    /// It is no file of this crate.
    Foreign,
    /// A newer version of this crate wrote it.
    Newer,
    /// Something else, in a sentence.
    Other(String),
}

impl From<Trouble> for Unusable {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Held(process) => Self::Held(process),
            Trouble::Foreign => Self::Foreign,
            Trouble::Newer(_) => Self::Newer,
            Trouble::Damaged(why) => Self::Other(format!("its content is damaged ({why})")),
            Trouble::Io(error) => Self::Other(error.to_string()),
            other => Self::Other(format!("{other:?}")),
        }
    }
}

/// A counter at a precision, and its counts by the start of their slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExportedCounter {
    /// The length of the slices, in seconds.
    pub(crate) seconds: u32,
    pub(crate) name: Arc<str>,
    /// Oldest first.
    pub(crate) counts: Vec<(i64, i64)>,
}

/// Looks whether a file can be imported, and makes none.
pub(crate) fn look_at(path: &Path) -> Result<(), Unusable> {
    match std::fs::metadata(path) {
        Ok(file) if file.len() == 0 => return Err(Unusable::Foreign),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Unusable::Missing);
        }
        Err(error) => return Err(Unusable::Other(error.to_string())),
    }
    Disk::open(path, Arc::new(PlainIo), FILE_BYTES)?;
    Ok(())
}

/// Whether an import of the file has begun. What cannot be read has not.
pub(super) fn has_begun(state: &mut State<FileFields>) -> bool {
    let fields = state.tables.fields_mut();
    let first = fields.transaction().and_then(|transaction| {
        let notes = transaction.open_table(IMPORTS)?;
        Ok(notes.first()?.is_some())
    });
    first.unwrap_or(false)
}

impl FileStore {
    /// Opens a file to import it into another store. A file that is damaged stays where it is.
    pub(crate) fn open_for_export(options: FileOptions) -> Result<Self, BuildError> {
        Self::open(options.for_export())
    }

    /// The tables that the file has, in their order.
    pub(crate) async fn tables(&self) -> Result<Vec<Table>, StoreError> {
        self.with(Access::Read, |state| {
            Ok(state.tables.names().cloned().collect())
        })
        .await
    }

    /// Whether an import of the file has begun, into whichever store.
    pub(crate) async fn has_begun_export(&self) -> Result<bool, StoreError> {
        self.with(Access::Read, |state| Ok(has_begun(state))).await
    }

    /// Some counters of those behind one, by precision and name. They are those that were made durable.
    pub(crate) async fn counters_behind(
        &self,
        after: Option<(u32, Arc<str>)>,
        most: usize,
    ) -> Result<Vec<ExportedCounter>, StoreError> {
        self.database(Access::Read, move |state| {
            let stored = state
                .tables
                .fields_mut()
                .transaction()?
                .open_table(COUNTERS)?;
            let from = match &after {
                Some((seconds, name)) => Bound::Excluded((*seconds, &**name)),
                None => Bound::Unbounded,
            };
            let mut counters = Vec::new();
            for counter in stored
                .range::<(u32, &str)>((from, Bound::Unbounded))?
                .take(most)
            {
                let (key, counts) = counter?;
                let (seconds, name) = key.value();
                let counts = pack::unpack::<Vec<KeptCount>>(counts.value());
                let counts = counts.unwrap_or_default().into_iter();
                counters.push(ExportedCounter {
                    seconds,
                    name: name.into(),
                    counts: counts.map(|count| (count.start, count.n)).collect(),
                });
            }
            Ok(counters)
        })
        .await
    }

    /// A note of the import into a generation.
    pub(crate) async fn note(
        &self,
        generation: &str,
        number: u64,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let generation = generation.to_owned();
        self.database(Access::Read, move |state| {
            let notes = state
                .tables
                .fields_mut()
                .transaction()?
                .open_table(IMPORTS)?;
            let note = notes.get((&*generation, number))?;
            Ok(note.map(|note| note.value().to_vec()))
        })
        .await
    }

    /// The number of the last note of the import into a generation.
    pub(crate) async fn last_note(&self, generation: &str) -> Result<Option<u64>, StoreError> {
        let generation = generation.to_owned();
        self.database(Access::Read, move |state| {
            let notes = state
                .tables
                .fields_mut()
                .transaction()?
                .open_table(IMPORTS)?;
            let of_it = (&*generation, 0)..=(&*generation, u64::MAX);
            let last = notes.range::<(&str, u64)>(of_it)?.next_back().transpose()?;
            Ok(last.map(|(key, _)| key.value().1))
        })
        .await
    }

    /// Sets a note of the import into a generation, and makes it durable.
    pub(crate) async fn set_note(
        &self,
        generation: &str,
        number: u64,
        note: Vec<u8>,
    ) -> Result<(), StoreError> {
        let generation = generation.to_owned();
        self.database(Access::Write, move |state| {
            let transaction = state.tables.fields_mut().transaction()?;
            let mut notes = transaction.open_table(IMPORTS)?;
            notes.insert((&*generation, number), &*note)?;
            Ok(())
        })
        .await?;
        self.make_durable().await
    }

    /// Works on the database itself.
    async fn database<R: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut State<FileFields>) -> Result<R, redb::Error> + Send + 'static,
    ) -> Result<R, StoreError> {
        let path = self.path.clone();
        let work = move |state: &mut State<FileFields>| {
            work(state).map_err(|error| {
                let message = format!("{} cannot be read or written: {error}", path.display());
                StoreError::new(StoreErrorKind::Refused, message)
            })
        };
        self.with(access, work).await
    }
}
