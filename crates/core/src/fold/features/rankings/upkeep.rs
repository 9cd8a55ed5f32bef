//! The upkeep of rankings between rounds, some ids at a time. Slices that have left the window are subtracted from the
//! sums, and ids for which there is no room are removed.
//!
//! An id is taken out of a slice and out of the sums in one step. So a folder that takes over half-way, or resumes in
//! the next round, continues with the ids that are left.

use std::collections::BinaryHeap;
use std::sync::Arc;

use super::Rankings;
use super::plan::{
    IDS_AT_ONCE, Stored, dropped_write, number, set_number, slice_of, state_write, totals_of, ttl,
};
use crate::error::StoreError;
use crate::fold::leased_store::{Leased, LeasedStore};
use crate::store::journal::Journal;
use crate::store::table::{FieldWrites, Table};
use crate::store::table_reads::{Purpose, TablePage, TableRead, read_table};

/// Between two rounds, at most about this many ids are taken out because their slice has left the window. At most as
/// many are taken out for lack of room.
const IDS_PER_ROUND: usize = 20_000;
/// Reading a page of a table counts as taking out this many ids.
const IDS_PER_PAGE: usize = 20;

impl Rankings {
    /// Subtracts slices that have left the window at `now` from the sums.
    pub(in crate::fold) async fn expire(
        &mut self,
        leased: &mut LeasedStore<'_>,
        now: i64,
    ) -> Leased<()> {
        self.load_all(leased.journal).await?;
        let due = self.known.iter().filter(|(_, ranking)| {
            let state = &ranking.state;
            let is_due = state.slices.is_empty() || state.expired(now).next().is_some();
            is_due || !ranking.specs.is_empty()
        });
        let due: Vec<_> = due.map(|(name, _)| name.clone()).collect();
        let mut left = IDS_PER_ROUND;
        for name in due {
            self.expire_ranking(leased, &name, now, &mut left).await?;
        }
        Ok(())
    }

    /// Removes the surplus ids of the rankings that had additions.
    pub(in crate::fold) async fn limit(&mut self, leased: &mut LeasedStore<'_>) -> Leased<()> {
        let mut left = IDS_PER_ROUND;
        for _ in 0..self.to_limit.len() {
            let Some(name) = self.to_limit.pop_front() else {
                break;
            };
            if left == 0 {
                self.limit_later(&name);
                continue;
            }
            let result = self.limit_ranking(leased, &name, &mut left).await;
            if !matches!(result, Ok(true)) {
                self.limit_later(&name);
            }
            result?;
        }
        Ok(())
    }

