//! Folding: one instance of the fleet at a time is the folder. The folder reads the entries that all instances have
//! appended to the journal, merges them, and writes tables and the book's keys.
//!
//! Entries are folded in *rounds*. A round covers all entries that are not folded yet, up to a bound. A round is
//! written in steps, each for some partitions of the names. [`journal`](crate::store::journal) explains why each step
//! takes effect once, even after a crash between two steps. The lease only prevents two folders from doing the same
//! work. A folder remembers records, and forgets them when another instance has changed the version of the journal's
//! state.
//!
//! Samples are added to the records of their minute. Before a round, minutes that have ended are *rolled up* into the
//! coarser tiers. Samples that arrive after their minute was rolled up are added to the records of all tiers, in the
//! step that folds the samples.
//!
//! The fold itself knows no tables: each feature merges the changes of a round into its own tables, and maintains these
//! tables between rounds. To learn the code, read `round` first, then `features` with one of its files, `gather`
//! (reading entries), `plan` and `steps` (writing), and `leased_store` (the lease).

mod additions;
mod conditional;
mod features;
mod gather;
mod history;
mod leased_store;
mod plan;
mod round;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use self::features::Features;
pub use self::features::FoldLimits;
use self::leased_store::{Interrupted, Lease, LeasedStore};
use self::plan::Outcome;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::random::random_name;
use crate::store::conditional_write::{ConditionalWrite, Written};
use crate::store::journal::{Acquired, Journal, Progress};
use crate::store::locality::CONTEXT_COST;
use crate::store::pace::CostSizer;
use crate::store::{AppendedCall, Position, Readable, Store, StoreFuture};
use crate::task::{Admission, DENIED_WAIT, lock};

/// The journal is read this long after each multiple of the read interval, when most instances have flushed.
const READ_DELAY: Duration = Duration::from_millis(150);
/// The first and the longest wait after an error. The wait doubles with each error.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(2);
/// While entries wait for a newer version of this crate, an instance tries to fold at this interval. The attempts also
/// measure how long the entries have waited.
const NEWER_WAIT: Duration = Duration::from_secs(5);
/// The interval at which the fences of ended instances are removed.
const FENCE_INTERVAL: Duration = Duration::from_secs(3_600);
/// The first and the longest wait between checks whether a call can be read. The wait doubles with each check.
const RECHECK: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(5)..=Duration::from_millis(100);

/// The approximate number of contexts that the first step under a lease writes.
const FIRST_CONTEXTS: usize = 16;

/// Folds the journal of a store while no other instance does.
pub struct Folder {
    store: Arc<dyn Store>,
    clock: Clock,
    /// The name of this instance in the lease.
    instance: String,
    limits: FoldLimits,
    /// The lease, and the features with the data that they remember under the lease. `None` without the lease, and
    /// during a round. So if the future of a round is dropped, the next call acquires the lease again.
    leadership: tokio::sync::Mutex<Option<(Lease, Features)>>,
    /// A notification makes this instance try to fold, for example when entries wait and no instance seems to fold.
    leaderless: Arc<Notify>,
    status: Mutex<FoldStatus>,
}

/// The state of folding in this instance.
#[derive(Clone, Debug, Default)]
pub struct FoldStatus {
    /// Whether this instance was the leader at its last attempt to fold that did not fail.
    pub is_leader: bool,
    /// Why the last attempt to fold failed.
    pub last_error: Option<String>,
    /// A warning about another instance that asks for a longer history, if there is one.
    pub history: Option<String>,
}

/// The leader of the fleet: the instance that folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// This instance.
    This,
    /// Another instance, or there is no journal yet.
    Other,
    /// An instance of a newer version of this crate must fold the waiting entries.
    NewerVersion,
}

/// The result of [`Folder::rounds`].
struct Ended {
    leader: Leader,
    /// The outcome of the conditional write; `NoLease` if it was not tried.
    written: Written,
    has_acquired: bool,
}

impl Ended {
    fn with_leader(mut self, leader: Leader) -> Self {
        self.leader = leader;
        self
    }
}

