//! Writes fields of tables between two rounds, if a compared field still has the expected value.

use std::time::Duration;

use super::Folder;
use super::features::Features;
use super::leased_store::{Interrupted, Leased, LeasedStore};
use super::plan::Outcome;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::conditional_write::{ConditionalWrite, Written};
use crate::store::table::Table;
use crate::task::lock;
use tower_pulse_model::sorted::Map;

/// The most times that one takeover ends the lease of another instance.
pub(super) const TAKEOVERS: usize = 5;
/// The longest wait before a takeover ends a lease. The wait is random, so that two instances do not end each other's
/// leases again and again.
const TAKEOVER_WAIT: Duration = Duration::from_millis(40);

impl Folder {
    /// Makes this instance fold, unless another instance folds. Even if no entries wait, the work between rounds is
    /// done.
    pub fn wake(&self) {
        self.leaderless.notify_one();
    }

    /// Writes if this instance holds or can acquire the lease. A begun round is finished first.
    ///
    /// Cancel safe: steps that took effect stay, and the compared field shows whether all steps took effect.
    pub async fn write(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        let ended = self.rounds(None, Some(write)).await?;
        if ended.written != Written::NoLease && ended.has_acquired {
            // The instance that holds the lease must fold at intervals.
            self.wake();
        }
        Ok(ended.written)
    }

    /// Writes even if another instance holds the lease, by ending that lease. Retries, because the other instance
    /// may acquire the lease again first.
    pub async fn write_by_hand(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        let mut written = self.write(write).await?;
        for _ in 0..TAKEOVERS {
            if written != Written::NoLease {
                break;
            }
            written = match self.end_lease_of_another().await? {
                true => self.write_and_release(write).await?,
                false => self.write(write).await?,
            };
        }
        Ok(written)
    }

    /// Ends the lease of another instance. The steps of that instance have no effect until that instance has acquired
    /// the lease again. Returns `false` if no other instance holds the lease.
    pub(super) async fn end_lease_of_another(&self) -> Result<bool, StoreError> {
        let status = self.store.upkeep().status(self.clock.now_seconds()).await?;
        let holder = status.journal.and_then(|journal| journal.folder);
        let Some(holder) = holder else {
            // The lease has just ended, or there is no journal yet.
            self.store.hello().await?;
            return Ok(false);
        };
        tokio::time::sleep(TAKEOVER_WAIT.mul_f64(fastrand::f64())).await;
        self.store.journal().release(&holder).await?;
        Ok(true)
    }

    /// Writes, and releases the lease, so that the instance whose lease was ended can continue.
    async fn write_and_release(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        let written = self.rounds(None, Some(write)).await?.written;
        if written != Written::NoLease {
            self.release().await?;
            lock(&self.status).is_leader = false;
        }
        Ok(written)
    }
}

impl LeasedStore<'_> {
    /// Folds a round, and writes if no round is left unfinished.
    pub(super) async fn advance(
        &mut self,
        features: &mut Features,
        own_now: i64,
        write: Option<&ConditionalWrite>,
    ) -> Leased<Outcome> {
        let outcome = self.next_round(features, own_now).await?;
        let is_newer = matches!(outcome, Outcome::Newer(_));
        match write {
            Some(write) if !is_newer && self.lease.progress.round_end.is_none() => {
                self.write_if(write).await.map(Outcome::Written)
            }
            _ => Ok(outcome),
        }
    }

    async fn write_if(&mut self, write: &ConditionalWrite) -> Leased<Written> {
        let before = self
            .values_of(std::slice::from_ref(&write.compared))
            .await?;
        if before.first() != Some(&write.expected) {
            return Ok(Written::Differs);
        }
        for step in &write.steps {
            self.write(step).await?;
        }
        // A write to a key that holds a foreign value is omitted, and the key is quarantined. Reading one field of each
        // table back detects this.
        let writes = write.steps.iter().flatten();
        let last_set = writes.filter_map(|writes| Some((&writes.table, writes.set.last()?)));
        let last_by_table: Map<_, _> = last_set.collect();
        let set = last_by_table.into_iter();
        let set = set
            .map(|(table, (field, value))| ((table.clone(), field.clone()), Some(value.clone())));
        let (fields, values): (Vec<_>, Vec<_>) = set.unzip();
        match self.values_of(&fields).await {
            Ok(read) if read != values => Err(Interrupted::Failed(StoreError::new(
                StoreErrorKind::Unexpected,
                "the data cannot be stored: health lists the keys that hold a foreign value; delete them".to_owned(),
            ))),
            // All steps took effect before the lease was lost.
            Ok(_) | Err(Interrupted::Lost) => Ok(Written::Done),
            Err(failed) => Err(failed),
        }
    }

    async fn values_of(&self, fields: &[(Table, Vec<u8>)]) -> Leased<Vec<Option<Vec<u8>>>> {
        let fields = fields.iter();
        let fields: Vec<_> = fields
            .map(|(table, field)| (table.clone(), vec![field.clone()]))
            .collect();
        Ok(self.load(&fields).await?.into_iter().flatten().collect())
    }
}
