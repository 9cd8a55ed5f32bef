//! The reasons why a file cannot be used, with advice to the operator where there is any.

use std::io;
use std::path::Path;

use tower_pulse_core::error::{StoreError, StoreErrorKind};

#[derive(Debug)]
pub(super) enum Trouble {
    /// Another store holds the file, in the process with this id, if known.
    Held(Option<u32>),
    Foreign,
    /// A newer version of this crate wrote the file, in this format.
    Newer(u32),
    Damaged(String),
    /// The file has reached its largest size.
    Full,
    Io(io::Error),
    Database(redb::Error),
    Panicked,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::QuotaExceeded if error.raw_os_error().is_none() => Self::Full,
            _ => Self::Io(error),
        }
    }
}

impl From<redb::Error> for Trouble {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) => error.into(),
            redb::Error::Corrupted(what) => Self::Damaged(what),
            other => Self::Database(other),
        }
    }
}

impl Trouble {
    /// Whether the content of the file is damaged, so a new file must replace it.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            // The database's header or length is wrong.
            Self::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ),
            _ => false,
        }
    }

    /// A text for the operator: the problem, and what to do if anything can be done.
    pub(super) fn in_words(&self, path: &Path) -> String {
        let file = path.display();
        let cannot = |why: &str| format!("{file} cannot be written: {why}");
        match self {
            Self::Held(Some(process)) if *process == std::process::id() => format!(
                "{file} is open in this process already: share one store (`Builder::store`)"
            ),
            Self::Held(process) => {
                let holder =
                    process.map_or("another process".to_owned(), |id| format!("process {id}"));
                format!(
                    "{file} is held by {holder}; this process takes the file over when that process ends. \
                     Processes that run side by side need a file each, or Redis"
                )
            }
            Self::Foreign => format!(
                "{file} was written by another program and is left as it is: choose another path"
            ),
            Self::Newer(version) => format!(
                "{file} was written by a newer version of tower-pulse (format {version}) and is left as it is: run that \
                 version, or choose another path"
            ),
            Self::Damaged(why) => cannot(&format!("its content is damaged ({why})")),
            Self::Full => cannot("it has no room within `file_bytes`: allow more"),
            Self::Io(error) => cannot(&match error.kind() {
                io::ErrorKind::NotFound => "its directory does not exist: create it".to_owned(),
                io::ErrorKind::PermissionDenied => {
                    format!("this process may not write it ({error}): change its owner or its mode")
                }
                io::ErrorKind::ReadOnlyFilesystem => {
                    "it is on a read-only file system: choose another path".to_owned()
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    format!("the disk is full ({error}): free some space")
                }
                io::ErrorKind::IsADirectory => "it is a directory: name a file in it".to_owned(),
                _ => format!("the disk fails ({error}): check the disk"),
            }),
            Self::Database(error) => cannot(&format!("its database fails ({error})")),
            Self::Panicked => {
                cannot("work on it has panicked: report the panic, which is in the log")
            }
        }
    }

    pub(super) fn to_error(&self, path: &Path) -> StoreError {
        let kind = match self {
            Self::Held(_) | Self::Panicked => StoreErrorKind::Unreachable,
            Self::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                StoreErrorKind::Forbidden
            }
            Self::Foreign | Self::Newer(_) | Self::Full | Self::Io(_) => StoreErrorKind::Refused,
            Self::Damaged(_) | Self::Database(_) => StoreErrorKind::Unexpected,
        };
        StoreError::new(kind, self.in_words(path))
    }
}
