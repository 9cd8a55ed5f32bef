//! Sends calls, and follows the answers of a store that loses some, is flushed, or is away for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::content::{Composed, Content, Place, is_rolled_up};
use super::error::{ImportError, ImportErrorKind};
use super::notes::{CallNote, ImportNote, Notes};
use super::{FileImport, ImportedFile, change_log};
use crate::FileStore;
use tower_pulse_core::error::{StoreError, StoreErrorKind};
use tower_pulse_core::fold::Folder;
use tower_pulse_core::random::random_name;
use tower_pulse_core::store::{Append, Appended, AppendedCall, FencedBatch, Receipt, Store};
use tower_pulse_core::task::BoxFuture;
use tower_pulse_model::batch::Batch;

/// Bytes of calls that are not folded. More would take much memory of the instance that folds.
const MAX_UNFOLDED: u64 = 2 * 1024 * 1024;
/// Seconds for which a store is sure to know the last call of an instance: it forgets them after a day.
const FENCE_KNOWN_FOR: i64 = 20 * 3_600;
/// Contexts whose records an import that folds remembers.
const REMEMBERED_CONTEXTS: usize = 2_000;
/// How often an import begins anew, as the store was flushed meanwhile.
const MAX_RESETS: usize = 5;
/// Waits after an error, doubled each time.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(1);
/// How often a full journal is tried, and how often a file is looked at that somebody must roll up.
const RETRY: Duration = Duration::from_millis(100);
/// How long another import of this process may hold the file.
const OPENING: Duration = Duration::from_secs(5);
/// How long it takes at most until the file's minutes are rolled up.
const ROLL_UP_PATIENCE: Duration = Duration::from_secs(300);

/// An import that runs.
pub(super) struct Delivery<'a> {
    import: &'a FileImport,
    file: Arc<FileStore>,
    store: Arc<dyn Store>,
    /// Folds in the store that the history goes to, if no other instance does.
    folder: Folder,
}

/// What became of a part of the import.
enum Ended {
    Done(ImportedFile),
    /// The store has lost its state.
    Reset,
}

/// The answer to a call.
enum Answer {
    Taken(Receipt),
    /// The store has calls up to this one only.
    Lacks(u64),
    Reset,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(import: &'a FileImport, file: Arc<FileStore>, store: Arc<dyn Store>) -> Self {
        let folder = folder(&store, import).with_history(import.history_days);
        Self {
            import,
            file,
            store,
            folder,
        }
    }

    /// Brings everything over.
    pub(super) async fn run(&self) -> Result<ImportedFile, ImportError> {
        for _ in 0..MAX_RESETS {
            let ended = self.attempt().await;
            // A lease that is not given up ends by itself.
            let _ = self.folder.release().await;
            if let Ended::Done(brought) = ended? {
                return Ok(brought);
            }
        }
        let message =
            "the store loses its state again and again: look at its log, then run the import again";
        Err(ImportError::new(ImportErrorKind::StoreFailed, message))
    }

    async fn attempt(&self) -> Result<Ended, ImportError> {
        let begun = self.open_file().await?;
        let generation = self.patiently(|| self.store.hello()).await?;
        let notes = Notes::new(self.file.clone(), &generation.id);
        let whole = match notes.whole().await? {
            Some(ImportNote {
                done_at: Some(at), ..
            }) => return Err(already_imported(Some(at))),
            Some(begun) => begun,
            None if begun && !generation.is_fresh => return Err(not_empty()),
            None => {
                if !begun {
                    self.finish_file().await?;
                }
                let note = ImportNote {
                    begun_at: self.import.clock.now_seconds(),
                    done_at: None,
                };
                notes.set_whole(&note).await?;
                note
            }
        };
        let file = self.file.hello().await.map_err(ImportError::of_open_file)?;
        let calls = Calls {
            delivery: self,
            notes: &notes,
            generation: generation.id,
            // A copy of the file has the same name.
            instance: format!("import-{}", file.id),
        };
        let Ended::Done(mut brought) = calls.send_all().await? else {
            return Ok(Ended::Reset);
        };
        brought.changes = self
            .patiently(|| {
                Box::pin(change_log::bring_over(
                    &*self.file,
                    &*self.store,
                    &self.folder,
                ))
            })
            .await?;
        let done_at = Some(self.import.clock.now_seconds());
        notes.set_whole(&ImportNote { done_at, ..whole }).await?;
        Ok(Ended::Done(brought))
    }