impl Folder {
    /// Creates a folder, which holds the lease under the name `instance`.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        instance: String,
        limits: FoldLimits,
        leaderless: Arc<Notify>,
    ) -> Self {
        Self {
            store,
            clock,
            instance,
            limits,
            leadership: tokio::sync::Mutex::default(),
            leaderless,
            status: Mutex::default(),
        }
    }

    /// The state of folding.
    pub fn status(&self) -> FoldStatus {
        lock(&self.status).clone()
    }

    /// Whether this instance folds: this instance is the leader, or all instances are in this process.
    pub fn folds_here(&self) -> bool {
        self.store.locality().read_every.is_none() || lock(&self.status).is_leader
    }

    /// Folds all entries of the journal, unless another instance does.
    ///
    /// Cancel safe: the next call finds out whether a step in progress took effect.
    pub async fn fold(&self) -> Result<Leader, StoreError> {
        Ok(self.rounds(None, None).await?.leader)
    }

    /// Folds entries up to `position`, or all entries. With a `write`, folds one round, and then writes.
    // Boxed, because several modules await this future: see `BoxFuture`.
    #[inline(never)]
    fn rounds<'a>(
        &'a self,
        position: Option<Position>,
        write: Option<&'a ConditionalWrite>,
    ) -> StoreFuture<'a, Ended> {
        Box::pin(async move {
            let result = self.fold_rounds(position, write).await;
            let mut status = lock(&self.status);
            if let Ok(ended) = &result {
                status.is_leader = ended.leader == Leader::This;
            }
            if write.is_none() {
                status.last_error = result.as_ref().err().map(ToString::to_string);
            }
            result
        })
    }

    async fn fold_rounds(
        &self,
        position: Option<Position>,
        write: Option<&ConditionalWrite>,
    ) -> Result<Ended, StoreError> {
        let journal = self.store.journal();
        let mut ended = Ended {
            leader: Leader::This,
            written: Written::NoLease,
            has_acquired: false,
        };
        let fold_guard = match journal.fold_mutex() {
            Some(mutex) => Some(mutex.lock().await),
            None => None,
        };
        let mut slot = match position {
            Some(_) if fold_guard.is_none() => match self.leadership.try_lock() {
                Ok(slot) => slot,
                // Another task of this instance is folding.
                Err(_) => return Ok(ended),
            },
            _ => self.leadership.lock().await,
        };
        // After a loss of the lease, tries twice more. `trim_or_skip_hole` gives up the lease on purpose, and another
        // instance may hold the lease only briefly.
        let mut losses = 0;
        loop {
            let (mut lease, mut features) = match slot.take() {
                Some(leadership) => leadership,
                None => {
                    ended.has_acquired = true;
                    match journal.acquire(&self.instance, &random_name()).await? {
                        Acquired::Mine(progress) => self.begin(progress),
                        Acquired::Newer => return Ok(ended.with_leader(Leader::NewerVersion)),
                        Acquired::HeldByOther => return Ok(ended.with_leader(Leader::Other)),
                    }
                }
            };
            // Entries after `position` are left for the next call. Otherwise this call might never end.
            if position.is_some_and(|at| lease.progress.committed.offset >= at.offset) {
                *slot = Some((lease, features));
                return Ok(ended);
            }
            let mut leased = LeasedStore {
                store: &*self.store,
                journal,
                instance: &self.instance,
                lease: &mut lease,
            };
            let own_now = self.clock.now_seconds();
            match leased.advance(&mut features, own_now, write).await {
                Ok(Outcome::Newer(entry)) => {
                    leased.wait_for_newer(&entry).await?;
                    journal.release(&self.instance).await?;
                    return Ok(ended.with_leader(Leader::NewerVersion));
                }
                Ok(outcome) => {
                    features.forget();
                    *slot = Some((lease, features));
                    match outcome {
                        Outcome::Written(written) => ended.written = written,
                        // Entries that arrived during this round are left for the next call. In a large fleet, entries
                        // arrive all the time, and a larger round costs less per entry.
                        Outcome::Idle | Outcome::CaughtUp if write.is_none() => {}
                        _ => continue,
                    }
                    return Ok(ended);
                }
                Err(Interrupted::Lost) => {
                    losses += 1;
                    if losses > 2 {
                        return Ok(ended.with_leader(Leader::Other));
                    }
                }
                Err(Interrupted::Failed(error)) => return Err(error),
            }
        }
    }

    /// The lease that was acquired at `progress`, and features that remember nothing yet.
    fn begin(&self, progress: Progress) -> (Lease, Features) {
        let locality = self.store.locality();
        let (first, costs) = match self.limits.step_contexts {
            Some(contexts) => (contexts, contexts * CONTEXT_COST..=contexts * CONTEXT_COST),
            None => (FIRST_CONTEXTS, locality.step_costs.clone()),
        };
        let sizer = CostSizer::new(first * CONTEXT_COST, costs, locality.step_time);
        let lease = Lease {
            progress,
            folded: VecDeque::new(),
            is_trimmed: false,
            newest_at: 0,
            took_millis: 0,
            sizer,
        };
        (lease, Features::new(self.limits))
    }

    /// Waits until a call can be read, and folds the call if no other instance does. Returns `false` if the store has
    /// lost the call.
    pub async fn until_readable(&self, call: &AppendedCall) -> Result<bool, StoreError> {
        let mut wait = *RECHECK.start();
        loop {
            self.rounds(Some(call.position), None).await?;
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

    /// Releases the lease, so that another instance can fold at once.
    pub async fn release(&self) -> Result<(), StoreError> {
        let journal = self.store.journal();
        let mut slot = self.leadership.lock().await;
        if slot.take().is_some() {
            journal.release(&self.instance).await?;
        }
        Ok(())
    }

    /// Folds at intervals while this instance holds the lease. Tries to acquire the lease at the start and when entries
    /// wait.
    pub async fn fold_at_intervals(self: Arc<Self>, mut admission: Admission) {
        let journal = self.store.journal();
        let mut backoff = *BACKOFF.start();
        // No wait at first: there may be a journal that no instance folds.
        let mut wait = Some(Duration::ZERO);
        let mut fences_at = Instant::now();
        loop {
            match wait {
                Some(wait) => {
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.leaderless.notified(), if backoff == *BACKOFF.start() => {}
                    }
                }
                None => self.leaderless.notified().await,
            }
            let result = self.fold().await;
            if admission.denies(&result) {
                // Waiting entries do not shorten this wait.
                admission.wait(|| self.clock.sleep(DENIED_WAIT)).await;
                (wait, backoff) = (Some(Duration::ZERO), *BACKOFF.start());
                continue;
            }
            (wait, backoff) = match result {
                Ok(Leader::This) => {
                    if fences_at.elapsed() > FENCE_INTERVAL {
                        fences_at = Instant::now();
                        self.remove_fences(journal).await;
                    }
                    let every = self.store.locality().read_every;
                    (every.map(|every| self.until_next(every)), *BACKOFF.start())
                }
                Ok(Leader::Other) => (None, *BACKOFF.start()),
                Ok(Leader::NewerVersion) => (Some(NEWER_WAIT), *BACKOFF.start()),
                Err(_) => {
                    let wait = backoff.mul_f64(0.5 + fastrand::f64() / 2.0);
                    (Some(wait), (2 * backoff).min(*BACKOFF.end()))
                }
            };
        }
    }

    async fn remove_fences(&self, journal: &dyn Journal) {
        let version = {
            let slot = self.leadership.lock().await;
            slot.as_ref()
                .map(|(lease, _)| lease.progress.version.clone())
        };
        if let Some(version) = version
            && let Err(error) = journal.remove_fences(&version).await
        {
            tracing::debug!(%error, "fences of ended instances could not be removed, and stay for another hour");
        }
    }

    fn until_next(&self, interval: Duration) -> Duration {
        let interval = interval.as_nanos() as i64;
        let delayed = self.clock.now_nanos() - READ_DELAY.as_nanos() as i64;
        let wait = interval - delayed.rem_euclid(interval);
        Duration::from_nanos(wait.unsigned_abs())
    }
}
