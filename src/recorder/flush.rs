//! How a batch reaches the store: in numbered calls of bounded cost, one at a time, each merged
//! once whatever happens on the way.
//!
//! A call that got no answer is *in doubt*: it is frozen and sent again under its number until the
//! store says that it has it. What has no number yet is still merged with what comes.

mod finish;
mod pace;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pace::Pace;

use super::Recorder;
use super::cell::lock;
use super::ring::Ring;
use crate::clock::{Clock, Tick};
use crate::error::{StoreError, StoreErrorKind};
use crate::model::batch::Batch;
use crate::store::{Applied, Beat, Call, Merged, Store};
use crate::task::Stopped;

/// Waits after a failed call, doubled each time, with full jitter.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(1);
/// Wait when the server does not let us in: that takes a person.
const FORBIDDEN_WAIT: Duration = Duration::from_secs(30);

/// How long the last flush may take when nobody waits for it.
const LAST_FLUSH: Duration = Duration::from_secs(1);

/// Takes what is pending to the store.
pub(crate) struct Flusher {
    recorder: Arc<Recorder>,
    store: Arc<dyn Store>,
    interval: Duration,
    sending: tokio::sync::Mutex<Sending>,
    /// What is told of it, readable while a call is under way.
    told: std::sync::Mutex<Told>,
    /// From now on only [`finish`](Self::finish) sends.
    finishing: AtomicBool,
    /// One at a time does.
    finish: tokio::sync::Mutex<()>,
}

/// The one call in flight, and what it takes to repeat it.
struct Sending {
    next: u64,
    in_doubt: Option<Call>,
    /// The one in doubt was sent before, so the store may have it.
    sent: bool,
    /// Taken from what is pending, and not numbered yet.
    rest: Batch,
    ring: Ring,
    pace: Pace,
}

#[derive(Clone, Debug)]
struct Told {
    instance: String,
    reached: Option<Tick>,
    in_doubt_since: Option<Tick>,
    /// Names in the call in doubt, and in what has no number yet.
    in_doubt: usize,
    rest: usize,
    /// About how many requests are in both.
    unsent: u64,
    /// How many of them a shutdown has given up.
    given_up: u64,
    failing: bool,
}

/// What [`Flusher::told`] tells.
pub(crate) struct FlushFigures {
    pub(crate) instance: String,
    pub(crate) reached_age: Option<Duration>,
    pub(crate) in_doubt_age: Option<Duration>,
    pub(crate) rest: usize,
}

impl Flusher {
    pub(crate) fn new(
        recorder: Arc<Recorder>,
        store: Arc<dyn Store>,
        interval: Duration,
        replay_bytes: usize,
    ) -> Self {
        Self {
            recorder,
            store,
            interval,
            sending: tokio::sync::Mutex::new(Sending {
                next: 1,
                in_doubt: None,
                sent: false,
                rest: Batch::default(),
                ring: Ring::new(replay_bytes),
                pace: Pace::new(),
            }),
            told: std::sync::Mutex::new(Told {
                instance: new_instance(),
                reached: None,
                in_doubt_since: None,
                in_doubt: 0,
                rest: 0,
                unsent: 0,
                given_up: 0,
                failing: false,
            }),
            finishing: AtomicBool::new(false),
            finish: tokio::sync::Mutex::default(),
        }
    }

    fn clock(&self) -> &Clock {
        self.recorder.core.clock()
    }

    /// Drains, and sends all that was recorded until now, or until the store fails.
    ///
    /// Cancel safe: a call that was under way stays in doubt and is sent again by the next flush.
    pub(crate) async fn flush(&self) -> Result<(), StoreError> {
        let mut sending = self.sending.lock().await;
        if self.finishing.load(Ordering::SeqCst) {
            self.recorder.drain();
            if self.recorder.drain.drain_figures().pending == 0 {
                return Ok(());
            }
            return Err(StoreError::new(
                StoreErrorKind::Refused,
                "the shutdown has begun: it flushes what is left itself",
            ));
        }
        self.flush_with(&mut sending).await
    }

