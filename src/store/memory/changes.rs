//! Marks.

use std::sync::Arc;

use super::{MemoryStore, ready};
use crate::error::StoreError;
use crate::model::changes::mark::{MAX_MARKS, Mark};
use crate::store::changes::Changes;
use crate::task::BoxFuture;

/// The marks.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeState {
    /// Oldest first.
    marks: Vec<Mark>,
    /// The version of the last mark that has one.
    version: Option<Arc<str>>,
}

impl ChangeState {
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
    fn marks(&self) -> BoxFuture<'_, Result<Vec<Mark>, StoreError>> {
        ready(self.state().changes.marks.clone())
    }

    fn add_mark<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.state().changes.add_mark(mark)) })
    }
}
