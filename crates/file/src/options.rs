//! The options of a file, which are checked before the file is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::disk::{FileIo, PlainIo};
use tower_pulse_core::clock::Clock;
use tower_pulse_core::error::BuildError;
use tower_pulse_model::slice::Precisions;

/// The default size limit of a file, in bytes.
pub const FILE_BYTES: u64 = 256 * 1024 * 1024;
const MIN_FILE_BYTES: u64 = 16 * 1024 * 1024;
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024 * 1024;
/// The default interval at which a file is made durable.
pub const DURABLE_EVERY: Duration = Duration::from_secs(1);

/// The path of a file, and the options of the store in it.
#[derive(Clone, Debug)]
pub struct FileOptions {
    pub(super) path: Arc<Path>,
    pub(super) precisions: Precisions,
    pub(super) clock: Clock,
    pub(super) file_bytes: u64,
    pub(super) durable_every: Duration,
    pub(super) io: Arc<dyn FileIo>,
}

impl FileOptions {
    /// The file at `path`, which is created if it does not exist. Its directory must exist.
    ///
    /// # Errors
    /// The path is empty, or ends like the path of a directory.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, BuildError> {
        let path = path.into();
        let text = path.to_string_lossy();
        if path.file_name().is_none() || text.ends_with(std::path::is_separator) {
            let allowed =
                "must be the path of a file, such as \"pulse.redb\", in a directory that exists";
            return Err(BuildError::new("file", format!("{text:?}"), allowed));
        }
        Ok(Self {
            path: path.into(),
            precisions: Precisions::default(),
            clock: Clock::system(),
            file_bytes: FILE_BYTES,
            durable_every: DURABLE_EVERY,
            io: Arc::new(PlainIo),
        })
    }

    /// Sets the precisions of the counters.
    pub fn precisions(mut self, precisions: Precisions) -> Self {
        self.precisions = precisions;
        self
    }

    /// Sets the store's clock, which decides which samples are skewed.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the largest size of the file in bytes: 16 MiB to 64 GiB, 256 MiB by default. A quarter to a half of the
    /// file is data, because the file grows by doubling, and new data never overwrites durable data. If data needs
    /// more, the oldest minutes are removed first, then the oldest half hours. A file shrinks only when it is closed or
    /// opened.
    ///
    /// # Errors
    /// The number is not in this range.
    pub fn file_bytes(mut self, bytes: u64) -> Result<Self, BuildError> {
        if !(MIN_FILE_BYTES..=MAX_FILE_BYTES).contains(&bytes) {
            let allowed = "must be 16 MiB (16777216) to 64 GiB (68719476736)";
            return Err(BuildError::new("file_bytes", bytes, allowed));
        }
        self.file_bytes = bytes;
        Ok(self)
    }

    /// Sets how often recorded data is made durable: 1 s to 60 s, 1 s by default. A crash loses at most the requests of
    /// this time and of one flush interval.
    ///
    /// # Errors
    /// The duration is not in this range.
    pub fn durable_every(mut self, every: Duration) -> Result<Self, BuildError> {
        if !(Duration::from_secs(1)..=Duration::from_secs(60)).contains(&every) {
            let (value, allowed) = (format!("{every:?}"), "must be 1 s to 60 s");
            return Err(BuildError::new("durable_every", value, allowed));
        }
        self.durable_every = every;
        Ok(self)
    }

    /// Sets how the file is read and written, so that a test can make the disk fail.
    #[cfg(any(test, feature = "__test_store"))]
    pub fn io(mut self, io: Arc<dyn FileIo>) -> Self {
        self.io = io;
        self
    }
}
