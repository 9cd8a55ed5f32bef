//! Change detection: once per minute, one instance of the fleet judges the minutes that have ended, and writes the
//! changes to the store.
//!
//! `schedule` decides which instance judges, and when. `session` reads minutes, lets the
//! [detector](tower_pulse_detect::detector) judge them, and prepares the write. `judgement_fields` has the stored
//! fields of a judgement. `usual` recognizes usual behaviour. `suspects` adds the likely causes of a change, and
//! `earlier` its figures on earlier days.
//!
//! A judgement is written between two rounds of folding, and takes effect only if the store still has the preceding
//! judgement ([`store::conditional_write`](crate::store::conditional_write)). So two instances may judge the same
//! minute without harm. Only the instance whose write took effect calls its callbacks.

mod earlier;
mod judgement_fields;
mod schedule;
mod session;
mod suspects;
mod usual;

use std::sync::{Arc, Mutex};

pub use self::judgement_fields::{Findings, JudgementFields};
use self::session::{JudgedScope, Session};
use crate::callbacks::{Callback, Callbacks};
use crate::clock::Clock;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::fold::Folder;
use crate::recorder::Recorder;
use crate::store::conditional_write::Written;
use crate::store::judgement::read_judged;
use crate::store::{Store, StoreFuture};
use crate::task::{boxed, lock};
use tower_pulse_detect::change::Change;
use tower_pulse_detect::detector::Coverage;
use tower_pulse_detect::last_judgement::LastJudgement;

/// The length of the slices that are judged, in seconds.
const MINUTE: i64 = 60;

/// If the store's last judgement is far in the future, and stays the same for this many seconds, the next judgement
/// replaces it.
const STAYS_AHEAD: i64 = 3 * MINUTE;

/// Judges the minutes of a fleet.
pub struct Judge {
    store: Arc<dyn Store>,
    clock: Clock,
    folder: Arc<Folder>,
    /// Knows which samples of this instance may not be in the store yet.
    recorder: Arc<Recorder>,
    /// `None` in an instance that does not judge, and while the session judges a minute. So if the future of
    /// [`judge`](Self::judge) is dropped, the next call resumes from the store.
    session: tokio::sync::Mutex<Option<Session>>,
    callbacks: Callbacks<Change>,
    /// The revision of a judgement in the far future, and when this instance first saw it, in Unix seconds.
    ahead: Mutex<Option<(Arc<str>, i64)>>,
    status: Mutex<JudgeStatus>,
}

/// The state of change detection, as far as this instance knows.
#[derive(Clone, Debug, Default)]
pub struct JudgeStatus {
    /// The end of the last minute that was judged, by any instance, in Unix seconds.
    pub until: Option<i64>,
    /// The coverage of the detector at that time.
    pub coverage: Coverage,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
}

impl Judge {
    /// A judge of the minutes in a store.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        folder: Arc<Folder>,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self {
            store,
            clock,
            folder,
            recorder,
            session: tokio::sync::Mutex::default(),
            callbacks: Callbacks::new("on_change"),
            ahead: Mutex::default(),
            status: Mutex::default(),
        }
    }

    /// Adds a function that is called with a change when this instance finds that the change has begun or ended.
    pub fn on_change(&self, callback: Callback<Change>) {
        self.callbacks.add(callback);
    }

    /// The state of judging.
    pub fn status(&self) -> JudgeStatus {
        lock(&self.status).clone()
    }

    /// Judges all minutes that end by `until`, in Unix seconds, if their samples can be read. While another instance
    /// folds, this instance judges only if `is_by_hand` is set, and then ends the lease of the other instance. Returns
    /// the number of minutes that this instance has judged.
    ///
    /// Cancel safe: the next call resumes from the store.
    #[inline(never)]
    pub fn judge(&self, until: i64, is_by_hand: bool) -> StoreFuture<'_, usize> {
        Box::pin(async move { self.note(self.judge_minutes(until, is_by_hand).await) })
    }

    fn note<T>(&self, result: Result<T>) -> Result<T> {
        lock(&self.status).last_error = result.as_ref().err().map(ToString::to_string);
        result
    }

    async fn judge_minutes(&self, until: i64, is_by_hand: bool) -> Result<usize> {
        let journal = self.store.journal();
        // `unsent_since` is read before the status, so the status includes every sample that was sent before this line.
        let unsent_since = self.recorder.drain.unsent_since().unwrap_or(i64::MAX);
        let status = self.store.upkeep().status(self.clock.now_seconds());
        let readable = status.await?.as_of;
        let end = until.min(readable).min(unsent_since).div_euclid(MINUTE) * MINUTE;
        let mut slot = self.session.lock().await;
        let mut judged = 0;
        let mut refused = None;
        loop {
            let last = read_judged(journal).await?;
            if refused.as_ref() == Some(&last) {
                let message = "a judgement was refused, although no other instance has judged";
                let error = StoreError::new(StoreErrorKind::Unexpected, message.to_owned());
                return Err(error);
            }
            self.remember(last.judged.until, last.judged.coverage);
            if last.judged.until >= end && !self.notice_wrong_clock(&last.judged) {
                // Only the instance that judges needs a session. In other instances, the history in a session would
                // waste memory.
                if slot.as_ref().is_some_and(|s| !s.is_after(&last)) {
                    *slot = None;
                }
                return Ok(judged);
            }
            let now = self.clock.now_seconds();
            let session = slot.take().filter(|s| s.is_after(&last));
            let session = session.filter(|s| s.can_continue_to(end));
            let session = match session {
                Some(session) => session,
                None => {
                    let limits = &self.recorder.limits;
                    let scope = JudgedScope {
                        max_contexts: limits.max_contexts,
                        has_queue: limits.queue_header.is_some(),
                    };
                    Session::resume(&*self.store, journal, (end, now), scope).await?
                }
            };
            let (session, write, events) = session.judge(&*self.store, end, now).await?;
            let written = match is_by_hand {
                true => boxed(self.folder.write_by_hand(&write)).await?,
                false => self.folder.write(&write).await?,
            };
            match written {
                Written::Done => {}
                Written::Differs => {
                    refused = Some(last);
                    continue;
                }
                Written::NoLease => return Ok(judged),
            }
            self.remember(session.until, session.coverage);
            *slot = Some(session);
            judged += 1;
            self.callbacks.call(&self.clock, events).await;
        }
    }

    /// Returns whether the last judgement is far in the future, and has had the same revision since a call at least
    /// [`STAYS_AHEAD`] seconds ago. If only the clock of this instance is wrong, other instances judge during this
    /// time, and the revision changes.
    fn notice_wrong_clock(&self, last: &LastJudgement) -> bool {
        let now = self.clock.now_seconds();
        let mut ahead = lock(&self.ahead);
        if !session::is_ahead(last.until, now) {
            *ahead = None;
            return false;
        }
        let seen = ahead
            .take()
            .filter(|(revision, _)| *revision == last.revision);
        let (_, since) = ahead.insert(seen.unwrap_or_else(|| (last.revision.clone(), now)));
        // The clock may have been set back after `since`.
        *since = now.min(*since);
        now - *since >= STAYS_AHEAD
    }

    fn remember(&self, until: i64, coverage: Coverage) {
        let mut status = lock(&self.status);
        status.until = (until > 0).then_some(until);
        status.coverage = coverage;
    }
}
