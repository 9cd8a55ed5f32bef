//! Recovery after the store has lost data: calls after a failover, or everything after a reset.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Entered, Flusher, Sending, new_instance};
use crate::error::Result;
use crate::store::{Appended, Generation};
use tower_pulse_model::amounts::Amounts;

/// If a generation is lost while it is younger than this, a failover counts as the cause, and the calls of the
/// generation are sent again.
const YOUNG: Duration = Duration::from_secs(60);
const MAX_GENERATIONS: usize = 64;

impl Flusher {
    /// The store's generation. Asks the store only if the generation is not known.
    pub(super) async fn generation(&self, sending: &mut Sending) -> Result<String> {
        if let Some(current) = &sending.generation {
            return Ok(current.id.clone());
        }
        let generation = self.store.hello().await?;
        let id = generation.id.clone();
        self.enter(sending, generation);
        Ok(id)
    }

    pub(super) fn enter(&self, sending: &mut Sending, generation: Generation) {
        if !sending.generations.contains(&generation.id) {
            sending.generations.push_back(generation.id.clone());
            if sending.generations.len() > MAX_GENERATIONS {
                sending.generations.pop_front();
            }
        }
        sending.generation = Some(Entered {
            id: generation.id,
            age: Duration::from_secs(generation.age),
            since: self.clock().tick(),
            answered_at_age: None,
        });
    }

    /// Replays the next buffered call that the store lacks. If no such call is buffered, continues without the lost
    /// calls. Returns whether a call was appended.
    pub(super) async fn replay_next(&self, sending: &mut Sending, fence: u64) -> Result<bool> {
        let plan = sending.replay.plan_gap(fence, self.clock());
        self.count_lost(
            plan.lost,
            plan.missing,
            "the store lost calls that are too old to be replayed",
        );
        let Some(seq) = plan.seq else {
            let Some(call) = &mut sending.in_doubt else {
                return Ok(false);
            };
            call.previous = fence;
            return Ok(false);
        };
        let generation = self.generation(sending).await?;
        let Some(call) = sending.replay.call(seq, fence, &generation) else {
            return Ok(false);
        };
        self.replays.fetch_add(1, Ordering::SeqCst);
        match self.store.append(call).await? {
            Appended::Done(receipt) => {
                // The replay gives the newest call another position. Callers wait until the journal is folded up to
                // this position.
                if let Some((newest, at)) = &mut sending.newest
                    && *newest == seq
                {
                    *at = receipt;
                }
                let drain = &self.recorder.drain;
                drain.counters(|counters| counters.replayed += 1);
                Ok(true)
            }
            Appended::Full => Err(self.full()),
            _ => Ok(false),
        }
    }

    /// Counts lost amounts. The next flush reports the missing requests to all readers of the store.
    pub(super) fn count_lost(
        &self,
        lost: Amounts,
        missing: impl IntoIterator<Item = (i64, u64)>,
        why: &str,
    ) {
        for missing in missing {
            self.recorder.add_missing(missing);
        }
        if !lost.is_zero() {
            let drain = &self.recorder.drain;
            drain.counters(|counters| counters.lost += lost);
            tracing::error!(
                requests = lost.samples,
                additions = lost.additions,
                details = lost.details,
                "{why}: {lost} lost; use persistence and a replica, and raise `replay_bytes` \
                 to send more calls again after a failover"
            );
        }
    }

    /// Enters the store's new generation, after a reset of the store, or after a failover to a replica that lacked the
    /// old generation.
    pub(super) async fn follow_reset(&self, sending: &mut Sending) -> Result<()> {
        let generation = self.store.hello().await?;
        let is_new = generation.is_fresh && !sending.generations.contains(&generation.id);
        let former = sending.generation.as_ref();
        let answered = former.and_then(|former| former.answered_at_age);
        // A generation in which no call was answered counts as young.
        let was_young = answered.is_none_or(|age| age < YOUNG);
        let id = generation.id.clone();
        self.enter(sending, generation);
        if is_new && was_young {
            self.count_reset();
            tracing::warn!(
                "the store lost all its data less than a minute after its first use, as in a failover: this instance \
                 sends the acknowledged calls again"
            );
            if let Some(call) = &mut sending.in_doubt {
                call.generation = id;
            }
            return Ok(());
        }
        tracing::warn!(
            "the store was reset or came back empty, and some or all earlier data is gone: {}. This instance continues \
             under a new id",
            self.store.reset_remedy().unwrap_or("health says why")
        );
        self.restart_instance(sending, is_new);
        Ok(())
    }

    fn count_reset(&self) {
        let drain = &self.recorder.drain;
        drain.counters(|counters| counters.store_resets += 1);
    }

    /// Continues under a new id. Calls that were acknowledged under the old id are never replayed. The call in doubt is
    /// sent again only if the store cannot have it.
    pub(super) fn restart_instance(&self, sending: &mut Sending, store_lacks_call: bool) {
        self.count_reset();
        let instance = new_instance();
        sending.replay.clear();
        sending.newest = None;
        sending.next = 1;
        if let Some(mut call) = sending.in_doubt.take() {
            if store_lacks_call || !sending.is_ever_sent {
                call.instance.clone_from(&instance);
                (call.seq, call.previous) = (1, 0);
                if let Some(current) = &sending.generation {
                    call.generation.clone_from(&current.id);
                }
                (sending.next, sending.is_sent) = (2, false);
                sending.in_doubt = Some(call);
            } else {
                let (second, requests) = call.batch.served();
                // The store has no data from before its generation began.
                let created = sending.generation.as_ref().map_or(0, |current| {
                    let now = self.clock().now_seconds();
                    now.saturating_sub_unsigned(current.age.as_secs())
                });
                self.count_lost(
                    call.batch.amounts(),
                    [(second.max(created), requests)],
                    "the store was reset while a call was in doubt",
                );
                sending.in_doubt_since = None;
            }
        }
        if self.name.is_none() {
            self.recorder.drain.set_instance(&instance);
        }
        sending.instance = instance;
        self.publish(sending);
    }
}
