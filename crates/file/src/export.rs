//! What an import into another store needs of a file: a look at the file before it is opened, the tables and counters
//! that it has, and notes of how far the import is. A file with notes is not recorded into any more.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use redb::ReadableTable;

use super::disk::{Disk, PlainIo};
use super::fields::{behind, fields_of};
use super::kept::{COUNTERS, IMPORTS, KeptCount, counter_key, counter_of, has_begun_import};
use super::options::FileOptions;
use super::trouble::Trouble;
use super::{FILE_BYTES, FileStore};
use tower_pulse_core::error::{BuildError, StoreError, StoreErrorKind};
use tower_pulse_core::store::in_process::{Access, Place, State};
use tower_pulse_core::store::table::Table;
use tower_pulse_model::pack;

/// Why a file cannot be imported.
#[derive(Clone, Debug)]
pub enum Unusable {
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
pub struct ExportedCounter {
    /// The length of the slices, in seconds.
    pub seconds: u32,
    /// The name of the counter.
    pub name: Arc<str>,
    /// Oldest first.
    pub counts: Vec<(i64, i64)>,
}

/// Looks whether a file can be imported, and makes none.
pub fn look_at(path: &Path) -> Result<(), Unusable> {
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

/// The key of a note. The notes of a generation have the order of their numbers.
fn note_key(generation: &str, number: u64) -> Vec<u8> {
    [&*note_prefix(generation), &number.to_be_bytes()].concat()
}

/// The beginning of the keys of a generation's notes.
fn note_prefix(generation: &str) -> Vec<u8> {
    // No name of a generation has this byte, so that none is the beginning of another.
    [generation.as_bytes(), &[0]].concat()
}

impl FileStore {
    /// Opens a file to import it into another store. A file that is damaged stays where it is.
    pub fn open_for_export(options: FileOptions) -> Result<Self, BuildError> {
        Self::open(options.for_export())
    }

    /// The tables that the file has, in their order.
    pub async fn tables(&self) -> Result<Vec<Table>, StoreError> {
        self.store
            .with(Access::Read, |state| {
                Ok(state.tables.names().cloned().collect())
            })
            .await
    }

    /// Whether an import of the file has begun, into whichever store.
    pub async fn has_begun_export(&self) -> Result<bool, StoreError> {
        self.store
            .with(Access::Read, |state| Ok(has_begun_import(state)))
            .await
    }

    /// Some counters of those behind one, by precision and name. They are those that were made durable.
    pub async fn counters_behind(
        &self,
        after: Option<(u32, Arc<str>)>,
        most: usize,
    ) -> Result<Vec<ExportedCounter>, StoreError> {
        self.database(Access::Read, move |state| {
            let stored = fields_of(state)?.transaction()?.open_table(COUNTERS)?;
            let after = after.map(|(seconds, name)| counter_key(seconds, &name));
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut counters = Vec::new();
            for counter in stored.range::<&[u8]>((from, Bound::Unbounded))?.take(most) {
                let (key, counts) = counter?;
                let Some((seconds, name)) = counter_of(key.value()) else {
                    continue;
                };
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
    pub async fn note(&self, generation: &str, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let generation = generation.to_owned();
        self.database(Access::Read, move |state| {
            let notes = fields_of(state)?.transaction()?.open_table(IMPORTS)?;
            let note = notes.get(&*note_key(&generation, number))?;
            Ok(note.map(|note| note.value().to_vec()))
        })
        .await
    }

    /// The number of the last note of the import into a generation.
    pub async fn last_note(&self, generation: &str) -> Result<Option<u64>, StoreError> {
        let generation = generation.to_owned();
        self.database(Access::Read, move |state| {
            let notes = fields_of(state)?.transaction()?.open_table(IMPORTS)?;
            let start = note_prefix(&generation);
            let mut of_it = notes.range::<&[u8]>(&*start..&*behind(&start))?;
            let last = of_it.next_back().transpose()?;
            Ok(last.and_then(|(key, _)| Some(u64::from_be_bytes(*key.value().last_chunk()?))))
        })
        .await
    }

    /// Sets a note of the import into a generation, and makes it durable.
    pub async fn set_note(
        &self,
        generation: &str,
        number: u64,
        note: Vec<u8>,
    ) -> Result<(), StoreError> {
        let generation = generation.to_owned();
        self.database(Access::Write, move |state| {
            let transaction = fields_of(state)?.transaction()?;
            let mut notes = transaction.open_table(IMPORTS)?;
            notes.insert(&*note_key(&generation, number), &*note)?;
            Ok(())
        })
        .await?;
        self.thread.make_durable().await
    }

    /// Works on the database itself.
    async fn database<R: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut State) -> Result<R, redb::Error> + Send + 'static,
    ) -> Result<R, StoreError> {
        let path = self.thread.path.clone();
        let work = move |state: &mut State| {
            work(state).map_err(|error| {
                let message = format!("{} cannot be read or written: {error}", path.display());
                StoreError::new(StoreErrorKind::Refused, message)
            })
        };
        self.store.with(access, work).await
    }
}
