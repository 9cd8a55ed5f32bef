//! Takes the pending batch, and appends it in numbered calls.

use std::time::Duration;

use super::replay::Moment;
use super::{Flusher, Sending};
use crate::clock::Tick;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::store::{Appended, FencedBatch, Receipt};
use tower_pulse_model::amounts::Amounts;
use tower_pulse_model::batch::Batch;

/// The most successive answers without progress. After one more, the flush fails.
const MAX_VAIN_ANSWERS: usize = 3;

impl Flusher {
    /// Appends the whole pending batch. Returns the number of calls that were sent, without replays.
    pub(super) async fn send_all(&self, sending: &mut Sending) -> Result<usize> {
        let (mut calls, mut is_taken, mut attempts) = (0, false, 0);
        loop {
            if sending.in_doubt.is_none() {
                // The pending batch is taken once per flush. Requests that are recorded meanwhile wait for the next
                // flush, or else this flush might never end.
                if sending.unsequenced.is_empty() && !std::mem::replace(&mut is_taken, true) {
                    sending.unsequenced = self.recorder.drain.take();
                    sending.is_closed = false;
                    sending.unsequenced_amounts = sending.unsequenced.amounts();
                }
                if sending.unsequenced.is_empty() {
                    if calls == 0 {
                        calls += self.verify_newest(sending).await?;
                    }
                    self.recorder.drain.note_all_sent();
                    return Ok(calls);
                }
                let generation = self.generation(sending).await?;
                let batch = sending.unsequenced.split(sending.sizer.cost);
                let left = sending.unsequenced_amounts.saturating_sub(batch.amounts());
                sending.unsequenced_amounts = match sending.unsequenced.is_empty() {
                    true => Amounts::default(),
                    false => left,
                };
                (sending.is_sent, sending.is_ever_sent) = (false, false);
                sending.in_doubt = Some(FencedBatch {
                    generation,
                    instance: sending.instance.clone(),
                    seq: sending.next,
                    previous: sending.next - 1,
                    batch,
                });
                sending.in_doubt_since = Some(self.clock().tick());
                sending.next += 1;
                self.publish(sending);
            }
            sending.vain_answers = match self.send_in_doubt(sending).await? {
                true => 0,
                false => sending.vain_answers + 1,
            };
            // While a call is in doubt, each attempt to send it replays at most one other call.
            attempts = match sending.in_doubt {
                None => 0,
                Some(_) => attempts + 1,
            };
            let max_attempts = MAX_VAIN_ANSWERS + sending.replay.len();
            if sending.vain_answers > MAX_VAIN_ANSWERS || attempts > max_attempts {
                return Err(no_progress());
            }
            calls += 1;
            // Lets other tasks run, because a store in this process answers without a wait.
            tokio::task::yield_now().await;
        }
    }

    /// Appends the call in doubt, and handles the answer. Returns whether there was progress: whether the store has
    /// acknowledged a call.
    pub(super) async fn send_in_doubt(&self, sending: &mut Sending) -> Result<bool> {
        let Some(call) = &sending.in_doubt else {
            return Ok(true);
        };
        let (start, cost) = (self.clock().tick(), sending.sizer.cost);
        let sent = Moment::now(self.clock());
        let sent_before = std::mem::replace(&mut sending.is_sent, true);
        sending.is_ever_sent = true;
        let appended = self.store.append(call).await?;
        sending.sizer.adapt(self.clock().since(start), cost);
        self.note_answer(sending, start, &appended);
        match appended {
            // The store cannot have a call that was never sent, so another program has set this fence.
            Appended::Duplicate(_) if !sent_before => {
                tracing::warn!(
                    "the store has a call that this instance never sent: this instance continues under a new id; \
                     look for another program that writes `{{prefix}}pulse:state`"
                );
                self.restart_instance(sending, true);
                Ok(false)
            }
            Appended::Done(receipt) | Appended::Duplicate(receipt) => {
                self.note_receipt(sending, receipt, sent);
                Ok(true)
            }
            Appended::Gap { fence } => self.replay_next(sending, fence).await,
            Appended::Reset => {
                self.follow_reset(sending).await?;
                Ok(false)
            }
            Appended::Full => Err(self.full()),
            Appended::Garbled => {
                self.leave_garbled(sending, !sent_before);
                Ok(false)
            }
        }
    }