    /// Waits until the file is open, and tells whether an import of it has begun.
    async fn open_file(&self) -> Result<bool, ImportError> {
        let start = Instant::now();
        loop {
            match self.file.has_begun_export().await {
                Ok(begun) => return Ok(begun),
                // An import that was dropped may have opened it at the same moment.
                Err(error)
                    if error.kind() == StoreErrorKind::Unreachable && start.elapsed() < OPENING => {
                }
                Err(error) => return Err(ImportError::of_open_file(error)),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Folds what a process that was killed has left in the file. Nobody folds there from then on, so that the records
    /// of all tiers stay as they are.
    async fn finish_file(&self) -> Result<(), ImportError> {
        let file: Arc<dyn Store> = self.file.clone();
        let folder = folder(&file, self.import);
        let start = Instant::now();
        loop {
            folder.fold().await.map_err(ImportError::of_open_file)?;
            let is_done = is_rolled_up(&self.file).await;
            if is_done.map_err(ImportError::of_open_file)? {
                break;
            }
            // A roll-up that was interrupted is overdue after three minutes.
            if start.elapsed() > ROLL_UP_PATIENCE {
                let message = "the minutes of the file cannot be added to its half hours: run the import again";
                return Err(ImportError::new(ImportErrorKind::FileUnusable, message));
            }
            tokio::time::sleep(RETRY).await;
        }
        self.file.sync().await.map_err(ImportError::of_open_file)
    }

    /// Asks the store, again while it fails.
    async fn patiently<'b, T>(
        &self,
        mut ask: impl FnMut() -> BoxFuture<'b, Result<T, StoreError>>,
    ) -> Result<T, ImportError> {
        let (start, mut wait) = (Instant::now(), *BACKOFF.start());
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let is_lasting = error.kind() == StoreErrorKind::Forbidden;
                    if is_lasting || start.elapsed() >= self.import.patience {
                        return Err(ImportError::of_store(error));
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = (2 * wait).min(*BACKOFF.end());
        }
    }

    /// Waits until a call can be read. `false` if the store has lost it.
    async fn until_readable(&self, call: &AppendedCall) -> Result<bool, ImportError> {
        let readable = self.patiently(|| Box::pin(self.folder.until_readable(call)));
        match tokio::time::timeout(self.import.patience, readable).await {
            Ok(readable) => readable,
            Err(_) => {
                let message = "no instance folds the journal: `store.last_error` in their health says why. Run the \
                               import again, it goes on where it was";
                Err(ImportError::new(ImportErrorKind::StoreFailed, message))
            }
        }
    }
}

/// Folds in a store.
fn folder(store: &Arc<dyn Store>, import: &FileImport) -> Folder {
    let max_records = Folder::remembered_records(store.is_in_process(), REMEMBERED_CONTEXTS);
    let (clock, unattended) = (import.clock.clone(), Arc::default());
    Folder::new(store.clone(), clock, random_name(), max_records, unattended)
}

fn already_imported(at: Option<i64>) -> ImportError {
    let message = match at {
        Some(at) => format!("the file was imported into this store at Unix second {at}: nothing was done"),
        None => "the store has calls of an import of this file, or of a copy of it, that this file does not know of: \
                 nothing was done. Go on with the file whose import was begun"
            .to_owned(),
    };
    ImportError::new(ImportErrorKind::AlreadyImported, message)
}

fn not_empty() -> ImportError {
    let message = "the file was imported before, and this store was not empty when its state was made, so that it may have \
                   a part of that. Delete the keys of its prefix, or import into another prefix";
    ImportError::new(ImportErrorKind::StoreNotEmpty, message)
}

fn interrupted_for_long() -> ImportError {
    let message = "the import was interrupted for so long that the store has forgotten which calls it has. Going on could \
                   count some twice: delete the keys of its prefix, or import into another prefix, and run the import again";
    ImportError::new(ImportErrorKind::InterruptedForLong, message)
}

/// The calls of an import into one generation.
struct Calls<'a> {
    delivery: &'a Delivery<'a>,
    notes: &'a Notes,
    generation: String,
    instance: String,
}

impl Calls<'_> {
    /// Sends all calls, and waits until they can be read.
    async fn send_all(&self) -> Result<Ended, ImportError> {
        let precisions = self.delivery.store.precisions();
        let content = Content::read(self.delivery.file.clone(), precisions).await;
        let content = content.map_err(ImportError::of_open_file)?;
        let mut sent = match self.last_taken().await? {
            Answer::Taken(receipt) => Some((self.notes.last_call().await?, receipt)),
            Answer::Lacks(fence) => match self.rewind(fence).await? {
                0 => None,
                fence => Some((fence, Receipt::default())),
            },
            Answer::Reset => return Ok(Ended::Reset),
        };
        loop {
            let last = sent.map_or(0, |(seq, _)| seq);
            let Some((seq, batch, is_new)) = self.next_call(&content, last).await? else {
                match self.settle(sent).await? {
                    Some(Answer::Lacks(fence)) => {
                        sent = Some((self.rewind(fence).await?, Receipt::default()))
                    }
                    Some(Answer::Reset) => return Ok(Ended::Reset),
                    _ => return Ok(Ended::Done(self.brought(last).await?)),
                }
                continue;
            };
            sent = match self.send(seq, batch, is_new).await? {
                Answer::Taken(receipt) => {
                    self.tell(seq).await?;
                    self.wait_for_folder(seq, receipt).await?;
                    Some((seq, receipt))
                }
                Answer::Lacks(fence) => Some((self.rewind(fence).await?, Receipt::default())),
                Answer::Reset => return Ok(Ended::Reset),
            };
        }
    }

