//! Why an import fails, and what to do.

use std::error::Error as StdError;
use std::fmt;
use std::path::Path;

use crate::export::Unusable;
use tower_pulse_core::error::{BuildError, StoreError};

/// An import did not come to its end. Its text says what to do.
#[derive(Clone, Debug)]
pub struct ImportError {
    kind: ImportErrorKind,
    message: String,
    source: Option<StoreError>,
}

/// The kind of an [`ImportError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportErrorKind {
    /// There is no file at the path.
    FileMissing,
    /// A process holds the file: stop it first.
    FileHeld,
    /// Another program wrote the file.
    FileForeign,
    /// A newer version of this crate wrote the file: run that version.
    FileNewer,
    /// The file cannot be read or written.
    FileUnusable,
    /// The store failed for longer than [`patience`](super::FileImport::patience). Run the import again.
    StoreFailed,
    /// The store has the file's history, of this import or of one of a copy of the file.
    AlreadyImported,
    /// The import was interrupted for so long that the store no longer knows what it has of it.
    InterruptedForLong,
    /// The file was imported before, and the store may still have a part of that.
    StoreNotEmpty,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for ImportError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let source = self.source.as_ref()?;
        Some(source)
    }
}

impl ImportError {
    pub(super) fn new(kind: ImportErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// The kind of the error.
    pub fn kind(&self) -> ImportErrorKind {
        self.kind
    }

    /// The store that the history goes to has failed.
    pub(super) fn of_store(error: StoreError) -> Self {
        Self {
            kind: ImportErrorKind::StoreFailed,
            message: format!(
                "the store fails: {error}; run the import again, it goes on where it was"
            ),
            source: Some(error),
        }
    }

    /// The open file has failed.
    pub(super) fn of_open_file(error: StoreError) -> Self {
        Self {
            kind: ImportErrorKind::FileUnusable,
            message: format!("{error}; run the import again, it goes on where it was"),
            source: Some(error),
        }
    }

    pub(super) fn no_thread(error: &BuildError) -> Self {
        Self::new(ImportErrorKind::FileUnusable, error.to_string())
    }

    /// The file cannot be opened.
    pub(super) fn of_file(path: &Path, why: &Unusable) -> Self {
        let file = path.display();
        let (kind, message) = match why {
            Unusable::Missing => (
                ImportErrorKind::FileMissing,
                format!("{file} does not exist: give the path that the service recorded into"),
            ),
            Unusable::Held(Some(process)) if *process == std::process::id() => (
                ImportErrorKind::FileHeld,
                format!(
                    "{file} is open in this process: shut down what records into it, and drop its store"
                ),
            ),
            Unusable::Held(process) => {
                let holder =
                    process.map_or("another process".to_owned(), |id| format!("process {id}"));
                let message = format!("{file} is held by {holder}: stop it, then import the file");
                (ImportErrorKind::FileHeld, message)
            }
            Unusable::Foreign => (
                ImportErrorKind::FileForeign,
                format!("{file} is no file of tower-pulse and is left as it is: give another path"),
            ),
            Unusable::Newer => (
                ImportErrorKind::FileNewer,
                format!(
                    "{file} was written by a newer version of tower-pulse: import it with that version"
                ),
            ),
            Unusable::Other(why) => (
                ImportErrorKind::FileUnusable,
                format!("{file} cannot be imported: {why}"),
            ),
        };
        Self::new(kind, message)
    }
}