    async fn flush_with(&self, sending: &mut Sending) -> Result<(), StoreError> {
        self.recorder.drain();
        match self.send_all(sending).await {
            // Nothing was asked, so nothing is known either.
            Ok(0) => Ok(()),
            Ok(_) => {
                lock(&self.told).failing = false;
                self.recorder
                    .drain
                    .figures(|figures| figures.last_error = None);
                Ok(())
            }
            Err(error) => {
                // It folds with what comes, so that an outage of any length stays bounded.
                self.recorder.put_back(std::mem::take(&mut sending.rest));
                let in_doubt = sending.in_doubt.as_ref();
                {
                    let mut told = lock(&self.told);
                    (told.failing, told.rest) = (true, 0);
                    told.unsent = in_doubt.map_or(0, |call| call.batch.requests_and_late());
                }
                self.recorder.drain.figures(|figures| {
                    figures.flush_errors += 1;
                    figures.last_error = Some(error.to_string());
                });
                Err(error)
            }
        }
    }

    /// Returns how many calls that took.
    async fn send_all(&self, sending: &mut Sending) -> Result<usize, StoreError> {
        let (mut calls, mut taken) = (0, false);
        loop {
            if sending.in_doubt.is_none() {
                // What comes while it sends is for the next time, or there would be no end to it.
                if sending.rest.is_empty() && !std::mem::replace(&mut taken, true) {
                    sending.rest = self.recorder.drain.take();
                    lock(&self.told).unsent = sending.rest.requests_and_late();
                }
                if sending.rest.is_empty() {
                    if calls == 0 {
                        calls += self.look_after(sending).await?;
                    }
                    return Ok(calls);
                }
                let batch = sending.rest.split(sending.pace.cost);
                let mut told = lock(&self.told);
                told.in_doubt_since = Some(self.clock().tick());
                (told.in_doubt, told.rest) = (batch.len(), sending.rest.len());
                sending.sent = false;
                sending.in_doubt = Some(Call {
                    instance: told.instance.clone(),
                    seq: sending.next,
                    previous: sending.next - 1,
                    batch,
                });
                sending.next += 1;
            }
            self.send_one(sending).await?;
            calls += 1;
            // A store in this process answers at once: let the runtime's other tasks run meanwhile.
            tokio::task::yield_now().await;
        }
    }

    /// Sends the call in doubt, and does what its answer asks for.
    async fn send_one(&self, sending: &mut Sending) -> Result<(), StoreError> {
        let Some(call) = &sending.in_doubt else {
            return Ok(());
        };
        let (start, cost) = (self.clock().tick(), sending.pace.cost);
        let sent_before = std::mem::replace(&mut sending.sent, true);
        let applied = self.store.apply(call).await?;
        sending.pace.adapt(self.clock().since(start), cost);
        match applied {
            Applied::Merged(merged) => {
                self.note(merged);
                self.acknowledged(sending);
                Ok(())
            }
            Applied::Duplicate if sent_before => {
                self.acknowledged(sending);
                Ok(())
            }
            // It cannot have what was never sent: its fence is somebody else's.
            Applied::Duplicate => {
                self.start_anew(sending);
                Ok(())
            }
            Applied::Gap { fence } => self.fill(sending, fence).await.map(drop),
            Applied::Reset => {
                self.start_anew(sending);
                Ok(())
            }
        }
    }

    fn acknowledged(&self, sending: &mut Sending) {
        let mut told = lock(&self.told);
        if let Some(call) = sending.in_doubt.take() {
            told.unsent = told.unsent.saturating_sub(call.batch.requests_and_late());
            sending.ring.push(self.clock(), call);
        }
        told.reached = Some(self.clock().tick());
        (told.in_doubt_since, told.in_doubt) = (None, 0);
    }

