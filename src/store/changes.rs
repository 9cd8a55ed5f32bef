//! The changes of the fleet: what the last judgement has left.
//!
//! Any instance may judge a minute, and usually the folder does. A judgement replaces the one before it only if
//! nobody has replaced that one meanwhile, so that each minute is judged once.

use super::sealed::Sealed;
use crate::error::StoreError;
use crate::model::changes::change::Change;
use crate::model::changes::detector::{DetectorState, Sight};
use crate::task::BoxFuture;

/// The last judgement, without what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Judged {
    /// Distinguishes two judgements; empty before the first.
    pub revision: String,
    /// The end of the last minute that was judged, in Unix seconds.
    pub until: i64,
    /// How well the detector could see.
    pub sight: Sight,
}

/// Everything that the last judgement has left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeLog {
    /// The judgement.
    pub judged: Judged,
    /// The state of the detector after it.
    pub detector: DetectorState,
    /// The changes that stand, and those that have ended, in no order.
    pub changes: Vec<Change>,
}

/// A judgement to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgementWrite {
    /// The revision that it replaces.
    pub expected: String,
    /// The judgement, with its new revision.
    pub judged: Judged,
    /// The state of the detector after it.
    pub detector: DetectorState,
    /// Changes that are new or different.
    pub changes: Vec<Change>,
    /// The ids of changes that are removed.
    pub removed: Vec<String>,
}

/// Holds the changes.
///
/// # Cancel safety
/// A judgement whose future is dropped may have been written; the same call again changes nothing then.
pub trait Changes: Sealed + Send + Sync {
    /// The last judgement; the default if there is none.
    fn judged(&self) -> BoxFuture<'_, Result<Judged, StoreError>>;

    /// Everything that the last judgement has left.
    fn change_log(&self) -> BoxFuture<'_, Result<ChangeLog, StoreError>>;

    /// Writes a judgement. `false`, and no effect, if the store has another revision than the expected one.
    fn write_judgement<'a>(
        &'a self,
        write: &'a JudgementWrite,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;
}
