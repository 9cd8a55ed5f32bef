//! Queries: what the API and the page read from a store. A query names all that it asks for, so that the
//! answer takes few round trips.

use std::collections::HashMap;
use std::sync::Arc;

use super::sealed::Sealed;
use super::table_reads::RankingPlace;
use crate::error::StoreError;
use crate::model::context::ContextId;
use crate::model::minute_report::ReportedContext;
use crate::model::ranking::RankingSpec;
use crate::model::records::{Record, RecordId, SliceSums};
use crate::model::slice::SliceCount;
use crate::model::slow_request::SlowRequests;
use crate::model::slowest::{RANKING_LEN, RankedContext};
use crate::model::snapshot::{ContextSnapshot, FleetSnapshot, Problem, Snapshot};
use crate::model::tier::{Revision, RolledUp, TierSlice};
use crate::task::BoxFuture;

/// The number of slices of the finest precision in [`Snapshot::recent`].
#[doc(hidden)]
pub const RECENT_SLICES: i64 = 15;

/// The most contexts in [`BookStatistics`].
#[doc(hidden)]
pub const MAX_BOOK_CONTEXTS: usize = 10;

/// The book's statistics of some contexts, which other programs may have added to.
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(hidden)]
pub struct BookStatistics {
    /// The contexts, each with its records of the same moment.
    pub contexts: Vec<ContextSnapshot>,
    /// Number of all contexts.
    pub total: usize,
    /// Number of contexts that only other programs have recorded.
    pub foreign: usize,
    /// Keys whose value has the wrong form.
    pub problems: Vec<Problem>,
}

/// The most names of counters that are listed.
#[doc(hidden)]
pub const MAX_COUNTER_NAMES: usize = 10_000;

/// Asks for counters at a precision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CounterQuery {
    /// Names of counters.
    pub names: Vec<String>,
    /// Length of their slices, in seconds.
    pub precision: u32,
}

impl CounterQuery {
    /// Asks for the counters of these names, with slices of `precision` seconds.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>, precision: u32) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            precision,
        }
    }
}

/// A counter at a precision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterSeries {
    /// The name of the counter.
    pub name: String,
    /// Its slices, oldest first. There are none when the store does not have the counter.
    pub slices: Vec<SliceCount>,
}

impl CounterSeries {
    pub(crate) fn new(name: impl Into<String>, slices: Vec<SliceCount>) -> Self {
        Self {
            name: name.into(),
            slices,
        }
    }

    /// The sum of all slices.
    pub fn sum(&self) -> i64 {
        let counts = self.slices.iter().map(|slice| slice.count);
        counts.fold(0, i64::saturating_add)
    }
}

/// Asks for the slowest contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SlowestQuery {
    /// How many contexts to return, 100 at the most.
    pub limit: usize,
}

impl SlowestQuery {
    /// Asks for the `limit` slowest contexts.
    pub fn new(limit: usize) -> Self {
        Self { limit }
    }
}

impl Default for SlowestQuery {
    fn default() -> Self {
        Self { limit: RANKING_LEN }
    }
}

/// Asks for some contexts, with their statistics of the hour of `now` and of the hour before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub struct ContextQuery {
    /// Names of contexts. The answer has all contexts of these names, of whatever kind.
    pub names: Vec<String>,
    /// The time of the query, in Unix seconds.
    pub now: i64,
}

/// Asks for the records of some contexts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub struct RecordQuery {
    /// The contexts.
    pub contexts: Vec<ContextId>,
    /// Length of the slices, in seconds: one of [`WIDTHS`](crate::model::tier::WIDTHS).
    pub width: u32,
    /// The time of the query, in Unix seconds.
    pub now: i64,
}

/// The records of a context, combined into slices of one width.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct ContextRecords {
    /// The context.
    pub context: ContextId,
    /// Its slices, oldest first.
    pub slices: Vec<SliceSums>,
}