    /// The call behind one, and whether it is new: a call that was noted before is composed of the same content. `None`
    /// behind the last one.
    async fn next_call(
        &self,
        content: &Content,
        last: u64,
    ) -> Result<Option<(u64, Batch, bool)>, ImportError> {
        let (seq, now) = (last + 1, self.delivery.import.clock.now_seconds());
        if let Some(note) = self.notes.call(seq).await? {
            let composed = content.compose(&note.from, Some(&note.until), now).await;
            let composed = composed.map_err(ImportError::of_open_file)?;
            return Ok(Some((seq, composed.batch, false)));
        }
        let before = match last {
            0 => None,
            last => self.notes.call(last).await?,
        };
        let (from, brought) = match before {
            Some(note) => (note.until, note.brought),
            None => (Place::first(), ImportedFile::default()),
        };
        if from.is_end() {
            return Ok(None);
        }
        let composed = content.compose(&from, None, now).await;
        let composed = composed.map_err(ImportError::of_open_file)?;
        let batch = self.note(seq, from, brought, composed, now).await?;
        Ok(Some((seq, batch, true)))
    }

    /// Notes a call before it is sent.
    async fn note(
        &self,
        seq: u64,
        from: Place,
        mut brought: ImportedFile,
        composed: Composed,
        at: i64,
    ) -> Result<Batch, ImportError> {
        brought.add(&composed.brought);
        let note = CallNote {
            from,
            until: composed.until,
            at,
            brought,
        };
        self.notes.set_call(seq, &note).await?;
        Ok(composed.batch)
    }

    /// Sends a call until the store answers.
    async fn send(&self, seq: u64, batch: Batch, is_new: bool) -> Result<Answer, ImportError> {
        let call = self.call(seq, seq - 1, batch);
        let (start, mut sent) = (Instant::now(), 0);
        loop {
            let store = &self.delivery.store;
            let appended = self.delivery.patiently(|| {
                sent += 1;
                store.append(&call)
            });
            match appended.await? {
                Appended::Duplicate(_) if is_new && sent == 1 => {
                    return Err(already_imported(None));
                }
                Appended::Full if start.elapsed() < self.delivery.import.patience => {
                    // Nobody may be there to fold.
                    let _ = self.delivery.folder.fold().await;
                    tokio::time::sleep(RETRY).await;
                }
                appended => return self.answer(appended),
            }
        }
    }

