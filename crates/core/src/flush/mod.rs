//! Flushing: a batch is sent to the store in numbered calls of bounded size, one at a time. Each call is appended once,
//! even if it is sent several times.
//!
//! A call without an answer is *in doubt*. The call in doubt no longer changes, and is sent again under its number
//! until the store acknowledges the call. The part of a batch that has no number yet is still merged with new samples.
//!
//! Read this file, then `append` (the one call in flight), `replay` and `recover` (after a failover or a reset),
//! `schedule` (the times of flushes), `heartbeat`, and `finish` (the last flush).

mod append;
mod finish;
mod heartbeat;
mod recover;
mod replay;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use self::replay::ReplayBuffer;
use crate::clock::{Clock, Tick};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::health::CleaningHealth;
use crate::recorder::Recorder;
use crate::skew::Skew;
use crate::store::pace::CostSizer;
use crate::store::{AppendedCall, FencedBatch, Receipt, Store, StoreStatus};
use crate::task::{boxed, lock};
use tower_pulse_model::amounts::Amounts;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::mark::Mark;
use tower_pulse_model::snapshot::Problem;

/// The wait after a failed call is random, up to a limit. These are the first and the last limit: the limit doubles
/// with each failure.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(1);
/// The longest time that a call should take.
const CALL_TIME: Duration = Duration::from_millis(1);
/// The largest fleet whose instances flush every second. The instances of a larger fleet flush less often.
const INSTANCES_PER_SECOND: u64 = 400;
/// The longest interval that results from the size of a fleet.
const MAX_FLEET_INTERVAL: Duration = Duration::from_secs(10);

/// Sends pending batches to the store.
pub struct Flusher {
    recorder: Arc<Recorder>,
    store: Arc<dyn Store>,
    interval: Mutex<Duration>,
    /// The time between the last two flushes, if the last flush was early.
    early_after: Mutex<Option<Duration>>,
    /// Whether the interval grows with the fleet, because the user has not set it.
    is_interval_free: bool,
    /// The position of this instance within the time over which a fleet spreads its flushes, 0 to 1.
    phase: f64,
    sending: tokio::sync::Mutex<Sending>,
    /// A copy of a part of `sending` for other tasks, because `sending` is locked while a call is in progress.
    state: Mutex<FlushState>,
    contacted_at: Mutex<Option<Tick>>,
    heartbeat_error: Mutex<Option<StoreError>>,
    /// The amounts that a shutdown has given up, but that may still be sent.
    given_up: Mutex<Amounts>,
    /// The state of the fleet when the store was last asked for it.
    fleet: Mutex<StoreStatus>,
    /// Whether a shutdown has begun. From then on, a flush other than [`finish`](Self::finish) sends only data that an
    /// interrupted shutdown left.
    is_finishing: AtomicBool,
    /// Locked by the shutdown that flushes.
    finish: tokio::sync::Mutex<()>,
    /// Notified when an entry of this instance waits, but no instance seems to fold.
    leaderless: Arc<Notify>,
    replays: AtomicU64,
    /// Whether the version of the application has a mark or needs no mark.
    is_version_marked: AtomicBool,
    /// The mark of the version, until readers can see the mark, and when the mark was last added to the pending batch.
    version_mark: Mutex<Option<(Mark, Option<Tick>)>>,
    /// The name that the user has given to this instance.
    name: Option<String>,
    skew: Skew,
    /// The state of cleaning, which heartbeats report.
    pub cleaning: Arc<Mutex<CleaningHealth>>,
}

