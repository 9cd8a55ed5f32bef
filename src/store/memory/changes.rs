//! Changes and marks.

use std::collections::HashMap;
use std::sync::Arc;

use super::{MemoryStore, ready};
use crate::error::StoreError;
use crate::model::changes::change::Change;
use crate::model::changes::detector::DetectorState;
use crate::model::mark::{MAX_MARKS, Mark};
use crate::store::changes::{ChangeLog, Changes, Judged, JudgementWrite};
use crate::task::BoxFuture;

/// What the last judgement has left, and the marks.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeState {
    judged: Judged,
    detector: DetectorState,
    changes: HashMap<Arc<str>, Change>,
    /// Oldest first.
    marks: Vec<Mark>,
    /// The version of the last mark that has one.
    version: Option<Arc<str>>,
}

impl ChangeState {
    fn write(&mut self, write: &JudgementWrite) -> bool {
        if self.judged.revision == write.judged.revision {
            return true;
        }
        if self.judged.revision != write.expected {
            return false;
        }
        self.judged = write.judged.clone();
        self.detector = write.detector.clone();
        for change in &write.changes {
            self.changes.insert(change.id.clone(), change.clone());
        }
        for id in &write.removed {
            self.changes.remove(id.as_str());
        }
        true
    }

    fn add_mark(&mut self, mark: &Mark) -> bool {
        if mark.version.is_some() {
            if self.version == mark.version {
                return false;
            }
            self.version = mark.version.clone();
        }
        if !self.marks.contains(mark) {
            self.marks.push(mark.clone());
            self.marks.sort_by_key(|mark| mark.at);
            // One mark was added, so that one is too many at most.
            let of_kind = |other: &Mark| other.version.is_some() == mark.version.is_some();
            if self.marks.iter().filter(|other| of_kind(other)).count() > MAX_MARKS
                && let Some(oldest) = self.marks.iter().position(of_kind)
            {
                self.marks.remove(oldest);
            }
        }
        true
    }
}

impl Changes for MemoryStore {
    fn judged(&self) -> BoxFuture<'_, Result<Judged, StoreError>> {
        ready(self.state().changes.judged.clone())
    }

    fn change_log(&self) -> BoxFuture<'_, Result<ChangeLog, StoreError>> {
        let state = &self.state().changes;
        ready(ChangeLog {
            judged: state.judged.clone(),
            detector: state.detector.clone(),
            changes: state.changes.values().cloned().collect(),
        })
    }

    fn write_judgement<'a>(
        &'a self,
        write: &'a JudgementWrite,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.state().changes.write(write)) })
    }

    fn marks(&self) -> BoxFuture<'_, Result<Vec<Mark>, StoreError>> {
        ready(self.state().changes.marks.clone())
    }

    fn add_mark<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.state().changes.add_mark(mark)) })
    }
}
