//! The marks.

use super::sealed::Sealed;
use crate::error::StoreError;
use crate::model::changes::mark::Mark;
use crate::task::BoxFuture;

/// Holds the marks.
///
/// # Cancel safety
/// A mark whose future is dropped may have been written; the same call again changes nothing then.
pub trait Changes: Sealed + Send + Sync {
    /// The marks, oldest first.
    fn marks(&self) -> BoxFuture<'_, Result<Vec<Mark>, StoreError>>;

    /// Adds a mark, and removes the oldest beyond [`MAX_MARKS`](crate::model::changes::mark::MAX_MARKS): of the marks
    /// with a version if it has one, else of the others. `false`, and no effect, if the mark has the version of the last mark that has one.
    fn add_mark<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<bool, StoreError>>;
}
