//! How the journal becomes what is read: one instance of the fleet at a time reads entries that all have
//! appended, merges them, and writes the book's keys and the records.
//!
//! Entries are folded in *rounds*: all that is not folded yet, up to a bound. A round is written in
//! steps, each of which covers some partitions of the names. [`journal`](crate::store::journal) tells why
//! each of them takes effect once, whatever happens between any two; the lease only saves two folders from
//! working in vain. Records that the folder remembers belong to a version of the journal's state: when that
//! is not its own any more, it forgets them.
//!
//! Requests are added to the records of their minute only. Before a round, minutes that have ended are *rolled
//! up* into the coarser tiers; what comes for them later is added to all tiers in the step that folds it.
//!
//! A new aggregate is added in three places, none of which is here: see
//! [the guide](crate::guide::new_aggregate).

mod lease;
mod roll_up;
mod round;

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use self::lease::Lease;
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::journal::Journal;
use crate::store::{Position, Readable, Store};
use crate::task::{Stopped, lock};

/// How often the journal is looked at. In real time, as what it moves has its own time in it.
const INTERVAL: Duration = Duration::from_millis(500);
/// The looks come this long after the turn of the second, when most instances have just flushed.
const AFTER_TURN: Duration = Duration::from_millis(150);
/// Waits after an error, doubled each time.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(2);
/// Wait when the server does not let us in: that takes a person.
const FORBIDDEN_WAIT: Duration = Duration::from_secs(30);
/// Fences are looked through this often.
const FENCE_INTERVAL: Duration = Duration::from_secs(3_600);
/// Waits between looks whether a call can be read, doubled each time.
const LOOK_AGAIN: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(5)..=Duration::from_millis(100);

/// Folds the journal of a store, while no other instance does.
pub(crate) struct Folder {
    store: Arc<dyn Store>,
    clock: Clock,
    /// Its name in the lease.
    instance: String,
    /// The most records that it remembers.
    max_records: usize,
    /// How many contexts a step covers, in tests; else as many as the server's time allows.
    step_contexts: Option<usize>,
    /// What it holds. Taken out while a step is under way: a future that is dropped then leaves
    /// nothing behind, and the next one begins by acquiring the lease.
    lease: tokio::sync::Mutex<Option<Lease>>,
    /// Told when entries wait and nobody seems to fold.
    unattended: Arc<Notify>,
    status: Mutex<FoldStatus>,
}

/// How folding is doing in this instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoldStatus {
    /// Whether it folded when it last tried.
    pub(crate) is_folder: bool,
    /// Why it could not.
    pub(crate) last_error: Option<String>,
}

/// Who folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attendance {
    /// This instance, and nothing is left to fold.
    Mine,
    /// Another one, or nobody can.
    Others,
}

