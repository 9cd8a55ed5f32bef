//! The upkeep of rankings between rounds: slices that have left the window are taken out of the sums, and ids for
//! which there is no room are dropped, some ids at a time.

use std::sync::Arc;

use super::lease::Lease;
use super::rankings::{
    IDS_AT_ONCE, Stored, dropped_write, number, set_number, slice_of, state_write, totals_of, ttl,
};
use crate::error::StoreError;
use crate::store::journal::{Journal, Step};
use crate::store::table::{FieldWrites, Table};

/// Ids that are taken out before entries are folded again.
const IDS_PER_ROUND: usize = 20_000;

impl Lease {
    /// Counts what is taken out of a ranking as it has no room. `None` when the lease is lost.
    async fn dropped(
        &self,
        journal: &dyn Journal,
        instance: &str,
        name: &Arc<str>,
        more: u64,
    ) -> Result<Option<FieldWrites>, StoreError> {
        let fields = vec![(Table::RankingsDropped, vec![name.as_bytes().to_vec()])];
        let version = &self.progress.version;
        let Step::Done(values) = journal.load_fields(instance, version, &fields).await? else {
            return Ok(None);
        };
        let mut stored = Stored::new(fields, values);
        Ok(Some(dropped_write(name, &mut stored, more)))
    }

    /// Takes slices that have left the window at `now` out of the sums. `false` when the lease is lost.
    pub(super) async fn expire_rankings(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        now: i64,
    ) -> Result<bool, StoreError> {
        let mut left = IDS_PER_ROUND;
        let mut expired: Vec<_> = (self.rankings(journal).await?.iter())
            .filter(|(_, state)| state.slices.is_empty() || state.expired(now).next().is_some())
            .map(|(name, state)| {
                let starts: Vec<i64> = state.expired(now).collect();
                // Once the window is over, no slice may be left when another one begins: the sums of slices that
                // are gone are removed with the last slice.
                let is_over = starts.len() == state.slices.len();
                (name.clone(), starts, is_over)
            })
            .collect();
        expired.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (name, starts, is_over) in expired {
            for start in &starts {
                let ids = journal.list_fields(&slice_of(&name, *start)).await?;
                let ids: Vec<_> = ids.into_iter().map(|(id, _)| id).collect();
                if !self
                    .take_out(journal, instance, &name, *start, &ids, 0)
                    .await?
                    || !self.forget_slice(journal, instance, &name, *start).await?
                {
                    return Ok(false);
                }
                left = left.saturating_sub(ids.len());
                if left == 0 && !is_over {
                    return Ok(true);
                }
            }
            if starts.is_empty() && !self.forget_ranking(journal, instance, &name).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Drops ids for which the rankings that the last round has added to have no room. `false` when the lease is
    /// lost.
    pub(super) async fn limit_rankings(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
    ) -> Result<bool, StoreError> {
        while let Some(name) = self.touched_rankings.pop_first() {
            if !self.limit_ranking(journal, instance, &name).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes ids out of a slice and its counts out of the sums. Counts them as dropped if `dropped` is 1.
    async fn take_out(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        name: &Arc<str>,
        start: i64,
        ids: &[Vec<u8>],
        dropped: u64,
    ) -> Result<bool, StoreError> {
        let spec = self
            .rankings(journal)
            .await?
            .get(name)
            .map(|state| state.spec);
        let ttl = spec.map(ttl);
        for ids in ids.chunks(IDS_AT_ONCE) {
            let fields = [
                (slice_of(name, start), ids.to_vec()),
                (totals_of(name), ids.to_vec()),
            ];
            let version = &self.progress.version;
            let Step::Done(values) = journal.load_fields(instance, version, &fields).await? else {
                return Ok(false);
            };
            let mut slice = FieldWrites::new(slice_of(name, start), None);
            let mut totals = FieldWrites::new(totals_of(name), ttl);
            let mut sum = 0u64;
            for (at, id) in ids.iter().enumerate() {
                let [count, total] = [0, 1].map(|table: usize| number(values[table][at].as_ref()));
                slice.removed.push(id.clone());
                set_number(&mut totals, id, total.saturating_sub(count));
                sum = sum.saturating_add(count.unsigned_abs());
            }
            let mut writes = vec![slice, totals];
            if dropped > 0 {
                let Some(write) = self.dropped(journal, instance, name, sum).await? else {
                    return Ok(false);
                };
                writes.push(write);
            }
            if !self.maintain_fields(journal, instance, &writes).await? {
                return Ok(false);
            }
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    /// Forgets a slice that is empty. A ranking without slices is forgotten as well.
    async fn forget_slice(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        name: &Arc<str>,
        start: i64,
    ) -> Result<bool, StoreError> {
        let Some(state) = self.rankings(journal).await?.get_mut(name) else {
            return Ok(true);
        };
        state.slices.remove(&start);
        if state.slices.is_empty() {
            return self.forget_ranking(journal, instance, name).await;
        }
        let write = state_write(name, Some(state));
        self.maintain_fields(journal, instance, &[write]).await
    }

    /// Forgets a ranking without slices, and sums that are left as slices were deleted by another program.
    async fn forget_ranking(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        name: &Arc<str>,
    ) -> Result<bool, StoreError> {
        let left = journal.list_fields(&totals_of(name)).await?;
        for ids in left.chunks(IDS_AT_ONCE) {
            let mut totals = FieldWrites::new(totals_of(name), None);
            totals.removed.extend(ids.iter().map(|(id, _)| id.clone()));
            if !self.maintain_fields(journal, instance, &[totals]).await? {
                return Ok(false);
            }
        }
        self.rankings(journal).await?.remove(name);
        let write = state_write(name, None);
        self.maintain_fields(journal, instance, &[write]).await
    }

    /// Drops the smallest counts of the oldest slices until a ranking has no more ids than it may.
    async fn limit_ranking(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        name: &Arc<str>,
    ) -> Result<bool, StoreError> {
        let Some(state) = self.rankings(journal).await?.get(name).cloned() else {
            return Ok(true);
        };
        let most = state.spec.max_ids as usize;
        for start in state.slices {
            let mut surplus = journal
                .count_fields(&totals_of(name))
                .await?
                .saturating_sub(most);
            if surplus == 0 {
                return Ok(true);
            }
            let mut ids: Vec<_> = (journal.list_fields(&slice_of(name, start)).await?)
                .into_iter()
                .map(|(id, count)| (number(Some(&count)), id))
                .collect();
            ids.sort_unstable();
            let is_emptied = ids.len() <= surplus;
            let mut ids = ids.into_iter().map(|(_, id)| id);
            // An id that is part of later slices stays, with its additions there.
            while surplus > 0 {
                let part: Vec<_> = ids.by_ref().take(surplus).collect();
                if part.is_empty() {
                    break;
                }
                if !self
                    .take_out(journal, instance, name, start, &part, 1)
                    .await?
                {
                    return Ok(false);
                }
                let left = journal.count_fields(&totals_of(name)).await?;
                surplus = left.saturating_sub(most);
            }
            if is_emptied
                && ids.next().is_none()
                && !self.forget_slice(journal, instance, name, start).await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
