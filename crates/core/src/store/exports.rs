//! Exports: the book's statistics and its ranking of the slowest contexts. Only a store that other programs can reach
//! writes the exports. These programs may add to the exports, and only [`Exports`] reads their additions.

use crate::store::StoreFuture;
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::context::{ALL, ContextId, Kind, method_and_path};
use tower_pulse_model::slowest::RankedContext;
use tower_pulse_model::snapshot::Problem;

/// The maximum number of contexts in an [`ExportedPage`].
pub const MAX_EXPORTED_CONTEXTS: usize = 10;

/// The statistics of a name in the current hour and in the hour before, by the start of the hour. Hours without
/// statistics are left out.
pub type ExportedHours = Vec<(i64, AccessTimeStats)>;

/// The kind of a context that only other programs have recorded.
pub fn kind_of(name: &str) -> Kind {
    match method_and_path(name) {
        _ if name == ALL => Kind::All,
        (_, Some(_)) => Kind::Http,
        _ => Kind::Timer,
    }
}

/// A page of the contexts that have statistics. Contexts that only other programs have recorded come first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportedPage {
    /// The contexts, with their statistics. Two contexts of the same name share statistics that cannot be divided, and
    /// have no hours here.
    pub contexts: Vec<(ContextId, ExportedHours)>,
    /// Number of all contexts.
    pub total: usize,
    /// Number of contexts that only other programs have recorded.
    pub foreign: usize,
    /// Keys whose value has the wrong form.
    pub problems: Vec<Problem>,
}

/// Reads the exports.
///
/// # Cancel safety
/// Dropping a future of this trait changes nothing.
pub trait Exports: Send + Sync {
    /// The statistics of a name; `None` if no program has recorded the name. Values of the wrong form are left out.
    fn statistics<'a>(&'a self, name: &'a str, now: i64) -> StoreFuture<'a, Option<ExportedHours>>;

    /// The statistics of the contexts from index `offset` on, at most [`MAX_EXPORTED_CONTEXTS`].
    fn statistics_page(&self, offset: usize, now: i64) -> StoreFuture<'_, ExportedPage>;

    /// The `limit` slowest contexts, slowest first.
    fn slowest(&self, limit: usize) -> StoreFuture<'_, Vec<RankedContext>>;
}
