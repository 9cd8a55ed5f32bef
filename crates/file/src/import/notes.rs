//! What a file notes of an import into a generation of a store.

use std::sync::Arc;

use super::ImportedFile;
use super::content::Place;
use super::error::ImportError;
use crate::FileStore;
use tower_pulse_model::pack::{self, Packed, packed};

/// The number of the note of the whole import. The notes of its calls have their numbers, from 1 on.
const WHOLE: u64 = 0;

/// The note of the whole import.
#[derive(Clone, Debug)]
pub(super) struct ImportNote {
    /// When it began, in Unix seconds.
    pub(super) begun_at: i64,
    /// When it was done, in Unix seconds, and what it has brought over.
    pub(super) done_at: Option<i64>,
}

packed!(ImportNote { begun_at, done_at });

/// The note of a call, which is made before the call is sent.
#[derive(Clone, Debug)]
pub(super) struct CallNote {
    /// Where in the file the call begins, and where the next one does.
    pub(super) from: Place,
    pub(super) until: Place,
    /// When it was noted, in Unix seconds.
    pub(super) at: i64,
    /// What was brought over with it and with all calls before it.
    pub(super) brought: ImportedFile,
}

packed!(CallNote {
    from,
    until,
    at,
    brought
});

/// The notes of an import into a generation.
#[derive(Debug)]
pub(super) struct Notes {
    file: Arc<FileStore>,
    generation: String,
}

impl Notes {
    pub(super) fn new(file: Arc<FileStore>, generation: &str) -> Self {
        Self {
            file,
            generation: generation.to_owned(),
        }
    }

    /// The note of the whole import; `None` before it begins.
    pub(super) async fn whole(&self) -> Result<Option<ImportNote>, ImportError> {
        self.read(WHOLE).await
    }

    pub(super) async fn set_whole(&self, note: &ImportNote) -> Result<(), ImportError> {
        self.set(WHOLE, note).await
    }

    /// The note of a call.
    pub(super) async fn call(&self, seq: u64) -> Result<Option<CallNote>, ImportError> {
        self.read(seq).await
    }

    pub(super) async fn set_call(&self, seq: u64, note: &CallNote) -> Result<(), ImportError> {
        self.set(seq, note).await
    }

    /// The number of the last call that is noted; 0 if there is none.
    pub(super) async fn last_call(&self) -> Result<u64, ImportError> {
        let last = self.file.last_note(&self.generation).await;
        Ok(last.map_err(ImportError::of_open_file)?.unwrap_or(0))
    }

    async fn read<T: Packed>(&self, number: u64) -> Result<Option<T>, ImportError> {
        let note = self.file.note(&self.generation, number).await;
        let note = note.map_err(ImportError::of_open_file)?;
        Ok(note.and_then(|note| pack::unpack(&note)))
    }

    async fn set(&self, number: u64, note: &impl Packed) -> Result<(), ImportError> {
        let set = self
            .file
            .set_note(&self.generation, number, pack::pack(note));
        set.await.map_err(ImportError::of_open_file)
    }
}