/// The call in flight, and the state that is needed to repeat it.
struct Sending {
    /// The id of this instance in the journal. A reset of the store may change the id. A fence counts the calls of one
    /// process, so two processes have different ids even under the same name.
    instance: String,
    generation: Option<Entered>,
    /// The ids of the last generations that this process has entered, oldest first.
    generations: VecDeque<String>,
    next: u64,
    in_doubt: Option<FencedBatch>,
    in_doubt_since: Option<Tick>,
    /// Whether the call in doubt was sent under its present number. The store may then have the call.
    is_sent: bool,
    /// Whether the call in doubt was sent at all, under this or another number.
    is_ever_sent: bool,
    /// The number of successive answers without progress: no call was acknowledged.
    vain_answers: usize,
    /// Samples that were taken from the pending batch, and have no number yet.
    unsequenced: Batch,
    /// Whether a change of the clock has closed `unsequenced`. Later samples, which have the times of the changed
    /// clock, are not merged with `unsequenced`.
    is_closed: bool,
    /// The approximate amounts in `unsequenced`. To count the amounts after each call would cost more than the calls.
    unsequenced_amounts: Amounts,
    replay: ReplayBuffer,
    sizer: CostSizer,
    /// The newest call that the store has, and its receipt.
    newest: Option<(u64, Receipt)>,
    /// When the store last acknowledged a call.
    flushed_at: Option<Tick>,
    failed: Option<StoreErrorKind>,
}

impl Sending {
    fn take_unsequenced(&mut self) -> Batch {
        self.unsequenced_amounts = Amounts::default();
        self.unsequenced.take()
    }
}

/// A generation of the store, when this instance entered the generation (`since`), and its age at that moment.
struct Entered {
    id: String,
    age: Duration,
    since: Tick,
    /// The age of the generation when this instance sent the last call that was answered.
    answered_at_age: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
struct FlushState {
    instance: String,
    /// The number of the newest call that the store has; 0 for none.
    last_call: u64,
    flushed_at: Option<Tick>,
    in_doubt_since: Option<Tick>,
    /// The number of contexts, counters, rankings, minute reports and marks that were taken from the pending batch, but
    /// are not acknowledged.
    series: usize,
    /// The approximate amounts of this data.
    amounts: Amounts,
    failed: Option<StoreErrorKind>,
}

impl From<&Sending> for FlushState {
    fn from(sending: &Sending) -> Self {
        let in_doubt = sending.in_doubt.as_ref().map(|call| &call.batch);
        let series = in_doubt.map_or(0, Batch::len) + sending.unsequenced.len();
        let in_doubt = in_doubt.map(Batch::amounts).unwrap_or_default();
        Self {
            instance: sending.instance.clone(),
            last_call: sending.newest.map_or(0, |(seq, _)| seq),
            flushed_at: sending.flushed_at,
            in_doubt_since: sending.in_doubt_since,
            series,
            amounts: in_doubt + sending.unsequenced_amounts,
            failed: sending.failed,
        }
    }
}

/// The state of flushing.
pub struct FlushStatus {
    /// The name of this instance: the user's name for it, or else its id in the journal.
    pub instance: String,
    /// A name that no other process has: the id in the journal, after the user's name if there is one.
    pub unique_name: String,
    /// The time since the store last answered; `None` before the first answer.
    pub contact_age: Option<Duration>,
    /// The time since the store last acknowledged a call; `None` before the first call.
    pub flushed_age: Option<Duration>,
    /// The age of the call in doubt; `None` if no call is in doubt.
    pub in_doubt_age: Option<Duration>,
    /// The number of contexts, counters, rankings, minute reports and marks that were taken from the pending batch, but
    /// are not acknowledged.
    pub series: usize,
    /// The interval for the current fleet.
    pub interval: Duration,
    /// The time between the last two flushes if the last flush was early, or else the interval.
    pub last_interval: Duration,
    /// The state of the fleet in the store's last answer.
    pub fleet: StoreStatus,
    /// Why the last flush failed, if it did.
    pub failed: Option<StoreErrorKind>,
    /// Why the last heartbeat failed, if it did.
    pub heartbeat_error: Option<StoreError>,
    /// Seconds by which the wall clock is ahead of the store's; `None` if unknown.
    pub skew: Option<i64>,
}

/// Samples of this instance that may not be in the store yet: pending, taken or in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The second of the oldest sample, in Unix seconds.
    pub since: i64,
    /// Whether the last flush failed. The time at which the samples will be sent is then unknown.
    pub is_failing: bool,
}

/// A flushed call. A caller may wait until the data of the call can be read.
#[derive(Clone, Debug)]
pub struct Flushed {
    /// The call.
    pub call: AppendedCall,
    /// The number of calls that this instance had replayed when it flushed this call.
    pub replays: u64,
}