    /// Subtracts slices that have left the window from the sums of a ranking, for at most about `left` ids.
    async fn expire_ranking(
        &mut self,
        leased: &mut LeasedStore<'_>,
        name: &Arc<str>,
        now: i64,
        left: &mut usize,
    ) -> Leased<()> {
        self.expire_specs(leased, name, now).await?;
        let Some(ranking) = self.known.get(name) else {
            return Ok(());
        };
        let expired: Vec<i64> = ranking.state.expired(now).collect();
        // If all slices have left the window, the whole ranking is removed.
        if expired.len() == ranking.state.slices.len() {
            return self.end_ranking(leased, name).await;
        }
        for start in expired {
            let mut from = None;
            loop {
                if *left == 0 {
                    return Ok(());
                }
                let page = page_of(leased.journal, name, start, from).await?;
                let ids: Vec<_> = page.fields.into_iter().map(|(id, _)| id).collect();
                for ids in ids.chunks(IDS_AT_ONCE) {
                    self.take_out(leased, (name, start), ids, None).await?;
                }
                *left = left.saturating_sub(IDS_PER_PAGE + ids.len());
                if let Some(ranking) = self.known.get_mut(name) {
                    ranking.ids = None;
                }
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
            self.remove_slice(leased, name, start).await?;
        }
        Ok(())
    }

    /// Forgets a configuration with which no instance has added anything for one period of that configuration.
    async fn expire_specs(
        &mut self,
        leased: &mut LeasedStore<'_>,
        name: &Arc<str>,
        now: i64,
    ) -> Leased<()> {
        let Some(ranking) = self.known.get_mut(name) else {
            return Ok(());
        };
        let before = ranking.specs.clone();
        ranking.state.spec = ranking.specs.expire(ranking.state.spec, now);
        if ranking.specs == before {
            return Ok(());
        }
        let state = state_write(name, Some(&ranking.state));
        let writes = [state, ranking.specs_write(name)];
        leased.write(&writes).await
    }

    /// Removes the smallest counts of the oldest slices until a ranking has at most `max_ids` ids, or `left` ids are
    /// removed. Returns whether the ranking is within its limit.
    async fn limit_ranking(
        &mut self,
        leased: &mut LeasedStore<'_>,
        name: &Arc<str>,
        left: &mut usize,
    ) -> Leased<bool> {
        let Some(ranking) = self.known.get(name) else {
            return Ok(true);
        };
        let (spec, slices) = (ranking.state.spec, ranking.state.slices.clone());
        let read = TableRead::Count(totals_of(name));
        let count = read_table(leased.journal, Purpose::Fold, read).await?.count;
        let mut surplus = count.saturating_sub(spec.max_ids as usize);
        for start in slices.iter().copied() {
            if surplus == 0 {
                break;
            }
            let (ids, has_more) = smallest_of(leased.journal, name, start, left).await?;
            let mut taken = 0;
            for part in ids.chunks(IDS_AT_ONCE) {
                let ids: Vec<_> = part.iter().map(|(_, id)| id.clone()).collect();
                // An id that is also in later slices stays in the ranking, with its additions in those slices.
                let slice = (name, start);
                taken += self
                    .take_out(leased, slice, &ids, Some(&mut surplus))
                    .await?;
                if surplus == 0 {
                    break;
                }
            }
            *left = left.saturating_sub(taken);
            if has_more || taken < ids.len() {
                break;
            }
            self.remove_slice(leased, name, start).await?;
        }
        if let Some(ranking) = self.known.get_mut(name) {
            ranking.ids = Some(surplus.saturating_add(spec.max_ids as usize).min(count));
        }
        Ok(surplus == 0)
    }

    /// Takes ids out of a slice, and their counts out of the sums, in one step. With a `surplus`, stops when that many
    /// ids have left the ranking, and counts all that was taken out as dropped additions. Returns the number of ids
    /// that were taken out.
    async fn take_out(
        &mut self,
        leased: &mut LeasedStore<'_>,
        (name, start): (&Arc<str>, i64),
        ids: &[Vec<u8>],
        surplus: Option<&mut usize>,
    ) -> Leased<usize> {
        let mut fields = vec![
            (slice_of(name, start), ids.to_vec()),
            (totals_of(name), ids.to_vec()),
        ];
        if surplus.is_some() {
            fields.push((Table::RankingsDropped, vec![name.as_bytes().to_vec()]));
        }
        let values = leased.load(&fields).await?;
        let mut stored = Stored::new(fields, values);
        let ttl = self.known.get(name).map(|ranking| ttl(ranking.state.spec));
        let mut slice = FieldWrites::new(slice_of(name, start), None);
        let mut totals = FieldWrites::new(totals_of(name), ttl);
        let mut surplus_left = surplus.as_deref().copied();
        let (mut dropped, mut taken) = (0u64, 0);
        for id in ids {
            if surplus_left == Some(0) {
                break;
            }
            let (count, total) = (stored.next(&slice.table), stored.next(&totals.table));
            let total_left = total.saturating_sub(count);
            slice.removed.push(id.clone());
            set_number(&mut totals, id, total_left);
            // An id whose sum is 0 is not in the ranking.
            surplus_left = surplus_left.map(|surplus| match (total, total_left) {
                (0, 0) => surplus,
                (0, _) => surplus + 1,
                (_, 0) => surplus - 1,
                _ => surplus,
            });
            dropped = dropped.saturating_add(count.unsigned_abs());
            taken += 1;
        }
        let mut writes = vec![slice, totals];
        if let Some(surplus) = surplus {
            let before = stored.next(&Table::RankingsDropped);
            writes.push(dropped_write(name, before, dropped));
            *surplus = surplus_left.unwrap_or(0);
        }
        leased.write(&writes).await?;
        tokio::task::yield_now().await;
        Ok(taken)
    }

    /// Removes an empty slice from the state of a ranking. If this was the last slice, removes the ranking.
    async fn remove_slice(
        &mut self,
        leased: &mut LeasedStore<'_>,
        name: &Arc<str>,
        start: i64,
    ) -> Leased<()> {
        let Some(ranking) = self.known.get_mut(name) else {
            return Ok(());
        };
        ranking.state.slices.remove(start);
        if ranking.state.slices.is_empty() {
            return self.end_ranking(leased, name).await;
        }
        let write = state_write(name, Some(&ranking.state));
        leased.write(&[write]).await
    }

    /// Removes a ranking whose window is over, in one step: its state, its sums and its slices, with any number of ids.
    /// So no sums remain of slices that another program has deleted.
    async fn end_ranking(&mut self, leased: &mut LeasedStore<'_>, name: &Arc<str>) -> Leased<()> {
        let Some(ranking) = self.known.get(name) else {
            return Ok(());
        };
        let starts = ranking.state.slices.iter();
        let slices = starts.map(|start| slice_of(name, *start));
        let tables: Vec<_> = [totals_of(name)].into_iter().chain(slices).collect();
        let reads: Vec<_> = tables.iter().cloned().map(TableRead::Count).collect();
        let mut counts = leased.journal.read_tables(Purpose::Fold, &reads).await?;
        let specs = FieldWrites::of(Table::RankingSpecs, None, name.as_bytes(), None);
        let mut writes = vec![state_write(name, None), specs];
        let tables = tables.into_iter().filter(|_| counts.page().count > 0);
        writes.extend(tables.map(FieldWrites::end));
        leased.write(&writes).await?;
        self.known.remove(name);
        Ok(())
    }
}

/// Finds the smallest counts of a slice, at most `left` of them. Returns these counts with their ids, smallest first,
/// and whether the slice has more counts.
async fn smallest_of(
    journal: &dyn Journal,
    name: &Arc<str>,
    start: i64,
    left: &mut usize,
) -> Result<(Vec<(i64, Vec<u8>)>, bool), StoreError> {
    let mut from = None;
    let (mut smallest, mut has_more) = (BinaryHeap::new(), false);
    let most = *left;
    loop {
        let page = page_of(journal, name, start, from).await?;
        *left = left.saturating_sub(IDS_PER_PAGE);
        for (id, count) in page.fields {
            smallest.push((number(Some(&count)), id));
            if smallest.len() > most {
                smallest.pop();
                has_more = true;
            }
        }
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    let mut ids = smallest.into_sorted_vec();
    // A page may repeat ids of an earlier page.
    ids.dedup();
    Ok((ids, has_more))
}

async fn page_of(
    journal: &dyn Journal,
    name: &Arc<str>,
    start: i64,
    from: Option<String>,
) -> Result<TablePage, StoreError> {
    let read = TableRead::Page(slice_of(name, start), from);
    read_table(journal, Purpose::Fold, read).await
}
