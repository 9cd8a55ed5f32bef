//! Rolling up: the records of ended slices of the finest tier are added to the coarser tiers.

use std::collections::{BTreeMap, BTreeSet};

use super::lease::{Lease, SLICES_REMEMBERED};
use super::steps::ttl;
use crate::error::StoreError;
use crate::model::records::{RecordId, Records};
use crate::model::tier::{FINEST, TierSlice};
use crate::store::journal::Journal;
use crate::store::table::{FieldWrites, Table};

/// Contexts whose records one step rolls up.
const CONTEXTS_AT_ONCE: usize = 64;

impl Lease {
    /// Adds the records of slices that have ended for long to the coarser tiers, although no entry arrives. `false` when
    /// the lease is lost.
    pub(super) async fn roll_up_overdue(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        now: i64,
    ) -> Result<bool, StoreError> {
        if !self.progress.rolled.is_overdue(now) {
            return Ok(true);
        }
        self.stamp = self.stamp.max(now);
        self.roll_up(journal, instance).await
    }

    /// Adds the records of ended slices to the coarser tiers, before the next round is folded. `false` when the
    /// lease is lost. An instance that takes over half-way begins again: each record of a coarser tier says up to
    /// which minute they are part of it.
    pub(super) async fn roll_up(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
    ) -> Result<bool, StoreError> {
        let rolled = &mut self.progress.rolled;
        let is_new = rolled.is_new();
        rolled.advance(self.stamp);
        let candidates: Vec<i64> = match is_new {
            true => rolled.pending().collect(),
            false => rolled.due().collect(),
        };
        if candidates.is_empty() {
            return Ok(true);
        }
        let mut slices: Vec<TierSlice> = (candidates.iter())
            .map(|minute| (FINEST.seconds, *minute))
            .collect();
        let mut minutes_of: BTreeMap<RecordId, Vec<i64>> = BTreeMap::new();
        for (minute, ids) in candidates.iter().zip(recorded(journal, &slices).await?) {
            if ids.is_empty() {
                self.progress.rolled.remove(*minute);
            } else if self.progress.rolled.contains(*minute) {
                for id in ids {
                    minutes_of.entry(id).or_default().push(*minute);
                }
            }
            tokio::task::yield_now().await;
        }
        let rolled = &self.progress.rolled;
        slices.retain(|slice| rolled.contains(slice.1) && rolled.is_pending(slice.1));
        let contexts: Vec<_> = minutes_of.into_iter().collect();
        for part in contexts.chunks(CONTEXTS_AT_ONCE) {
            let (mut needed, mut written) = (Vec::new(), Vec::new());
            for (id, minutes) in part {
                let finest = minutes
                    .iter()
                    .map(|minute| ((FINEST.seconds, *minute), *id));
                written.extend(Records::coarser(*id, minutes));
                needed.extend(finest);
            }
            needed.extend(&written);
            needed.retain(|key| self.records.get(*key).is_none());
            if !self.load(journal, instance, &needed).await? {
                return Ok(false);
            }
            for (id, minutes) in part {
                self.records.roll_up(*id, minutes, &self.progress.rolled);
            }
            tokio::task::yield_now().await;
            let is_ours = self.maintain_records(journal, instance, &written).await?;
            if !is_ours {
                return Ok(false);
            }
            self.records.retain_newest(SLICES_REMEMBERED);
        }
        self.progress.rolled.finish();
        let rolled = &self.progress.rolled;
        // The next step writes the progress of rolling up anyway.
        if contexts.is_empty() {
            return Ok(true);
        }
        // They may expire after the retention of their tier from now on.
        let released = slices.into_iter();
        let released =
            released.map(|at| FieldWrites::expire(Table::records(at), ttl(at, rolled, self.stamp)));
        let released: Vec<_> = released.collect();
        self.maintain_fields(journal, instance, &released).await
    }
}

/// The contexts that have a record in each of some slices.
async fn recorded(
    journal: &dyn Journal,
    slices: &[TierSlice],
) -> Result<Vec<BTreeSet<RecordId>>, StoreError> {
    let mut ids = vec![BTreeSet::new(); slices.len()];
    let mut listed: Vec<usize> = (0..slices.len()).collect();
    let mut pages: Vec<_> = (slices.iter())
        .map(|at| (Table::records(*at), None))
        .collect();
    while !pages.is_empty() {
        let mut next = Vec::new();
        for (at, page) in listed.into_iter().zip(journal.list_fields(&pages).await?) {
            let fields = page.fields.iter();
            ids[at].extend(fields.filter_map(|(id, _)| RecordId::from_bytes(id)));
            if page.next.is_some() {
                next.push((at, (Table::records(slices[at]), page.next)));
            }
            tokio::task::yield_now().await;
        }
        (listed, pages) = next.into_iter().unzip();
    }
    Ok(ids)
}
