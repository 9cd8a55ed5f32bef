//! One round: its entries are read and merged (`gather`), divided into steps, and written (`steps`).

use std::time::Instant;

use super::additions;
use super::features::Features;
use super::gather::Read;
use super::leased_store::{Interrupted, Leased, LeasedStore};
use super::plan::{Outcome, Plans};
use crate::error::StoreError;
use crate::random::random_name;
use crate::store::Position;
use crate::store::journal::{Amendment, Entry};
use tower_pulse_model::entry::ENTRY_VERSION;

impl LeasedStore<'_> {
    /// Folds the begun round, or the next round. `own_now` is the time of this instance.
    pub(super) async fn next_round(
        &mut self,
        features: &mut Features,
        own_now: i64,
    ) -> Leased<Outcome> {
        let start = Instant::now();
        let mut stop_before = None;
        let gathered = loop {
            match self.gather(own_now, stop_before).await? {
                Read::Gathered(gathered) => break gathered,
                Read::Newer(entry) => return Ok(Outcome::Newer(entry)),
                // The entries before the garbled entry are folded first, in a round of their own. A begun round cannot
                // be shortened, because its end is fixed.
                Read::Garbled(entry, false) if self.lease.progress.round_end.is_none() => {
                    stop_before = Some(entry.position);
                }
                Read::Garbled(entry, _) => return self.set_aside(&entry).await,
            }
        };
        let is_new = self.lease.progress.round_end.is_none();
        if is_new {
            features.between_rounds(self, gathered.now).await?;
        }
        if gathered.entries.is_empty() {
            if is_new {
                let now = gathered.now.min(own_now);
                features.while_idle(self, now).await?;
            }
            return self.trim_or_skip_hole(gathered.head).await;
        }
        let round_end = self.lease.progress.round_end.unwrap_or(gathered.end);
        let after = round_end.offset.saturating_sub(gathered.end.offset);
        let hole_bytes = gathered.hole_bytes + after;
        if hole_bytes > 0 {
            tracing::error!(
                bytes = hole_bytes,
                "entries of the journal were gone before they were folded, and their samples are lost: look for DEL, \
                 FLUSHALL and evictions"
            );
        }
        let is_caught_up = gathered.end == gathered.head;
        let round = gathered.round;
        if is_new {
            let lease = &mut *self.lease;
            // Either of the two clocks may be behind for a moment.
            lease.progress.rolled.limit(gathered.now.max(own_now));
            lease.newest_at = lease.newest_at.max(round.newest_at);
            features.before_round(self).await?;
        }
        let mut plans = Plans::default();
        additions::plan(self, &round, &mut plans).await;
        features.plan(self, &round, &mut plans).await?;
        self.lease.folded.extend(gathered.entries);
        self.write_round(features, &round, plans, round_end, hole_bytes, start)
            .await?;
        features.after_round(self).await?;
        Ok(match is_caught_up {
            true => Outcome::CaughtUp,
            false => Outcome::Folded,
        })
    }

    async fn set_aside(&mut self, entry: &Entry) -> Leased<Outcome> {
        tracing::error!(
            position = %entry.position, requests = entry.requests, version = entry.version,
            "no instance can read an entry of the journal, and the entry is set aside: health says what to do"
        );
        let next = random_name();
        let version = &self.lease.progress.version;
        let step = (self.journal).amend(version, &next, Amendment::SetAside(entry));
        step.await?.done()?;
        self.lease.progress.version = next;
        self.lease.progress.unreadable.push(entry.position);
        Ok(Outcome::Folded)
    }

    /// Makes all folders that cannot read this entry wait.
    pub(super) async fn wait_for_newer(&self, entry: &Entry) -> Result<(), StoreError> {
        tracing::warn!(
            position = %entry.position, version = entry.version, readable = ENTRY_VERSION,
            "folding waits at an entry of a newer version of this crate: start an instance of that version"
        );
        let (version, next) = (&self.lease.progress.version, random_name());
        // If the amendment has no effect, another instance has become the folder.
        let amendment = Amendment::WaitForNewer(entry);
        (self.journal.amend(version, &next, amendment).await).map(drop)
    }

    /// Handles a read without entries. If the journal is folded completely, trims the journal. Otherwise entries are
    /// missing, and folding continues after the missing entries.
    async fn trim_or_skip_hole(&mut self, head: Position) -> Leased<Outcome> {
        let lease = &mut *self.lease;
        if lease.progress.round_end.is_none() && head == lease.progress.committed {
            let is_trimmed = lease.is_trimmed && self.journal.has_trimmed();
            if !is_trimmed || !lease.folded.is_empty() {
                // A full journal accepts no entries, so without this trim, no later round would trim the folded
                // entries.
                lease.folded.push_back(lease.progress.committed);
                self.trim().await?;
                self.lease.is_trimmed = true;
            }
            return Ok(Outcome::Idle);
        }
        tracing::error!(
            "entries of the journal were gone before they were folded, and their samples are lost: look for DEL, \
             FLUSHALL and evictions"
        );
        let next = random_name();
        let step = (self.journal).amend(&self.lease.progress.version, &next, Amendment::CloseHole);
        step.await?.done()?;
        // The next acquisition of the lease reads where the journal continues.
        Err(Interrupted::Lost)
    }
}
