//! Folding: one instance of the fleet at a time, the folder, reads the entries that all instances have appended
//! to the journal, merges them, and writes the book's keys and the records.
//!
//! Entries are folded in *rounds*. A round covers all entries that are not folded yet, up to a bound. It is
//! written in steps, each of which covers some partitions of the names. [`journal`](crate::store::journal)
//! explains why each step takes effect once, whatever happens between two steps; the lease only saves two
//! folders from doing the same work. The records that a folder remembers belong to a version of the journal's
//! state: when the state has another version, the folder forgets them.
//!
//! Samples are added to the records of their minute only. Before a round, minutes that have ended are *rolled
//! up* into the coarser tiers. Samples that arrive for a minute after that are added to all tiers in the step
//! that folds them.
//!
//! The fold knows no table: each feature merges what a round changes in its own, and looks after them between
//! rounds. Read `round`, `feature`, one file of `features`, then `gather` (reading entries), `plan` and `steps`
//! (writing), `lease` and `ground` (what holds meanwhile).
//!
//! A new aggregate is added in three places, none of which is in this folder: see
//! *A new aggregate* in `ARCHITECTURE.md`.

mod additions;
mod conditional;
mod feature;
mod features;
mod gather;
mod ground;
mod history;
mod lease;
mod pace;
mod plan;
mod round;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use self::feature::Feature;
use self::features::FoldLimits;
use self::ground::Ground;
use self::lease::Lease;
use self::pace::Pace;
use self::plan::Outcome;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::store::StoreFuture;
use crate::store::interrupted::Interrupted;
use crate::store::journal::Journal;
use crate::store::{AppendedCall, Position, Readable, Store};
use crate::task::{DENIED_WAIT, Stopped, boxed, lock};

/// How often the journal is read. This is real time even under a manual clock, as entries carry their own stamps.
const INTERVAL: Duration = Duration::from_millis(500);
/// The journal is read this long after the turn of the second, when most instances have just flushed.
const AFTER_TURN: Duration = Duration::from_millis(150);
/// Waits after an error, doubled each time.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(2);
/// Wait until an instance looks again whether entries still wait for a newer version of this crate. These attempts count
/// for how long they wait.
const NEWER_WAIT: Duration = Duration::from_secs(5);
/// Interval at which the fences of ended instances are removed.
const FENCE_INTERVAL: Duration = Duration::from_secs(3_600);
/// Waits until a call is checked for readability again, doubled each time.
const RECHECK: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(5)..=Duration::from_millis(100);

/// Records that a folder remembers for each context that an instance may have: the fleet may have
/// more of them than one instance.
const FOLDER_RECORDS_PER_CONTEXT: usize = 3;

/// Folds the journal of a store, while no other instance does.
pub struct Folder {
    store: Arc<dyn Store>,
    clock: Clock,
    /// The name of this instance in the lease.
    instance: String,
    limits: FoldLimits,
    pace: Pace,
    /// The lease, taken out of the slot while a step is under way: if the future is dropped then, the slot
    /// stays empty and the next call begins by acquiring the lease.
    held: tokio::sync::Mutex<Option<Held>>,
    /// Notified when entries wait and no instance seems to fold.
    unattended: Arc<Notify>,
    status: Mutex<FoldStatus>,
}

/// The lease, and what the features remember under it.
struct Held {
    lease: Lease,
    features: Vec<Box<dyn Feature>>,
}

impl Held {}

/// How folding is doing in this instance.
#[derive(Clone, Debug, Default)]
pub struct FoldStatus {
    /// Whether this instance was the folder at its last attempt.
    pub is_folder: bool,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// A warning about another instance that asks for a longer history, if one does.
    pub history: Option<String>,
}

/// Which instance folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attendance {
    /// This instance, and nothing is left to fold.
    Mine,
    /// Another instance, or there is no journal yet.
    Others,
    /// An instance of a newer version of this crate, for which entries wait.
    Newer,
}

impl Folder {
    /// Records that an instance with this many contexts remembers from one round to the next. A store in this process
    /// has all of them at hand.
    pub fn remembered_records(is_in_process: bool, max_contexts: usize) -> usize {
        match is_in_process {
            true => 0,
            false => FOLDER_RECORDS_PER_CONTEXT * max_contexts,
        }
    }