    /// Continues under a new id, because the fence of this instance is unreadable: the store does not know which calls
    /// it has. Acknowledged calls are never sent again. The call in doubt is sent again only if the store cannot have
    /// it.
    pub(super) fn leave_garbled(&self, sending: &mut Sending, store_lacks_call: bool) {
        tracing::warn!(
            "the number of this instance's last call cannot be read: this instance continues under a new id; look \
             for another program that writes `{{prefix}}pulse:state`, which holds the number"
        );
        self.restart_instance(sending, store_lacks_call);
    }

    /// The error of a full journal. Also wakes the folder of this instance, because the instance that folded may have
    /// died.
    pub(super) fn full(&self) -> StoreError {
        self.leaderless.notify_one();
        StoreError::new(
            StoreErrorKind::Refused,
            "the journal is full (`journal_bytes`), because it is not folded or trimmed: samples wait in this \
             process; see the health of the instance that `fold.journal.folder` names, or of each instance if \
             this is `null`",
        )
    }

    /// Notes the age that the generation had when the answered call was sent, unless the answer is a reset.
    pub(super) fn note_answer(&self, sending: &mut Sending, sent: Tick, appended: &Appended) {
        if let (Some(current), false) = (&mut sending.generation, *appended == Appended::Reset) {
            let since = Duration::from_nanos(self.clock().nanos_between(current.since, sent));
            current.answered_at_age = Some(current.age + since);
        }
    }

    pub(super) fn note_receipt(&self, sending: &mut Sending, receipt: Receipt, sent: Moment) {
        if let Some(call) = sending.in_doubt.take() {
            sending.newest = Some((call.seq, receipt));
            sending.replay.push(self.clock(), call, sent);
            if !receipt.has_leader {
                self.leaderless.notify_one();
            }
        }
        if sending.unsequenced.is_empty() {
            self.recorder.drain.note_all_sent();
        }
        sending.in_doubt_since = None;
        sending.flushed_at = Some(self.clock().tick());
        self.note_contact();
        self.publish(sending);
    }

    /// For a flush that has nothing to append, asks whether the store still has the newest acknowledged call, and
    /// replays calls that a failover lost. Returns the number of times that the store was asked.
    pub(super) async fn verify_newest(&self, sending: &mut Sending) -> Result<usize> {
        // Each missing call is replayed once. If the store loses more calls meanwhile, the next flush replays them.
        let (mut calls, max_calls) = (0, sending.replay.len() + 1 + MAX_VAIN_ANSWERS);
        while calls < max_calls
            && let Some(seq) = sending.replay.newest()
        {
            let generation = self.generation(sending).await?;
            // A call whose `previous` is its own number is never appended. The answer shows the fence.
            let call = FencedBatch {
                generation,
                instance: sending.instance.clone(),
                seq,
                previous: seq,
                batch: Batch::new(self.store.precisions().clone()),
            };
            let start = self.clock().tick();
            let is_last_question = sending.replay.is_newest_old(self.clock());
            let appended = self.store.append(&call).await?;
            calls += 1;
            self.note_answer(sending, start, &appended);
            match appended {
                Appended::Done(receipt) | Appended::Duplicate(receipt) => {
                    if is_last_question {
                        sending.replay.settle();
                    }
                    let is_unfolded = sending
                        .newest
                        .is_some_and(|(_, newest)| newest.position.offset > receipt.folded.offset);
                    if is_unfolded && !receipt.has_leader {
                        self.leaderless.notify_one();
                    }
                    self.note_contact();
                    break;
                }
                Appended::Gap { fence } => {
                    if !self.replay_next(sending, fence).await? {
                        break;
                    }
                }
                Appended::Reset => self.follow_reset(sending).await?,
                Appended::Full => return Err(self.full()),
                // No call is in doubt.
                Appended::Garbled => self.leave_garbled(sending, true),
            }
        }
        Ok(calls)
    }
}

fn no_progress() -> StoreError {
    StoreError::new(
        StoreErrorKind::Unexpected,
        "the store asks for the same calls again and again: look for another program that writes these keys, \
         or for a proxy that answers instead of the store",
    )
}
