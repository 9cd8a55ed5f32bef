//! Changes.

use std::collections::HashMap;
use std::sync::Arc;

use super::{MemoryStore, ready};
use crate::error::StoreError;
use crate::model::changes::change::Change;
use crate::model::changes::detector::DetectorState;
use crate::store::changes::{ChangeLog, Changes, Judged, JudgementWrite};
use crate::task::BoxFuture;

/// What the last judgement has left.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeState {
    judged: Judged,
    detector: DetectorState,
    changes: HashMap<Arc<str>, Change>,
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
}