    /// When there is nothing to send: whether the store still has what it acknowledged a moment ago.
    /// What a failover lost is sent again. Returns how many calls that took.
    async fn look_after(&self, sending: &mut Sending) -> Result<usize, StoreError> {
        // Each call that is missing is sent once; whoever loses them meanwhile is asked next time.
        let (mut calls, most) = (0, sending.ring.len() + 1);
        while calls < most
            && let Some(seq) = sending.ring.newest(self.clock())
        {
            // Expecting itself, it is never merged: the answer says where the store is.
            let call = Call {
                instance: lock(&self.told).instance.clone(),
                seq,
                previous: seq,
                batch: Batch::default(),
            };
            let applied = self.store.apply(&call).await?;
            calls += 1;
            match applied {
                Applied::Merged(_) | Applied::Duplicate => {
                    lock(&self.told).reached = Some(self.clock().tick());
                    break;
                }
                Applied::Gap { fence } => {
                    if !self.fill(sending, fence).await? {
                        break;
                    }
                }
                Applied::Reset => self.start_anew(sending),
            }
        }
        Ok(calls)
    }

    fn note(&self, merged: Merged) {
        self.recorder.drain.figures(|figures| {
            figures.late += merged.late;
            figures.skewed += merged.skewed;
            for problem in &merged.quarantined {
                if !figures.quarantined_keys.contains(problem) {
                    tracing::warn!(key = %problem.key.escape_default(), reason = %problem.reason, "a key holds something else: what belongs there is dropped until it is mended or deleted");
                }
            }
            figures.quarantine(merged.quarantined);
        });
    }

    /// The store lacks calls that it had acknowledged: sends the next one of them again, or goes on
    /// without those that are not there any more. Returns whether there was one.
    async fn fill(&self, sending: &mut Sending, fence: u64) -> Result<bool, StoreError> {
        let next = sending.ring.after(fence);
        if next.lost > 0 {
            self.recorder
                .drain
                .figures(|figures| figures.lost += next.lost);
            tracing::error!(
                requests = next.lost,
                "the store lost calls that are too old to be sent again"
            );
        }
        let Some(seq) = next.seq else {
            if let Some(call) = &mut sending.in_doubt {
                call.previous = fence;
            }
            return Ok(false);
        };
        if let Some(call) = sending.ring.call(seq, fence) {
            // What it excepts was noted when it was acknowledged first.
            if let Applied::Merged(_) = self.store.apply(call).await? {
                self.recorder.drain.figures(|figures| figures.replayed += 1);
            }
        }
        Ok(true)
    }

    /// The store has forgotten this instance, and with it what was in doubt.
    fn start_anew(&self, sending: &mut Sending) {
        let instance = new_instance();
        tracing::error!(
            %instance,
            "the store has forgotten this instance (flushed, evicted or expired), or takes another for it: going on under a new name"
        );
        self.recorder
            .drain
            .figures(|figures| figures.store_resets += 1);
        sending.ring.clear();
        sending.next = if sending.in_doubt.is_some() { 2 } else { 1 };
        if let Some(call) = &mut sending.in_doubt {
            call.instance.clone_from(&instance);
            (call.seq, call.previous) = (1, 0);
            sending.sent = false;
        }
        lock(&self.told).instance = instance;
    }

    pub(crate) fn told(&self) -> FlushFigures {
        let told = lock(&self.told).clone();
        FlushFigures {
            instance: told.instance,
            reached_age: told.reached.map(|at| self.clock().since(at)),
            in_doubt_age: told.in_doubt_since.map(|at| self.clock().since(at)),
            rest: told.rest + told.in_doubt,
        }
    }

    /// Flushes at every interval, sooner under pressure, until it is told to stop. When every
    /// [`Pulse`](crate::Pulse) was dropped instead, it takes what is left to the store by itself.
    pub(crate) fn flush_at_intervals(
        self: Arc<Self>,
        stopped: Stopped,
    ) -> impl Future<Output = ()> + Send {
        let unfinished = Unfinished {
            recorder: self.recorder.clone(),
            stopped: stopped.clone(),
        };
        async move {
            self.flush_until(stopped.clone()).await;
            if !stopped.is_told() {
                let _ = self.finish(LAST_FLUSH).await;
            }
            drop(unfinished);
        }
    }