/// What records a store holds, without the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct RecordIndex {
    /// The contexts that may have records, without [`ALL`](crate::model::context::ALL).
    pub contexts: Vec<ContextId>,
    /// Which content a slice has. A slice that is not listed has no records, or its changes are unknown.
    pub revisions: HashMap<TierSlice, Revision>,
    /// Which slices of the finest tier are part of the coarser ones.
    pub rolled: RolledUp,
    /// When the store's generation began, in Unix seconds.
    pub created: i64,
}

/// The records of all contexts in a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct SliceRecords {
    /// Each context's record, in no order.
    pub records: Vec<(RecordId, Record)>,
}

/// Asks for the slowest requests of some contexts, and for the newest failed ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub struct SlowRequestQuery {
    /// The contexts; [`ContextId::all`] for the requests of all contexts together.
    pub contexts: Vec<ContextId>,
    /// The start of the hour, in Unix seconds. The current hour and the last one are stored.
    pub hour: i64,
}

/// What an instance did in a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct InstanceMinuteRecords {
    /// The name of the instance.
    pub instance: Arc<str>,
    /// The version of the application.
    pub version: Option<Arc<str>>,
    /// Its busiest contexts, busiest first.
    pub records: Vec<ReportedContext>,
}

/// What the instances of a version of the application did in a minute, while another version ran beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct VersionRecords {
    /// The start of the minute, in Unix seconds.
    pub minute: i64,
    /// The version of the application.
    pub version: Arc<str>,
    /// Its contexts, in the order of their ids.
    pub records: Vec<ReportedContext>,
}

/// Asks for a part of a ranking within a moving window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub struct RankingQuery {
    /// The name of the ranking.
    pub name: String,
    /// The time of the query, in Unix seconds.
    pub now: i64,
    /// How many of the highest ids to leave out.
    pub offset: usize,
    /// How many ids to return after these.
    pub limit: usize,
    /// Ids whose places are asked for.
    pub ids: Vec<String>,
}

/// An id of a ranking.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RankedId {
    /// The id.
    pub id: String,
    /// The sum of all additions within the window.
    pub score: i64,
}

impl RankedId {
    pub(crate) fn new(id: impl Into<String>, score: i64) -> Self {
        Self {
            id: id.into(),
            score,
        }
    }
}

/// A part of a ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct RankingPage {
    /// The configuration that the ranking was last added to with.
    pub spec: RankingSpec,
    /// Number of ids.
    pub total: usize,
    /// How much was added to ids for which there was no room.
    pub dropped: u64,
    /// The ids that were asked for by place, highest first. Equal scores are in descending order of the ids.
    pub top: Vec<RankedId>,
    /// The places of the ids that were asked for by name; `None` for an id that is not in the ranking.
    pub places: Vec<Option<RankingPlace>>,
}

impl RankingPage {
    /// Answers from all ids and their sums.
    pub(crate) fn new(
        spec: RankingSpec,
        dropped: u64,
        mut totals: Vec<(Arc<str>, i64)>,
        query: &RankingQuery,
    ) -> Self {
        totals
            .sort_unstable_by(|(id, score), (other_id, other)| (other, other_id).cmp(&(score, id)));
        let place = |id: &String| {
            let rank = totals.iter().position(|(name, _)| **name == **id)?;
            let score = totals[rank].1;
            Some(RankingPlace { score, rank })
        };
        let top = totals.iter().skip(query.offset).take(query.limit);
        Self {
            spec,
            total: totals.len(),
            dropped,
            top: top
                .map(|(id, score)| RankedId::new(&**id, *score))
                .collect(),
            places: query.ids.iter().map(place).collect(),
        }
    }
}

/// Answers queries.
///
/// # Cancel safety
/// Dropping a future of this trait changes nothing.
pub trait Query: Sealed + Send + Sync {
    /// All contexts, with their statistics of the hour of `now` and of the hour before.
    #[doc(hidden)]
    fn snapshot(&self, now: i64) -> BoxFuture<'_, Result<Snapshot, StoreError>>;

