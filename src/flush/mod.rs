//! How a batch reaches the store: in numbered calls of bounded size, one at a time, each appended once
//! whatever happens on the way.
//!
//! A call that got no answer is *in doubt*: it is frozen and appended again under its number until the
//! store says that it has it. A batch that has no number yet is still merged with what comes.
//!
//! Read this file, then `append` (the one call in flight), `replay` and `recover` (what a failover or a
//! reset has lost), `schedule` (when), and `finish` (the last flush).

mod append;
mod finish;
mod recover;
mod replay;
mod schedule;

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use self::replay::ReplayBuffer;
use crate::clock::{Clock, Tick};
use crate::error::{StoreError, StoreErrorKind};
use crate::model::batch::Batch;
use crate::recorder::Recorder;
use crate::store::pace::BatchSizer;
use crate::store::{FencedBatch, Receipt, Store, StoreStatus};
use crate::task::lock;

/// Waits after a failed call, doubled each time, with full jitter.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(1);
/// A call has 256 contexts, and up to 512 as long as the server takes less than a millisecond for it: to
/// append one takes it 12 µs and 0.2 µs for each context, and to pack it takes this process 1 µs for each.
const JOURNAL_COSTS: std::ops::RangeInclusive<usize> = 256 * 24..=512 * 24;
/// Where there is no journal, a call is folded at once, which holds up a worker of the runtime for some
/// microseconds for each context.
const MEMORY_COSTS: std::ops::RangeInclusive<usize> = 16 * 24..=64 * 24;
const CALL_TIME: Duration = Duration::from_millis(1);
/// Instances that share one second between them: a larger fleet flushes less often.
const INSTANCES_PER_SECOND: u64 = 400;
/// The longest interval that a fleet's size makes.
const MAX_FLEET_INTERVAL: Duration = Duration::from_secs(10);

/// Takes what is pending to the store.
pub(crate) struct Flusher {
    recorder: Arc<Recorder>,
    store: Arc<dyn Store>,
    /// How often, in milliseconds.
    interval: AtomicU64,
    /// The user has not set the interval: it grows with the fleet.
    is_interval_free: bool,
    /// Where in the time that a fleet spreads its flushes over this instance has its turn, 0 to 1.
    phase: f64,
    sending: tokio::sync::Mutex<Sending>,
    /// What is told of it, readable while a call is under way.
    published: Mutex<Published>,
    /// What the store said of the fleet when it was last asked.
    fleet: Mutex<StoreStatus>,
    /// From now on only [`finish`](Self::finish) sends.
    finishing: AtomicBool,
    /// One at a time does.
    finish: tokio::sync::Mutex<()>,
    /// Told when an entry of ours waits and nobody seems to fold.
    unattended: Arc<Notify>,
    replays: AtomicU64,
}

/// The one call in flight, and what it takes to repeat it.
struct Sending {
    generation: Option<Known>,
    /// The names of all generations that this process has known, oldest first.
    generations: VecDeque<String>,
    next: u64,
    in_doubt: Option<FencedBatch>,
    /// The one in doubt was sent under its number, so the store may have it.
    is_sent: bool,
    /// It was sent under any number.
    is_ever_sent: bool,
    /// Answers since the last one that brought a call forward.
    vain_answers: usize,
    /// Taken from what is pending, and not numbered yet.
    unsequenced: Batch,
    replay: ReplayBuffer,
    sizer: BatchSizer,
    /// The newest call that the store has, and where.
    newest: Option<(u64, Receipt)>,
}

/// A generation, and since when it is known here.
struct Known {
    id: String,
    age: Duration,
    since: Tick,
    /// How old it was when the last call was sent that it answered.
    answered_at_age: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Published {
    instance: String,
    reached: Option<Tick>,
    flushed: Option<Tick>,
    in_doubt_since: Option<Tick>,
    /// Names in the call in doubt, and in what has no number yet.
    in_doubt: usize,
    unsequenced: usize,
    /// About how many requests are in both.
    unsent: u64,
    /// How many of them a shutdown has given up.
    given_up: u64,
    failing: bool,
}

/// How flushing is doing.
pub(crate) struct FlushStatus {
    pub(crate) instance: String,
    pub(crate) reached_age: Option<Duration>,
    pub(crate) flushed_age: Option<Duration>,
    pub(crate) in_doubt_age: Option<Duration>,
    /// Names that are taken and not acknowledged.
    pub(crate) names: usize,
    pub(crate) interval: Duration,
    pub(crate) fleet: StoreStatus,
}

/// A call that the store has, to be waited for until it can be read.
#[derive(Clone, Debug)]
pub(crate) struct Flushed {
    pub(crate) generation: String,
    pub(crate) instance: String,
    pub(crate) seq: u64,
    pub(crate) receipt: Receipt,
    /// How many calls had been replayed then.
    pub(crate) replays: u64,
}

/// How often, and how much may wait.
pub(crate) struct FlushOptions {
    /// `None`: a second, and longer in a large fleet.
    pub(crate) interval: Option<Duration>,
    pub(crate) replay_bytes: usize,
}

impl Flusher {
    pub(crate) fn new(
        recorder: Arc<Recorder>,
        store: Arc<dyn Store>,
        options: &FlushOptions,
        unattended: Arc<Notify>,
    ) -> Self {
        let interval = options.interval.unwrap_or(Duration::from_secs(1));
        let costs = match store.journal() {
            Some(_) => JOURNAL_COSTS,
            None => MEMORY_COSTS,
        };
        Self {
            recorder,
            store,
            interval: AtomicU64::new(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)),
            is_interval_free: options.interval.is_none(),
            phase: fastrand::f64(),
            sending: tokio::sync::Mutex::new(Sending {
                generation: None,
                generations: VecDeque::new(),
                next: 1,
                in_doubt: None,
                is_sent: false,
                is_ever_sent: false,
                vain_answers: 0,
                unsequenced: Batch::default(),
                replay: ReplayBuffer::new(options.replay_bytes, interval),
                sizer: BatchSizer::new(*costs.start(), costs, CALL_TIME),
                newest: None,
            }),
            published: Mutex::new(Published {
                instance: new_instance(),
                reached: None,
                flushed: None,
                in_doubt_since: None,
                in_doubt: 0,
                unsequenced: 0,
                unsent: 0,
                given_up: 0,
                failing: false,
            }),
            fleet: Mutex::default(),
            finishing: AtomicBool::new(false),
            finish: tokio::sync::Mutex::default(),
            unattended,
            replays: AtomicU64::new(0),
        }
    }