    /// A folder that remembers up to `max_records` records from one round to the next.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        instance: String,
        max_records: usize,
        unattended: Arc<Notify>,
    ) -> Self {
        let pace = match store.is_in_process() {
            true => Pace::in_process(),
            false => Pace::on_server(),
        };
        Self {
            store,
            clock,
            instance,
            limits: FoldLimits {
                records: max_records,
                profiles: usize::MAX,
                history_days: None,
            },
            pace,
            held: tokio::sync::Mutex::default(),
            unattended,
            status: Mutex::default(),
        }
    }

    /// Makes each step cover about this many contexts, for tests; otherwise a step adapts to the server's speed.
    pub fn with_step(mut self, contexts: Option<usize>) -> Self {
        self.pace.step_contexts = contexts;
        self
    }

    /// Asks for so many days of history.
    pub fn with_history(mut self, days: Option<u32>) -> Self {
        self.limits.history_days = days;
        self
    }

    /// Gives no further context a profile where the store has so many.
    pub fn with_profiles(mut self, most: usize) -> Self {
        self.limits.profiles = most;
        self
    }

    /// How folding is doing.
    pub fn status(&self) -> FoldStatus {
        lock(&self.status).clone()
    }

    /// Folds all entries of the journal, unless another instance does.
    ///
    /// Cancel safe: the next call finds out whether a step that was under way took effect.
    pub async fn fold(&self) -> Result<Attendance, StoreError> {
        self.fold_until(None).await
    }

    /// Folds entries up to `position`, or all of them.
    async fn fold_until(&self, position: Option<Position>) -> Result<Attendance, StoreError> {
        let journal = self.store.journal();
        let result = self.boxed_rounds(journal, position).await;
        let mut status = lock(&self.status);
        match &result {
            Ok(attendance) => {
                status.is_folder = *attendance == Attendance::Mine;
                status.last_error = None;
            }
            Err(error) => {
                status.last_error = Some(error.to_string());
            }
        }
        result
    }

    /// Boxed, as several modules await it: see [`BoxFuture`].
    #[inline(never)]
    fn boxed_rounds<'a>(
        &'a self,
        journal: &'a dyn Journal,
        position: Option<Position>,
    ) -> StoreFuture<'a, Attendance> {
        Box::pin(self.fold_rounds(journal, position))
    }

    async fn fold_rounds(
        &self,
        journal: &dyn Journal,
        position: Option<Position>,
    ) -> Result<Attendance, StoreError> {
        let turn = match journal.turn() {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        let mut slot = match position {
            Some(_) if turn.is_none() => match self.held.try_lock() {
                Ok(slot) => slot,
                // Another task of this instance is folding.
                Err(_) => return Ok(Attendance::Mine),
            },
            _ => self.held.lock().await,
        };
        // The first losses may be this instance's own doing: a step that took effect although its answer was
        // lost changed the version.
        let mut losses = 0;
        loop {
            let mut held = match slot.take() {
                Some(held) => held,
                None => match self.acquire(journal).await? {
                    Ok(held) => held,
                    Err(attendance) => return Ok(attendance),
                },
            };
            // Entries after `position` are left for the next call, or this one might never end.
            let low = held.lease.progress.low;
            if position.is_some_and(|position| low.offset >= position.offset) {
                *slot = Some(held);
                return Ok(Attendance::Mine);
            }
            let own_now = self.clock.now_seconds();
            let mut ground = Ground {
                journal,
                instance: &self.instance,
                lease: &mut held.lease,
            };
            match boxed(ground.next_round(&mut held.features, own_now)).await {
                // Entries that arrived meanwhile are left for the next read: in a large fleet there always are
                // some, and a larger round costs less per entry.
                Ok(outcome @ (Outcome::Folded | Outcome::CaughtUp)) => {
                    held.features
                        .iter_mut()
                        .for_each(|feature| feature.forget());
                    *slot = Some(held);
                    if let Outcome::CaughtUp = outcome {
                        return Ok(Attendance::Mine);
                    }
                }
                Ok(Outcome::Idle) => {
                    *slot = Some(held);
                    return Ok(Attendance::Mine);
                }
                Ok(Outcome::Newer(entry)) => {
                    ground.wait_for_newer(&entry).await?;
                    journal.release(&self.instance).await?;
                    return Ok(Attendance::Newer);
                }
                Err(Interrupted::Lost) => {
                    losses += 1;
                    if losses > 2 {
                        return Ok(Attendance::Others);
                    }
                }
                Err(Interrupted::Failed(error)) => return Err(error),
            }
        }
    }

    /// Acquires the lease, or tells who folds instead.
    async fn acquire(&self, journal: &dyn Journal) -> Result<Result<Held, Attendance>, StoreError> {
        let has_context_counters = self.store.has_context_counters();
        let lease = Lease::acquire(journal, &self.instance, &self.pace, has_context_counters);
        Ok(lease.await?.map(|lease| Held {
            lease,
            features: features::all(self.limits),
        }))
    }

    /// Waits until a call can be read, and folds it if no other instance does. `false` when the store has
    /// lost the call.
    pub async fn until_readable(&self, call: &AppendedCall) -> Result<bool, StoreError> {
        let mut wait = *RECHECK.start();
        loop {
            self.fold_until(Some(call.position)).await?;
            let readable = self.store.readable(call);
            match readable.await? {
                Readable::Yes => return Ok(true),
                Readable::Lost => return Ok(false),
                Readable::NotYet => {}
            }
            tokio::time::sleep(wait).await;
            wait = (2 * wait).min(*RECHECK.end());
        }
    }

    /// Gives up the lease, so that another instance can fold at once.
    pub async fn release(&self) -> Result<(), StoreError> {
        let journal = self.store.journal();
        let mut slot = self.held.lock().await;
        if slot.take().is_some() {
            journal.release(&self.instance).await?;
        }
        Ok(())
    }

    /// Folds at intervals while this instance holds the lease, until the `Pulse` shuts down. Tries to acquire
    /// the lease at the start and when entries wait.
    pub async fn fold_at_intervals(self: Arc<Self>, mut stopped: Stopped) {
        let journal = self.store.journal();
        let mut backoff = *BACKOFF.start();
        // No wait at first: there may be a journal that no instance folds.
        let mut wait = Some(Duration::ZERO);
        let (mut fences_at, mut admission) = (Instant::now(), stopped.admission());
        loop {
            let waiting = async {
                match wait {
                    Some(wait) => {
                        tokio::select! {
                            () = tokio::time::sleep(wait) => {}
                            () = self.unattended.notified(), if backoff == *BACKOFF.start() => {}
                        }
                    }
                    None => self.unattended.notified().await,
                }
            };
            if stopped.or(waiting).await.is_none() {
                return;
            }
            let Some(result) = stopped.or(self.fold()).await else {
                return;
            };
            if admission.denies(&result) {
                // Entries that wait do not make it any faster.
                let turn = admission.wait(|| self.clock.sleep(DENIED_WAIT));
                if stopped.or(turn).await.is_none() {
                    return;
                }
                (wait, backoff) = (Some(Duration::ZERO), *BACKOFF.start());
                continue;
            }
            (wait, backoff) = match result {
                Ok(Attendance::Mine) => {
                    if fences_at.elapsed() > FENCE_INTERVAL {
                        fences_at = Instant::now();
                        let removing = self.remove_fences(journal);
                        if stopped.or(removing).await.is_none() {
                            return;
                        }
                    }
                    // In one process, each flush tells that it has appended.
                    let wait = (!self.store.is_in_process()).then(|| self.until_next());
                    (wait, *BACKOFF.start())
                }
                Ok(Attendance::Others) => (None, *BACKOFF.start()),
                Ok(Attendance::Newer) => (Some(NEWER_WAIT), *BACKOFF.start()),
                Err(_) => {
                    let wait = backoff.mul_f64(0.5 + fastrand::f64() / 2.0);
                    (Some(wait), (2 * backoff).min(*BACKOFF.end()))
                }
            };
        }
    }

    async fn remove_fences(&self, journal: &dyn Journal) {
        let version = {
            let slot = self.held.lock().await;
            slot.as_ref().map(|held| held.lease.version().to_owned())
        };
        if let Some(version) = version
            && let Err(error) = journal.remove_fences(&version).await
        {
            tracing::debug!(%error, "fences of ended instances could not be removed, and stay for another hour");
        }
    }

    /// The wait until the journal is read next.
    fn until_next(&self) -> Duration {
        let interval = INTERVAL.as_nanos() as i64;
        let since_turn = self.clock.now_nanos() - AFTER_TURN.as_nanos() as i64;
        let wait = interval - since_turn.rem_euclid(interval);
        Duration::from_nanos(wait.unsigned_abs())
    }
}
