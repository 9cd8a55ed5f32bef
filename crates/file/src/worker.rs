//! The thread that works on the file.

mod path;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, absolute};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use redb::{Database, StorageBackend, TableDefinition};

use self::path::CHECK_PATH_EVERY;
use super::Report;
use super::disk::{Disk, HEADER, table_bytes};
use super::fields::{Definition, fields_of, take_failure};
use super::kept::{self, Earlier};
use super::options::FileOptions;
use super::trouble::Trouble;
use tower_pulse_core::clock::Tick;
use tower_pulse_core::error::{StoreError, StoreErrorKind};
use tower_pulse_core::random::short_random_name;
use tower_pulse_core::store::in_process::{Bound, State, StateAccess, Work};
use tower_pulse_core::task::lock;

/// The file is made durable early once this many bytes of entries are not durable. After a failure, the instances must
/// send these bytes again.
const MOST_VOLATILE: u64 = 512 * 1024;
/// A due commit waits until the thread has been idle for this long, so that a whole flush becomes durable at once.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest time after `durable_every` for which a due commit waits.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// A commit is due this much before `durable_every` has passed, because two flushes may be closer together than the
/// flush interval.
const JITTER: Duration = Duration::from_millis(100);
/// The interval of commits without new entries. Such a commit stores data derived from earlier entries, and the current
/// time, which shows that the process is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(5);
const SHORTEST_RETRY: Duration = Duration::from_secs(1);
/// The longest time until the file is tried again.
const LONGEST_RETRY: Duration = Duration::from_secs(16);
/// Once another process has held the file for this long, the message says so.
const HANDOVER: Duration = Duration::from_secs(60);
/// The shortest time between two processes that counts as a gap in recording, in seconds. An idle process commits only
/// every [`ALIVE_EVERY`], so a shorter time may not be a gap.
const SHORTEST_GAP: i64 = 10;
const MAX_GAPS: usize = 1_000;
/// Seconds by which the clock may go back without a warning.
const CLOCK_ALLOWED: i64 = 60;
/// The size of the cache of the file's pages, in bytes.
const FILE_CACHE: usize = 16 * 1024 * 1024;
/// The size of the test write that finds out whether there is room, in bytes.
const PROBE_BYTES: usize = 256 * 1024;
const PROBE: Definition = TableDefinition::new("probe");

pub(super) struct Worker {
    options: FileOptions,
    requests: Receiver<(StateAccess, Work)>,
    report: Arc<Report>,
    open: Option<Open>,
    /// The path of the store: the configured path, or a path beside it if another file is at the configured path.
    path: Arc<Path>,
    /// The file, once it has been opened.
    held: Option<Disk>,
    /// When the store last checked whether the file is at its path, and the time until the next check.
    path_checked: Tick,
    check_path_after: Duration,
    /// When this process began to record, in Unix seconds.
    started: i64,
    earlier: Earlier,
    /// Why the file cannot be written, and since when.
    trouble: Option<(Trouble, Tick)>,
    /// When the file was last tried, and the time until the next attempt.
    tried: Tick,
    retry: Duration,
    times_full: u32,
    /// Whether the content is checked when the file is next opened.
    must_check: bool,
}

struct Open {
    state: State,
    database: Database,
    /// Whether a commit has succeeded since the file was opened.
    is_writable: bool,
    is_dirty: bool,
    committed: Tick,
    /// The end of the journal at the last commit.
    committed_head: u64,
    /// When the last commit of entries began, so that a slow commit does not delay the next one. `None` at first: the
    /// first entries are committed at once.
    commit_began: Option<Tick>,
}

impl Open {
    /// The bytes of entries that are not durable.
    fn volatile_bytes(&self) -> u64 {
        self.state.kept.journal.head.offset - self.committed_head
    }

    fn note_durable(&mut self, now: Tick, report: &Report) {
        let fences = self.state.kept.fences.iter();
        *lock(&report.durable) = fences
            .map(|(instance, fence)| (instance.clone(), fence.seq))
            .collect();
        self.is_dirty = false;
        self.committed = now;
        self.committed_head = self.state.kept.journal.head.offset;
    }
}