    /// How often it flushes.
    pub(crate) fn interval(&self) -> Duration {
        Duration::from_millis(self.interval.load(Ordering::Relaxed))
    }

    fn clock(&self) -> &Clock {
        self.recorder.core.clock()
    }

    /// Drains, and appends all that was recorded until now, or until the store fails. Returns the
    /// newest call that the store has of this instance.
    ///
    /// Cancel safe: a call that was under way stays in doubt and is appended again by the next flush.
    pub(crate) async fn flush(&self) -> Result<Option<Flushed>, StoreError> {
        let mut sending = self.sending.lock().await;
        if self.finishing.load(Ordering::SeqCst) {
            self.recorder.drain();
            if self.recorder.drain.drain_stats().pending == 0 {
                return Ok(self.newest(&sending));
            }
            return Err(StoreError::new(
                StoreErrorKind::Refused,
                "the shutdown has begun: it flushes what is left itself",
            ));
        }
        self.flush_with(&mut sending).await?;
        Ok(self.newest(&sending))
    }

    fn newest(&self, sending: &Sending) -> Option<Flushed> {
        let (seq, receipt) = sending.newest?;
        Some(Flushed {
            generation: sending.generation.as_ref()?.id.clone(),
            instance: lock(&self.published).instance.clone(),
            seq,
            receipt,
            replays: self.replays(),
        })
    }

    /// How many calls were, or are being, replayed: each of them may stand elsewhere from then on.
    pub(crate) fn replays(&self) -> u64 {
        self.replays.load(Ordering::SeqCst)
    }

    async fn flush_with(&self, sending: &mut Sending) -> Result<(), StoreError> {
        self.recorder.drain();
        match self.send_all(sending).await {
            // Nothing was asked, so nothing is known either.
            Ok(0) => Ok(()),
            Ok(_) => {
                lock(&self.published).failing = false;
                let drain = &self.recorder.drain;
                drain.counters(|counters| counters.last_error = None);
                Ok(())
            }
            Err(error) => {
                // It folds with what comes, so that an outage of any length stays bounded.
                self.recorder
                    .put_back(std::mem::take(&mut sending.unsequenced));
                let in_doubt = sending.in_doubt.as_ref();
                {
                    let mut published = lock(&self.published);
                    (published.failing, published.unsequenced) = (true, 0);
                    published.unsent = in_doubt.map_or(0, |call| call.batch.requests_and_late());
                }
                self.recorder.drain.counters(|counters| {
                    counters.flush_errors += 1;
                    counters.last_error = Some(error.to_string());
                });
                Err(error)
            }
        }
    }

    pub(crate) fn status(&self) -> FlushStatus {
        let published = lock(&self.published).clone();
        let age = |at: Option<Tick>| at.map(|at| self.clock().since(at));
        FlushStatus {
            reached_age: age(published.reached),
            flushed_age: age(published.flushed),
            in_doubt_age: age(published.in_doubt_since),
            names: published.unsequenced + published.in_doubt,
            interval: self.interval(),
            fleet: lock(&self.fleet).clone(),
            instance: published.instance,
        }
    }

    /// Asks the store how the fleet is doing.
    pub(crate) async fn refresh_fleet(&self) -> Result<(), StoreError> {
        let now = self.clock().now_seconds();
        let status = self.store.status(now).await?;
        if self.is_interval_free {
            let seconds = status.instances.div_ceil(INSTANCES_PER_SECOND).max(1);
            let interval = Duration::from_secs(seconds).min(MAX_FLEET_INTERVAL);
            let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
            self.interval.store(millis, Ordering::Relaxed);
        }
        let mut fleet = lock(&self.fleet);
        for problem in &status.exceptions.quarantined_keys {
            if !fleet.exceptions.quarantined_keys.contains(problem) {
                tracing::warn!(key = %problem.key, reason = %problem.reason, "a key holds something else: what belongs there is dropped until it is mended or deleted");
            }
        }
        *fleet = status;
        Ok(())
    }
}

/// A name that no other process has had: 128 random bits from the operating system.
fn new_instance() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