/// The user's settings of flushing.
#[derive(Clone, Debug)]
pub struct FlushOptions {
    /// The time between flushes; `None` for one second, or longer in a large fleet.
    pub interval: Option<Duration>,
    /// The most bytes of acknowledged calls that are retained for a replay.
    pub replay_bytes: usize,
    /// The name of this instance; `None` for its id in the journal.
    pub name: Option<String>,
}

impl Flusher {
    /// A flusher for the samples of a recorder.
    pub fn new(
        recorder: Arc<Recorder>,
        store: Arc<dyn Store>,
        options: &FlushOptions,
        leaderless: Arc<Notify>,
    ) -> Self {
        let interval = options.interval.unwrap_or(Duration::from_secs(1));
        let costs = store.locality().call_costs.clone();
        let instance = new_instance();
        let name = options.name.clone();
        recorder
            .drain
            .set_instance(name.as_deref().unwrap_or(&instance));
        let sending = Sending {
            instance,
            generation: None,
            generations: VecDeque::new(),
            next: 1,
            in_doubt: None,
            in_doubt_since: None,
            is_sent: false,
            is_ever_sent: false,
            vain_answers: 0,
            unsequenced: Batch::new(store.precisions().clone()),
            is_closed: false,
            unsequenced_amounts: Amounts::default(),
            replay: ReplayBuffer::new(options.replay_bytes, interval),
            sizer: CostSizer::new(*costs.start(), costs, CALL_TIME),
            newest: None,
            flushed_at: None,
            failed: None,
        };
        Self {
            recorder,
            store,
            interval: Mutex::new(interval),
            early_after: Mutex::default(),
            is_interval_free: options.interval.is_none(),
            phase: fastrand::f64(),
            state: Mutex::new(FlushState::from(&sending)),
            sending: tokio::sync::Mutex::new(sending),
            contacted_at: Mutex::default(),
            heartbeat_error: Mutex::default(),
            given_up: Mutex::default(),
            fleet: Mutex::default(),
            is_finishing: AtomicBool::new(false),
            finish: tokio::sync::Mutex::default(),
            leaderless,
            replays: AtomicU64::new(0),
            is_version_marked: AtomicBool::new(false),
            version_mark: Mutex::default(),
            name,
            skew: Skew::default(),
            cleaning: Arc::default(),
        }
    }

    fn publish(&self, sending: &Sending) {
        *lock(&self.state) = FlushState::from(sending);
    }

    fn note_contact(&self) {
        *lock(&self.contacted_at) = Some(self.clock().tick());
    }

    fn instance(&self) -> String {
        lock(&self.state).instance.clone()
    }

    /// The number of the newest call that the store has; 0 for none.
    pub fn last_call(&self) -> u64 {
        lock(&self.state).last_call
    }

    /// The time between flushes.
    pub fn interval(&self) -> Duration {
        *lock(&self.interval)
    }

    fn clock(&self) -> &Clock {
        self.recorder.recording.clock()
    }

    /// Drains, and appends everything that was recorded so far. Stops if the store fails. Returns the newest call of
    /// this instance that the store has.
    ///
    /// Cancel safe: a call in progress stays in doubt, and is appended again by the next flush.
    pub async fn flush(&self) -> Result<Option<Flushed>> {
        let mut sending = self.sending.lock().await;
        if self.is_finishing.load(Ordering::SeqCst) {
            self.recorder.drain();
            let is_taken = sending.in_doubt.is_some() || !sending.unsequenced.is_empty();
            if !is_taken && self.recorder.drain.pending_series() == 0 {
                return Ok(self.newest(&sending));
            }
            // A shutdown that was dropped or gave up leaves data that it had taken. No other task would send this data.
            if is_taken && let Ok(_guard) = self.finish.try_lock() {
                boxed(self.flush_with(&mut sending)).await?;
                self.restore_given_up();
                return Ok(self.newest(&sending));
            }
            return Err(StoreError::new(
                StoreErrorKind::Refused,
                "a shutdown has begun, which flushes the remaining data",
            ));
        }
        boxed(self.flush_with(&mut sending)).await?;
        Ok(self.newest(&sending))
    }

