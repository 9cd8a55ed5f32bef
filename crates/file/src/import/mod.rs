//! Bringing the history of a file into another store, exactly once, when a service becomes a fleet. It needs the
//! feature `import`; the [guide](https://docs.rs/tower-pulse/latest/tower_pulse/guide/file/index.html#growing) says in which order to do what.
//!
//! The content of the file goes through the journal, as calls of one instance, whose fence counts each call once. The
//! file notes each call before it is sent, so that an import which was interrupted goes on where it was.

// `content` reads the file and composes calls, `notes` is what the file notes of them, `delivery` sends them,
// `change_log` brings the changes over, `error` says why an import fails.

mod change_log;
mod content;
mod delivery;
mod error;
mod notes;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::delivery::Delivery;
pub use self::error::{ImportError, ImportErrorKind};
use crate::export::{self, Unusable};
use crate::{FileOptions, FileStore};
use tower_pulse_core::clock::Clock;
use tower_pulse_core::error::BuildError;
use tower_pulse_core::store::Store;
use tower_pulse_model::pack::packed;
use tower_pulse_model::tier::DAY;
use tower_pulse_model::tiers::{LEAST_DAYS, MOST_DAYS};

/// How long a store of this process may take to close its file.
const CLOSING: Duration = Duration::from_secs(2);
/// How long an import waits for a store that is away, unless configured otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// A function of the user that is told how far the import is.
type OnProgress = Arc<dyn Fn(&ImportedFile) + Send + Sync>;

/// An import of a file's history into another store: usually that of a fleet in Redis.
///
/// The file must not be in use. From the beginning of the import on, nothing is recorded into it any more; it can
/// still be read. The store may be empty, or a fleet may record into it meanwhile: the sums are those of both.
#[derive(Clone)]
pub struct FileImport {
    path: PathBuf,
    options: FileOptions,
    clock: Clock,
    history_days: Option<u32>,
    patience: Duration,
    on_progress: Option<OnProgress>,
}

impl fmt::Debug for FileImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileImport").field(&self.path).finish()
    }
}

impl FileImport {
    /// An import of the file at `path`.
    ///
    /// # Errors
    /// When the path is empty, or ends like that of a directory.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, BuildError> {
        let path = path.into();
        Ok(Self {
            options: FileOptions::new(path.clone())?,
            path,
            clock: Clock::system(),
            history_days: None,
            patience: PATIENCE,
            on_progress: None,
        })
    }

    /// Lets the store keep records by the day, for 15 to 400 days, as `Builder::history`
    /// does. Without it, days are brought over if the store keeps some already. Give what the instances of the fleet
    /// have.
    ///
    /// # Errors
    /// When it is no number of days in this range.
    pub fn history(mut self, history: Duration) -> Result<Self, BuildError> {
        let (days, part) = (
            history.as_secs() / u64::from(DAY),
            history.as_secs() % u64::from(DAY),
        );
        let days = u32::try_from(days).unwrap_or(u32::MAX);
        if part > 0 || !(LEAST_DAYS..=MOST_DAYS).contains(&days) {
            return Err(BuildError::new(
                "history",
                format!("{history:?}"),
                format!("{LEAST_DAYS} to {MOST_DAYS} days"),
            ));
        }
        self.history_days = Some(days);
        Ok(self)
    }

    /// How long to wait for a store that does not answer, or whose journal is full: 60 s by default. Then the import
    /// ends with an error, and goes on where it was when it is run again.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Calls `on_progress` after each part, of up to about 1 MiB, with what was brought over until then.
    pub fn on_progress(
        mut self,
        on_progress: impl Fn(&ImportedFile) + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Some(Arc::new(on_progress));
        self
    }

    /// The time, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Brings the history into `store`, and returns when it can be read there. Folds meanwhile if no other instance
    /// does.
    ///
    /// Run it again after an error, or after its process was killed: it goes on where it was, and nothing is counted
    /// twice. If it was interrupted for longer than 20 hours it may be impossible to tell what the store has; it is an
    /// error then. The import into a store that was flushed meanwhile begins anew.
    ///
    /// # Errors
    /// [`ImportErrorKind`] lists them. The text says what to do.
    ///
    /// # Cancel safety
    /// What was brought over stays. Run it again to go on.
    pub async fn run(&self, store: impl Into<Arc<dyn Store>>) -> Result<ImportedFile, ImportError> {
        self.run_into(store.into()).await
    }

    async fn run_into(&self, store: Arc<dyn Store>) -> Result<ImportedFile, ImportError> {
        self.look_at_file().await?;
        let options = self.options.clone().clock(self.clock.clone());
        let options = options.precisions(store.precisions().clone());
        let file = FileStore::open_for_export(options);
        let file = file.map_err(|error| ImportError::no_thread(&error))?;
        Box::pin(Delivery::new(self, Arc::new(file), store).run()).await
    }

    /// Refuses a file that cannot be imported. A store of this process closes its file a moment after it is dropped.
    async fn look_at_file(&self) -> Result<(), ImportError> {
        let start = Instant::now();
        loop {
            match export::look_at(&self.path) {
                Ok(()) => return Ok(()),
                Err(Unusable::Held(Some(process)))
                    if process == std::process::id() && start.elapsed() < CLOSING => {}
                Err(why) => return Err(ImportError::of_file(&self.path, &why)),
            }
            tokio::time::sleep(CLOSING / 50).await;
        }
    }
}

/// What an import has brought over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedFile {
    /// Contexts, timers among them.
    pub contexts: u64,
    /// Records: of one context in one slice of one tier each.
    pub records: u64,
    /// Slow and failed requests.
    pub slow_requests: u64,
    /// Counters, at each of their precisions.
    pub counters: u64,
    /// Ids of rankings, in each of their slices.
    pub ranked_ids: u64,
    /// Marks.
    pub marks: u64,
    /// Changes that the store did not have. Those that stood have ended.
    pub changes: u64,
    /// Records and lists of contexts whose names the file has forgotten: they are left out.
    pub unnamed: u64,
}

packed!(ImportedFile {
    contexts,
    records,
    slow_requests,
    counters,
    ranked_ids,
    marks,
    changes,
    unnamed
});

impl ImportedFile {
    /// Adds what another part has brought over.
    fn add(&mut self, part: &Self) {
        self.contexts += part.contexts;
        self.records += part.records;
        self.slow_requests += part.slow_requests;
        self.counters += part.counters;
        self.ranked_ids += part.ranked_ids;
        self.marks += part.marks;
        self.changes += part.changes;
        self.unnamed += part.unnamed;
    }
}

impl fmt::Display for ImportedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} contexts, {} records, {} slow or failed requests, {} counters, {} ranked ids, {} marks, {} changes",
            self.contexts,
            self.records,
            self.slow_requests,
            self.counters,
            self.ranked_ids,
            self.marks,
            self.changes
        )
    }
}