    fn call(&self, seq: u64, previous: u64, batch: Batch) -> FencedBatch {
        FencedBatch {
            generation: self.generation.clone(),
            instance: self.instance.clone(),
            seq,
            previous,
            batch,
        }
    }

    fn answer(&self, appended: Appended) -> Result<Answer, ImportError> {
        Ok(match appended {
            Appended::Done(receipt) | Appended::Duplicate(receipt) => Answer::Taken(receipt),
            Appended::Gap { fence } => Answer::Lacks(fence),
            Appended::Reset => Answer::Reset,
            Appended::Full => {
                let message = "the journal is full (`journal_bytes`), because no instance folds it: `store.last_error` in \
                               their health says why. Run the import again, it goes on where it was";
                return Err(ImportError::new(ImportErrorKind::StoreFailed, message));
            }
            Appended::Garbled => return Err(interrupted_for_long()),
        })
    }

    /// Asks which calls the store has, if some were noted.
    async fn last_taken(&self) -> Result<Answer, ImportError> {
        let last = self.notes.last_call().await?;
        if last == 0 {
            return Ok(Answer::Lacks(0));
        }
        // It names itself as the previous one, so that the store never appends it.
        let nothing = Batch::new(self.delivery.store.precisions().clone());
        let question = self.call(last, last, nothing);
        let store = &self.delivery.store;
        self.answer(self.delivery.patiently(|| store.append(&question)).await?)
    }

    /// The call from which on the store lacks all: it was in doubt, or a failover has lost it.
    async fn rewind(&self, fence: u64) -> Result<u64, ImportError> {
        let last = self.notes.last_call().await?;
        let noted_at = self.notes.call(last.max(1)).await?.map(|note| note.at);
        let now = self.delivery.import.clock.now_seconds();
        let is_forgotten = noted_at.is_some_and(|at| (now - at).abs() >= FENCE_KNOWN_FOR);
        match fence == 0 && is_forgotten {
            true => Err(interrupted_for_long()),
            false => Ok(fence),
        }
    }

    /// What was brought over with a call and those before it.
    async fn brought(&self, seq: u64) -> Result<ImportedFile, ImportError> {
        let note = self.notes.call(seq).await?;
        Ok(note.map(|note| note.brought).unwrap_or_default())
    }

    /// Tells the user how far it is.
    async fn tell(&self, seq: u64) -> Result<(), ImportError> {
        if let Some(on_progress) = &self.delivery.import.on_progress {
            on_progress(&self.brought(seq).await?);
        }
        Ok(())
    }

    fn appended(&self, seq: u64, receipt: Receipt) -> AppendedCall {
        AppendedCall {
            generation: self.generation.clone(),
            instance: self.instance.clone(),
            seq,
            position: receipt.position,
        }
    }

    /// Waits while much is not folded. A call that was lost is found out by the next one.
    async fn wait_for_folder(&self, seq: u64, receipt: Receipt) -> Result<(), ImportError> {
        let unfolded = receipt
            .position
            .offset
            .saturating_sub(receipt.folded.offset);
        if unfolded > MAX_UNFOLDED {
            let call = self.appended(seq, receipt);
            self.delivery.until_readable(&call).await?;
        }
        Ok(())
    }

    /// Waits until the last call can be read. `None` if it can, or else what the store has.
    async fn settle(&self, sent: Option<(u64, Receipt)>) -> Result<Option<Answer>, ImportError> {
        let Some((seq, receipt)) = sent else {
            return Ok(None);
        };
        if self
            .delivery
            .until_readable(&self.appended(seq, receipt))
            .await?
        {
            return Ok(None);
        }
        Ok(Some(self.last_taken().await?))
    }
}
