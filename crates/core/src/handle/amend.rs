//! Amendments by people: to acknowledge a change, or to remove a mark that was a mistake.
//!
//! An amendment is written between two rounds of folding, even if another instance folds and judges. So the amendment
//! is stored before the answer is sent. If another instance has written the same field after this instance read it, the
//! amendment is tried again with the new value.

use super::{Handle, STATED_DEADLINE};
use crate::error::{AmendError, StoreError, StoreErrorKind};
use crate::store::acknowledgements::MAX_ACKNOWLEDGED;
use crate::store::conditional_write::{ConditionalWrite, Written};
use crate::store::journal::Journal;
use crate::store::judgement::read_changes;
use crate::store::table::{FieldWrites, Table};
use crate::store::table_reads::{Purpose, read_value};
use crate::task::{BoxFuture, boxed};
use tower_pulse_detect::change::{Acknowledgement, Change};
use tower_pulse_model::mark::{Mark, StoredMark};
use tower_pulse_model::pack::pack;

/// The most attempts to write a field that other instances write too.
const MAX_WRITES: usize = 10;

const NO_CHANGE: &str = "there is no such change: see api/changes";
const NO_MARK: &str = "there is no such mark: see api/marks";

impl Handle {
    /// Acknowledges a change in the name of a person. With `None`, withdraws the acknowledgement.
    // Boxed, so that only this crate compiles the future: see `BoxFuture`.
    #[inline(never)]
    pub fn acknowledge_change<'a>(
        &'a self,
        id: &'a str,
        by: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Change, AmendError>> {
        Box::pin(self.in_time(
            "the change may still be acknowledged, or its acknowledgement withdrawn",
            Box::pin(async move {
                let journal = self.amended()?;
                let by = by.map(|by| Acknowledgement::new(by, self.clock().now_seconds()));
                for _ in 0..MAX_WRITES {
                    let log = read_changes(journal).await?;
                    let change = log.changes.iter().find(|change| *change.id == *id);
                    let change = change.ok_or(AmendError::NotFound(NO_CHANGE))?;
                    if change.ended.is_some() {
                        return Err(AmendError::Conflict("the change has ended".to_owned()));
                    }
                    let mut amended = change.clone();
                    amended.acknowledged = by.clone();
                    if amended.acknowledged == change.acknowledged {
                        return Ok(amended);
                    }
                    let write = log.acknowledged.write(id, by.as_ref(), &log.changes);
                    let write = write.ok_or_else(too_many_acknowledged)?;
                    if self.try_write(&write).await? {
                        return Ok(amended);
                    }
                }
                Err(written_by_others().into())
            }),
        ))
    }

    /// Removes a mark.
    // Boxed, so that only this crate compiles the future: see `BoxFuture`.
    #[inline(never)]
    pub fn remove_mark<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Mark, AmendError>> {
        Box::pin(self.in_time(
            "the mark may still be removed",
            Box::pin(async move {
                let journal = self.amended()?;
                for _ in 0..MAX_WRITES {
                    let value =
                        read_value(journal, Purpose::Query, Table::Marks, id.as_bytes()).await?;
                    let stored = value
                        .as_deref()
                        .and_then(|value| StoredMark::unpack(id.as_bytes(), value));
                    let stored = stored.filter(|stored| !stored.is_removed);
                    let StoredMark { mark, .. } = stored.ok_or(AmendError::NotFound(NO_MARK))?;
                    let removed = StoredMark {
                        mark: mark.clone(),
                        is_removed: true,
                    };
                    let (field, removed) = (id.as_bytes(), Some(pack(&removed)));
                    let writes = FieldWrites::of(Table::Marks, None, field, removed);
                    let write = ConditionalWrite {
                        compared: (Table::Marks, id.as_bytes().to_vec()),
                        expected: value,
                        steps: vec![vec![writes]],
                    };
                    if self.try_write(&write).await? {
                        return Ok(mark);
                    }
                }
                Err(written_by_others().into())
            }),
        ))
    }

    /// The journal to amend. After a shutdown has begun, returns an error, because this instance must not become the
    /// folder again.
    fn amended(&self) -> Result<&dyn Journal, AmendError> {
        let stages = &self.0.stages;
        if stages.recorder.recording.is_closed() {
            let message = "the shutdown has begun: nothing is changed";
            return Err(StoreError::new(StoreErrorKind::Refused, message).into());
        }
        Ok(stages.store.journal())
    }

    /// Writes, even if another instance folds. Returns `false` if the compared field has changed.
    async fn try_write(&self, write: &ConditionalWrite) -> Result<bool, StoreError> {
        match boxed(self.0.stages.folder.write_by_hand(write)).await? {
            Written::Done => Ok(true),
            Written::Differs => Ok(false),
            Written::NoLease => Err(written_by_others()),
        }
    }

    /// Cancels an amendment that takes longer than 5 s with a store in another process. Every error of the store except
    /// a refusal says that the amendment may still take effect.
    async fn in_time<T>(
        &self,
        may_still: &str,
        amending: BoxFuture<'_, Result<T, AmendError>>,
    ) -> Result<T, AmendError> {
        let amended = self.0.stages.in_time(amending).await;
        let amended = amended.unwrap_or_else(|| Err(unconfirmed().into()));
        amended.map_err(|error| match error {
            AmendError::Store(error) if error.kind() != StoreErrorKind::Refused => {
                let message = format!("{may_still}: {error}");
                StoreError::new(error.kind(), message)
                    .with_source(error)
                    .into()
            }
            other => other,
        })
    }
}

fn too_many_acknowledged() -> AmendError {
    AmendError::Conflict(format!(
        "{MAX_ACKNOWLEDGED} changes are acknowledged already: withdraw one acknowledgement first"
    ))
}

fn written_by_others() -> StoreError {
    let message = "at each attempt, another instance folded, or wrote the same field: try again";
    StoreError::new(StoreErrorKind::Refused, message)
}

fn unconfirmed() -> StoreError {
    let message = format!("the store did not confirm the write within {STATED_DEADLINE:?}");
    StoreError::new(StoreErrorKind::TimedOut, message)
}