impl Worker {
    pub(super) fn new(
        mut options: FileOptions,
        requests: Receiver<(StateAccess, Work)>,
        report: Arc<Report>,
    ) -> Self {
        // The path is made absolute, because a service may change its working directory.
        options.path = absolute(&options.path).map_or(options.path, Into::into);
        Self {
            path: options.path.clone(),
            held: None,
            path_checked: options.clock.tick(),
            check_path_after: CHECK_PATH_EVERY,
            tried: options.clock.tick(),
            started: options.clock.now_seconds(),
            options,
            requests,
            report,
            open: None,
            earlier: Earlier::default(),
            trouble: None,
            retry: SHORTEST_RETRY,
            times_full: 0,
            must_check: true,
        }
    }

    /// Runs until the store is dropped.
    pub(super) fn run(mut self) {
        self.guarded(Self::attempt);
        loop {
            let request = match self.requests.recv_timeout(self.until_due()) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.guarded(|worker| {
                let is_idle = request.is_none();
                if let Some((access, work)) = request {
                    worker.work(access, work);
                }
                worker.keep_up(is_idle);
            });
        }
        self.guarded(|worker| {
            worker.commit_changes();
            worker.check_path();
        });
    }

    /// Runs `work`, and continues if it panics: the database may panic if its pages contradict each other.
    fn guarded(&mut self, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.fail(Trouble::Panicked);
        }
    }

    fn since(&self, tick: Tick) -> Duration {
        self.options.clock.since(tick)
    }

    /// The time until the next work is due, at most [`LONGEST_RETRY`], because a test may move the clock.
    fn until_due(&self) -> Duration {
        let left = match &self.open {
            Some(open) if open.is_writable => self.until_commit(open),
            _ => self.retry.saturating_sub(self.since(self.tried)),
        };
        let checked = self.since(self.path_checked);
        let check = self.check_path_after.saturating_sub(checked);
        left.min(check).clamp(PAUSE, LONGEST_RETRY)
    }

    fn until_commit(&self, open: &Open) -> Duration {
        if open.volatile_bytes() == 0 {
            return ALIVE_EVERY.saturating_sub(self.since(open.committed));
        }
        let every = self.options.durable_every - JITTER;
        let until = |began| every.saturating_sub(self.since(began));
        open.commit_began.map_or(Duration::ZERO, until)
    }

    /// Does the work that is due. `is_idle` means that no request came while the thread waited.
    fn keep_up(&mut self, is_idle: bool) {
        if self.since(self.path_checked) >= self.check_path_after {
            self.check_path();
        }
        let is_due = match &self.open {
            Some(open) if open.is_writable => {
                let is_due = self.until_commit(open).is_zero();
                let most = self.options.durable_every + LONGEST_WAIT;
                // The first entries do not wait for the rest of their flush: they may have waited for the file already.
                let has_waited = open.commit_began.is_none_or(|at| self.since(at) >= most);
                let must_not_wait = is_idle || has_waited;
                is_due && must_not_wait || open.volatile_bytes() >= MOST_VOLATILE
            }
            _ => {
                if self.since(self.tried) >= self.retry {
                    self.attempt();
                }
                return;
            }
        };
        if is_due {
            self.commit();
        }
    }

    fn work(&mut self, access: StateAccess, work: Work) {
        if access == StateAccess::Durable {
            self.commit_changes();
            self.check_path();
        }
        // A file without a name is deleted when this process ends. So its data is not durable until a check of the path
        // has succeeded.
        let has_path = access != StateAccess::Durable || self.check_path_after == CHECK_PATH_EVERY;
        let is_usable =
            |open: &&mut Open| has_path && (access == StateAccess::Read || open.is_writable);
        let Some(open) = self.open.as_mut().filter(is_usable) else {
            work(Err(self.error()));
            return;
        };
        open.is_dirty |= access == StateAccess::Write;
        work(Ok(&mut open.state));
        if let Some(trouble) = take_failure(&mut open.state) {
            self.fail(trouble);
        }
    }

    fn error(&self) -> StoreError {
        match &self.trouble {
            Some((trouble, _)) => trouble.to_error(&self.path),
            None => {
                let moved = lock(&self.report.moved).clone();
                let message = moved.unwrap_or_else(|| "the file is not open yet".to_owned());
                StoreError::new(StoreErrorKind::Unreachable, message)
            }
        }
    }

    fn commit_changes(&mut self) {
        if self.open.as_ref().is_some_and(|open| open.is_dirty) {
            self.commit();
        }
    }

    fn commit(&mut self) {
        let (now, began) = (self.options.clock.now_seconds(), self.options.clock.tick());
        let Some(open) = &mut self.open else { return };
        if let Err(error) = kept::commit(&mut open.state, &open.database, now) {
            self.fail(error.into());
            return;
        }
        if open.volatile_bytes() > 0 {
            open.commit_began = Some(began);
        }
        open.note_durable(self.options.clock.tick(), &self.report);
        self.bound();
    }

    /// Limits the tables to the bytes that the file can hold.
    fn bound(&mut self) {
        let Some(open) = &mut self.open else { return };
        let len = self.held.as_ref().and_then(|held| held.len().ok());
        let len = len.map_or(HEADER, |len| HEADER + len);
        let bytes = table_bytes(len, self.options.file_bytes, self.times_full);
        open.state.tables.bound = Bound::All(bytes);
        if open.state.tables.removed_for_room > 0 {
            self.note(format!(
                "{} is as large as `file_bytes` = {} allows: the oldest minutes, then the oldest half hours are \
                 removed before their retention ends; raise `file_bytes`",
                self.path.display(),
                self.options.file_bytes
            ));
        }
    }

    /// Adds a message for the operator, once.
    fn note(&self, note: String) {
        let mut notes = lock(&self.report.notes);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Opens the file if it is not open, and finds out whether it can be written.
    fn attempt(&mut self) {
        self.tried = self.options.clock.tick();
        if self.open.is_none() {
            self.reopen();
        }
        self.bound();
        let now = self.options.clock.now_seconds();
        let Some(open) = &mut self.open else { return };
        match probe(open, now) {
            Ok(()) => {
                open.is_writable = true;
                open.note_durable(self.options.clock.tick(), &self.report);
                self.retry = SHORTEST_RETRY;
                self.trouble = None;
                *lock(&self.report.trouble) = None;
            }
            Err(trouble) => self.fail(trouble),
        }
    }

    /// Abandons changes that are not durable, and opens the file again for readers.
    fn fail(&mut self, trouble: Trouble) {
        self.tried = self.options.clock.tick();
        if self.is_lost() {
            self.check_path();
            return;
        }
        self.close();
        if self.has_name() {
            // The device may have been disconnected, so the file is opened again. A file without a name cannot be
            // opened again, so it stays open.
            self.held = None;
        }
        self.times_full += u32::from(matches!(trouble, Trouble::Full));
        self.must_check |= trouble.is_damage() || matches!(trouble, Trouble::Panicked);
        self.explain(trouble);
        self.reopen();
    }

    fn reopen(&mut self) {
        match self.open_file() {
            Ok(open) => self.open = Some(open),
            Err(trouble) => self.explain(trouble),
        }
    }

    /// Closes the file, and abandons changes that are not durable.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.earlier = Earlier {
                heartbeats: open.state.heartbeats.clone(),
                writes: open.state.tables.writes,
            };
            // Dropping a transaction that is half done may panic once more.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(open)));
        }
    }

    fn explain(&mut self, trouble: Trouble) {
        let path = &self.path;
        let mut message = trouble.in_words(path);
        let since = match &self.trouble {
            Some((before, since)) if before.in_words(path) == message => *since,
            _ => self.options.clock.tick(),
        };
        let is_held = matches!(trouble, Trouble::Held(_));
        if is_held && self.since(since) >= HANDOVER {
            message = format!("for more than a minute, {message}");
        }
        let is_new = lock(&self.report.trouble).as_ref() != Some(&message);
        self.retry = match is_held || is_new {
            true => SHORTEST_RETRY,
            false => (2 * self.retry).min(LONGEST_RETRY),
        };
        *lock(&self.report.trouble) = Some(message);
        self.trouble = Some((trouble, since));
    }

    /// Opens the file. A damaged file is renamed, and a new file replaces it.
    fn open_file(&mut self) -> Result<Open, Trouble> {
        match self.open_as_it_is() {
            Err(trouble) if trouble.is_damage() && self.has_name() => {
                self.held = None;
                let aside = self.free_name(".damaged-");
                std::fs::rename(&*self.path, &aside)?;
                self.note(format!(
                    "{}: it was renamed to {}, and a new file was begun",
                    trouble.in_words(&self.path),
                    aside.display()
                ));
                self.open_as_it_is()
            }
            opened => opened,
        }
    }

    fn open_as_it_is(&mut self) -> Result<Open, Trouble> {
        let (io, most_bytes) = (self.options.io.clone(), self.options.file_bytes);
        let held = match &self.held {
            Some(held) => held.clone(),
            None => Disk::open(&self.path, io, most_bytes)?,
        };
        let (path, clock, disk) = (&self.path, &self.options.clock, held.clone());
        let now = clock.now_seconds();
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let mut builder = redb::Builder::new();
            builder.set_cache_size(FILE_CACHE);
            builder.set_check_integrity_on_open(self.must_check);
            let database = builder.create_with_backend(disk);
            let database = database.map_err(redb::Error::from)?;
            let generation = format!("file-{}", short_random_name());
            let loaded = kept::load(path, &database, generation, now, &self.earlier)?;
            Ok::<_, Trouble>((database, loaded))
        }));
        let contradiction = || Trouble::Damaged("its pages contradict each other".to_owned());
        let (database, (mut state, written_at)) = opened.map_err(|_| contradiction())??;
        if let Some(written_at) = written_at
            && self.started.saturating_sub(written_at) >= SHORTEST_GAP
        {
            state.kept.gaps.push((written_at, self.started));
            let extra = state.kept.gaps.len().saturating_sub(MAX_GAPS);
            state.kept.gaps.drain(..extra);
        }
        let ahead = written_at.map_or(0, |at| at.saturating_sub(now));
        if ahead > CLOCK_ALLOWED {
            self.note(format!(
                "{} was last written at a time that is ahead of this clock: set the clock. Until the clock reaches \
                 that time, new samples are added to existing slices, and no changes are detected",
                path.display()
            ));
        }
        self.must_check = false;
        self.held = Some(held);
        Ok(Open {
            committed: clock.tick(),
            committed_head: state.kept.journal.head.offset,
            commit_began: None,
            is_writable: false,
            is_dirty: false,
            state,
            database,
        })
    }
}

/// Commits a test write and removes it again. A disk with room for the test write has room for the next commits.
fn probe(open: &mut Open, now: i64) -> Result<(), Trouble> {
    let removed = open.state.tables.retain(&open.state.kept.rolled, now);
    if removed.is_err() {
        let failure = take_failure(&mut open.state);
        return Err(failure.unwrap_or(Trouble::Panicked));
    }
    Ok(commit_probe(open, now)?)
}

fn commit_probe(open: &mut Open, now: i64) -> Result<(), redb::Error> {
    let bytes = vec![0; PROBE_BYTES];
    let transaction = fields_of(&mut open.state)?.transaction()?;
    transaction.open_table(PROBE)?.insert(&[][..], &*bytes)?;
    kept::commit(&mut open.state, &open.database, now)?;
    let transaction = fields_of(&mut open.state)?.transaction()?;
    transaction.open_table(PROBE)?.remove(&[][..])?;
    kept::commit(&mut open.state, &open.database, now)
}
