//! Writes fields of tables between two rounds, if one of them still has a value.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Folder;
use super::lease::Lease;
use super::plan;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::conditional_write::{BetweenRounds, ConditionalWrite, Written};
use crate::store::journal::{Journal, Step};
use crate::store::table::Table;
use crate::task::{BoxFuture, lock};

/// How often a write by hand ends the lease of another instance.
const TAKEOVERS: usize = 5;
/// The longest wait before that: two instances that write by hand are apart by then.
const TAKEOVER_WAIT: Duration = Duration::from_millis(40);

impl Folder {
    /// Writes if this instance holds the lease, or if that is free.
    ///
    /// Cancel safe: steps that took effect stay, and the compared field tells whether all did.
    async fn write_between(&self, write: &ConditionalWrite) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome {
            written: Written::Held,
            has_acquired: false,
        };
        let Some(journal) = self.store.journal() else {
            return Ok(outcome);
        };
        let _turn = match journal.turn() {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        let mut slot = self.lease.lock().await;
        // The first losses may be this instance's own doing, as those of a round.
        for _ in 0..=2 {
            outcome.has_acquired |= slot.is_none();
            let mut lease = match slot.take() {
                Some(lease) => lease,
                None => match Lease::acquire(journal, &self.instance, &self.pace).await? {
                    Ok(lease) => lease,
                    Err(_) => break,
                },
            };
            let own_now = self.clock.now_seconds();
            match lease
                .write_if(journal, &self.instance, own_now, write)
                .await?
            {
                Attempt::Ended(written) => {
                    *slot = Some(lease);
                    lock(&self.status).is_folder = true;
                    outcome.written = written;
                    return Ok(outcome);
                }
                Attempt::Lost => {}
                Attempt::Newer => {
                    journal.release(&self.instance).await?;
                    break;
                }
            }
        }
        lock(&self.status).is_folder = false;
        Ok(outcome)
    }

    async fn write_if_free(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        let outcome = self.write_between(write).await?;
        if outcome.written != Written::Held && outcome.has_acquired {
            // Who holds the lease folds at intervals.
            self.attend();
        }
        Ok(outcome.written)
    }

    /// Ends the lease of the instance that holds it, so that this one can write. What that instance does then has no
    /// effect until it has acquired the lease again.
    async fn write_in_any_case(&self, write: &ConditionalWrite) -> Result<Written, StoreError> {
        let mut has_taken_over = false;
        for takeovers in 0..=TAKEOVERS {
            if !has_taken_over {
                let written = self.write_if_free(write).await?;
                if written != Written::Held {
                    return Ok(written);
                }
            } else {
                let outcome = self.write_between(write).await?;
                if outcome.written != Written::Held {
                    // The other instance goes on.
                    self.release().await?;
                    lock(&self.status).is_folder = false;
                    return Ok(outcome.written);
                }
            }
            let status = self.store.status(self.clock.now_seconds()).await?;
            let holder = status.journal.and_then(|journal| journal.folder);
            let (Some(holder), Some(journal)) = (holder, self.store.journal()) else {
                // The lease has just ended, or there is no journal yet.
                self.store.hello().await?;
                continue;
            };
            if takeovers < TAKEOVERS {
                tokio::time::sleep(TAKEOVER_WAIT.mul_f64(fastrand::f64())).await;
                journal.release(&holder).await?;
                has_taken_over = true;
            }
        }
        Ok(Written::Held)
    }
}

impl BetweenRounds for Folder {
    fn is_folder(&self) -> bool {
        self.status().is_folder
    }

    fn attend(&self) {
        self.unattended.notify_one();
    }

    fn write<'a>(
        &'a self,
        write: &'a ConditionalWrite,
    ) -> BoxFuture<'a, Result<Written, StoreError>> {
        Box::pin(self.write_if_free(write))
    }

    fn write_by_hand<'a>(
        &'a self,
        write: &'a ConditionalWrite,
    ) -> BoxFuture<'a, Result<Written, StoreError>> {
        Box::pin(self.write_in_any_case(write))
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
    /// The lease is lost.
    Lost,
    /// Folding waits for an instance of a newer version.
    Newer,
}

impl Lease {
    /// Finishes the round that was begun, folds what waits, and writes. After an error or if the lease is lost, it must
    /// not be used again.
    async fn write_if(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        own_now: i64,
        write: &ConditionalWrite,
    ) -> Result<Attempt, StoreError> {
        loop {
            match self.next_round(journal, instance, own_now).await? {
                plan::Outcome::Folded | plan::Outcome::CaughtUp | plan::Outcome::Idle => {}
                plan::Outcome::Lost => return Ok(Attempt::Lost),
                plan::Outcome::Newer(entry) => {
                    self.wait_for_newer(journal, &entry).await?;
                    return Ok(Attempt::Newer);
                }
            }
            if self.progress.upto.is_none() {
                break;
            }
        }
        let compared = [write.compared.clone()];
        let Some(before) = self.read_values(journal, instance, &compared).await? else {
            return Ok(Attempt::Lost);
        };
        if before.first() != Some(&write.expected) {
            return Ok(Attempt::Ended(Written::Differs));
        }
        for step in &write.steps {
            if !self.maintain_fields(journal, instance, step).await? {
                return Ok(Attempt::Lost);
            }
        }
        // A write to a key that holds something else is dropped, and its key quarantined.
        let writes = write.steps.iter().flatten();
        let last_set = writes.filter_map(|writes| Some((&writes.table, writes.set.last()?)));
        let of_table: BTreeMap<_, _> = last_set.collect();
        let set = of_table.into_iter();
        let set = set
            .map(|(table, (field, value))| ((table.clone(), field.clone()), Some(value.clone())));
        let (fields, values): (Vec<_>, Vec<_>) = set.unzip();
        match self.read_values(journal, instance, &fields).await? {
            Some(read) if read != values => Err(StoreError::new(
                StoreErrorKind::Unexpected,
                "what was judged cannot be stored: health lists the keys that hold something else; delete them".to_owned(),
            )),
            // All steps took effect before the lease was lost.
            _ => Ok(Attempt::Ended(Written::Done)),
        }
    }

    /// The values of some fields; `None` when the lease is lost.
    async fn read_values(
        &self,
        journal: &dyn Journal,
        instance: &str,
        fields: &[(Table, Vec<u8>)],
    ) -> Result<Option<Vec<Option<Vec<u8>>>>, StoreError> {
        let fields = fields.iter();
        let fields: Vec<_> = fields
            .map(|(table, field)| (table.clone(), vec![field.clone()]))
            .collect();
        let values = journal.load_fields(instance, self.version(), &fields);
        Ok(match values.await? {
            Step::Done(values) => Some(values.into_iter().flatten().collect()),
            Step::Stale(_) | Step::Absent => None,
        })
    }
}
