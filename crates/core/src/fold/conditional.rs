//! Writes fields of tables between two rounds, if one of them still has a value.

use std::collections::BTreeMap;
use std::time::Duration;

use super::feature::Feature;
use super::ground::Ground;
use super::{Folder, plan};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::conditional_write::{ConditionalWrite, Written};
use crate::store::interrupted::Interrupted;
use crate::store::table::Table;
use crate::task::{boxed, lock};

/// How often a write by hand ends the lease of another instance.
pub(super) const TAKEOVERS: usize = 5;
/// The longest wait before that: two instances that write by hand are apart by then.
const TAKEOVER_WAIT: Duration = Duration::from_millis(40);

impl Folder {
    /// Makes this instance fold if no other one does, also if no entry waits: what is due between rounds is done then.
    pub fn attend(&self) {
        self.unattended.notify_one();
    }

    /// Writes if this instance holds the lease, or if that is free.
    ///
    /// Cancel safe: steps that took effect stay, and the compared field tells whether all did.
    async fn write_between(&self, write: &ConditionalWrite) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome {
            written: Written::Held,
            has_acquired: false,
        };
        let journal = self.store.journal();
        let _turn = match journal.turn() {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        let mut slot = self.held.lock().await;
        // The first losses may be this instance's own doing, as those of a round.
        for _ in 0..=2 {
            outcome.has_acquired |= slot.is_none();
            let mut held = match slot.take() {
                Some(held) => held,
                None => match self.acquire(journal).await? {
                    Ok(held) => held,
                    Err(_) => break,
                },
            };
            let own_now = self.clock.now_seconds();
            let mut ground = Ground {
                journal,
                instance: &self.instance,
                lease: &mut held.lease,
            };
            match ground.write_if(&mut held.features, own_now, write).await {
                Ok(Attempt::Ended(written)) => {
                    *slot = Some(held);
                    lock(&self.status).is_folder = true;
                    outcome.written = written;
                    return Ok(outcome);
                }
                Ok(Attempt::Newer) => {
                    journal.release(&self.instance).await?;
                    break;
                }
                Err(Interrupted::Lost) => {}
                Err(Interrupted::Failed(error)) => return Err(error),
            }
        }
        lock(&self.status).is_folder = false;
        Ok(outcome)
    }

    /// Writes if this instance holds the lease to fold, or if that is free. A round that was begun is finished first.
    pub async fn write(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        let outcome = boxed(self.write_between(write)).await?;
        if outcome.written != Written::Held && outcome.has_acquired {
            // Who holds the lease folds at intervals.
            self.attend();
        }
        Ok(outcome.written)
    }

    /// Writes also if another instance holds the lease, which then has to acquire it again: again and again, as it may
    /// acquire the lease first.
    pub async fn write_by_hand(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        let mut written = self.write(write).await?;
        for _ in 0..TAKEOVERS {
            if written != Written::Held {
                break;
            }
            written = match self.end_lease_of_another().await? {
                true => self.write_in_passing(write).await?,
                false => self.write(write).await?,
            };
        }
        Ok(written)
    }

    /// Ends the lease of the instance that holds it. What that instance does then has no effect until it has acquired the
    /// lease again. `false` if no other instance holds it.
    pub(super) async fn end_lease_of_another(&self) -> Result<bool, StoreError> {
        let status = self.store.status(self.clock.now_seconds()).await?;
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

    /// Writes, and gives the lease up again: the other instance goes on.
    async fn write_in_passing(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        let written = boxed(self.write_between(write)).await?.written;
        if written != Written::Held {
            self.release().await?;
            lock(&self.status).is_folder = false;
        }
        Ok(written)
    }
}

/// What became of a write, and of the lease.
struct Outcome {
    written: Written,
    /// Whether the lease was acquired for it.
    has_acquired: bool,
}

/// The result of a write under a lease.
enum Attempt {
    /// The lease goes on.
    Ended(Written),
    /// Folding waits for an instance of a newer version.
    Newer,
}

impl Ground<'_> {
    /// Finishes the round that was begun, folds what waits, and writes. After an error the lease must not be used
    /// again.
    async fn write_if(
        &mut self,
        features: &mut [Box<dyn Feature>],
        own_now: i64,
        write: &ConditionalWrite,
    ) -> Result<Attempt, Interrupted> {
        loop {
            if let plan::Outcome::Newer(entry) = boxed(self.next_round(features, own_now)).await? {
                self.wait_for_newer(&entry).await?;
                return Ok(Attempt::Newer);
            }
            if self.lease.progress.upto.is_none() {
                break;
            }
        }
        let before = self
            .values_of(std::slice::from_ref(&write.compared))
            .await?;
        if before.first() != Some(&write.expected) {
            return Ok(Attempt::Ended(Written::Differs));
        }
        for step in &write.steps {
            self.write(step).await?;
        }
        // A write to a key that holds something else is dropped, and its key quarantined.
        let writes = write.steps.iter().flatten();
        let last_set = writes.filter_map(|writes| Some((&writes.table, writes.set.last()?)));
        let of_table: BTreeMap<_, _> = last_set.collect();
        let set = of_table.into_iter();
        let set = set
            .map(|(table, (field, value))| ((table.clone(), field.clone()), Some(value.clone())));
        let (fields, values): (Vec<_>, Vec<_>) = set.unzip();
        match self.values_of(&fields).await {
            Ok(read) if read != values => Err(Interrupted::Failed(StoreError::new(
                StoreErrorKind::Unexpected,
                "what was judged cannot be stored: health lists the keys that hold something else; delete them".to_owned(),
            ))),
            // All steps took effect before the lease was lost.
            Ok(_) | Err(Interrupted::Lost) => Ok(Attempt::Ended(Written::Done)),
            Err(failed) => Err(failed),
        }
    }

    /// The values of some fields.
    async fn values_of(
        &self,
        fields: &[(Table, Vec<u8>)],
    ) -> Result<Vec<Option<Vec<u8>>>, Interrupted> {
        let fields = fields.iter();
        let fields: Vec<_> = fields
            .map(|(table, field)| (table.clone(), vec![field.clone()]))
            .collect();
        Ok(self.load(&fields).await?.into_iter().flatten().collect())
    }
}
