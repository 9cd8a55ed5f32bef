//! Rolling up: adds the records of ended slices of the finest tier to the coarser tiers.

use super::{RecordTables, SLICES_REMEMBERED, record_writes, ttl};
use crate::error::StoreError;
use crate::fold::leased_store::{Leased, LeasedStore};
use crate::fold::steps::writes_by_table;
use crate::store::journal::Journal;
use crate::store::table::{FieldWrites, Table};
use crate::store::table_reads::{Purpose, TableRead};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::{RecordId, Records};
use tower_pulse_model::sorted::Map;
use tower_pulse_model::tier::{FINEST, TierSlice};

/// The number of contexts whose records one step rolls up.
pub(super) const CONTEXTS_AT_ONCE: usize = 64;

impl RecordTables {
    /// Rolls up ended slices and adds ended hours to the profiles, if a slice ended so long ago that it must not wait
    /// for the next entry.
    pub(in crate::fold) async fn roll_up_overdue(
        &mut self,
        leased: &mut LeasedStore<'_>,
        now: i64,
    ) -> Leased<()> {
        let lease = &mut *leased.lease;
        if !lease.progress.rolled.is_overdue(now) {
            return Ok(());
        }
        lease.newest_at = lease.newest_at.max(now);
        self.roll_up_and_apply(leased).await
    }

    /// Adds the records of ended slices to the coarser tiers, and ended hours to the profiles.
    pub(in crate::fold) async fn roll_up_and_apply(
        &mut self,
        leased: &mut LeasedStore<'_>,
    ) -> Leased<()> {
        self.roll_up(leased).await?;
        self.profiles.apply_due(leased).await
    }

    /// An instance that takes over half-way begins again. No minute is added twice, because each record of a coarser
    /// tier stores up to which minute the record includes the finest tier.
    async fn roll_up(&mut self, leased: &mut LeasedStore<'_>) -> Leased<()> {
        self.history.agree(leased).await?;
        let (tiers, newest_at) = (self.history.tiers(), leased.lease.newest_at);
        let rolled = &mut leased.lease.progress.rolled;
        let is_new = rolled.is_new();
        rolled.advance(newest_at);
        let candidates: Vec<i64> = match is_new {
            true => rolled.pending().collect(),
            false => rolled.due().collect(),
        };
        if candidates.is_empty() {
            return Ok(());
        }
        let mut slices: Vec<TierSlice> = (candidates.iter())
            .map(|minute| (FINEST.seconds, *minute))
            .collect();
        let mut minutes_of: Map<RecordId, Vec<i64>> = Map::default();
        let recorded = recorded(leased.journal, &slices).await?;
        for (minute, ids) in candidates.iter().zip(recorded) {
            let rolled = &mut leased.lease.progress.rolled;
            if ids.is_empty() {
                rolled.remove(*minute);
            } else if rolled.contains(*minute) {
                for id in ids {
                    minutes_of.or_insert_with(id, Vec::new).push(*minute);
                }
            }
            tokio::task::yield_now().await;
        }
        let rolled = &leased.lease.progress.rolled;
        slices.retain(|slice| rolled.contains(slice.1) && rolled.is_pending(slice.1));
        let contexts: Vec<_> = minutes_of.into_iter().collect();
        for part in contexts.chunks(CONTEXTS_AT_ONCE) {
            let (mut needed, mut written) = (Vec::new(), Vec::new());
            for (id, minutes) in part {
                let finest = minutes
                    .iter()
                    .map(|minute| ((FINEST.seconds, *minute), *id));
                written.extend(Records::coarser(*id, minutes, tiers));
                needed.extend(finest);
            }
            needed.extend(&written);
            needed.retain(|key| self.records.get(*key).is_none());
            self.load(leased, &needed).await?;
            let rolled = &leased.lease.progress.rolled;
            for (id, minutes) in part {
                self.records.roll_up(*id, minutes, tiers, rolled);
            }
            tokio::task::yield_now().await;
            let rolled = &leased.lease.progress.rolled;
            let writes = record_writes(&self.records, written, tiers, rolled, newest_at);
            leased.write(&writes_by_table(writes)).await?;
            self.records.retain_newest(SLICES_REMEMBERED);
        }
        leased.lease.progress.rolled.finish();
        let rolled = &leased.lease.progress.rolled;
        // Nothing was rolled up, and the next step writes the progress anyway.
        if contexts.is_empty() {
            return Ok(());
        }
        // From now on, the slices that were rolled up may expire after the retention of their tier.
        let released = slices.into_iter();
        let released = released.map(|at| {
            let ttl = ttl(at, tiers, rolled, newest_at);
            FieldWrites::new(Table::records(at), Some(ttl))
        });
        let released: Vec<_> = released.collect();
        leased.write(&released).await
    }
}

/// For each slice, the contexts that have a record in it.
pub(super) async fn recorded(
    journal: &dyn Journal,
    slices: &[TierSlice],
) -> Result<Vec<Vec<RecordId>>, StoreError> {
    let mut ids = vec![Vec::new(); slices.len()];
    let page = |at: usize, from| TableRead::Page(Table::records(slices[at]), from);
    let mut listed: Vec<usize> = (0..slices.len()).collect();
    let mut reads: Vec<_> = listed.iter().map(|at| page(*at, None)).collect();
    while !reads.is_empty() {
        let mut next = Vec::new();
        let mut answers = journal.read_tables(Purpose::Fold, &reads).await?;
        for at in listed {
            let read = answers.page();
            let fields = read.fields.iter();
            ids[at].extend(fields.filter_map(|(id, _)| RecordId::from_bytes(id)));
            if read.next.is_some() {
                next.push((at, page(at, read.next)));
            }
            tokio::task::yield_now().await;
        }
        (listed, reads) = next.into_iter().unzip();
    }
    // A page may repeat ids of an earlier page.
    for ids in &mut ids {
        ids.order();
        ids.dedup();
    }
    Ok(ids)
}