    async fn flush_until(&self, mut stopped: Stopped) {
        let clock = self.clock().clone();
        let mut backoff = *BACKOFF.start();
        let mut wait = self.until_next();
        loop {
            let pressed = self.recorder.drain.pressure.notified();
            let waiting = async {
                tokio::select! {
                    () = clock.sleep(wait) => {}
                    () = pressed, if backoff == *BACKOFF.start() => {}
                }
            };
            if stopped.or(waiting).await.is_none() {
                return;
            }
            let Some(result) = stopped.or(self.flush()).await else {
                return;
            };
            (wait, backoff) = match result {
                Ok(()) => (self.until_next(), *BACKOFF.start()),
                Err(error) => {
                    if backoff == *BACKOFF.start() {
                        tracing::warn!(%error, "flushing failed; the figures are kept and sent later");
                    }
                    let wait = match error.kind() {
                        StoreErrorKind::Forbidden => FORBIDDEN_WAIT,
                        _ => backoff.mul_f64(fastrand::f64()),
                    };
                    (wait, (backoff * 2).min(*BACKOFF.end()))
                }
            };
        }
    }

    /// Until the next multiple of the interval, just after the drain at the turn of the second, and
    /// a little later on each instance of a fleet.
    fn until_next(&self) -> Duration {
        let interval = self.interval.as_nanos().max(1);
        let now = u128::from(self.clock().now_nanos().unsigned_abs());
        let to_next = u64::try_from(interval - now % interval).unwrap_or(u64::MAX);
        let spread = (self.interval / 10).min(Duration::from_millis(50));
        Duration::from_nanos(to_next) + spread.mul_f64(fastrand::f64())
    }

    /// Tells the store at intervals that this instance is alive, and by that also finds out whether
    /// the store is, when there is nothing to flush.
    pub(crate) async fn beat_at_intervals(self: Arc<Self>, mut stopped: Stopped) {
        let period = self
            .interval
            .clamp(Duration::from_secs(1), Duration::from_secs(20));
        loop {
            let beat = Beat {
                instance: lock(&self.told).instance.clone(),
                at: self.clock().now_seconds(),
                in_flight: self.recorder.core.in_flight(),
                dropped: self.recorder.drain.drain_figures().dropped,
            };
            let Some(result) = stopped.or(self.store.beat(&beat)).await else {
                return;
            };
            let mut wait = period;
            match result {
                // A store that answers this and refuses the flush is not well.
                Ok(()) => {
                    let mut told = lock(&self.told);
                    if !told.failing {
                        told.reached = Some(self.clock().tick());
                        drop(told);
                        self.recorder
                            .drain
                            .figures(|figures| figures.last_error = None);
                    }
                }
                Err(error) => {
                    if error.kind() == StoreErrorKind::Forbidden {
                        wait = FORBIDDEN_WAIT;
                    }
                    let text = error.to_string();
                    self.recorder
                        .drain
                        .figures(|figures| figures.last_error.get_or_insert(text).len());
                }
            }
            if stopped.or(self.clock().sleep(wait)).await.is_none() {
                return;
            }
        }
    }
}

/// Says so when the flushing ends with its runtime instead of by a shutdown.
struct Unfinished {
    recorder: Arc<Recorder>,
    stopped: Stopped,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.stopped.is_told() || self.recorder.core.is_closed() {
            return;
        }
        self.recorder.drain();
        let pending = self.recorder.drain.drain_figures().pending;
        if pending > 0 {
            tracing::warn!(
                pending,
                "the runtime ended without `pulse.shutdown().await`: what was not flushed yet is lost"
            );
        }
    }
}

/// A name that no other process has had: 128 random bits from the operating system.
fn new_instance() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