impl Folder {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        instance: String,
        max_records: usize,
        unattended: Arc<Notify>,
    ) -> Self {
        Self {
            store,
            clock,
            instance,
            max_records,
            step_contexts: None,
            lease: tokio::sync::Mutex::default(),
            unattended,
            status: Mutex::default(),
        }
    }

    /// Covers about this many contexts with each step.
    pub(crate) fn with_step(mut self, contexts: Option<usize>) -> Self {
        self.step_contexts = contexts;
        self
    }

    pub(crate) fn status(&self) -> FoldStatus {
        lock(&self.status).clone()
    }

    /// Folds all that is in the journal, unless another instance does.
    ///
    /// Cancel safe: a step that was under way is found out about by the next call.
    pub(crate) async fn fold(&self) -> Result<Attendance, StoreError> {
        self.fold_until(None).await
    }

    /// The same, but only as far as `position`.
    async fn fold_until(&self, position: Option<Position>) -> Result<Attendance, StoreError> {
        let Some(journal) = self.store.journal() else {
            return Ok(Attendance::Mine);
        };
        let result = self.fold_rounds(journal, position).await;
        let mut status = lock(&self.status);
        match &result {
            Ok(attendance) => {
                status.is_folder = *attendance == Attendance::Mine;
                status.last_error = None;
            }
            Err(error) => {
                if status.last_error.is_none() {
                    tracing::warn!(%error, "folding failed, and is tried again");
                }
                status.last_error = Some(error.to_string());
            }
        }
        result
    }

    async fn fold_rounds(
        &self,
        journal: &dyn Journal,
        position: Option<Position>,
    ) -> Result<Attendance, StoreError> {
        let mut slot = match position {
            None => self.lease.lock().await,
            Some(_) => match self.lease.try_lock() {
                Ok(slot) => slot,
                // It is being folded.
                Err(_) => return Ok(Attendance::Mine),
            },
        };
        // Each turn that loses the lease may have lost it to itself: a step that was done unheard.
        let mut lost = 0;
        loop {
            let mut lease = match slot.take() {
                Some(lease) => lease,
                None => match Lease::acquire(journal, &self.instance, self.step_contexts).await? {
                    Some(lease) => lease,
                    None => return Ok(Attendance::Others),
                },
            };
            // What comes while it folds is for the next time, or there might be no end to it.
            if position.is_some_and(|position| lease.progress.low.offset >= position.offset) {
                *slot = Some(lease);
                return Ok(Attendance::Mine);
            }
            match lease.next_round(journal, &self.instance).await? {
                round::Outcome::Folded => {
                    lease.forget_ended(self.max_records);
                    *slot = Some(lease);
                }
                // What has come meanwhile is for the next look: in a large fleet there always is some, and
                // the larger a round, the less it costs.
                round::Outcome::CaughtUp => {
                    lease.forget_ended(self.max_records);
                    *slot = Some(lease);
                    return Ok(Attendance::Mine);
                }
                round::Outcome::Idle => {
                    *slot = Some(lease);
                    return Ok(Attendance::Mine);
                }
                round::Outcome::Lost => {
                    lost += 1;
                    if lost > 2 {
                        return Ok(Attendance::Others);
                    }
                }
                round::Outcome::Newer => {
                    journal.release(&self.instance).await?;
                    return Ok(Attendance::Others);
                }
            }
        }
    }

    /// Waits until a call can be read, folding it if no other instance does. `false` when the store has
    /// lost it.
    pub(crate) async fn until_readable(
        &self,
        generation: &str,
        instance: &str,
        seq: u64,
        position: Position,
    ) -> Result<bool, StoreError> {
        if self.store.journal().is_none() {
            return Ok(true);
        }
        let mut wait = *LOOK_AGAIN.start();
        loop {
            self.fold_until(Some(position)).await?;
            let readable = self.store.readable(generation, instance, seq, position);
            match readable.await? {
                Readable::Yes => return Ok(true),
                Readable::Lost => return Ok(false),
                Readable::NotYet => {}
            }
            tokio::time::sleep(wait).await;
            wait = (2 * wait).min(*LOOK_AGAIN.end());
        }
    }

    /// Lets another instance fold, at once.
    pub(crate) async fn release(&self) -> Result<(), StoreError> {
        let Some(journal) = self.store.journal() else {
            return Ok(());
        };
        let mut slot = self.lease.lock().await;
        if slot.take().is_some() {
            journal.release(&self.instance).await?;
        }
        Ok(())
    }

    /// Folds at intervals while it has the lease, and tries to get it at the start and when entries wait,
    /// until it is told to stop.
    pub(crate) async fn fold_at_intervals(self: Arc<Self>, mut stopped: Stopped) {
        let Some(journal) = self.store.journal() else {
            return;
        };
        let mut backoff = *BACKOFF.start();
        // At first it looks whether there is a journal that nobody folds.
        let mut wait = Some(Duration::ZERO);
        let mut fences_at = Instant::now();
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
            (wait, backoff) = match result {
                Ok(Attendance::Mine) => {
                    if fences_at.elapsed() > FENCE_INTERVAL {
                        fences_at = Instant::now();
                        let removing = self.remove_fences(journal);
                        if stopped.or(removing).await.is_none() {
                            return;
                        }
                    }
                    (Some(self.until_next()), *BACKOFF.start())
                }
                Ok(Attendance::Others) => (None, *BACKOFF.start()),
                Err(error) if error.kind() == StoreErrorKind::Forbidden => {
                    (Some(FORBIDDEN_WAIT), *BACKOFF.start())
                }
                Err(_) => {
                    let wait = backoff.mul_f64(0.5 + fastrand::f64() / 2.0);
                    (Some(wait), (2 * backoff).min(*BACKOFF.end()))
                }
            };
        }
    }

    async fn remove_fences(&self, journal: &dyn Journal) {
        let version = {
            let slot = self.lease.lock().await;
            slot.as_ref().map(|lease| lease.version().to_owned())
        };
        if let Some(version) = version
            && let Err(error) = journal.remove_fences(&version).await
        {
            tracing::debug!(%error, "fences of instances that are gone stay for another hour");
        }
    }

    /// Until the next look.
    fn until_next(&self) -> Duration {
        let interval = INTERVAL.as_nanos() as i64;
        let since_turn = self.clock.now_nanos() - AFTER_TURN.as_nanos() as i64;
        let wait = interval - since_turn.rem_euclid(interval);
        Duration::from_nanos(wait.unsigned_abs())
    }
}