    fn newest(&self, sending: &Sending) -> Option<Flushed> {
        let (seq, receipt) = sending.newest?;
        Some(Flushed {
            call: AppendedCall {
                generation: sending.generation.as_ref()?.id.clone(),
                instance: sending.instance.clone(),
                seq,
                position: receipt.position,
            },
            replays: self.replays(),
        })
    }

    /// The number of replays that have begun. A replayed call gets another position in the journal.
    pub fn replays(&self) -> u64 {
        self.replays.load(Ordering::SeqCst)
    }

    async fn flush_with(&self, sending: &mut Sending) -> Result<()> {
        self.recorder.drain();
        match self.send_all(sending).await {
            // No call was sent, so it is unknown whether the store would take one.
            Ok(0) => Ok(()),
            Ok(_) => {
                sending.failed = None;
                self.publish(sending);
                let drain = &self.recorder.drain;
                drain.counters(|counters| counters.last_error = None);
                Ok(())
            }
            Err(error) => {
                // The samples are put back and merged with later samples. This bounds the memory during an outage.
                if !sending.is_closed {
                    self.recorder.put_back(sending.take_unsequenced());
                }
                sending.failed = Some(error.kind());
                self.publish(sending);
                self.recorder.drain.counters(|counters| {
                    counters.flush_errors += 1;
                    counters.last_error = Some(error.to_string());
                });
                Err(error)
            }
        }
    }

    /// The samples that may not be in the store yet, if there are any.
    pub fn unsent(&self) -> Option<Unsent> {
        Some(Unsent {
            since: self.recorder.drain.unsent_since()?,
            is_failing: lock(&self.state).failed.is_some(),
        })
    }

    /// The approximate amounts that wait in this process.
    pub fn unsent_amounts(&self) -> Amounts {
        let taken = lock(&self.state).amounts;
        self.recorder.drain.pending_amounts() + taken
    }

    /// The state of flushing.
    pub fn status(&self) -> FlushStatus {
        let state = lock(&self.state).clone();
        let (interval, early_after) = (self.interval(), *lock(&self.early_after));
        let age = |at: Option<Tick>| at.map(|at| self.clock().since(at));
        FlushStatus {
            contact_age: age(*lock(&self.contacted_at)),
            flushed_age: age(state.flushed_at),
            in_doubt_age: age(state.in_doubt_since),
            series: state.series,
            interval,
            last_interval: early_after.map_or(interval, |after| interval.min(after)),
            fleet: lock(&self.fleet).clone(),
            failed: state.failed,
            heartbeat_error: lock(&self.heartbeat_error).clone(),
            skew: self.skew.seconds(),
            unique_name: match &self.name {
                Some(name) => format!("{name}:{}", state.instance),
                None => state.instance.clone(),
            },
            instance: self.name.clone().unwrap_or(state.instance),
        }
    }

    /// Asks the store for the state of the fleet.
    pub async fn refresh_fleet(&self) -> Result<()> {
        let now = self.clock().now_seconds();
        self.set_status(self.store.upkeep().status(now).await?);
        Ok(())
    }

    /// How often the store has omitted a write to a quarantined key, as far as this instance knows. Asks the store only
    /// if this instance knows nothing yet.
    pub async fn known_quarantined(&self) -> u64 {
        if lock(&self.fleet).created.is_none() {
            let _ = self.refresh_fleet().await;
        }
        lock(&self.fleet).exceptions.quarantined
    }

    /// The keys for which data was omitted since [`known_quarantined`](Self::known_quarantined) returned `before`.
    pub fn quarantined_since(&self, before: u64) -> Vec<Problem> {
        let mut known = lock(&self.fleet).exceptions.clone();
        let new = usize::try_from(known.quarantined.saturating_sub(before)).unwrap_or(usize::MAX);
        let at = known.quarantined_keys.len().saturating_sub(new);
        known.quarantined_keys.split_off(at)
    }

    fn set_status(&self, status: StoreStatus) {
        if self.is_interval_free {
            let seconds = status.instances.div_ceil(INSTANCES_PER_SECOND).max(1);
            *lock(&self.interval) = Duration::from_secs(seconds).min(MAX_FLEET_INTERVAL);
        }
        *lock(&self.fleet) = status;
    }
}

/// An id that no other process has: 128 random bits.
fn new_instance() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