    /// What the fleet does at `now`.
    #[doc(hidden)]
    fn fleet(&self, now: i64) -> BoxFuture<'_, Result<FleetSnapshot, StoreError>>;

    /// Some contexts with the book's statistics of the hour of `now` and of the hour before, from number `offset` on,
    /// at most [`MAX_BOOK_CONTEXTS`]. Those that only other programs have recorded come first.
    #[doc(hidden)]
    fn book_statistics(
        &self,
        offset: usize,
        now: i64,
    ) -> BoxFuture<'_, Result<BookStatistics, StoreError>>;

    /// Those of the contexts in a query that the store has. Problems are left out.
    #[doc(hidden)]
    fn contexts<'a>(
        &'a self,
        query: &'a ContextQuery,
    ) -> BoxFuture<'a, Result<Vec<ContextSnapshot>, StoreError>>;

    /// The counters in a query, in its order. See *time-series counters* in
    /// [`guide::recipes`](crate::guide::recipes).
    fn counters<'a>(
        &'a self,
        query: &'a CounterQuery,
    ) -> BoxFuture<'a, Result<Vec<CounterSeries>, StoreError>>;

    /// The names of the user's counters that the store has at any of some precisions, in order; at most
    /// [`MAX_COUNTER_NAMES`].
    #[doc(hidden)]
    fn counter_names<'a>(
        &'a self,
        precisions: &'a [u32],
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// The records of the contexts in a query that are retained, in the order of the query.
    #[doc(hidden)]
    fn records<'a>(
        &'a self,
        query: &'a RecordQuery,
    ) -> BoxFuture<'a, Result<Vec<ContextRecords>, StoreError>>;

    /// What records the store holds at `now`.
    #[doc(hidden)]
    fn record_index(&self, now: i64) -> BoxFuture<'_, Result<RecordIndex, StoreError>>;

    /// The records of all contexts in some slices, in the order of the slices. Records that cannot be read are
    /// left out.
    #[doc(hidden)]
    fn slice_records<'a>(
        &'a self,
        slices: &'a [TierSlice],
    ) -> BoxFuture<'a, Result<Vec<SliceRecords>, StoreError>>;

    /// The slowest contexts, slowest first. See *access times* in
    /// [`guide::recipes`](crate::guide::recipes).
    fn slowest<'a>(
        &'a self,
        query: &'a SlowestQuery,
    ) -> BoxFuture<'a, Result<Vec<RankedContext>, StoreError>>;

    /// The slowest requests of the contexts in a query and the newest failed ones, in its order.
    #[doc(hidden)]
    fn slow_requests<'a>(
        &'a self,
        query: &'a SlowRequestQuery,
    ) -> BoxFuture<'a, Result<Vec<SlowRequests>, StoreError>>;

    /// What each instance did in some minutes, in the order of the minutes, and of the names in each. Minutes are
    /// given by their start.
    #[doc(hidden)]
    fn minute_reports<'a>(
        &'a self,
        minutes: &'a [i64],
    ) -> BoxFuture<'a, Result<Vec<Vec<InstanceMinuteRecords>>, StoreError>>;

    /// What each version of the application did in those of some minutes in which several ran side by side, in the
    /// order of the minutes, and of the versions in each.
    #[doc(hidden)]
    fn version_records<'a>(
        &'a self,
        minutes: &'a [i64],
    ) -> BoxFuture<'a, Result<Vec<VersionRecords>, StoreError>>;

    /// The names of the rankings that have ids.
    #[doc(hidden)]
    fn rankings(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;

    /// A part of a ranking; `None` if the store does not have the ranking.
    #[doc(hidden)]
    fn ranking<'a>(
        &'a self,
        query: &'a RankingQuery,
    ) -> BoxFuture<'a, Result<Option<RankingPage>, StoreError>>;
}
