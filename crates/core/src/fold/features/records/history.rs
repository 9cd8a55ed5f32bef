//! Records by the day, which a store keeps in addition to the tiers that every store has. The folder that begins or
//! changes a history first stores the number of days, and then writes records by the day. The next folder reads the
//! number of days. If this folder asks for fewer days or none, it continues the history until a week after the last
//! renewal.

use crate::fold::leased_store::{Leased, LeasedStore};
use crate::store::history;
use crate::store::table::{FieldWrites, Table};
use crate::store::table_reads::Purpose;
use tower_pulse_model::tiers::{History, Tiers};

/// The number of days whose time to live one step extends.
const DAYS_AT_ONCE: usize = 64;

/// The history, as this instance knows it under the lease.
pub(super) struct KeptHistory {
    /// The number of days that this instance asks for.
    wanted: Option<u32>,
    /// The history in the store, if `is_read`.
    stored: Option<History>,
    is_read: bool,
}

impl KeptHistory {
    pub(super) fn asking_for(wanted: Option<u32>) -> Self {
        Self {
            wanted,
            stored: None,
            is_read: false,
        }
    }

    /// The tiers of the store, after [`read`](Self::read).
    pub(super) fn tiers(&self) -> Tiers {
        debug_assert!(self.is_read);
        Tiers {
            history: self.stored,
        }
    }

    /// Reads the history in the store, once: no other instance changes the history while the lease holds.
    pub(super) async fn read(&mut self, leased: &LeasedStore<'_>) -> Leased<()> {
        if !self.is_read {
            self.stored = history::read(leased.journal, Purpose::Fold).await?;
            self.is_read = true;
        }
        Ok(())
    }

    /// Begins, renews, changes or ends the history. Must not be called within a round, because all partitions of a
    /// round must have the same tiers.
    pub(super) async fn agree(&mut self, leased: &mut LeasedStore<'_>) -> Leased<()> {
        self.read(leased).await?;
        let (now, rolled) = (leased.lease.newest_at, &leased.lease.progress.rolled);
        let agreed = History::agreed(self.stored, self.wanted, now, rolled.until());
        if agreed == self.stored {
            return Ok(());
        }
        if let (Some(before), Some(after)) = (self.stored, agreed)
            && after.days > before.days
        {
            lengthen(leased, before, after).await?;
        }
        leased.write(&[history::write(agreed)]).await?;
        self.stored = agreed;
        Ok(())
    }
}

/// Extends the time to live of the stored days for a longer history.
async fn lengthen(leased: &mut LeasedStore<'_>, before: History, after: History) -> Leased<()> {
    let now = leased.lease.newest_at;
    let (tier, length) = (before.tier(), i64::from(before.tier().seconds));
    let days: Vec<i64> = (0..i64::from(before.days))
        .map(|ago| tier.slice(now) - ago * length)
        .collect();
    for part in days.chunks(DAYS_AT_ONCE) {
        let ttl = |start: i64| after.tier().key_ttl() - (now - start - length).max(0);
        let expiries = part.iter().map(|start| {
            let table = Table::records((tier.seconds, *start));
            FieldWrites::new(table, Some(ttl(*start)))
        });
        let expiries: Vec<_> = expiries.collect();
        leased.write(&expiries).await?;
    }
    Ok(())
}
